"""Says of each run that holds what a waiting workload lacks whether it may be stopped for it.

The rules are those that choose victims; here each is asked about each run, and what it said is
told. Nothing decides by it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from msgspec import Struct

from stellwerk.core.model.ids import RunId, WorkloadId
from stellwerk.core.model.queueing import Pair
from stellwerk.core.queue.entries import Holder, QueueState
from stellwerk.core.queue.options import Option
from stellwerk.core.queue.quota import Quota, as_queued
from stellwerk.core.queue.tree import QuotaNode
from stellwerk.core.queue.victims import Need, may_evict_own, may_reclaim
from stellwerk.core.view import Head

Standing = Literal["leaves", "may be stopped", "not yet", "may not be stopped"]


class Contender(Struct, frozen=True, omit_defaults=True):
    """A run that holds what is lacking, how much, and whether it may be stopped for it.

    ``until_ms`` is from when on it may be, where only time keeps it. ``lost_ms`` is what would be
    lost: the time since its last checkpoint, and that of moving it, times its devices.
    """

    workload: WorkloadId
    run: RunId
    name: str
    queue: str
    priority: int
    holds: dict[str, int]
    standing: Standing
    why: str
    until_ms: int = 0
    lost_ms: int = 0


class Asking(NamedTuple):
    """Who asks: a waiting workload, its queue, and the choice of flavors that is looked at."""

    quota: Quota
    queue: QueueState
    head: Head
    option: Option | None
    short: Mapping[Pair, int]
    now_ms: int


def contenders_of(asking: Asking) -> tuple[Contender, ...]:
    """Everybody in its tree who holds some of what it lacks, those that help first."""
    quota, queue = asking.quota, asking.queue
    quota.spared_until_ms(queue, asking.now_ms)
    need = _need(asking)
    others = [
        holder
        for holder in quota.holders.values()
        if holder.queue.node.top is queue.node.top and holder.uses(asking.short)
    ]
    candidates = [one for one in others if _refusal(asking, need, one) is None]
    enough, why = _together(asking, candidates)
    found = []
    for one in others:
        held = quota.held[one.key]
        refusal = _refusal(asking, need, one)
        if refusal is None:
            chosen = one.key in enough
            said = why if chosen or not enough else "may be stopped too, and isn't needed"
            refusal = _Refusal("may be stopped", said)
        holds = {pair.resource: one.usage[pair] for pair in asking.short if one.usage.get(pair)}
        found.append(
            Contender(
                held.workload, held.run, held.name, one.queue.name, one.priority, holds,
                refusal.standing, refusal.why, refusal.until_ms, held.lost_ms(asking.now_ms),
            )
        )  # fmt: skip
    order = ("leaves", "may be stopped", "not yet", "may not be stopped")
    found.sort(key=lambda one: (order.index(one.standing), -sum(one.holds.values()), one.name))
    return tuple(found)


class _Refusal(NamedTuple):
    standing: Standing
    why: str
    until_ms: int = 0


def _need(asking: Asking) -> Need:
    head, option = asking.head, asking.option
    workload = as_queued(head.id, "", head.priority, head.order, 0, None)
    usage = option.usage if option is not None else dict(asking.short)
    short = dict.fromkeys(asking.short)
    return Need(asking.quota.world, asking.queue, workload, usage, short)


def _refusal(asking: Asking, need: Need, one: Holder) -> _Refusal | None:
    """Why a run can't be stopped for it; None = the rules give it up."""
    held = asking.quota.held[one.key]
    if held.leaving:
        return _Refusal("leaves", "has notice already, and its room is waited for")
    if held.stuck:
        return _Refusal(
            "may not be stopped", "its machine is out of reach: nobody knows if it goes"
        )
    by_rule = _by_rule(asking, need, one)
    if by_rule:
        return _Refusal("may not be stopped", by_rule)
    if one.spared:
        until_ms = held.spared_until_ms
        why = "a run is spared at first, so that it gets something done"
        if until_ms == held.rests_ms:
            why = "it was stopped for others as often as a workload may be in a day"
        elif held.protected_ms:
            why = "it is protected until then, as was asked for when it was submitted"
        return _Refusal("not yet", why, until_ms)
    return None


def _by_rule(asking: Asking, need: Need, one: Holder) -> str:
    """What the queue's policy says against it; "" = nothing."""
    rules, name = asking.queue.spec.preemption, asking.queue.name
    is_own = one.queue is asking.queue
    field, rule = (
        ("withinClusterQueue", rules.within) if is_own else ("reclaimWithinCohort", rules.reclaim)
    )
    if rule == "Never":
        what = "stops none of its own" if is_own else "claims nothing back from others"
        return f"{name} {what} ({field}: Never)"
    spared, one.spared = one.spared, False
    allowed = may_evict_own(need, one) if is_own else may_reclaim(need, one)
    one.spared = spared
    if not allowed:
        mine = asking.head.priority
        newer = " nor is it newer" if rule == "LowerOrNewerEqualPriority" else ""
        return f"its priority {one.priority} isn't lower than {mine}{newer} ({field}: {rule})"
    within = None if is_own else _within_its_own(asking.queue.node, one.queue.node, need.short)
    if within is not None:
        return f"{within.name} uses no more of it than its own quota"
    return ""


def _within_its_own(mine: QuotaNode, theirs: QuotaNode, short: Iterable[Pair]) -> QuotaNode | None:
    """The queue, or a cohort of it below the one in common, that borrows nothing."""
    pairs = dict.fromkeys(short)
    common = {id(node): True for node in (mine, *mine.above())}
    for node in (theirs, *theirs.above()):
        if id(node) in common:
            return None
        if node.is_within(pairs):
            return node
    return None


def _together(asking: Asking, candidates: list[Holder]) -> tuple[dict[str, None], str]:
    """Those who would be stopped if quota were all that counts; what keeps that from being done."""
    option = asking.option
    if not candidates:
        return {}, ""
    if option is None:
        return {}, "isn't enough: more is asked for than there could ever be"
    if option.short and not option.stops:
        return {}, "isn't enough: it would have to borrow then, and may not stop others for that"
    head = asking.head
    workload = as_queued(head.id, "", head.priority, head.order, 0, None)
    victims = asking.quota.victims(asking.queue, workload, option, asking.now_ms, None)
    if victims is None:
        return {}, "isn't needed: those who leave already are enough"
    if victims:
        keys: dict[str, None] = dict.fromkeys(one.holder.key for one in victims)
        return keys, "would be enough by quota, but no cluster would have a place for it then"
    return {}, "isn't enough, even with all others who may be stopped"
