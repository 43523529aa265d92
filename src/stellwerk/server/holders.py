"""Says who holds what a waiting workload waits for, and when that is free again.

How long work runs is known as for forecasts: from its time limit and from earlier runs of the same
work. Nothing decides by it.
"""

from collections.abc import Mapping

from stellwerk.core.future import UNKNOWN
from stellwerk.core.lengths import History
from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.workload import Workload
from stellwerk.core.place.amounts import amount
from stellwerk.core.plan import KEPT_AT_ONCE, OVERTAKEN_MS
from stellwerk.core.queueing_objects import strategy_of
from stellwerk.core.view import View
from stellwerk.server.models import DecisionView
from stellwerk.server.outlook import knowledge
from stellwerk.server.services import PROJECT
from stellwerk.server.waiting_models import HolderView
from stellwerk.store import Store

MOST = 8
LATER = "later"
"""The verdict of a cluster that has what is wanted, but not free."""


def holders_of(
    store: Store,
    lengths: History,
    view: View,
    waiting: Workload,
    decision: DecisionView | None,
) -> tuple[list[HolderView], int]:
    """Who holds most of what a decision lacked, where it is to be had; and how many others."""
    wanted: dict[str, dict[str, None]] = {}
    for candidate in decision.candidates if decision is not None else ():
        if candidate.verdict == LATER:
            lacks = wanted.setdefault(candidate.cluster, {})
            lacks.update(dict.fromkeys(short.resource for short in candidate.shortfalls))
    if not wanted:
        return [], 0
    known = knowledge(store, lengths, view, {}).live
    found = []
    for cluster in view.clusters:
        lacks = wanted.get(cluster.cluster.name, {})
        for run, allocation in cluster.allocations:
            held = _held(allocation, lacks)
            if any(held.values()):
                found.append((-max(held.values()), run, cluster.cluster.name, held))
    found.sort()
    holders = []
    for _, run, place, held in found[:MOST]:
        row = store.workload(workload_of(run), PROJECT)
        if row is None:
            continue
        began_ms, length = known.get(run, (view.now_ms, UNKNOWN))
        likely_ms, longest_ms = length.median_ms, length.limit_ms or None
        holders.append(
            HolderView(
                id=row.workload.id,
                name=row.workload.name,
                owner=row.workload.owner,
                cluster=place,
                holds=_told(held),
                since_ms=began_ms,
                likely_ms=None if likely_ms is None else began_ms + likely_ms,
                latest_ms=None if longest_ms is None else began_ms + longest_ms,
                passed=_passed(row.workload, run, waiting),
            )
        )
    return holders, len(found) - len(holders)


def _passed(holder: Workload, run: RunId, waiting: Workload) -> bool:
    """Whether it was behind in the queue and was started while the other one waited."""
    behind = (-holder.priority, holder.order) > (-waiting.priority, waiting.order)
    planned = [one.planned_ms for one in holder.runs if one.id == run]
    return behind and any(at_ms >= waiting.queued_ms for at_ms in planned)


def passed_until_ms(view: View, waiting: Workload, decision: DecisionView | None) -> int | None:
    """Until when smaller work may pass what waits for room; from then on it is kept for it.

    None where no cluster could have the room, for one to which it was promised, and for those
    that are after others of their shape or after as many as room is kept for. In a StrictFIFO queue
    nobody passes.
    """
    if waiting.claim is not None or _is_strict(view, waiting):
        return None
    has_place = decision is not None and any(one.verdict == LATER for one in decision.candidates)
    heads = sorted(
        (-shape.heads[0].priority, shape.heads[0].order, shape.heads[0]) for shape in view.shapes
    )
    overdue = 0
    for _, _, head in heads if has_place else ():
        until_ms = head.queued_ms + OVERTAKEN_MS
        if head.id == waiting.id:
            return until_ms if overdue < KEPT_AT_ONCE or until_ms > view.now_ms else None
        overdue += until_ms <= view.now_ms
    return None


def _is_strict(view: View, waiting: Workload) -> bool:
    shape = next((one.shape for one in view.shapes if one.id == waiting.shape), None)
    if view.queueing is None or shape is None:
        return False
    return strategy_of(view.queueing, shape.queue) == "StrictFIFO"


def _held(allocation: Allocation, lacks: Mapping[str, None]) -> dict[str, int]:
    """How much an allocation holds of each resource that is lacking."""
    held: dict[str, int] = {}
    for resource in lacks:
        match resource:
            case "CPUs":
                held[resource] = sum(part.cpus_milli for part in allocation.nodes)
            case "memory":
                held[resource] = sum(part.memory_bytes for part in allocation.nodes)
            case "disk":
                held[resource] = sum(part.disk_bytes for part in allocation.nodes)
            case "nodes at once":
                held[resource] = len(allocation.nodes)
            case "GPU memory":
                shares = (share for part in allocation.nodes for share in part.devices)
                held[resource] = sum(share.memory_bytes for share in shares)
            case _:
                held[resource] = sum(len(part.devices) for part in allocation.nodes)
    return held


def _told(held: Mapping[str, int]) -> str:
    units = {"CPUs": "milli", "memory": "bytes", "disk": "bytes", "GPU memory": "bytes"}
    many = {"nodes at once": "nodes"}
    single = {("CPUs", 1000): "CPU", ("nodes at once", 1): "node"}
    return ", ".join(
        f"{amount(count, units.get(resource, ''))} "
        f"{single.get((resource, count), many.get(resource, resource))}"
        for resource, count in held.items()
        if count
    )
