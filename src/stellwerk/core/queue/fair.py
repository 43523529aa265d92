"""Preemption under fair sharing: the queue with the highest share gives first.

From the root of the tree the child with the highest share is followed down to a queue; its next
holder is evicted if one of the rules allows it by the shares before and after. Queues and cohorts
that don't borrow are left alone, but for those that the workload itself is in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from stellwerk.core.queue.entries import Holder, QueueState
from stellwerk.core.queue.shares import Share, share_of
from stellwerk.core.queue.tree import QuotaNode
from stellwerk.core.queue.victims import (
    FAIR,
    OWN_QUEUE,
    RECLAIM,
    Need,
    Victim,
    may_evict_own,
    may_reclaim,
    order_of,
    put_back,
    spared,
)

FINAL, INITIAL = "LessThanOrEqualToFinalShare", "LessThanInitialShare"


def victims_of(need: Need, strategies: Iterable[str]) -> list[Victim]:
    """The holders to evict so that there is room; none if fairness doesn't give it."""
    rules = tuple(strategies)
    candidates = sorted(_candidates(need), key=order_of(need))
    if not candidates:
        return []
    need.queue.node.add(need.usage)
    search = _Search(need)
    fits, again = search.first(candidates, rules[0])
    if not fits and len(rules) > 1:
        fits = search.second(again)
    victims = search.victims
    if fits:
        victims = spared(need, victims, search.fits)
    need.queue.node.remove(need.usage)
    put_back(need.world, victims)
    return victims if fits else []


def _candidates(need: Need) -> Iterator[Holder]:
    """Who may be asked at all, in any queue of the tree that borrows what is needed."""
    for holder in need.queue.holders.values():
        if holder.uses(need.short) and may_evict_own(need, holder):
            yield holder
    node = need.queue.node
    if node.parent is None or need.queue.spec.preemption.reclaim == "Never":
        return
    for other in node.root().borrowing_queues(need.short):
        if other is node:
            continue
        for holder in need.world.queues[other.name].holders.values():
            if holder.uses(need.short) and may_reclaim(need, holder):
                yield holder


class _Search:
    """Evicts one after the other until there is room; the need is counted as if it ran."""

    def __init__(self, need: Need) -> None:
        self.need = need
        self.victims: list[Victim] = []
        node = need.queue.node
        self.path = {id(node): None, **{id(one): None for one in node.above()}}
        self.in_nominal = node.is_within(need.short)
        self.key = order_of(need)

    def fits(self) -> bool:
        """Whether there is room for the need, which is counted already."""
        node = self.need.queue.node
        node.remove(self.need.usage)
        found = self.need.fits(borrow=True)
        node.add(self.need.usage)
        return found

    def evict(self, holder: Holder, reason: str) -> bool:
        """One more victim; whether that is enough."""
        self.need.world.drop(holder)
        self.victims.append(Victim(holder, reason))
        return self.fits()

    def first(self, candidates: list[Holder], rule: str) -> tuple[bool, list[Holder]]:
        """By the first rule; also those whom it spared."""
        waiting = _by_queue(candidates)
        again: list[Holder] = []
        for queue in self.queues(waiting):
            holders = waiting[queue.name]
            if queue is self.need.queue:
                if self.evict(holders.pop(0), OWN_QUEUE):
                    return True, again
            elif self.in_nominal:
                if self.evict(holders.pop(0), RECLAIM):
                    return True, again
            else:
                own, theirs = self.below_common(queue)
                new, old = share_of(own), share_of(theirs)
                while holders:
                    holder = holders.pop(0)
                    if not self.allows(rule, new, old, theirs, holder):
                        again.append(holder)
                        continue
                    if self.evict(holder, FAIR):
                        return True, again
                    break
        return False, again

    def second(self, again: list[Holder]) -> bool:
        """By the shares before eviction, for those whom the first rule spared; one in a queue."""
        waiting = _by_queue(again)
        for queue in self.queues(waiting):
            own, theirs = self.below_common(queue)
            holder = waiting[queue.name][0]
            waiting[queue.name] = []
            if share_of(own) < share_of(theirs) and self.evict(holder, FAIR):
                return True
        return False

    def allows(self, rule: str, new: Share, old: Share, theirs: QuotaNode, holder: Holder) -> bool:
        """Whether a rule lets a holder be evicted, by the shares of both sides."""
        if rule == INITIAL:
            return new < old
        holder.queue.node.remove(holder.usage)
        after = share_of(theirs)
        holder.queue.node.add(holder.usage)
        return new <= after

    def below_common(self, queue: QueueState) -> tuple[QuotaNode, QuotaNode]:
        """The two nodes just below what both queues have in common: the need's, the other's."""
        theirs = queue.node
        while theirs.parent is not None and id(theirs.parent) not in self.path:
            theirs = theirs.parent
        own = self.need.queue.node
        while own.parent is not None and own.parent is not theirs.parent:
            own = own.parent
        return own, theirs

    def queues(self, waiting: dict[str, list[Holder]]) -> Iterator[QueueState]:
        """The queue to take from next, as often as there is one."""
        queue = self.need.queue
        if queue.node.parent is None:
            while waiting.get(queue.name):
                yield queue
            return
        root = queue.node.root()
        closed: dict[int, None] = {}
        while id(root) not in closed:
            found = self.next_below(root, waiting, closed)
            if found is not None:
                yield self.need.world.queues[found.name]

    def next_below(
        self, cohort: QuotaNode, waiting: dict[str, list[Holder]], closed: dict[int, None]
    ) -> QuotaNode | None:
        """Follows the highest share down; closes what has nothing to give."""
        best: tuple[Share, QuotaNode] | None = None
        for child in cohort.children:
            if id(child) in closed:
                continue
            share, own = share_of(child), id(child) in self.path
            empty = child.is_queue and not waiting.get(child.name)
            if empty or not (share.borrows or own):
                closed[id(child)] = None
            elif best is None or self.is_before(share, child, best, waiting):
                best = share, child
        if best is None:
            closed[id(cohort)] = None
            return None
        chosen = best[1]
        return chosen if chosen.is_queue else self.next_below(chosen, waiting, closed)

    def is_before(
        self,
        share: Share,
        child: QuotaNode,
        best: tuple[Share, QuotaNode],
        waiting: dict[str, list[Holder]],
    ) -> bool:
        """A higher share; of equal ones a cohort, then the queue with the better victim."""
        if share != best[0]:
            return share > best[0]
        if child.is_queue != best[1].is_queue:
            return not child.is_queue
        if not child.is_queue:
            return child.name < best[1].name
        return self.key(waiting[child.name][0]) < self.key(waiting[best[1].name][0])


def _by_queue(holders: Iterable[Holder]) -> dict[str, list[Holder]]:
    found: dict[str, list[Holder]] = {}
    for one in holders:
        found.setdefault(one.queue.name, []).append(one)
    return found
