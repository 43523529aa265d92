"""Whether one of a run's abort rules holds, by what the run has told of itself. Pure.

A rule that nobody can judge (no metrics yet, no word of the GPU) doesn't hold: a run is never ended
for what isn't known.
"""

import math
from collections.abc import Iterable, Mapping

from stellwerk.core.model.endings import IDLE
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.task import AbortRule
from stellwerk.core.model.telemetry import Metric, Telemetry


def should_abort(rules: Iterable[AbortRule], told: Telemetry) -> Reason | None:
    """Gives why a run is to be ended: the first of its rules that holds, with the numbers."""
    for rule in rules:
        reason = _held(rule, told)
        if reason is not None:
            return reason
    return None


def _held(rule: AbortRule, told: Telemetry) -> Reason | None:
    limit_ms = rule.for_ms or 0
    match rule.kind:
        case "not-finite":
            return _not_finite(told.metrics, rule.metric)
        case "no-progress":
            if told.quiet_ms is None or told.quiet_ms < limit_ms:
                return None
            return Reason("aborted_no_progress", {"quiet_ms": limit_ms, **_newest(told.metrics)})
        case "gpu-idle":
            if told.gpu_idle_ms is None or told.gpu_idle_ms < limit_ms:
                return None
            return Reason("aborted_gpu_idle", {"idle_ms": limit_ms})
        case "idle":
            if told.idle_ms is None or told.idle_ms < limit_ms:
                return None
            return Reason(IDLE, {"idle_ms": limit_ms})


def _not_finite(metrics: Mapping[str, Metric], wanted: str | None) -> Reason | None:
    for name, metric in metrics.items():
        if metric.not_finite and wanted in {None, name}:
            params: dict[str, Param] = {"metric": name}
            if not math.isfinite(metric.last):
                params["value"] = str(metric.last)
            if metric.bad_step is not None:
                params["step"] = metric.bad_step
            return Reason("aborted_not_finite", params)
    return None


def _newest(metrics: Mapping[str, Metric]) -> dict[str, Param]:
    """The highest step that any metric has come to, if they have steps."""
    steps = [metric.step for metric in metrics.values() if metric.step is not None]
    return {"step": max(steps)} if steps else {}
