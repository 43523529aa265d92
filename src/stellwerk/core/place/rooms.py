"""The rooms of all clusters as one cycle plans on them, and what is remembered from cycle to cycle.

A verdict about a shape on a cluster holds until the cluster's room changes. So verdicts are kept
with the room they were found on: a cycle that touches one cluster judges that one again, and a
cluster that did not change between two cycles isn't judged in the second.
"""

from __future__ import annotations

from collections.abc import Iterable

from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.limits import Aging
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, NodeAllocation, Request
from stellwerk.core.place.asleep import Asleep
from stellwerk.core.place.derived import Deriving
from stellwerk.core.place.found import Found
from stellwerk.core.place.lacks import Credit, Ever, ever
from stellwerk.core.place.near import Labels, Near, Where
from stellwerk.core.place.room import Room, capacity
from stellwerk.core.queue.quota import Quota
from stellwerk.core.view import ClusterView, ShapeView

Key = tuple[ShapeId, int, bool]
"""A shape's alternative, without the nodes it avoids (True) or with them."""


WINDOW = "window of "
RESERVATION = "reservation "
"""Begins what room is kept for, where that isn't a workload."""


class Verdicts:
    """What was found on a room so far: whether something fits, in full why or why not, and where it
    would come nearest to that.

    ``parts`` are the same room on those nodes alone that carry some labels.
    """

    __slots__ = ("credits", "fitting", "full", "parts")

    def __init__(self) -> None:
        self.parts: dict[Where, ClusterRoom] = {}
        self.fitting: dict[Key, Found | None] = {}
        self.full: dict[Key, Found] = {}
        self.credits: dict[Key, Credit | None] = {}


class Whole:
    """A cluster's capacity, and what of each request it could ever hold.

    ``lacking`` names the nodes that don't carry some labels, as far as somebody asked, and ``near``
    has the domains of its nodes.
    """

    __slots__ = ("_known", "lacking", "near", "room")

    def __init__(self, room: Room) -> None:
        self.room = room
        self.lacking: dict[Labels, tuple[str, ...]] = {}
        self.near: dict[Where, Near] = {}
        self._known: dict[Key, Ever] = {}

    def __len__(self) -> int:
        return len(self._known)

    def can(self, key: Key, request: Request, num_nodes: int) -> Ever:
        """Tells what it could hold of a shape's alternative."""
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = ever(self.room, request, num_nodes)
        return known

    def forget(self) -> None:
        """Drops what is known of requests."""
        self._known = {}


KeptBefore = dict[tuple[object, ...], tuple[Room, Verdicts]]
"""What was left of a room when so much of it was kept for whom, and the verdicts on that."""

KEPT_BEFORE = 64


class ClusterRoom:
    """A cluster in one cycle: what is free, what of it is kept for whom, and the verdicts on it.

    ``free`` is what no run holds; ``open`` is that less what is kept.
    """

    __slots__ = (
        "_before", "_done", "_shared", "cluster", "free", "kept_for", "open", "verdicts", "whole",
    )  # fmt: skip

    def __init__(
        self,
        free: Room,
        whole: Whole,
        verdicts: Verdicts | None = None,
        before: KeptBefore | None = None,
    ) -> None:
        self.cluster = free.cluster
        self.free = self.open = free
        self.whole = whole
        self.kept_for: list[str] = []
        self.verdicts = verdicts or Verdicts()
        self._shared = True
        self._done: tuple[object, ...] = ()
        self._before: KeptBefore = {} if before is None else before

    def without(self, nodes: tuple[str, ...]) -> ClusterRoom:
        """Gives the room that is left for one who avoids some nodes, to be looked at only."""
        if not nodes:
            return self
        free = self.free.without(nodes)
        twin = ClusterRoom(free, Whole(self.whole.room.without(nodes)))
        twin.open = free if self.open is self.free else self.open.without(nodes)
        twin.kept_for = self.kept_for
        return twin

    def nearby(self, near: Near) -> ClusterRoom:
        """Gives the same room where gangs are put as near as is asked, to be looked at only."""
        free = self.free.nearby(near)
        twin = ClusterRoom(free, Whole(self.whole.room.nearby(near)))
        twin.open = free if self.open is self.free else self.open.nearby(near)
        twin.kept_for = self.kept_for
        return twin

    def take(self, allocation: Allocation) -> None:
        """Gives room away for the rest of the cycle."""
        self.verdicts = Verdicts()
        if self._shared:
            is_open = self.open is self.free
            self.free = self.free.copy()
            self.open = self.free if is_open else self.open.copy()
            self._shared = False
        self.free.take(allocation)
        if self.open is not self.free:
            self.open.take(allocation)

    def keep(self, parts: Iterable[NodeAllocation], name: str) -> None:
        """Keeps room for a workload that can't start yet: nobody behind it gets what it needs.

        As long as nothing is taken, what was found of the room that is left then is remembered.
        """
        self.kept_for.append(name)
        if not self._shared:
            self.verdicts = Verdicts()
            self.open = _less(self.open, parts)
            return
        self._done = (*self._done, name, tuple(parts))
        known = self._before.get(self._done)
        if known is None:
            known = self._before[self._done] = _less(self.open, parts), Verdicts()
        self.open, self.verdicts = known


