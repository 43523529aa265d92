"""Says why a workload waits: the reason in its tier, and the numbers on every level of its path.

Made when somebody asks, from what the last cycle recorded and from the tree as it is now.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.describe.fleet_amounts import write_kubernetes
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.queueing import Pair, QueuedWorkload
from stellwerk.core.model.reasons import Param, Reason, RenderedReason
from stellwerk.core.queue.entries import QueueState, Verdict, Waiter
from stellwerk.core.queue.live import Queues, Refused
from stellwerk.core.queue.outcome import (
    EXCEEDS,
    LOST_RACE,
    MISCONFIGURED,
    NO_MATCHING,
    NOT_YET,
    SUSPENDED,
    TOPOLOGY,
    VICTIMS,
    Waits,
    worst_of,
)
from stellwerk.core.queue.shares import share_of
from stellwerk.core.queue.tree import QuotaNode, Usage

MISFITS = {
    "taint": "{flavor} has the taint {note}",
    "selector": "{flavor} isn't what is asked in `{note}`",
    "missing": "the flavor {flavor} isn't there",
    "uncovered": "nothing in it covers {resource}",
    "no_topology": "{flavor} has no topology",
    "no_level": "the topology of {flavor} has no level `{note}`",
    "only_topology": "{flavor} is for pods that ask for a topology",
}


class Level(Struct, frozen=True, omit_defaults=True):
    """One node on the way from a queue to the root, for one flavor and resource.

    ``quota`` is what the node and those below it have, ``used`` what of it is in use there,
    ``available`` what the queue could still get from here up.
    """

    name: str
    kind: str
    quota: str
    used: str
    available: str
    nominal: str = ""
    borrowing_limit: str = ""
    lending_limit: str = ""


class FlavorSaid(Struct, frozen=True, omit_defaults=True):
    """What one flavor said to one pod set, and the path of the quota it asked for."""

    pod_set: str
    flavor: str
    resource: str
    outcome: str
    wanted: str = ""
    available: str = ""
    most: str = ""
    note: str = ""
    path: tuple[Level, ...] = ()


class WaitingView(Struct, frozen=True, omit_defaults=True):
    """A waiting workload: where it stands, and why.

    ``position`` counts from 0, -1 = in no queue; ``reference`` is Kueue's name for the reason.
    """

    name: str
    namespace: str
    queue: str
    local_queue: str
    priority: int
    position: int
    reference: str
    reason: RenderedReason
    flavors: tuple[FlavorSaid, ...] = ()
    victims: tuple[str, ...] = ()


class UsageView(Struct, frozen=True, omit_defaults=True):
    """How much of one flavor's resource a queue or cohort uses, in thousandths of its unit."""

    name: str
    kind: str
    depth: int
    flavor: str
    resource: str
    quota: int
    used: int
    borrowed: int = 0
    borrowing_limit: int | None = None
    lending_limit: int | None = None
    share: float = 0.0


def waiting_views(queues: Queues, waits: dict[str, Waits]) -> Iterator[WaitingView]:
    """Everybody who waits, queue by queue in order, and then those who aren't let in."""
    for name, waiting in queues.waiting.items():
        state = queues.world.queues[name]
        for position, waiter in enumerate(waiting.ordered(queues.past_use)):
            yield _view(state, waiter, position, waits.get(waiter.key))
    queued = {key: None for one in queues.waiting.values() for key in (*one.active, *one.parked)}
    for key, waiter in queues.waiters.items():
        if key not in queued:
            delay_ms = waiter.workload.requeue_at_ms - queues.now_ms
            reason = Reason("queue_backing_off", {"delay_ms": delay_ms})
            yield _plain(waiter.workload, waiter.queue.name, SUSPENDED, reason)
    for refused in queues.refused.values():
        yield _refused(refused)


def _plain(
    workload: QueuedWorkload, queue: str, reference: str, reason: Reason, position: int = -1
) -> WaitingView:
    return WaitingView(
        name=workload.name,
        namespace=workload.namespace,
        queue=queue,
        local_queue=workload.local_queue,
        priority=workload.priority,
        position=position,
        reference=reference,
        reason=render(reason),
    )


