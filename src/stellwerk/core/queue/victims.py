"""What both ways of preempting share: need, victims and their order, and sparing them again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from stellwerk.core.model.queueing import Pair, QueuedWorkload
from stellwerk.core.queue.entries import Assigned, Holder, QueueState, World
from stellwerk.core.queue.packing import places_of

OWN_QUEUE = "InClusterQueue"
RECLAIM = "InCohortReclamation"
WHILE_BORROWING = "InCohortReclaimWhileBorrowing"
FAIR = "InCohortFairSharing"


class Victim(NamedTuple):
    """A holder to be evicted, and by which right."""

    holder: Holder
    reason: str


class Need(NamedTuple):
    """What a workload wants room for; ``short`` are the pairs that somebody must leave.

    ``also`` is what must hold besides quota, as that there is a place.
    """

    world: World
    queue: QueueState
    workload: QueuedWorkload
    usage: Mapping[Pair, int]
    short: Mapping[Pair, None]
    assigned: Assigned | None = None
    also: Callable[[], bool] | None = None

    def fits(self, *, borrow: bool) -> bool:
        """Whether there is room now, with or without borrowing."""
        node = self.queue.node
        for pair, amount in self.usage.items():
            if not borrow and node.borrows_with(pair, amount):
                return False
            if amount > max(0, node.available(pair)):
                return False
        if self.assigned is not None and self.world.rooms:
            return isinstance(places_of(self.world, self.assigned), list)
        return self.also is None or self.also()


_Order = tuple[bool, bool, float, int, int, int, str]


def order_of(need: Need, *, of_others: bool = False) -> Callable[[Holder], _Order]:
    """The key of the order in which holders are evicted.

    Those already on their way out, then other queues, lower priority, who loses least, the latest
    admitted. Where past use counts, those whose local queue has used most come before. With
    ``of_others`` it is that of other queues alone.
    """
    past, own = need.world.past_use, None if of_others else need.queue

    def key(one: Holder) -> _Order:
        local = f"{one.workload.namespace}/{one.workload.local_queue}"
        used = past.get(local, 0.0) if past and one.queue.spec.usage_based else 0.0
        return (
            not one.evicted,
            one.queue is own,
            -used,
            one.priority,
            one.lost,
            -one.reserved_ms,
            one.uid,
        )

    return key


def may_evict_own(need: Need, one: Holder) -> bool:
    """Whether the queue's own rule gives a holder of the same queue up."""
    if one.spared:
        return False
    wanted, queued_ms = need.workload.priority, need.workload.queued_ms or need.workload.created_ms
    match need.queue.spec.preemption.within:
        case "Never":
            return False
        case "LowerPriority":
            return one.priority < wanted
        case _:
            equal = one.priority == wanted and queued_ms < one.queued_ms
            return one.priority < wanted or equal


def may_reclaim(need: Need, one: Holder) -> bool:
    """Whether the queue's rule for its cohort gives a holder of another queue up."""
    if one.spared:
        return False
    match need.queue.spec.preemption.reclaim:
        case "Never":
            return False
        case "LowerPriority":
            return one.priority < need.workload.priority
        case _:
            return True


def spared(need: Need, victims: list[Victim], fits: Callable[[], bool]) -> list[Victim]:
    """Puts back every victim that isn't needed, the last one but one first; the rest stay out."""
    for index in range(len(victims) - 2, -1, -1):
        need.world.put(victims[index].holder)
        if fits():
            victims[index] = victims[-1]
            victims.pop()
        else:
            need.world.drop(victims[index].holder)
    return victims


def put_back(world: World, victims: list[Victim]) -> None:
    """Ends a trial: all that were dropped hold their quota again."""
    for victim in victims:
        world.put(victim.holder)