def _less(room: Room, parts: Iterable[NodeAllocation]) -> Room:
    left = room.copy()
    for part in parts:
        left.take_part(part)
    return left


class _Remembered:
    """A cluster's room and the verdicts on it, as of one view of the cluster."""

    __slots__ = ("before", "room", "verdicts", "view", "whole")

    def __init__(self, view: ClusterView, whole: Whole) -> None:
        self.view = view
        self.room = Room(view.cluster, (allocation for _, allocation in view.allocations))
        self.whole = whole
        self.verdicts = Verdicts()
        self.before: KeptBefore = {}


ENTRIES_KEPT = 4
"""Entries remembered for each shape that waits; the rest belongs to shapes that are gone."""


class Memory:
    """What a planner keeps from cycle to cycle. It makes planning cheaper and changes no result.

    ``generation`` counts the changes of any room. ``blocked`` says of a shape in which generation
    it was found that it fits nowhere, ``told`` in which nothing new was to be told of it.
    ``quota`` is the tree with its usage. ``bound`` says of a shape that quota binds in which state
    of its tree and of the rooms it can't start, and with which head, ``short`` the same where rooms
    don't matter, and ``told_bound`` when nothing new was to be told of it. At ``recheck`` somebody
    may be stopped for it who is spared; ``resting`` says that somebody could be, and so many were
    on the cluster that nobody more may be for a while. ``asked`` is what quota said in which state
    of its tree, ``aged`` the order of a shape's heads as they have risen, ``now_ms`` when all this
    was last looked at.
    """

    def __init__(self) -> None:
        self.generation = 0
        self.blocked: dict[ShapeId, int] = {}
        self.told: dict[ShapeId, int] = {}
        self._clusters: dict[str, _Remembered] = {}
        self._placements: object = None
        self.quota: Quota | None = None
        self.deriving = Deriving()
        self.asleep = Asleep()
        self.now_ms = 0
        self.short: dict[ShapeId, tuple[int, ...]] = {}
        self.bound: dict[ShapeId, tuple[int, ...]] = {}
        self.told_bound: dict[ShapeId, tuple[object, ...]] = {}
        self.recheck: dict[ShapeId, int] = {}
        self.resting: dict[ShapeId, Reason] = {}
        self.asked: dict[ShapeId, tuple[int, object]] = {}
        self.aged: dict[ShapeId, tuple[ShapeView, int, Aging, ShapeView]] = {}

    def placements(self, decided: object) -> None:
        """Takes the decisions about placements: with others, verdicts on whole shapes are void."""
        if decided is not self._placements:
            self._placements = decided
            self.generation += 1

    def rooms(self, clusters: Iterable[ClusterView]) -> list[ClusterRoom]:
        """Gives the rooms of a view's clusters, taking over those whose view is still the same."""
        before, self._clusters = self._clusters, {}
        changed = 0
        for view in clusters:
            known = before.pop(view.cluster.name, None)
            if known is None or known.view is not view:
                same = known is not None and known.room.cluster is view.cluster
                whole = known.whole if known is not None and same else Whole(capacity(view.cluster))
                known = _Remembered(view, whole)
                changed += 1
            self._clusters[view.cluster.name] = known
        self.generation += changed + len(before)
        return [
            ClusterRoom(one.room, one.whole, one.verdicts, one.before)
            for one in self._clusters.values()
        ]

    def forget_all_but(self, shapes: int) -> None:
        """Drops what has grown far beyond the ``shapes`` that wait now."""
        most = ENTRIES_KEPT * (shapes + len(self.asleep)) + 1000
        for one in self._clusters.values():
            if len(one.verdicts.fitting) + len(one.verdicts.full) > most:
                one.verdicts = Verdicts()
            if len(one.before) > KEPT_BEFORE:
                one.before.clear()
            if len(one.whole) > most:
                one.whole.forget()
        if len(self.blocked) + len(self.told) > most:
            self.blocked, self.told = {}, {}
        if len(self.bound) + len(self.told_bound) > most or len(self.asked) > most:
            self.forget_bound()

    def forget_bound(self) -> None:
        """Drops what was found for shapes that quota binds."""
        self.bound, self.short, self.told_bound = {}, {}, {}
        self.recheck, self.resting, self.aged = {}, {}, {}
        self.asked = {}
        self.asleep.forget()
