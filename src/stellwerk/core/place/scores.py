"""The prioritizers over columns: an integer from -100 to 100 per cluster, and what it was made of.

Balance and Steady depend on decisions and so on the placement; all others are the same for every
placement with the same spec. Raw numbers have units; normalised they run from the worst (-100) to
the best (100) of the clusters that passed.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from stellwerk.core.inventory.columns import Bits, FleetColumns, Floats, Rows
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.placement import Placement, Prioritizer
from stellwerk.core.model.placing import Column
from stellwerk.core.place.compat import Rules
from stellwerk.core.place.filters import NEVER, tolerated_until
from stellwerk.core.place.filters_limits import (
    Estimates,
    estimated,
    prices,
    worst_latency,
)
from stellwerk.core.place.fragments import usable

Values = NDArray[np.int64]
OF_DECISIONS = ("Balance", "Steady")
RESOURCES = {"ResourceAllocatableCPU": "cpu", "ResourceAllocatableMemory": "memory"}
LOWER_IS_BETTER = ("Cost", "Start", "Transfer", "Latency", "Energy")
PREFER = "PreferNoSelect"


class Score:
    """One prioritizer over all rows. ``until_ms`` is when it changes by itself."""

    __slots__ = (
        "observed_ms", "raw", "stale", "title", "unit", "unknown", "until_ms", "values", "warning",
        "weight",
    )  # fmt: skip

    def __init__(self, title: str, weight: int, values: Values) -> None:
        self.title, self.weight, self.values = title, weight, values
        self.unit = self.warning = ""
        self.raw: Floats | None = None
        self.unknown: Bits | None = None
        self.stale: Bits | None = None
        self.observed_ms: Rows | None = None
        self.until_ms = NEVER


def spread_out(raw: Floats, passed: Bits, *, lower: bool = False) -> tuple[Values, Bits]:
    """Normalises raw numbers over those that passed; gives the values and who has none."""
    known = passed & np.isfinite(raw)
    values: Values = np.zeros(len(raw), np.int64)
    numbers = raw[known]
    if not len(numbers):
        return values, passed & ~known
    least, most = float(numbers.min()), float(numbers.max())
    if most == least:
        values[known] = 100
    else:
        ratio = (most - numbers if lower else numbers - least) / (most - least)
        values[known] = np.trunc((ratio - 0.5) * 2.0 * 100.0).astype(np.int64)
    return values, passed & ~known


def add_on(
    columns: FleetColumns, one: Prioritizer, passed: Bits, now_ms: int, rules: Rules
) -> Score:
    """The values of a score object."""
    column = columns.scores(one.resource, one.name)
    told = passed & ~np.isnan(column.values)
    has = passed & (column.until_ms > 0)
    expired = has & (column.until_ms < now_ms)
    good = told & ~expired
    values: Values = np.where(good, column.values, 0).astype(np.int64)
    if rules.clamps:
        values = np.clip(values, -100, 100)
    score = Score(one.title, one.weight, values)
    score.observed_ms = column.observed_ms
    ahead = column.until_ms[good & has]
    if rules.knows_unknown:
        score.unknown, score.stale = passed & ~good, expired & told
        score.raw = column.values
        if len(ahead):
            score.until_ms = int(ahead.min()) + 1
    if expired.any():
        order = np.flatnonzero(expired)
        names = " ".join(f"{columns.clusters[row].name}/{one.resource}" for row in order[:20])
        more = f" and {len(order) - 20} more" if len(order) > 20 else ""
        score.warning = f"AddOnPlacementScores {names}{more} expired"
    return score


def allocatable(columns: FleetColumns, one: Prioritizer, passed: Bits, rules: Rules) -> Score:
    """The most of a resource is best; a cluster that says nothing of it has no score."""
    resource = RESOURCES[one.name]
    if rules.knows_unknown:
        raw = columns.numbers("size", resource, _size_of(resource)).values
    else:
        raw = columns.amounts("allocatable", resource).values
        raw = np.where(np.isnan(columns.amounts("capacity", resource).values), np.nan, raw)
    raw = raw / 1000.0
    values, unknown = spread_out(raw, passed)
    score = Score(one.title, one.weight, values)
    score.raw, score.unit = raw, "bytes" if resource == "memory" else "CPUs"
    if rules.knows_unknown:
        score.unknown = unknown
    return score


def prefer(
    columns: FleetColumns, placement: Placement, weight: int, passed: Bits, now_ms: int
) -> Score | None:
    """Taints that ask to be avoided: -100 for a cluster with one that isn't tolerated."""
    values: Values = np.zeros(columns.size, np.int64)
    until = NEVER
    for row in columns.tainted:
        for taint in columns.clusters[row].taints if passed[row] else ():
            if taint.effect == PREFER:
                end = tolerated_until(taint, placement.tolerations, now_ms)
                values[row] = -100 if end == 0 else values[row]
                until = min(until, end or NEVER)
    if not values.any() and until == NEVER:
        return None
    score = Score(PREFER, weight, values)
    score.until_ms = until
    return score


