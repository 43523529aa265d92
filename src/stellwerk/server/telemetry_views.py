"""What a run tells of itself, as the API says it: JSON has no NaN, so such a value is a word."""

import math

import msgspec

from stellwerk.core.model.telemetry import Metric, Usage
from stellwerk.core.model.workload import Run


class MetricView(msgspec.Struct, frozen=True):
    """The values of one name so far. `last` is a number, or `nan`, `inf`, `-inf`; `min` and `max`
    are of the finite values, and `not_finite` counts the others.
    """

    last: float | str
    step: int | None
    at_ms: int
    n: int
    min: float | None
    max: float | None
    not_finite: int


class UsageView(msgspec.Struct, frozen=True, kw_only=True):
    """What the newest run uses, as sampled at `at_ms`, with peaks. Of a run that is over the peaks
    and the processor time are left.
    """

    at_ms: int
    cpus: float | None = None
    cpu_ms: int
    memory_bytes: int | None = None
    processes: int | None = None
    gpu_memory_bytes: int | None = None
    gpu_busy_percent: int | None = None
    peak_memory_bytes: int
    peak_processes: int
    peak_gpu_memory_bytes: int | None = None
    peak_gpu_card_bytes: int | None = None


def metric_view(metric: Metric) -> MetricView:
    """One metric."""
    return MetricView(
        last=metric.last if math.isfinite(metric.last) else str(metric.last),
        step=metric.step,
        at_ms=metric.at_ms,
        n=metric.n,
        min=metric.min,
        max=metric.max,
        not_finite=metric.not_finite,
    )


def usage_view(run: Run | None, sampled: Usage | None) -> UsageView | None:
    """What a run uses or has used; nothing if nobody measured it."""
    if run is None:
        return None
    if run.end is None:
        return None if sampled is None else UsageView(**msgspec.structs.asdict(sampled))
    end = run.end
    if not end.peak_memory_bytes and not end.cpu_ms:
        return None
    return UsageView(
        at_ms=end.ended_at_ms or run.ended_ms,
        cpu_ms=end.cpu_ms,
        peak_memory_bytes=end.peak_memory_bytes,
        peak_processes=end.peak_processes,
        peak_gpu_memory_bytes=end.peak_gpu_memory_bytes or None,
        peak_gpu_card_bytes=end.peak_gpu_card_bytes or None,
    )
