"""Why quota keeps a shape from starting, and what each flavor said, with every level of its path.

As the explanations of `compat: kueue`, for live work: the same codes, the same numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from stellwerk.core.describe.fleet_amounts import write_kubernetes
from stellwerk.core.model.decisions import FlavorVerdict, QuotaLevel
from stellwerk.core.model.queueing import Pair
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.queue.entries import QueueState, Verdict
from stellwerk.core.queue.explain import MISFITS, narrowest
from stellwerk.core.queue.tree import QuotaNode


def quota_reasons(queue: QueueState, verdicts: Sequence[Verdict]) -> tuple[Reason, ...]:
    """The one reason that says most: too little now, more than ever, or no flavor that suits."""
    shorts = [one for one in verdicts if one.code == "short"]
    if shorts:
        return (_of_quota(queue, shorts),)
    exceeds = [one for one in verdicts if one.code == "exceeds"]
    if exceeds:
        best = max(exceeds, key=lambda one: one.most)
        params = {**_of(queue, best, exceeds), "largest": write_kubernetes(best.most)}
        return (Reason("queue_exceeds", params),)
    notes = [misfit(one) for one in verdicts if one.code in MISFITS]
    if notes:
        note = "; ".join(dict.fromkeys(notes[:4]))
        return (Reason("queue_no_flavor", {"queue": queue.name, "note": note}),)
    return ()


def _of_quota(queue: QueueState, shorts: Sequence[Verdict]) -> Reason:
    free = [max(0, queue.node.available(Pair(one.flavor, one.resource))) for one in shorts]
    at = min(range(len(shorts)), key=lambda index: shorts[index].wanted - free[index])
    best, missing = shorts[at], max(0, shorts[at].wanted - free[at])
    params = {
        **_of(queue, best, shorts),
        "free": write_kubernetes(free[at]),
        "missing": write_kubernetes(missing),
        "where": narrowest(queue.node, Pair(best.flavor, best.resource)),
    }
    return Reason("queue_quota", params)


def _of(queue: QueueState, best: Verdict, found: Sequence[Verdict]) -> dict[str, Param]:
    params: dict[str, Param] = {
        "queue": queue.name,
        "wanted": write_kubernetes(best.wanted),
        "resource": best.resource,
        "flavor": best.flavor,
    }
    others = len({one.flavor: None for one in found}) - 1
    return {**params, "others": others} if others else params


def misfit(one: Verdict) -> str:
    """Why a flavor is out of the question."""
    return MISFITS[one.code].format(flavor=one.flavor, resource=one.resource, note=one.note)


def told_of(
    queue: QueueState, alternative: int, verdicts: Iterable[Verdict]
) -> list[FlavorVerdict]:
    """What each flavor said, as it is stored with a decision."""
    return [
        FlavorVerdict(
            flavor=one.flavor,
            resource=one.resource,
            outcome=one.code,
            alternative=alternative,
            wanted=one.wanted,
            available=one.available,
            most=one.most,
            note=misfit(one) if one.code in MISFITS else one.note,
            path=() if one.code in MISFITS else path_of(queue.node, Pair(one.flavor, one.resource)),
        )
        for one in verdicts
    ]


def path_of(queue: QuotaNode, pair: Pair) -> tuple[QuotaLevel, ...]:
    """The levels from a queue to the root."""
    return tuple(
        QuotaLevel(
            name=node.name,
            kind="queue" if node.is_queue else "cohort",
            nominal=node.nominal.get(pair, 0),
            quota=node.subtree.get(pair, 0),
            used=node.usage.get(pair, 0),
            available=node.available(pair),
            borrowing_limit=node.borrowing.get(pair),
            lending_limit=node.lending.get(pair),
        )
        for node in (queue, *queue.above())
    )
