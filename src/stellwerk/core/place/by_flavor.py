"""Bounds rooms to the clusters and nodes that carry the labels of a flavor, and its topology.

A label may be the cluster's own. Beyond that each cluster carries ``stellwerk/cluster`` and
``stellwerk/driver``, and each node ``kubernetes.io/hostname``, what its domains say, and the kinds
of its accelerators as ``stellwerk/accelerator`` and ``nvidia.com/gpu.product``.
"""

from __future__ import annotations

from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.resources import Shape
from stellwerk.core.place.bounded import Bounded
from stellwerk.core.place.carrying import carries
from stellwerk.core.place.near import (
    ON_ONE_SWITCH,
    SWITCH,
    Labels,
    Near,
    Where,
    by_itself,
    own_labels,
)
from stellwerk.core.place.rooms import ClusterRoom


class ByFlavor:
    """The rooms of a cycle by the labels, and the nearness, that are asked for."""

    def __init__(self, bounded: Bounded) -> None:
        self._whole = bounded
        self._known: dict[Where, tuple[Bounded, list[ClusterRoom]]] = {}

    @property
    def knows_switches(self) -> bool:
        """Whether a node says at which switch it is."""
        clusters = (room.cluster for room in self._whole.rooms)
        return any(_stands_at(SWITCH, cluster.nodes[:1]) for cluster in clusters)

    def bounded(self, where: Where) -> Bounded:
        """The same bounds on the rooms that carry the labels."""
        if where == ANYWHERE:
            return self._whole
        rooms = self.rooms(where)
        known = self._known.get(where)
        if known is None or not _same(known[1], rooms):
            known = self._known[where] = self._whole.on(rooms), rooms
        return known[0]

    def rooms(self, where: Where) -> list[ClusterRoom]:
        """The rooms as they are now; of a cluster whose nodes differ, those nodes alone.

        Where nodes are to be near to each other, those are left out that lack a level of it.
        """
        labels, found = where.labels, []
        for room in self._whole.rooms:
            lacking = _lacking(room, labels)
            if not lacking and (room.cluster.nodes or _carried_by(room.cluster, labels)):
                found.append(room if not _bounds(where, room) else _part(room, where, ()))
            elif 0 < len(lacking) < len(room.cluster.nodes):
                found.append(_part(room, where, lacking))
        return [one for one in found if where.near is None or one.free.nodes]


ANYWHERE = Where()


def unbound(by_flavor: ByFlavor, shape: Shape) -> Bounded:
    """The bounds for a shape that no quota binds: it may ask for nearness all the same.

    A gang that doesn't is put onto one switch where it is told which nodes are on one.
    """
    if shape.topology is None:
        wishes = shape.num_nodes > 1 and by_flavor.knows_switches
        return by_flavor.bounded(Where((), ON_ONE_SWITCH) if wishes else ANYWHERE)
    return by_flavor.bounded(Where((), by_itself(shape.topology)))


def _bounds(where: Where, room: ClusterRoom) -> bool:
    """Whether the nodes of a room are chosen by how near they are to each other."""
    near = where.near
    return near is not None and (
        not near.where_told or _stands_at(near.asked.level, room.cluster.nodes)
    )


def _stands_at(level: str, nodes: tuple[Node, ...]) -> bool:
    """Whether all of some nodes, and there are some, say where they stand at a level."""
    return bool(nodes) and all(level in node.domains for node in nodes)


def _part(room: ClusterRoom, where: Where, lacking: tuple[str, ...]) -> ClusterRoom:
    """A room without some nodes, as near as is asked; made once for each state of the room."""
    part = room.verdicts.parts.get(where)
    if part is None:
        near = room.whole.near.get(where)
        if where.near is not None and near is None:
            near = room.whole.near[where] = Near(room.cluster, where.near)
        part = room.without(lacking)
        part = room.verdicts.parts[where] = part if near is None else part.nearby(near)
    return part


def _same(known: list[ClusterRoom], rooms: list[ClusterRoom]) -> bool:
    return len(known) == len(rooms) and all(a is b for a, b in zip(known, rooms, strict=True))


def _lacking(room: ClusterRoom, labels: Labels) -> tuple[str, ...]:
    """The nodes (``cluster/node``) that lack one of the labels."""
    known = room.whole.lacking.get(labels)
    if known is None:
        cluster = room.cluster
        own = own_labels(cluster)
        left = [one for one in labels if own.get(one[0]) != one[1]]
        known = tuple(
            f"{cluster.name}/{node.name}"
            for node in cluster.nodes
            if left and not all(carries(node, *one) for one in left)
        )
        room.whole.lacking[labels] = known
    return known


def _carried_by(cluster: Cluster, labels: Labels) -> bool:
    """Whether all of a cluster carries labels, whatever nodes it has."""
    own = own_labels(cluster)
    return all(own.get(key) == value for key, value in labels)
