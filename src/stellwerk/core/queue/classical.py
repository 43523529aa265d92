"""Classical preemption: whom a workload may evict, in which order, and who is spared after all.

Candidates of three kinds, in this order: holders of other queues that the workload may claim back
from because its part of the tree has the quota; holders of other queues for which only priority
speaks; holders of its own queue. Those already on their way out come before all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stellwerk.core.model.queueing import Pair
from stellwerk.core.queue.entries import Holder
from stellwerk.core.queue.tree import QuotaNode
from stellwerk.core.queue.victims import (
    OWN_QUEUE,
    RECLAIM,
    WHILE_BORROWING,
    Need,
    Victim,
    may_evict_own,
    may_reclaim,
    order_of,
    put_back,
    spared,
)


class _Candidate(NamedTuple):
    """A holder, by which right, and the cohort that it and the workload have in common."""

    holder: Holder
    reason: str
    common: QuotaNode | None
    only_without_borrowing: bool = False


def victims_of(need: Need) -> list[Victim]:
    """The holders to evict so that there is room; none if that can't be had."""
    found = _Candidates(need)
    for borrow in found.attempts():
        victims: list[Victim] = []
        for one in found.valid(borrow=borrow):
            need.world.drop(one.holder)
            victims.append(Victim(one.holder, one.reason))
            if need.fits(borrow=borrow):
                victims = spared(need, victims, lambda: need.fits(borrow=borrow))  # noqa: B023
                put_back(need.world, victims)
                return victims
        put_back(need.world, victims)
    return []


class _Candidates:
    """All candidates of one workload, in order."""

    def __init__(self, need: Need) -> None:
        self.need = need
        self.entitled: list[_Candidate] = []
        self.by_priority: list[_Candidate] = []
        self.known: tuple[list[Holder], list[Holder]] | None = None
        self._from_cohort()
        own = [
            _Candidate(one, OWN_QUEUE, None)
            for one in need.queue.holders.values()
            if one.uses(need.short) and may_evict_own(need, one)
        ]
        key = order_of(need)
        kinds = [
            sorted(kind, key=lambda one: key(one.holder))
            for kind in (self.entitled, self.by_priority, own)
        ]
        self.going = [one for kind in kinds for one in kind if one.holder.evicted]
        self.staying = [one for kind in kinds for one in kind if not one.holder.evicted]

    def all(self) -> Iterator[_Candidate]:
        """All of them in order: those who go already, of other queues first, then likewise those
        who don't.
        """
        going, staying = self.known or ((), ())
        yield from self._of_others(going)
        yield from self.going
        yield from self._of_others(staying)
        yield from self.staying

    def _of_others(self, holders: Iterable[Holder]) -> Iterator[_Candidate]:
        need, cohort = self.need, self.need.queue.node.parent
        if holders and cohort is not None:
            entitled = _has_all(need.queue.node, dict(need.usage))
            for one in holders:
                if one.queue is not need.queue:
                    yield self._candidate(one, cohort, entitled=entitled)

    def attempts(self) -> tuple[bool, ...]:
        """Whether the workload may borrow then, in the order of trying."""
        need = self.need
        never_borrows = need.queue.spec.preemption.borrow == "Never"
        node = need.queue.node
        has_quota_left = all(
            node.usage.get(pair, 0) < node.nominal.get(pair, 0) for pair in need.short
        )
        first = next((one for kind in self.known or () for one in self._of_others(kind)), None)
        others = bool(first or self.entitled or self.by_priority)
        if not others or (never_borrows and not has_quota_left):
            return (True,)
        is_entitled = bool(self.entitled) or (
            first is not None and _has_all(node, dict(need.usage))
        )
        if never_borrows and not is_entitled:
            return (False, True)
        return (True, False)

    def valid(self, *, borrow: bool) -> Iterator[_Candidate]:
        """The candidates whose queue, and each cohort up to the common one, still borrows."""
        need = self.need
        for one in self.all():
            if one.holder.queue is need.queue:
                yield one
            elif not (borrow and one.only_without_borrowing):
                node: QuotaNode | None = one.holder.queue.node
                while node is not None and node is not one.common:
                    if node.is_within(need.short):
                        break
                    node = node.parent
                else:
                    yield one

    def _from_cohort(self) -> None:
        need = self.need
        node = need.queue.node
        if node.parent is None or need.queue.spec.preemption.reclaim == "Never":
            return
        self.known = self._known(node.parent)
        if self.known is not None:
            return
        left = dict(need.usage)
        entitled = _has_all(node, left)
        below = node
        for cohort in node.above():
            found = self.entitled if entitled else self.by_priority
            for queue in self._borrowing(cohort, below):
                for holder in need.world.queues[queue.name].holders.values():
                    if holder.uses(need.short) and may_reclaim(need, holder):
                        found.append(self._candidate(holder, cohort, entitled=entitled))
            entitled = _has_all(cohort, left) or entitled
            below = cohort

    def _known(self, cohort: QuotaNode) -> tuple[list[Holder], list[Holder]] | None:
        """Whom all queues of a tree of one cohort may claim from alike, found once in a state."""
        need = self.need
        known, pairs = need.world.lenders, list(need.short)
        reclaim = need.queue.spec.preemption.reclaim
        alike = reclaim == "Any" and cohort.parent is None and not need.world.past_use
        if known is None or not alike or len(pairs) != 1:
            return None
        found = known.get(cohort.key)
        if found is None or found[:2] != (cohort.version, pairs[0]):
            holders = [
                one
                for queue in self._borrowing(cohort, cohort)
                for one in need.world.queues[queue.name].holders.values()
                if one.uses(need.short)
            ]
            holders.sort(key=order_of(need, of_others=True))
            going = [one for one in holders if one.evicted]
            staying = [one for one in holders if not one.evicted]
            found = known[cohort.key] = cohort.version, pairs[0], going, staying
        return found[2:]

    def _borrowing(self, cohort: QuotaNode, but: QuotaNode) -> Iterator[QuotaNode]:
        """The queues below a cohort that borrow, as does each cohort on the way to them."""
        for child in list(cohort.borrowing_children(self.need.short)):
            if child is but:
                continue
            if child.is_queue:
                yield child
            else:
                yield from self._borrowing(child, but)

    def _candidate(self, one: Holder, common: QuotaNode, *, entitled: bool) -> _Candidate:
        if entitled:
            return _Candidate(one, RECLAIM, common)
        rules = self.need.queue.spec.preemption
        above = one.priority >= self.need.workload.priority or (
            rules.max_priority is not None and one.priority > rules.max_priority
        )
        if rules.borrow == "Never" or above:
            return _Candidate(one, RECLAIM, common, only_without_borrowing=True)
        return _Candidate(one, WHILE_BORROWING, common)


def _has_all(node: QuotaNode, left: dict[Pair, int]) -> bool:
    """Whether a subtree has quota for what is left; takes off what its private part covers."""
    has = not any(node.borrows_with(pair, amount) for pair, amount in left.items())
    for pair, amount in left.items():
        left[pair] = max(0, amount - node.free_private(pair))
    return has
