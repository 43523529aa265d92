"""Derives quotas from what the clusters have, for queues that want that in place of a number.

What the nodes that carry a flavor's labels have of a resource, less what other queues and cohorts
have of it by a number, is shared among those that derive it, by their weights. It is what nodes can
give (allocatable), whether they can be reached or not, since what runs on one that can't goes on
holding quota; nodes that are drained or quarantined, and devices at fault, don't count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.queueing import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    Pair,
    QueueObjects,
    Quota,
    ResourceGroup,
)
from stellwerk.core.place.carrying import nodes_with
from stellwerk.core.queue.asked import GPU_MEMORY, MILLI, NVIDIA
from stellwerk.core.queue.tree import pairs_of

COUNTED = ("ready", "unreachable")
SLICE = "MIG-"

Amounts = dict[Pair, int]


class Deriving:
    """Derives again only when objects or clusters are others; an equal result is the same value."""

    def __init__(self) -> None:
        self._objects: QueueObjects | None = None
        self._clusters: tuple[Cluster, ...] = ()
        self._had: Amounts = {}
        self._result: QueueObjects | None = None

    def of(self, objects: QueueObjects, clusters: Sequence[Cluster]) -> QueueObjects:
        """The objects with their derived quotas as numbers."""
        same = self._result is not None and objects is self._objects
        if same and self._result is not None:
            alike = len(clusters) == len(self._clusters) and all(
                a is b for a, b in zip(clusters, self._clusters, strict=True)
            )
            if self._result is objects or alike:
                return self._result
        pairs = derived_pairs(objects)
        had = what_clusters_have(objects, pairs, clusters)
        self._clusters = tuple(clusters)
        if same and self._result is not None and had == self._had:
            return self._result
        self._objects, self._had = objects, had
        self._result = _with(objects, pairs, had)
        return self._result


def derived(objects: QueueObjects, clusters: Sequence[Cluster]) -> QueueObjects:
    """The objects with their derived quotas as numbers; the same value where there are none."""
    return Deriving().of(objects, clusters)


def derived_pairs(objects: QueueObjects) -> dict[Pair, list[ClusterQueue]]:
    """Which queues derive their quota of a pair."""
    found: dict[Pair, list[ClusterQueue]] = {}
    for queue in objects.queues:
        for pair, quota in pairs_of(queue.groups):
            if quota.derived:
                found.setdefault(pair, []).append(queue)
    return found


def what_clusters_have(
    objects: QueueObjects, pairs: Iterable[Pair], clusters: Sequence[Cluster]
) -> Amounts:
    """How much of each pair the nodes have that carry its flavor's labels."""
    labels = {one.name: tuple(sorted(one.labels.items())) for one in objects.flavors}
    by_flavor: dict[str, dict[str, int]] = {}
    found: Amounts = {}
    for pair in pairs:
        if pair.flavor not in by_flavor:
            known = labels.get(pair.flavor)
            wanted = () if known is None else clusters
            nodes = (one for cluster in wanted for one in nodes_with(cluster, known or ()))
            by_flavor[pair.flavor] = _had(one for one in nodes if one.state in COUNTED)
        found[pair] = by_flavor[pair.flavor].get(pair.resource, 0)
    return found


def _had(nodes: Iterable[Node]) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in nodes:
        for resource, amount in _of_node(node):
            found[resource] = found.get(resource, 0) + amount
    return found


def _of_node(node: Node) -> Iterator[tuple[str, int]]:
    yield "cpu", node.cpus_milli
    yield "memory", node.memory_bytes * MILLI
    yield "ephemeral-storage", node.disk_bytes * MILLI
    cut = {one.part_of: None for one in node.devices if one.part_of >= 0}
    for device in node.devices:
        if device.fault or device.index in cut:
            continue
        _, is_slice, profile = device.kind.rpartition(SLICE)
        name = f"{device.vendor}.com/gpu"
        if is_slice:
            name = f"{NVIDIA}.com/mig-{profile.lower().replace('+', '.')}"
        yield name, MILLI
        yield GPU_MEMORY, device.usable_bytes * MILLI


def _with(
    objects: QueueObjects, pairs: Mapping[Pair, list[ClusterQueue]], had: Amounts
) -> QueueObjects:
    if not pairs:
        return objects
    left = dict(had)
    holders: tuple[ClusterQueue | Cohort, ...] = (*objects.queues, *objects.cohorts)
    for pair, quota in (each for one in holders for each in pairs_of(one.groups)):
        if pair in left and not quota.derived:
            left[pair] -= quota.nominal
    given: dict[tuple[str, Pair], int] = {}
    for pair, queues in pairs.items():
        parts = shared(max(0, left[pair]), queues, 1 if pair.resource == "cpu" else MILLI)
        given.update(((name, pair), amount) for name, amount in parts.items())
    return replace(objects, queues=tuple(_queue_with(one, given) for one in objects.queues))


def shared(amount: int, queues: Sequence[ClusterQueue], unit: int) -> dict[str, int]:
    """An amount by weight, in whole units; what is left over goes to the largest remainders."""
    weights = [one.weight for one in queues]
    if not any(weights):
        weights = [1.0] * len(queues)
    units, total = amount // unit, sum(weights)
    exact = [units * weight / total for weight in weights]
    whole = [int(one) for one in exact]
    order = sorted(range(len(queues)), key=lambda i: (whole[i] - exact[i], queues[i].name))
    for i in order[: max(0, units - sum(whole))]:
        whole[i] += 1
    return {one.name: count * unit for one, count in zip(queues, whole, strict=True)}


def _queue_with(queue: ClusterQueue, given: Mapping[tuple[str, Pair], int]) -> ClusterQueue:
    if not any(quota.derived for _, quota in pairs_of(queue.groups)):
        return queue

    def of_flavor(one: FlavorQuotas) -> FlavorQuotas:
        def number(resource: str, quota: Quota) -> Quota:
            if not quota.derived:
                return quota
            return replace(quota, nominal=given[queue.name, Pair(one.flavor, resource)])

        return replace(one, quotas={name: number(name, q) for name, q in one.quotas.items()})

    def of_group(group: ResourceGroup) -> ResourceGroup:
        return replace(group, flavors=tuple(map(of_flavor, group.flavors)))

    return replace(queue, groups=tuple(map(of_group, queue.groups)))
