"""Puts together who held how much over time: queues and cohorts, people, LocalQueues."""

import math
from collections.abc import Iterable, Sequence

from stellwerk.core.describe.fleet_amounts import write_kubernetes
from stellwerk.core.fairness import HeldOver, Key, Span, held_over
from stellwerk.core.model.queueing import Pair
from stellwerk.core.model.resources import DEFAULT_QUEUE
from stellwerk.core.model.workload import Workload
from stellwerk.core.queue.past_use import weighed
from stellwerk.core.queueing_objects import QueueingNow
from stellwerk.core.queueing_quota import PairUse, QuotaOf, quota_of
from stellwerk.server.fair_models import Fair, FairPair, FairPerson, FairRow, PastUseRow
from stellwerk.server.usage import UsedLine, add_up

HOUR_MS = 3_600_000
MILLI = 1000


def fair_of(
    now: QueueingNow, workloads: Iterable[Workload], since_ms: int, now_ms: int, seq: int
) -> Fair:
    """The whole answer, from all workloads that there are and were."""
    known = list(workloads)
    rows = quota_of(now.objects, now.live)
    spans = [span for one in known for span in spans_of(one, now_ms)]
    over = held_over(rows, spans, since_ms, now_ms)
    rules = now.objects.settings.past_use
    return Fair(
        queues=_rows(rows, over),
        people=_people(add_up(known, "person", since_ms, now_ms, months=False)),
        past_use=_past(now),
        half_life_ms=rules.half_life_ms if rules is not None else 0,
        since_ms=since_ms,
        until_ms=now_ms,
        seq=seq,
    )


def spans_of(workload: Workload, now_ms: int, by: str = "") -> Iterable[Span]:
    """What its runs held of quota, and when: from when it was reserved to the end, or until now."""
    for run in workload.runs:
        if run.holding is not None:
            for pair, amount in run.holding.usage.items():
                name = by or run.holding.queue
                yield Span(name, pair, amount, run.planned_ms, run.ended_ms or now_ms)


def _rows(rows: Sequence[QuotaOf], over: dict[Key, HeldOver]) -> list[FairRow]:
    found, root = [], rows[0] if rows else None
    for one in rows:
        root = one if one.depth == 0 or root is None else root
        pairs = [_pair(one, root, pair, over) for pair in one.pairs]
        found.append(FairRow(one.name, one.kind, one.depth, one.weight, one.share, pairs))
    return found


def _pair(one: QuotaOf, root: QuotaOf, pair: PairUse, over: dict[Key, HeldOver]) -> FairPair:
    key = Pair(pair.flavor, pair.resource)
    mine = over.get((one.name, key), HeldOver())
    all_held = over.get((root.name, key), HeldOver()).held
    whole = next((p.quota for p in root.pairs if (p.flavor, p.resource) == key), 0)
    own = pair.quota if one.kind == "cohort" else pair.nominal or 0
    return FairPair(
        flavor=pair.flavor,
        resource=pair.resource,
        nominal="" if pair.nominal is None else write_kubernetes(pair.nominal),
        used=write_kubernetes(pair.used),
        borrowed_now=write_kubernetes(pair.borrowed),
        held_h=mine.held / MILLI / HOUR_MS,
        borrowed_h=mine.borrowed / MILLI / HOUR_MS,
        lent_h=mine.lent / MILLI / HOUR_MS,
        part=mine.held / all_held if all_held else None,
        own_part=own / whole if whole else None,
    )


def _people(lines: Sequence[UsedLine]) -> list[FairPerson]:
    gpus, cpus = sum(one.gpu_ms for one in lines), sum(one.cpu_ms for one in lines)
    return [
        FairPerson(
            who=one.who,
            gpu_h=one.gpu_ms / HOUR_MS,
            cpu_h=one.cpu_ms / HOUR_MS,
            gpu_part=one.gpu_ms / gpus if gpus else None,
            cpu_part=one.cpu_ms / cpus if cpus else None,
            live=one.live,
        )
        for one in lines
    ]


def _past(now: QueueingNow) -> list[PastUseRow]:
    """Of each LocalQueue, where the Configuration has rules: what queues order them by."""
    rules = now.objects.settings.past_use
    if rules is None:
        return []
    doors = {one.key: one for one in now.objects.local_queues}
    used: dict[str, dict[str, float]] = {key: {} for key in doors}
    for name, amounts in now.past_use.items():
        namespace, _, plain = name.partition("/")
        for key in (f"{namespace}/{plain}", f"{DEFAULT_QUEUE}/{plain}"):
            if key in doors:
                for resource, amount in amounts.items():
                    used[key][resource] = used[key].get(resource, 0.0) + amount
                break
    rows = []
    for key, local in sorted(doors.items()):
        number = weighed(local, used[key], rules) / MILLI
        told = {name: amount / MILLI for name, amount in sorted(used[key].items())}
        finite = None if math.isinf(number) else number
        rows.append(PastUseRow(key, local.queue, local.weight, told, finite))
    return rows
