"""Says how much of its quota each queue and cohort uses now, and how work stands in the queues."""

from collections.abc import Iterable, Mapping
from typing import Literal

from msgspec import Struct

from stellwerk.core.model.holding import Holding
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.queueing import ClusterQueue, Cohort, Pair, QueueObjects
from stellwerk.core.model.workload import Workload
from stellwerk.core.place.derived import derived_pairs
from stellwerk.core.queue.live import Queues
from stellwerk.core.queue.quota import closed_by_check
from stellwerk.core.queue.shares import share_of
from stellwerk.core.queue.tree import QuotaNode
from stellwerk.core.queueing_objects import Doors

READY = "Ready"
WAITS = ("Pending", "Held")


class PairUse(Struct, frozen=True):
    """One flavor's resource at one node, in thousandths of its unit.

    ``nominal`` is its own (None: it has none by itself), ``quota`` with what those below it lend.
    ``available`` is what it could use more now, with what it may borrow, ``most`` what it could
    use if nothing were in use. ``derived`` = its own follows from what the clusters have.
    """

    flavor: str
    resource: str
    nominal: int | None
    quota: int
    used: int
    available: int
    most: int
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    derived: bool = False

    @property
    def borrowed(self) -> int:
        """What is used beyond its own quota."""
        return max(0, self.used - self.quota)


class QuotaOf(Struct, frozen=True):
    """A cohort or a queue, at its depth below the root, with all of its pairs."""

    name: str
    kind: Literal["queue", "cohort"]
    depth: int
    parent: str
    weight: float
    share: float
    pairs: tuple[PairUse, ...]


NO_NAMESPACE = "takes no work in: it has no namespaceSelector"


class QueueStands(Struct, frozen=True):
    """How work stands in a ClusterQueue.

    ``status`` is Ready, or why nothing is taken in, in the reference's words, with what that is
    ``about``. ``reserving`` hold or were promised quota; of those ``admitted`` run.
    """

    queue: ClusterQueue
    local_queues: tuple[str, ...]
    pending: tuple[WorkloadId, ...]
    reserving: tuple[WorkloadId, ...]
    admitted: tuple[WorkloadId, ...]
    status: str = READY
    about: str = ""


def queues_stand(
    objects: QueueObjects, live: Iterable[Workload], doors: Doors
) -> list[QueueStands]:
    """Every queue with those that wait, hold quota and run, by name."""
    pending: dict[str, list[WorkloadId]] = {one.name: [] for one in objects.queues}
    reserving: dict[str, list[WorkloadId]] = {one.name: [] for one in objects.queues}
    admitted: dict[str, list[WorkloadId]] = {one.name: [] for one in objects.queues}
    behind = {one.key: one.queue for one in objects.local_queues}
    for one in live:
        holding = _holding(one)
        if holding is not None:
            if holding.queue in reserving:
                reserving[holding.queue].append(one.id)
                if one.live_run is not None:
                    admitted[holding.queue].append(one.id)
        elif one.phase in WAITS:
            behind_it = behind.get(doors[one.shape].path, "")
            if behind_it in pending:
                pending[behind_it].append(one.id)
    local_queues: dict[str, list[str]] = {}
    for local in objects.local_queues:
        local_queues.setdefault(local.queue, []).append(local.key)
    world, checks = Queues(objects).world, {one.name: one for one in objects.checks}
    found = []
    for queue in objects.queues:
        closed = world.queues[queue.name].inactive or closed_by_check(queue, checks)
        status, about = closed or (READY, "" if queue.namespaces is not None else NO_NAMESPACE)
        found.append(
            QueueStands(
                queue,
                tuple(local_queues.get(queue.name, ())),
                tuple(pending[queue.name]),
                tuple(reserving[queue.name]),
                tuple(admitted[queue.name]),
                status,
                about,
            )
        )
    return found


def _holding(one: Workload) -> Holding | None:
    """What a workload holds of quota, or was promised."""
    run = one.live_run
    if run is not None:
        return run.holding
    return one.claim.holding if one.claim is not None else None


def quota_of(objects: QueueObjects, live: Iterable[Workload]) -> list[QuotaOf]:
    """All trees from their roots down, parents before children, by name; alone queues last."""
    tree = Queues(objects).tree
    for one in live:
        holding = _holding(one)
        node = tree.queues.get(holding.queue) if holding is not None else None
        if node is not None and holding is not None:
            node.add(holding.usage)
    order = orders_of(objects)
    tops = [n for n in tree.cohorts.values() if n.parent is None or n.broken]
    tops.sort(key=lambda node: node.name)
    tops += [node for node in tree.queues.values() if node.parent is None]
    marks = {(one.name, pair): None for pair, of in derived_pairs(objects).items() for one in of}
    return [one for top in tops for one in _below(top, 0, order, marks)]


def _below(
    node: QuotaNode,
    depth: int,
    order: Mapping[Pair, int],
    marks: Mapping[tuple[str, Pair], None],
) -> list[QuotaOf]:
    last = len(order)
    pairs = sorted({**node.subtree, **node.usage}, key=lambda one: (order.get(one, last), one))
    found = [
        QuotaOf(
            name=node.name,
            kind="queue" if node.is_queue else "cohort",
            depth=depth,
            parent=node.parent.name if node.parent is not None else "",
            weight=node.weight,
            share=share_of(node).value,
            pairs=tuple(
                _use(node, pair, derived=node.is_queue and (node.name, pair) in marks)
                for pair in pairs
            ),
        )
    ]
    if not node.broken:
        for child in sorted(node.children, key=lambda one: (one.is_queue, one.name)):
            found += _below(child, depth + 1, order, marks)
    return found


def _use(node: QuotaNode, pair: Pair, *, derived: bool) -> PairUse:
    return PairUse(
        flavor=pair.flavor,
        resource=pair.resource,
        nominal=node.nominal.get(pair),
        quota=node.subtree.get(pair, 0),
        used=node.usage.get(pair, 0),
        available=node.available(pair),
        most=node.potential(pair),
        borrowing_limit=node.borrowing.get(pair),
        lending_limit=node.lending.get(pair),
        derived=derived,
    )


def orders_of(objects: QueueObjects) -> dict[Pair, int]:
    """Pairs in the order in which objects name them first: flavors as people prefer them."""
    found: dict[Pair, int] = {}
    holders: tuple[Cohort | ClusterQueue, ...] = (*objects.cohorts, *objects.queues)
    for holder in holders:
        for group in holder.groups:
            for one in group.flavors:
                for resource in group.covered:
                    found.setdefault(Pair(one.flavor, resource), len(found))
    return found


def through(rows: Iterable[QuotaOf], name: str) -> list[QuotaOf]:
    """The way from the root to a queue or cohort, and all below it; nothing if it isn't there."""
    everything = list(rows)
    at = next((i for i, one in enumerate(everything) if one.name == name), None)
    if at is None:
        return []
    above: list[QuotaOf] = []
    depth = everything[at].depth
    for one in reversed(everything[:at]):
        if one.depth < depth:
            above.insert(0, one)
            depth = one.depth
    end = at + 1
    while end < len(everything) and everything[end].depth > everything[at].depth:
        end += 1
    return [*above, *everything[at:end]]
