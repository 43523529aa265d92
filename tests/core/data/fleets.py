"""Fleets, jobs and data for the tests of core/data: small ones by hand, others by chance."""

from typing import Any

from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.data import estimate_all, rank
from stellwerk.core.model.cluster import Cluster, Costs, Held
from stellwerk.core.model.estimates import ClusterEstimate, JobProfile
from stellwerk.core.model.fleet import Data, Fleet, Link
from stellwerk.core.model.placement import Objective

GB = 1_000_000_000
NOW = 1_800_000_000_000
HOUR_MS = 3_600_000
IMGS = Data("imgs", "r3", 450 * GB)
OBJECTIVES: tuple[Objective, ...] = ("finish", "cost", "start", "weighted")


def cluster(name: str, held_gb: float | None = 0, **more: Any) -> Cluster:
    """A cluster that holds so much of `imgs`; `usd` is its price for an hour."""
    amount = None if held_gb is None else round(held_gb * GB)
    usd = more.pop("usd", 0.0)
    held = more.pop("held", (Held("imgs", "r3", amount),) if held_gb != 0 else ())
    return Cluster(name, "test", (), held=held, costs=Costs(usd), **more)


def link(source: str, target: str, gbit_s: float = 1.0, usd: float = 0.0, **more: Any) -> Link:
    """A link by its speed in Gbit/s and its price for a GB."""
    return Link(source, target, gbit_s * 1e9, usd, **more)


def job(hours: float | None = 2.0, **more: Any) -> JobProfile:
    """A job over `imgs`, of so many hours."""
    seconds = None if hours is None else hours * 3600
    return JobProfile(runtime_s=seconds, **{"data": (IMGS,), **more})


def fleet(*clusters: Cluster, links: tuple[Link, ...] = (), **more: Any) -> Fleet:
    """A fleet of these clusters, which knows `imgs`."""
    return Fleet(clusters, links=links, **{"data": (IMGS,), **more})


def one(found: Fleet, asked: JobProfile, name: str = "") -> ClusterEstimate:
    """The estimate for a cluster, by default the first."""
    estimates = estimate_all(asked, found, found.clusters, NOW)
    return next(each for each in estimates if name in {"", each.cluster})


def ranking(found: Fleet, asked: JobProfile) -> list[str]:
    """The names of the admitted clusters, best first."""
    return [each.cluster for each in rank(asked, estimate_all(asked, found, found.clusters, NOW))]


def codes(estimate: ClusterEstimate) -> list[str]:
    """The codes of what speaks against a cluster."""
    return [reason.code for reason in estimate.rejections]


AMOUNTS = st.integers(0, 600).map(lambda gigabytes: gigabytes * GB)
PRICES = st.sampled_from([0.0, 0.4, 2.5])
REGIONS = st.sampled_from(["EU", "US", ""])


@st.composite
def clusters(draw: st.DrawFn, name: str, data: tuple[Data, ...]) -> Cluster:
    """Any cluster that may have something of each data set."""
    held = tuple(
        Held(
            each.name,
            each.revision,
            draw(st.none() | AMOUNTS),
            lost_probability=draw(st.sampled_from([0.0, 0.0, 0.5])),
            observed_ms=NOW - 60_000,
        )
        for each in data
        if draw(st.booleans())
    )
    opens = NOW + draw(st.integers(-5, 5)) * HOUR_MS
    region = draw(REGIONS)
    return Cluster(
        name,
        "test",
        (),
        kind=draw(st.sampled_from(["machine", "room"])),
        claims={"region": region} if region else {},
        held=held,
        costs=Costs(draw(PRICES), watts=draw(st.sampled_from([0.0, 400.0]))),
        room_bytes=draw(st.none() | AMOUNTS),
        evictable_bytes=draw(st.sampled_from([0, 100 * GB])),
        windows=draw(st.sampled_from([(), ((opens, opens + 12 * HOUR_MS),)])),
        speed=draw(st.sampled_from([0.5, 1.0, 1.3])),
        wait_s=draw(st.sampled_from([0.0, 600.0, 9000.0])),
    )


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Fleet, JobProfile]:
    """Any fleet of up to four clusters and two stores, and a job for it."""
    data = tuple(
        Data(f"d{number}", "v1", draw(AMOUNTS), residency=draw(st.sampled_from([(), ("EU",)])))
        for number in range(draw(st.integers(0, 2)))
    )
    names = [f"c{number}" for number in range(draw(st.integers(1, 4)))]
    found = tuple(draw(clusters(name, data)) for name in names)
    links = tuple(
        Link(
            source,
            target,
            draw(st.sampled_from([1e8, 1e9, 1e10])),
            draw(PRICES) / 10,
            shared=draw(st.booleans()),
        )
        for source in [*names, "s0", "s1"]
        for target in names
        if draw(st.booleans())
    )
    hours = draw(st.sampled_from([None, 0.5, 5.0]))
    asked = JobProfile(
        runtime_s=None if hours is None else hours * 3600,
        nodes=draw(st.integers(1, 3)),
        data=data,
        objective=draw(st.sampled_from(OBJECTIVES)),
        usd_per_hour_of_waiting=draw(PRICES),
        prewarm=draw(st.booleans()),
        deadline_ms=draw(st.sampled_from([0, NOW + 4 * HOUR_MS])),
        concurrent=draw(st.integers(1, 2)),
    )
    return Fleet(found, links=links, data=data), asked


def with_more(found: Cluster, share: float) -> Cluster:
    """The same cluster with that part of what it lacks of everything it has something of."""
    held = tuple(
        replace(each, bytes=round((each.bytes or 0) + share * 600 * GB)) for each in found.held
    )
    return replace(found, held=held)
