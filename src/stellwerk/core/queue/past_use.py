"""Admission fair sharing: past use of local queues, decayed, orders what waits in one queue."""

from __future__ import annotations

from collections.abc import Mapping

from stellwerk.core.model.queueing import LocalQueue, PastUse

NO_WEIGHT = float("inf")


def alpha(elapsed_ms: int, half_life_ms: int) -> float:
    """How much of the present counts after so long: half of it after the half-life."""
    if half_life_ms <= 0:
        return 1.0
    return 1.0 - float(0.5 ** (elapsed_ms / half_life_ms))


def sampled(
    old: Mapping[str, float], now: Mapping[str, float], elapsed_ms: int, rules: PastUse
) -> dict[str, float]:
    """Past use after a sample of what is used now."""
    part = alpha(elapsed_ms, rules.half_life_ms)
    names = {**old, **now}
    return {
        name: old.get(name, 0.0) * (1 - part) + now.get(name, 0.0) * part for name in sorted(names)
    }


def penalty(requests: Mapping[str, int], rules: PastUse) -> dict[str, float]:
    """What an admission counts at once, so that a burst doesn't slip through between samples.

    Without a half-life nothing of the past counts, and so nothing in advance.
    """
    part = alpha(rules.sampling_ms, rules.half_life_ms) if rules.half_life_ms > 0 else 0.0
    return {name: amount * part for name, amount in requests.items()}


def weighed(queue: LocalQueue, consumed: Mapping[str, float], rules: PastUse) -> float:
    """One number to order by, lowest first; a queue of weight 0 comes last."""
    if queue.weight <= 0:
        return NO_WEIGHT
    total = 0.0
    for name in sorted(consumed):
        total += rules.weights.get(name, 1.0) * consumed[name]
    return total / queue.weight
