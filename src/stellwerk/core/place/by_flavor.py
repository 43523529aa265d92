"""Bounds rooms to the clusters and nodes that carry the labels of a flavor.

A label may be the cluster's own. Beyond that each cluster carries ``stellwerk/cluster`` and
``stellwerk/driver``, and each node ``kubernetes.io/hostname``, what its domains say, and the kinds
of its accelerators as ``stellwerk/accelerator`` and ``nvidia.com/gpu.product``.
"""

from __future__ import annotations

from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.queueing import HOSTNAME
from stellwerk.core.place.bounded import Bounded
from stellwerk.core.place.rooms import ClusterRoom
from stellwerk.core.queue.options import Labels

CLUSTER, DRIVER = "stellwerk/cluster", "stellwerk/driver"
ACCELERATOR, PRODUCT = "stellwerk/accelerator", "nvidia.com/gpu.product"


class ByFlavor:
    """The rooms of a cycle by the labels that are asked for."""

    def __init__(self, bounded: Bounded) -> None:
        self._whole = bounded
        self._known: dict[Labels, tuple[Bounded, list[ClusterRoom]]] = {}

    def bounded(self, labels: Labels) -> Bounded:
        """The same bounds on the rooms that carry the labels."""
        if not labels:
            return self._whole
        rooms = self.rooms(labels)
        known = self._known.get(labels)
        if known is None or not _same(known[1], rooms):
            known = self._known[labels] = self._whole.on(rooms), rooms
        return known[0]

    def rooms(self, labels: Labels) -> list[ClusterRoom]:
        """The rooms as they are now; of a cluster whose nodes differ, those nodes alone."""
        found = []
        for room in self._whole.rooms:
            lacking = _lacking(room, labels)
            if not lacking and (room.cluster.nodes or _carried_by(room.cluster, labels)):
                found.append(room)
            elif 0 < len(lacking) < len(room.cluster.nodes):
                part = room.verdicts.parts.get(labels)
                if part is None:
                    part = room.verdicts.parts[labels] = room.without(lacking)
                found.append(part)
        return found


def _same(known: list[ClusterRoom], rooms: list[ClusterRoom]) -> bool:
    return len(known) == len(rooms) and all(a is b for a, b in zip(known, rooms, strict=True))


def _lacking(room: ClusterRoom, labels: Labels) -> tuple[str, ...]:
    """The nodes (``cluster/node``) that lack one of the labels."""
    known = room.whole.lacking.get(labels)
    if known is None:
        cluster = room.cluster
        own = _own(cluster)
        left = [one for one in labels if own.get(one[0]) != one[1]]
        known = tuple(
            f"{cluster.name}/{node.name}"
            for node in cluster.nodes
            if left and not all(_carries(node, *one) for one in left)
        )
        room.whole.lacking[labels] = known
    return known


def _carries(node: Node, key: str, value: str) -> bool:
    if key == HOSTNAME:
        return node.name == value
    if key == ACCELERATOR:
        return any(device.kind == value for device in node.devices)
    if key == PRODUCT:
        return any(device.product.replace(" ", "-") == value for device in node.devices)
    return node.domains.get(key) == value


def _carried_by(cluster: Cluster, labels: Labels) -> bool:
    """Whether all of a cluster carries labels, whatever nodes it has."""
    own = _own(cluster)
    return all(own.get(key) == value for key, value in labels)


def _own(cluster: Cluster) -> dict[str, str]:
    return {**cluster.labels, CLUSTER: cluster.name, DRIVER: cluster.driver}
