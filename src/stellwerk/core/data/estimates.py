"""Decides what a job would take on each cluster, and which clusters can't be had, with why.

Missing bytes over the link give the transfer; transfer and wait the start; runtime and speed the
finish; prices the cost. A cluster is rejected before any ranking: for residency, for want of a
source, of room for the data, of an open window, of time before the deadline. All that hold are
said.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from stellwerk.core.data.choosing import Choice, choose
from stellwerk.core.data.costing import (
    WHOLE,
    Missing,
    Site,
    energy_kwh,
    site_of,
)
from stellwerk.core.data.names import on_hub
from stellwerk.core.data.ranking import Order, objective_of, order
from stellwerk.core.data.sources import Grounds, Need, Offer, broken_rule
from stellwerk.core.data.units import at_least_data, show_data
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.estimates import (
    Basis,
    ClusterEstimate,
    Estimate,
    HeldPart,
    JobProfile,
    Unit,
    Way,
)
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.reasons import Param, Reason

ROOM = "room"
"""The kind of cluster whose nodes each need a copy of their own."""


def estimate_all(
    job: JobProfile,
    fleet: Fleet | Grounds,
    clusters: Iterable[Cluster],
    now_ms: int,
    waits: Mapping[str, float] | None = None,
) -> tuple[ClusterEstimate, ...]:
    """An estimate for each cluster, in the order given; on each the best way to feed its nodes.

    ``waits`` has, by cluster, the seconds until it has room for the job; what isn't in there waits
    as the cluster itself tells. Pass `Grounds` instead of a fleet to prepare it once for many jobs.
    """
    grounds = fleet if isinstance(fleet, Grounds) else Grounds(fleet)
    needs = [grounds.need(data) for data in job.data]
    waits = waits or {}
    found = []
    for cluster in clusters:
        tried = [
            _estimate(job, grounds, needs, cluster, way, now_ms, waits)
            for way in ways(job, grounds, cluster)
        ]
        found.append(tried[0] if len(tried) == 1 else min(tried, key=partial(_order, job)))
    return tuple(found)


def _order(job: JobProfile, one: ClusterEstimate) -> tuple[bool, Order, str]:
    return not one.admitted, order(job.objective, one), one.way


def estimate_ways(
    job: JobProfile,
    fleet: Fleet | Grounds,
    cluster: Cluster,
    offered: Iterable[Way],
    now_ms: int,
    waits: Mapping[str, float] | None = None,
) -> tuple[ClusterEstimate, ...]:
    """An estimate of one cluster for each way to feed its nodes, in the order given."""
    grounds = fleet if isinstance(fleet, Grounds) else Grounds(fleet)
    needs = [grounds.need(data) for data in job.data]
    return tuple(
        _estimate(job, grounds, needs, cluster, way, now_ms, waits or {}) for way in offered
    )


def ways(job: JobProfile, fleet: Grounds, cluster: Cluster) -> tuple[Way, ...]:
    """How a cluster's nodes could be fed: those of a room one by one, or from one another.

    What nodes pass on travels over the link that leads from the cluster to itself, if one is known.
    """
    if cluster.kind != ROOM or job.nodes <= 1:
        return (WHOLE,)
    one_by_one = Way("copy-per-node", copies_over_uplink=job.nodes)
    inner = fleet.inner(cluster.name)
    if inner is None:
        return (one_by_one,)
    return one_by_one, Way("fan-out", rounds_in_switch=1, switch_bits_per_s=inner.bits_per_s)


def _estimate(
    job: JobProfile,
    grounds: Grounds,
    needs: Sequence[Need],
    cluster: Cluster,
    way: Way,
    now_ms: int,
    waits: Mapping[str, float],
) -> ClusterEstimate:
    missing = [
        Missing(need, grounds.catalogue.held(cluster, need.data, need.key)) for need in needs
    ]
    wait_s = waits.get(cluster.name, cluster.wait_s)
    site = site_of(job, cluster, missing, way, now_ms, wait_s)
    offered = [grounds.offers(cluster, one.need) if one.bytes > 0 else [] for one in missing]
    choice = choose(job, site, offered)
    rejections = [
        *_residency(cluster, needs),
        *_sources(cluster, missing, offered),
        *_room(job, cluster, missing),
        *choice.late,
    ]
    told = grounds.fleet.told.get(cluster.name, {})
    ages = {block: one.at_ms for block, one in told.items()}
    return _assembled(job, site, choice, rejections, ages)


def _residency(cluster: Cluster, needs: Sequence[Need]) -> list[Reason]:
    return [reason for need in needs if (reason := broken_rule(cluster, need))]


def _sources(
    cluster: Cluster, missing: Sequence[Missing], offered: Sequence[Sequence[Offer]]
) -> list[Reason]:
    """What is missing and can come from nowhere."""
    found = []
    for one, offers in zip(missing, offered, strict=True):
        reasons = [offer.reason for offer in offers if offer.reason]
        if one.bytes <= 0 or len(reasons) < len(offers) or on_hub(one.need.data.name):
            continue
        numbers: dict[str, Param] = {
            "cluster": cluster.name,
            "data": one.need.data.name,
            "missing": show_data(one.bytes),
            "missing_bytes": math.ceil(one.bytes),
        }
        if reasons:
            sentences = dict.fromkeys(render(reason).sentence for reason in reasons)
            numbers["note"] = "; ".join(sentences)
        found.append(Reason("data_no_source", numbers))
    return found


def _room(job: JobProfile, cluster: Cluster, missing: Sequence[Missing]) -> list[Reason]:
    """Whether what must come has a place, with what could be thrown away for it."""
    need = sum(one.bytes for one in missing)
    if job.mode == "stream" or cluster.room_bytes is None or need <= 0:
        return []
    free, evictable = max(0, cluster.room_bytes), max(0, cluster.evictable_bytes)
    if need <= free + evictable:
        return []
    short = need - free - evictable
    numbers: dict[str, Param] = {
        "cluster": cluster.name,
        "missing": show_data(need),
        "free": show_data(free),
        "short": at_least_data(short),
        "short_bytes": math.ceil(short),
    }
    if evictable:
        numbers["evictable"] = show_data(evictable)
    if pinned := sum(held.bytes or 0 for held in cluster.held if held.pinned):
        numbers["pinned"] = show_data(pinned)
    return [Reason("data_room", numbers)]


def _assembled(
    job: JobProfile,
    site: Site,
    choice: Choice,
    rejections: Sequence[Reason],
    told_ms: Mapping[str, int],
) -> ClusterEstimate:
    result, cluster = choice.outcome, site.cluster
    basis = _basis(site.missing)
    held_age = _age(site.now_ms, _seen(site.missing, told_ms))
    wait_age, speed_age, costs_age = (
        _age(site.now_ms, [told_ms.get(fact, 0)]) for fact in ("wait_s", "speed", "costs")
    )
    start_age = _oldest(held_age, wait_age)
    missing = sum(one.bytes for one in site.missing) * max(1, site.way.copies_over_uplink)
    no_way = any(reason.code == "data_no_source" for reason in rejections)
    no_way = no_way or any(_by_itself(one, choice) for one in site.missing)

    def told(
        value: float | None, unit: Unit, age_ms: int | None, *, moved: bool = True
    ) -> Estimate:
        if value is None or not math.isfinite(value) or (moved and no_way):
            return Estimate(None, unit, "unknown")
        return Estimate(value, unit, basis if moved else "known", age_ms)

    start = told(result.start_s, "s", start_age)
    finish = told(result.finish_s, "s", _oldest(start_age, speed_age))
    cost = told(result.cost_usd, "usd", _oldest(held_age, costs_age, speed_age))
    weight = job.usd_per_hour_of_waiting
    return ClusterEstimate(
        cluster=cluster.name,
        missing=_missing(site, missing, basis, held_age),
        transfer=told(result.transfer_s, "s", held_age),
        start=start,
        run=told(result.run_s, "s", speed_age, moved=job.mode == "stream"),
        finish=finish,
        cost=cost,
        egress=told(result.egress_usd, "usd", held_age),
        energy=told(energy_kwh(job, cluster, result.run_s), "kWh", costs_age, moved=False),
        objective=objective_of(job.objective, weight, start, finish, cost),
        wait_s=site.wait_s,
        opens_in_s=result.window.opens_in_s if result.window else 0.0,
        evict_bytes=_evicted(job, cluster, site.missing),
        read_bytes=result.read_bytes,
        way=site.way.name,
        held=tuple(one.part for one in site.missing),
        moves=result.moves,
        sources=choice.sources,
        rejections=tuple(rejections),
    )


def _by_itself(one: Missing, choice: Choice) -> bool:
    """Whether work must fetch something from the hub, and nobody can tell how fast that goes."""
    data = one.need.data
    if not on_hub(data.name) or (one.bytes <= 0 and data.bytes >= 0):
        return False
    return not any(source.chosen and source.data == data.name for source in choice.sources)


def _missing(site: Site, missing: float, basis: Basis, age_ms: int | None) -> Estimate:
    if any(one.need.data.bytes < 0 for one in site.missing):
        return Estimate(None, "bytes", "unknown")
    return Estimate(missing, "bytes", basis, age_ms)


def _evicted(job: JobProfile, cluster: Cluster, missing: Sequence[Missing]) -> float:
    if job.mode == "stream" or cluster.room_bytes is None:
        return 0.0
    need = sum(one.bytes for one in missing)
    return min(max(0.0, need - max(0, cluster.room_bytes)), float(max(0, cluster.evictable_bytes)))


def _basis(missing: Sequence[Missing]) -> Basis:
    if any(one.part.found_bytes is None for one in missing):
        return "assumed"
    return "expected" if any(_may_be_lost(one.part) for one in missing) else "known"


def _may_be_lost(part: HeldPart) -> bool:
    return part.lost_probability > 0 and bool(part.found_bytes)


def _seen(missing: Sequence[Missing], told_ms: Mapping[str, int]) -> list[int]:
    return [one.part.observed_ms or told_ms.get("held", 0) for one in missing]


def _age(now_ms: int, seen_ms: Iterable[int]) -> int | None:
    known = [at_ms for at_ms in seen_ms if at_ms]
    return max(0, now_ms - min(known)) if known else None


def _oldest(*ages_ms: int | None) -> int | None:
    return max((age for age in ages_ms if age is not None), default=None)
