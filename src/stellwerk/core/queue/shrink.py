"""Partial admission: the most pods, between what a workload wants and what it needs, that work."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from stellwerk.core.model.queueing import PodSet

T = TypeVar("T")


def largest(pod_sets: Sequence[PodSet], good: Callable[[list[int]], T | None]) -> T | None:
    """What is found for the least reduction that is good, or nothing; all pod sets shrink alike."""
    spare = [
        one.count - (one.count if one.min_count is None else one.min_count) for one in pod_sets
    ]
    total = sum(spare)
    if not total:
        return None
    found: T | None = None
    low, high = 0, total + 1
    while low < high:
        middle = (low + high) // 2
        counts = [
            one.count - less * middle // total for one, less in zip(pod_sets, spare, strict=True)
        ]
        result = good(counts)
        if result is None:
            low = middle + 1
        else:
            found, high = result, middle
    return found