def measured(
    columns: FleetColumns,
    one: Prioritizer,
    placement: Placement,
    passed: Bits,
    estimates: Estimates,
) -> Score:
    """A view of a number with a unit; who has none is unknown."""
    raw, unit = raw_numbers(columns, one.name, placement, estimates)
    values, unknown = spread_out(raw, passed, lower=one.name in LOWER_IS_BETTER)
    score = Score(one.title, one.weight, values)
    score.raw, score.unit, score.unknown = raw, unit, unknown
    return score


def raw_numbers(
    columns: FleetColumns, name: str, placement: Placement, estimates: Estimates
) -> tuple[Floats, str]:
    """The numbers behind a prioritizer or an objective, and their unit."""
    if name == "Cost" and name in estimates:
        return estimated(columns, estimates, name), "usd"
    if name == "Cost":
        return prices(columns, placement, estimates), "usd/h"
    if name == "Start" and name not in estimates:
        return columns.numbers("wait", "", lambda one: one.wait_s).values, "s"
    if name == "Energy" and name not in estimates:
        return columns.numbers("watts", "", lambda one: one.costs.watts or np.nan).values, "W"
    if name == "Latency":
        regions = placement.limits.client_regions or tuple(sorted(columns.latency))
        worst = worst_latency(columns, regions)
        return (worst if regions else np.full(columns.size, np.nan)), "ms"
    if name == "Reliability":
        return columns.numbers("reliability", "", _reliability).values, "of 1"
    if name == "Fragmentation" and name in estimates:
        return estimated(columns, estimates, name), "of 1"
    if name == "Fragmentation":
        return fragmentation(columns, placement), "of 1"
    return estimated(columns, estimates, name), "Wh" if name == "Energy" else "s"


def fragmentation(columns: FleetColumns, placement: Placement) -> Floats:
    """The part of free device memory that is on devices free as a whole, once demand is placed."""
    values = np.full(columns.size, np.nan)
    for row, cluster in enumerate(columns.clusters):
        if cluster.nodes:
            taken = columns.taken.get(cluster.name, ())
            values[row] = usable(cluster, taken, placement.demand, placement.num_nodes)
    return values


def balance(counts: Rows, most: int) -> Values:
    """Balance by the number of decisions that others have for each cluster."""
    return balance_steps(most)[counts]


@lru_cache(maxsize=64)
def balance_steps(most: int) -> Values:
    """Balance by number of decisions, where the most-used cluster has ``most``."""
    return (
        np.trunc(100.0 * (0.5 - np.arange(max(most, 0) + 1) / max(most, 1.0))).astype(np.int64) * 2
    )


def packed(values: NDArray[np.int64] | Floats) -> Column:
    """Packs numbers as narrow as they allow; whole floats become integers."""
    numbers = values
    if numbers.dtype.kind == "f":
        finite = np.nan_to_num(numbers, nan=0.0, posinf=0.0, neginf=0.0)
        whole = np.all(finite == np.trunc(finite)) and np.abs(finite).max(initial=0) < 2**53
        if not whole:
            return Column("d", numbers.astype("<f8").tobytes())
        numbers = finite.astype(np.int64)
    least, most = int(numbers.min(initial=0)), int(numbers.max(initial=0))
    scale = 1
    if least < -128 or most > 127:
        scale = max(1, int(np.gcd.reduce(numbers)))
        numbers, least, most = numbers // scale, least // scale, most // scale
    for code, width, limit in (("b", "<i1", 1 << 7), ("h", "<i2", 1 << 15), ("i", "<i4", 1 << 31)):
        if -limit <= least and most < limit:
            return Column(code, numbers.astype(width).tobytes(), scale)
    return Column("q", numbers.astype("<i8").tobytes(), scale)


def unpacked(column: Column) -> NDArray[np.int64] | Floats:
    """Reads packed numbers."""
    kinds = {"b": "<i1", "h": "<i2", "i": "<i4", "q": "<i8", "d": "<f8"}
    read = np.frombuffer(column.data, kinds[column.code])
    return read.astype(np.float64) if column.code == "d" else read.astype(np.int64) * column.scale


def _size_of(resource: str) -> Callable[[Cluster], float]:
    def read(cluster: Cluster) -> float:
        told = cluster.allocatable.get(resource)
        if told is not None:
            return float(told)
        if not cluster.nodes:
            return float("nan")
        ready = [node for node in cluster.nodes if node.state == "ready"]
        if resource == "cpu":
            return float(sum(node.cpus_milli for node in ready))
        return 1000.0 * sum(node.memory_bytes for node in ready)

    return read


def _reliability(cluster: Cluster) -> float:
    return float("nan") if cluster.reliability is None else cluster.reliability
