"""Decides what a way to get data to a cluster and to run there costs in time, money and energy.

Rules: nothing missing takes no time; with `prewarm` the transfer overlaps the wait, else it follows
it and the machines are paid for meanwhile; data sets come one after the other. A job that streams
starts at once and takes for each epoch the longer of computing and reading.
"""

import math
from collections.abc import Mapping, Sequence

from msgspec import Struct

from stellwerk.core.data.sources import Need
from stellwerk.core.data.units import GB
from stellwerk.core.data.windows import Fit, fit
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.estimates import HeldPart, JobProfile, Move, Way
from stellwerk.core.model.fleet import Link

HOUR_S = 3600.0
WHOLE = Way("")
"""One copy over the uplink, for a cluster whose nodes share what it holds."""


class Missing(Struct, frozen=True):
    """A data set with what the cluster has of it."""

    need: Need
    part: HeldPart

    @property
    def bytes(self) -> float:
        """What must come."""
        return max(0.0, self.part.size_bytes - self.part.counted_bytes)


class Site(Struct, frozen=True):
    """What a job meets on a cluster, whatever the sources; None = unknown."""

    cluster: Cluster
    missing: tuple[Missing, ...]
    way: Way
    wait_s: float
    run_s: float | None
    usd_per_hour: float | None
    now_ms: int


class Outcome(Struct, frozen=True):
    """What comes of one choice of sources. Times in seconds from now, money in USD."""

    moves: tuple[Move, ...]
    transfer_s: float
    egress_usd: float
    start_s: float
    run_s: float | None
    finish_s: float | None
    cost_usd: float | None
    window: Fit | None
    read_bytes: float | None = None

    @property
    def missing_bytes(self) -> float:
        """What goes over links into the cluster before it starts, or while it streams once."""
        return sum(move.bytes for move in self.moves)


def site_of(
    job: JobProfile,
    cluster: Cluster,
    missing: Sequence[Missing],
    way: Way,
    now_ms: int,
    wait_s: float,
) -> Site:
    """Looks up once what doesn't depend on where data comes from."""
    return Site(
        cluster=cluster,
        missing=tuple(missing),
        way=way,
        wait_s=wait_s if math.isfinite(wait_s) and wait_s > 0 else 0.0,
        run_s=_scaled(job.runtime_s, cluster.speed),
        usd_per_hour=usd_per_hour(cluster, job.devices, job.nodes),
        now_ms=now_ms,
    )


def usd_per_hour(cluster: Cluster, devices: Mapping[str, int], nodes: int) -> float | None:
    """The price of nodes with these devices for an hour; None where what is told is no price."""
    price = cluster.costs.usd_per_hour
    for kind, count in sorted(devices.items()):
        price += count * usd_per_device_hour(cluster, kind)
    return price * max(1, nodes) if math.isfinite(price) and price >= 0 else None


def usd_per_device_hour(cluster: Cluster, kind: str) -> float:
    """The price of a device of a kind; of any kind (""), that of the dearest."""
    by_kind = cluster.costs.usd_per_device_hour
    return by_kind.get(kind, 0.0 if kind else max(by_kind.values(), default=0.0))


def energy_kwh(job: JobProfile, cluster: Cluster, run_s: float | None) -> float | None:
    """What the nodes draw while the job runs; None where nobody told their power."""
    watts = cluster.costs.watts
    if run_s is None or not math.isfinite(watts) or watts <= 0:
        return None
    return watts * max(1, job.nodes) * run_s / HOUR_S / 1000


