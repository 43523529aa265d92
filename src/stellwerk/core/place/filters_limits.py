"""The filter of hard limits: claims that must be there, prices, latency and the end.

A limit on something that nobody knows of a cluster isn't met; a price that nobody told is 0. What
an hour costs is for `core.data.costing` to say.
"""

from __future__ import annotations

import numpy as np

from stellwerk.core.data.costing import usd_per_device_hour, usd_per_hour
from stellwerk.core.inventory.columns import FleetColumns, Floats
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.placement import Limits, Placement
from stellwerk.core.model.resources import Request
from stellwerk.core.place.filters import Verdict, requirement_bits

Estimates = dict[str, dict[str, float]]


def price_of(cluster: Cluster, request: Request | None, num_nodes: int) -> float:
    """What a cluster costs in an hour for ``num_nodes`` nodes of a request; NaN = unknown."""
    gpu = request.gpu if request is not None else None
    price = usd_per_hour(cluster, {gpu.kind: gpu.count} if gpu is not None else {}, num_nodes)
    return float("nan") if price is None else price


PRICE = "Price"
"""Among estimates: USD per hour of what is asked there, where that isn't one demand for all."""

WEIGHTED = "Weighted"
"""Among estimates: USD with what the time until the end is worth, where that was computed."""


def prices(
    columns: FleetColumns, placement: Placement, estimates: Estimates | None = None
) -> Floats:
    """The price per hour of each cluster for a placement's demand, or as it was estimated.

    It is `usd_per_hour` of all clusters at once.
    """
    if estimates and PRICE in estimates:
        return estimated(columns, estimates, PRICE)
    price = columns.numbers("usd_per_hour", "", lambda one: one.costs.usd_per_hour).values
    gpu = placement.demand.gpu if placement.demand is not None else None
    with np.errstate(invalid="ignore", over="ignore"):
        if gpu is not None:
            price = price + float(gpu.count) * _device_prices(columns, gpu.kind)
        price = price * float(max(1, placement.num_nodes))
        return np.where(np.isfinite(price) & (price >= 0), price, np.nan)


def _device_prices(columns: FleetColumns, kind: str) -> Floats:
    def read(cluster: Cluster) -> float:
        return usd_per_device_hour(cluster, kind)

    return columns.numbers("usd_per_device_hour", kind, read).values


def worst_latency(columns: FleetColumns, regions: tuple[str, ...]) -> Floats:
    """The longest way to a cluster from any of the regions; NaN where one isn't known."""
    worst = np.full(columns.size, -1.0)
    for region in regions:
        known = columns.latency.get(region, {})
        values = np.full(columns.size, np.nan)
        for name, ms in known.items():
            if name in columns.row:
                values[columns.row[name]] = ms
        worst = np.maximum(worst, values)
    return worst


def estimated(columns: FleetColumns, estimates: Estimates, name: str) -> Floats:
    """An estimate over all clusters; NaN where there is none."""
    values = np.full(columns.size, np.nan)
    for cluster, value in estimates.get(name, {}).items():
        if cluster in columns.row:
            values[columns.row[cluster]] = value
    return values


def limits(
    columns: FleetColumns, placement: Placement, estimates: Estimates, now_ms: int
) -> Verdict:
    """Who breaks a limit."""
    asked: Limits = placement.limits
    verdict = Verdict("Limits", np.zeros(columns.size, np.bool_))
    for one in asked.claims:
        verdict.failed |= ~requirement_bits(columns, "claims", one)
    if asked.usd_per_hour_max:
        verdict.failed |= ~(prices(columns, placement, estimates) <= asked.usd_per_hour_max)
    if asked.usd_max:
        verdict.failed |= ~(estimated(columns, estimates, "Cost") <= asked.usd_max)
    if asked.finish_by_ms:
        left_s = (asked.finish_by_ms - now_ms) / 1000
        verdict.failed |= ~(estimated(columns, estimates, "Finish") <= left_s)
    if asked.latency_ms and asked.client_regions:
        verdict.failed |= ~(worst_latency(columns, asked.client_regions) <= asked.latency_ms)
    return verdict