def _refused(one: Refused) -> WaitingView:
    """A workload that no queue lets in."""
    if one.why == MISCONFIGURED:
        reason = Reason("queue_missing", {"queue": one.note})
        return _plain(one.workload, one.note, MISCONFIGURED, reason)
    reason = Reason("queue_suspended", {"note": one.note})
    return _plain(one.workload, one.workload.cluster_queue, SUSPENDED, reason)


def _view(state: QueueState, waiter: Waiter, position: int, waits: Waits | None) -> WaitingView:
    """A workload in a queue; the queue's own state comes before what a cycle found."""
    name = state.name
    if state.inactive is not None:
        why, about = state.inactive
        code = "queue_stopped" if why == "Stopped" else "queue_inactive"
        note = about if why == "Stopped" else f"{why} ({about})"
        reference = SUSPENDED if why == "Stopped" else MISCONFIGURED
        reason = Reason(code, {"queue": name, "note": note})
        return _plain(waiter.workload, name, reference, reason, position)
    if waits is None:
        reason = Reason("queue_behind", {"ahead": position, "queue": name})
        reason = reason if position else Reason("queue_next", {"queue": name})
        return _plain(waiter.workload, name, NOT_YET, reason, position)
    reference, reason = _reason(state, waiter, waits)
    return replace(
        _plain(waiter.workload, name, reference, reason, position),
        flavors=tuple(_said(state, one) for one in waits.verdicts),
        victims=waits.victims,
    )


def _reason(state: QueueState, waiter: Waiter, waits: Waits) -> tuple[str, Reason]:
    """The reference's name, and the reason with its numbers."""
    queue: dict[str, Param] = {"queue": state.name}
    if waits.why == LOST_RACE:
        return worst_of(waits.verdicts), Reason("queue_passed")
    if waits.why == MISCONFIGURED:
        return waits.why, Reason("queue_namespace", {**queue, "name": waiter.workload.namespace})
    if waits.why == VICTIMS:
        params: dict[str, Param] = {"name": _short_name(waiter, waits.victims[0])}
        if len(waits.victims) > 1:
            params["others"] = len(waits.victims) - 1
        return waits.why, Reason("queue_victims", params)
    if waits.why == NO_MATCHING:
        notes = [_misfit(one) for one in waits.verdicts if one.code in MISFITS]
        return waits.why, Reason("queue_no_flavor", {**queue, "note": "; ".join(notes[:4])})
    if waits.why == TOPOLOGY:
        return waits.why, _of_topology(waits)
    if waits.why == EXCEEDS:
        return waits.why, Reason("queue_exceeds", {**queue, **_of_most(waits)})
    return waits.why, Reason("queue_quota", {**queue, **_of_quota(state, waits)})


def _short_name(waiter: Waiter, key: str) -> str:
    """A workload of the same namespace needs no namespace."""
    return key.removeprefix(f"{waiter.workload.namespace}/")


def _misfit(one: Verdict) -> str:
    return MISFITS[one.code].format(flavor=one.flavor, resource=one.resource, note=one.note)


def _of_most(waits: Waits) -> dict[str, Param]:
    found = [one for one in waits.verdicts if one.code == "exceeds"]
    best = max(found, key=lambda one: one.most)
    return _with_others(best, found) | {"largest": write_kubernetes(best.most)}


def _of_quota(state: QueueState, waits: Waits) -> dict[str, Param]:
    found = [one for one in waits.verdicts if one.code == "short"]
    if not found:
        return {}
    free = {id(one): _available(state, one) for one in found}
    best = min(found, key=lambda one: one.wanted - free[id(one)])
    missing = best.wanted - free[id(best)]
    return _with_others(best, found) | {
        "free": write_kubernetes(free[id(best)]),
        "missing": write_kubernetes(max(0, missing)),
        "where": narrowest(state.node, Pair(best.flavor, best.resource)),
    }