def outcome(job: JobProfile, site: Site, links: Sequence[Link | None]) -> Outcome:
    """What comes of feeding each data set over its link (None = nothing is missing of it)."""
    moves = tuple(
        _move(job, site, missing, link)
        for missing, link in zip(site.missing, links, strict=True)
        if link is not None
    )
    if job.mode == "stream":
        return _streamed(job, site, moves)
    transfer_s = sum(move.seconds for move in moves)
    egress_usd = sum(move.usd for move in moves)
    lead_s = max(site.wait_s, transfer_s) if job.prewarm else site.wait_s + transfer_s
    paid_s = None if site.run_s is None else site.run_s + (0.0 if job.prewarm else transfer_s)
    money = _money(site, paid_s, egress_usd)
    return _timed(site, moves, transfer_s, lead_s, site.run_s, money)


def _move(job: JobProfile, site: Site, missing: Missing, link: Link) -> Move:
    way = site.way
    over_uplink = missing.bytes * max(1, way.copies_over_uplink)
    seconds = over_uplink * 8 / (way.uplink_bits_per_s or link.bits_per_s)
    if link.shared:
        seconds *= max(1, job.concurrent)
    if way.rounds_in_switch and way.switch_bits_per_s > 0:
        seconds += way.rounds_in_switch * missing.bytes * 8 / way.switch_bits_per_s
    usd = link.usd_per_gb * over_uplink / GB
    return Move(missing.need.data.name, link.source, over_uplink, seconds, usd)


def _streamed(job: JobProfile, site: Site, moves: tuple[Move, ...]) -> Outcome:
    """Reads all in the first epoch, and in later ones what the cache doesn't hold."""
    first = sum(move.bytes for move in moves)
    first_s = sum(move.seconds for move in moves)
    first_usd = sum(move.usd for move in moves)
    epochs = max(1, job.epochs)
    again = max(0.0, first - _cache_bytes(job, site)) / first if first else 0.0
    reads = 1 + (epochs - 1) * again
    compute_s = _scaled(job.compute_s_per_epoch, site.cluster.speed)
    if compute_s is None and site.run_s is not None:
        compute_s = site.run_s / epochs
    run_s = None
    if compute_s is not None:
        run_s = max(compute_s, first_s) + (epochs - 1) * max(compute_s, first_s * again)
    egress_usd = first_usd * reads
    money = _money(site, run_s, egress_usd)
    return _timed(site, moves, first_s * reads, site.wait_s, run_s, money, first * reads)


def _timed(
    site: Site,
    moves: tuple[Move, ...],
    transfer_s: float,
    lead_s: float,
    run_s: float | None,
    money: tuple[float, float | None],
    read_bytes: float | None = None,
) -> Outcome:
    window = fit(site.cluster.windows, site.now_ms, lead_s + (run_s or 0.0))
    start_s = lead_s + (window.opens_in_s if window else 0.0)
    return Outcome(
        moves=moves,
        transfer_s=transfer_s,
        egress_usd=money[0],
        start_s=start_s,
        run_s=run_s,
        finish_s=None if run_s is None else start_s + run_s,
        cost_usd=money[1],
        window=window,
        read_bytes=read_bytes,
    )


def _money(site: Site, paid_s: float | None, egress_usd: float) -> tuple[float, float | None]:
    """Egress, and all of the cost: known without a runtime only where machines are free."""
    if site.usd_per_hour is None:
        return egress_usd, None
    if not site.usd_per_hour:
        return egress_usd, egress_usd
    if paid_s is None:
        return egress_usd, None
    return egress_usd, site.usd_per_hour * paid_s / HOUR_S + egress_usd


def _cache_bytes(job: JobProfile, site: Site) -> float:
    room = site.cluster.room_bytes
    if job.cache_bytes is None:
        return max(0.0, room or 0.0)
    asked = max(0, job.cache_bytes)
    return asked if room is None else min(asked, max(0, room))


def _scaled(seconds: float | None, speed: float) -> float | None:
    """A span of a machine of speed 1 on one of this speed; None for what isn't a number."""
    if seconds is None or not math.isfinite(seconds) or seconds < 0:
        return None
    scaled = seconds / speed if math.isfinite(speed) and speed > 0 else math.inf
    return scaled if math.isfinite(scaled) else None
