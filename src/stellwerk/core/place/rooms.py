"""The rooms of all clusters as one cycle plans on them, and what is remembered from cycle to cycle.

A verdict about a shape on a cluster holds until the cluster's room changes. So verdicts are kept
with the room they were found on: a cycle that touches one cluster judges that one again, and a
cluster that did not change between two cycles isn't judged in the second.
"""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, NodeAllocation
from stellwerk.core.place.found import Found
from stellwerk.core.place.room import Room, capacity
from stellwerk.core.view import ClusterView

Verdicts = dict[tuple[ShapeId, int, bool], Found]
"""What was found for a shape's alternative, without the nodes it avoids or with them."""


class ClusterRoom:
    """A cluster in one cycle: what is free, what of it is kept for whom, and the verdicts on it.

    ``free`` is what no run holds; ``open`` is that less what is kept.
    """

    __slots__ = ("_shared", "cluster", "free", "kept_for", "open", "verdicts", "whole")

    def __init__(self, free: Room, whole: Room, verdicts: Verdicts | None = None) -> None:
        self.cluster = free.cluster
        self.free = self.open = free
        self.whole = whole
        self.kept_for: list[str] = []
        self.verdicts = {} if verdicts is None else verdicts
        self._shared = True

    def without(self, nodes: tuple[str, ...]) -> ClusterRoom:
        """Gives the room that is left to look at for one who avoids some nodes; not to be taken
        from.
        """
        if not nodes:
            return self
        free = self.free.without(nodes)
        twin = ClusterRoom(free, self.whole.without(nodes))
        twin.open = free if self.open is self.free else self.open.without(nodes)
        twin.kept_for = self.kept_for
        return twin

    def take(self, allocation: Allocation) -> None:
        """Gives room away for the rest of the cycle."""
        self._touch()
        self.free.take(allocation)
        if self.open is not self.free:
            self.open.take(allocation)

    def keep(self, parts: Iterable[NodeAllocation], name: str) -> None:
        """Keeps room for a workload that can't start yet: nobody behind it gets what it needs."""
        self._touch()
        if self.open is self.free:
            self.open = self.free.copy()
        for part in parts:
            self.open.nodes[part.node].take(part)
        self.kept_for.append(name)

    def _touch(self) -> None:
        self.verdicts = {}
        if self._shared:
            self.free = self.open = self.free.copy()
            self._shared = False


class _Remembered:
    """A cluster's room and the verdicts on it, as of a version of the cluster."""

    __slots__ = ("room", "verdicts", "version", "whole")

    def __init__(self, view: ClusterView, whole: Room) -> None:
        self.version = view.version
        self.room = Room(view.cluster, (allocation for _, allocation in view.allocations))
        self.whole = whole
        self.verdicts: Verdicts = {}


VERDICTS_KEPT = 4
"""Verdicts remembered on a cluster for each one that the last cycle needed."""


class Memory:
    """What a planner keeps from cycle to cycle. It makes planning cheaper and changes no result."""

    def __init__(self) -> None:
        self._clusters: dict[str, _Remembered] = {}
        self.reasons: dict[ShapeId, tuple[list[Found], tuple[Reason, ...]]] = {}

    def rooms(self, clusters: Iterable[ClusterView]) -> list[ClusterRoom]:
        """Gives the rooms of a view's clusters, taking over those that did not change."""
        before, self._clusters = self._clusters, {}
        for view in clusters:
            name = view.cluster.name
            known = before.get(name)
            if known is None or known.version != view.version:
                same = known is not None and known.room.cluster is view.cluster
                whole = known.whole if known is not None and same else capacity(view.cluster)
                known = _Remembered(view, whole)
            self._clusters[name] = known
        return [ClusterRoom(one.room, one.whole, one.verdicts) for one in self._clusters.values()]

    def forget_all_but(self, shapes: int) -> None:
        """Drops what has grown far beyond the ``shapes`` that wait now."""
        for one in self._clusters.values():
            if len(one.verdicts) > VERDICTS_KEPT * shapes + 1000:
                one.verdicts.clear()
        if len(self.reasons) > VERDICTS_KEPT * shapes + 1000:
            self.reasons.clear()
