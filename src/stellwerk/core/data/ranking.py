"""Decides which estimate is better: by finish, start, cost, or money and time together.

What is unknown never beats what is known. Ties go to the other of finish and cost,
then to the name.
"""

import math
from collections.abc import Iterable

from stellwerk.core.model.estimates import ClusterEstimate, Estimate, JobProfile
from stellwerk.core.model.placement import Objective

Order = tuple[tuple[bool, float], ...]
"""Compares numbers, lowest first; True in front stands for an unknown one."""

DIGITS = 9
"""Numbers that are equal to this many digits are equal: sums depend on the order of their parts."""


def rank(job: JobProfile, estimates: Iterable[ClusterEstimate]) -> tuple[ClusterEstimate, ...]:
    """The admitted clusters, best first."""
    admitted = [one for one in estimates if one.admitted]
    return tuple(
        sorted(admitted, key=lambda one: (order(job.objective, one), one.cluster, one.way))
    )


def order(objective: Objective, one: ClusterEstimate) -> Order:
    """What the ranking by an objective compares; ``score`` is not an estimate: finish stands in."""
    return order_of(objective, one.start, one.finish, one.cost, one.egress, one.objective)


def order_of(
    objective: Objective,
    start: Estimate,
    finish: Estimate,
    cost: Estimate,
    egress: Estimate,
    weighted: Estimate,
) -> Order:
    """The same from single estimates; the last parts decide where runtime or price are unknown."""
    rest = (start, egress)
    first: tuple[Estimate, ...]
    match objective:
        case "cost":
            first = (cost, finish)
        case "start":
            first = (start, finish, cost)
        case "weighted":
            first = (weighted, finish, cost)
        case _:
            first = (finish, cost) if finish.value is not None else (finish, start, cost)
    return tuple(
        (unknown, _rounded(value)) for unknown, value in (e.order for e in (*first, *rest))
    )


def views(estimates: Iterable[ClusterEstimate]) -> dict[str, dict[str, float]]:
    """Known numbers by the name of a prioritizer or objective, and by cluster.

    Start, Transfer and Finish in s, Cost in USD, Energy in Wh; of admitted clusters only.
    """
    found: dict[str, dict[str, float]] = {
        name: {} for name in ("Start", "Transfer", "Finish", "Cost", "Energy")
    }
    for one in estimates:
        if not one.admitted:
            continue
        numbers = (one.start, one.transfer, one.finish, one.cost, one.energy)
        for (name, values), estimate in zip(found.items(), numbers, strict=True):
            if estimate.value is not None:
                values[one.cluster] = estimate.value * (1000 if name == "Energy" else 1)
    return found


def objective_of(
    objective: Objective, usd_per_hour: float, start: Estimate, finish: Estimate, cost: Estimate
) -> Estimate:
    """The estimate that an objective compares first."""
    match objective:
        case "cost":
            return cost
        case "start":
            return start
        case "weighted":
            return weighted_of(cost, finish, usd_per_hour)
        case _:
            return finish


def weighted_of(cost: Estimate, finish: Estimate, usd_per_hour: float) -> Estimate:
    """Money plus what an hour until the end is worth."""
    if cost.value is None or finish.value is None:
        return Estimate(None, "usd", "unknown")
    value = cost.value + usd_per_hour * finish.value / 3600
    ages = [age for age in (cost.age_ms, finish.age_ms) if age is not None]
    return Estimate(
        value if math.isfinite(value) else None,
        "usd",
        "expected" if "expected" in {cost.basis, finish.basis} else cost.basis,
        max(ages, default=None),
    )


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