def _of_topology(waits: Waits) -> Reason:
    best = next((one for one in reversed(waits.verdicts) if one.code == "topology"), None)
    if best is None:
        return Reason("queue_passed")
    params: dict[str, Param] = {
        "free": best.available,
        "wanted": best.most,
        "flavor": best.flavor,
    }
    if best.note:
        params["note"] = best.note
    return Reason("queue_topology", params)


def _with_others(best: Verdict, found: list[Verdict]) -> dict[str, Param]:
    params: dict[str, Param] = {
        "wanted": write_kubernetes(best.wanted),
        "resource": best.resource,
        "flavor": best.flavor,
    }
    flavors = {one.flavor: None for one in found}
    if len(flavors) > 1:
        params["others"] = len(flavors) - 1
    return params


def _available(state: QueueState, one: Verdict) -> int:
    """What there is now; after a verdict others may have taken more."""
    return max(0, state.node.available(Pair(one.flavor, one.resource)))


def narrowest(node: QuotaNode, pair: Pair) -> str:
    """The level whose quota or borrowing limit lets the least through."""
    while node.parent is not None:
        limit = node.borrowing.get(pair)
        if limit is not None:
            private, used = node.private.get(pair, 0), node.usage.get(pair, 0)
            lent = node.subtree.get(pair, 0) - private - max(0, used - private) + limit
            if lent <= node.parent.available(pair):
                return node.name
        node = node.parent
    return node.name


def _said(state: QueueState, one: Verdict) -> FlavorSaid:
    if one.code in MISFITS:
        return FlavorSaid(one.pod_set, one.flavor, one.resource, one.code, note=_misfit(one))
    if one.code == "topology":
        note = f"{one.available} of {one.most} pods fit" + (f" ({one.note})" if one.note else "")
        return FlavorSaid(one.pod_set, one.flavor, one.resource, one.code, note=note)
    return FlavorSaid(
        pod_set=one.pod_set,
        flavor=one.flavor,
        resource=one.resource,
        outcome=one.code,
        wanted=write_kubernetes(one.wanted),
        available=write_kubernetes(_available(state, one)),
        most=write_kubernetes(one.most),
        path=tuple(path_of(state.node, Pair(one.flavor, one.resource))),
    )


def path_of(node: QuotaNode | None, pair: Pair) -> Iterator[Level]:
    """The levels from a queue to the root."""
    while node is not None:
        yield Level(
            name=node.name,
            kind="queue" if node.is_queue else "cohort",
            quota=write_kubernetes(node.subtree.get(pair, 0)),
            used=write_kubernetes(node.usage.get(pair, 0)),
            available=_signed(node.available(pair)),
            nominal=write_kubernetes(node.nominal.get(pair, 0)),
            borrowing_limit=_limit(node.borrowing, pair),
            lending_limit=_limit(node.lending, pair),
        )
        node = node.parent


def _limit(limits: Usage, pair: Pair) -> str:
    return write_kubernetes(limits[pair]) if pair in limits else ""


def _signed(amount: int) -> str:
    return f"-{write_kubernetes(-amount)}" if amount < 0 else write_kubernetes(amount)


def usage_views(queues: Queues) -> list[UsageView]:
    """Every queue and cohort with what it uses of each pair, parents before children."""
    tops = [
        node
        for node in (*queues.tree.cohorts.values(), *queues.tree.queues.values())
        if node.parent is None or node.broken
    ]
    return [view for top in tops for view in _usage_below(top, 0)]


def _usage_below(node: QuotaNode, depth: int) -> Iterable[UsageView]:
    share = share_of(node)
    for pair in sorted({**node.subtree, **node.usage}):
        quota, used = node.subtree.get(pair, 0), node.usage.get(pair, 0)
        yield UsageView(
            name=node.name,
            kind="queue" if node.is_queue else "cohort",
            depth=depth,
            flavor=pair.flavor,
            resource=pair.resource,
            quota=quota,
            used=used,
            borrowed=max(0, used - quota) if node.parent is not None else 0,
            borrowing_limit=node.borrowing.get(pair),
            lending_limit=node.lending.get(pair),
            share=share.value,
        )
    if not node.broken:
        for child in node.children:
            yield from _usage_below(child, depth + 1)
