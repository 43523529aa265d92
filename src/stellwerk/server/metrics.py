"""Writes what is known now in the text format of Prometheus.

What means the same as in Kueue has its name there; everything else begins with ``stellwerk_``.
Counters and waits begin anew with the server. Amounts are whole units: CPUs, bytes, devices.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Literal, NamedTuple

from stellwerk.core.model.workload import Workload
from stellwerk.core.queueing_objects import QueueingNow
from stellwerk.core.queueing_quota import READY, QuotaOf, queues_stand, quota_of
from stellwerk.core.view import View
from stellwerk.server.tally import BUCKETS_S, Tally, Waits

CONTENT_TYPE = "text/plain; version=0.0.4"
MILLI = 1000
Kind = Literal["gauge", "counter", "histogram"]
Labels = Mapping[str, str]


class Sample(NamedTuple):
    """One number; ``suffix`` is what histograms add to a name."""

    labels: Labels
    value: float
    suffix: str = ""


class Family(NamedTuple):
    """All numbers of one name."""

    name: str
    kind: Kind
    help: str
    samples: list[Sample]


def text_of(families: Iterable[Family]) -> str:
    """The whole page; a family without a number is left out."""
    lines: list[str] = []
    for one in families:
        if one.samples:
            lines += [f"# HELP {one.name} {one.help}", f"# TYPE {one.name} {one.kind}"]
            lines += [_line(one.name, sample) for sample in one.samples]
    return "".join(f"{line}\n" for line in lines)


def _line(name: str, sample: Sample) -> str:
    labels = ",".join(f'{key}="{_escaped(value)}"' for key, value in sample.labels.items())
    value = f"{sample.value:.15g}"
    return (
        f"{name}{sample.suffix}{{{labels}}} {value}" if labels else f"{name}{sample.suffix} {value}"
    )


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def families_of(now: QueueingNow, view: View, tally: Tally, seq: int) -> Iterator[Family]:
    """Everything that is told."""
    yield from _of_queues(now)
    yield from _of_quota(quota_of(now.objects, now.live))
    yield from of_tally(tally)
    yield from _of_the_rest(now.live, view, tally, seq)


def _of_queues(now: QueueingNow) -> Iterator[Family]:
    stands = queues_stand(now.objects, now.live, now.doors)
    pending, status = [], []
    for one in stands:
        name = one.queue.name
        is_ready = one.status == READY
        for state, counts in (("active", is_ready), ("inadmissible", not is_ready)):
            labels = {"cluster_queue": name, "status": state}
            pending.append(Sample(labels, len(one.pending) if counts else 0))
        for state, holds in (("active", is_ready), ("pending", not is_ready)):
            status.append(Sample({"cluster_queue": name, "status": state}, int(holds)))
    yield Family("kueue_pending_workloads", "gauge", "Those that wait in a ClusterQueue.", pending)
    yield Family("kueue_cluster_queue_status", "gauge", "1: it is in that state.", status)
    reserving = [Sample({"cluster_queue": s.queue.name}, len(s.reserving)) for s in stands]
    admitted = [Sample({"cluster_queue": s.queue.name}, len(s.admitted)) for s in stands]
    yield Family(
        "kueue_reserving_active_workloads", "gauge", "Those that hold or were promised quota.",
        reserving,
    )  # fmt: skip
    yield Family("kueue_admitted_active_workloads", "gauge", "Those that have a run.", admitted)


def _of_quota(rows: list[QuotaOf]) -> Iterator[Family]:
    names: tuple[tuple[str, str], ...] = (
        ("resource_usage", "What is used of a flavor's resource."),
        ("nominal_quota", "The quota of its own."),
        ("borrowing_limit", "How much may be borrowed; no line where there is no limit."),
        ("lending_limit", "How much is lent; no line where there is no limit."),
    )
    found: dict[str, list[Sample]] = {name: [] for name, _ in names}
    shares: dict[str, list[Sample]] = {"cluster_queue": [], "cohort": []}
    for one in rows:
        if one.kind == "cohort":
            shares["cohort"].append(Sample({"cohort": one.name}, one.share))
            continue
        own = {"cohort": one.parent, "cluster_queue": one.name}
        shares["cluster_queue"].append(Sample(own, one.share))
        for pair in one.pairs:
            labels = {**own, "flavor": pair.flavor, "resource": pair.resource}
            numbers = (pair.used, pair.nominal, pair.borrowing_limit, pair.lending_limit)
            for (name, _), number in zip(names, numbers, strict=True):
                if number is not None:
                    found[name].append(Sample(labels, number / MILLI))
    for name, help in names:
        yield Family(f"kueue_cluster_queue_{name}", "gauge", help, found[name])
    for kind, samples in shares.items():
        help = "What is borrowed of what could be lent, in thousandths, by weight."
        yield Family(f"kueue_{kind}_weighted_share", "gauge", help, samples)


def of_tally(tally: Tally) -> Iterator[Family]:
    """What was counted since the server began."""
    kinds = (
        (
            "quota_reserved",
            tally.reserved,
            "From when it was queued until it got quota and a place.",
        ),
        ("admission", tally.waits, "From when it was queued until it was started."),
        ("admission_checks", tally.checked, "From when it got quota until its checks agreed."),
    )
    for what, found, help in kinds:
        waits = [sample for name, one in found.items() for sample in _histogram(name, one)]
        yield Family(f"kueue_{what}_wait_time_seconds", "histogram", help, waits)
    totals = (
        ("quota_reserved", tally.reserved, "Those that got quota."),
        ("admitted", tally.waits, "Those that were started."),
    )
    for what, found, help in totals:
        total = [Sample({"cluster_queue": name}, one.count) for name, one in found.items()]
        yield Family(f"kueue_{what}_workloads_total", "counter", help, total)
    preempted = [
        Sample({"preempting_cluster_queue": queue, "reason": why}, count)
        for (queue, why), count in tally.preempted.items()
    ]
    yield Family("kueue_preempted_workloads_total", "counter", "Stopped for others.", preempted)
    evicted = [
        Sample({"cluster_queue": queue, "reason": "Preempted"}, count)
        for queue, count in tally.evicted.items()
    ]
    yield Family("kueue_evicted_workloads_total", "counter", "Stopped and put back.", evicted)
    ended = [Sample({"cluster_queue": queue}, count) for queue, count in tally.finished.items()]
    yield Family("kueue_finished_workloads_total", "counter", "Those that are over.", ended)


def _histogram(queue: str, waits: Waits) -> Iterator[Sample]:
    labels, so_far = {"cluster_queue": queue}, 0
    for bound, count in zip(BUCKETS_S, waits.buckets, strict=True):
        so_far += count
        yield Sample({**labels, "le": str(bound)}, so_far, "_bucket")
    yield Sample({**labels, "le": "+Inf"}, waits.count, "_bucket")
    yield Sample(labels, waits.sum_s, "_sum")
    yield Sample(labels, waits.count, "_count")


def _of_the_rest(live: Iterable[Workload], view: View, tally: Tally, seq: int) -> Iterator[Family]:
    phases: dict[str, int] = {}
    for one in live:
        phases[one.phase] = phases.get(one.phase, 0) + 1
    counted = [Sample({"phase": phase}, count) for phase, count in sorted(phases.items())]
    yield Family("stellwerk_workloads", "gauge", "Live workloads by phase.", counted)
    yield Family("stellwerk_journal_seq", "gauge", "The newest record.", [Sample({}, seq)])
    devices, taken = [], []
    for part in view.clusters:
        labels = {"cluster": part.cluster.name}
        ready = sum(len(n.devices) for n in part.cluster.nodes if n.state == "ready")
        used = sum(len(n.devices) for _, held in part.allocations for n in held.nodes)
        devices.append(Sample(labels, ready))
        taken.append(Sample(labels, used))
    yield Family("stellwerk_cluster_devices", "gauge", "Accelerators on nodes in use.", devices)
    yield Family("stellwerk_cluster_devices_held", "gauge", "Those that runs hold.", taken)
    told = tally.forecasts
    kinds = {
        "within_p50": told.within_p50, "within_p90": told.within_p90, "unknown": told.unknown,
        "all": told.starts + told.unknown,
    }  # fmt: skip
    starts = [Sample({"came": kind}, count) for kind, count in kinds.items()]
    yield Family("stellwerk_forecast_starts_total", "counter", "Starts that were forecast.", starts)
