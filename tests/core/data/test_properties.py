"""What holds of every estimate and every ranking, whatever the fleet."""

import math
from collections.abc import Mapping
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.data import Grounds, estimate_all, facts, rank, views
from stellwerk.core.data.ranking import order
from stellwerk.core.model.cluster import Cluster, Costs, Held
from stellwerk.core.model.estimates import ClusterEstimate, JobProfile
from stellwerk.core.model.fleet import Data, Fleet, Link
from stellwerk.core.model.reasons import Reason
from tests.core.data.fleets import GB, NOW, with_more, worlds

FEW = settings(max_examples=25)
World = tuple[Fleet, JobProfile]


def estimates(world: World) -> tuple[ClusterEstimate, ...]:
    """Of every cluster of the fleet."""
    return estimate_all(world[1], world[0], world[0].clusters, NOW)


@FEW
@given(worlds(), st.sampled_from([0.1, 0.5, 1.0]))
def test_more_held_never_makes_it_worse(world: World, share: float) -> None:
    """By the objective: a cluster with more of the data is as good as before, or better."""
    fleet, job = world
    more = replace(fleet, clusters=tuple(with_more(each, share) for each in fleet.clusters))
    for before, after in zip(estimates(world), estimates((more, job)), strict=True):
        assert len(after.rejections) <= len(before.rejections)
        if before.admitted:
            assert after.admitted
            assert order(job.objective, after)[0] <= order(job.objective, before)[0]
            assert (after.missing.value or 0) <= (before.missing.value or 0) or after.way


@FEW
@given(worlds(), st.sampled_from([0.1, 0.5]))
def test_with_one_source_more_held_is_never_later_or_dearer(world: World, share: float) -> None:
    """Where there is nothing to choose, no number of the estimate grows."""
    fleet, job = world
    fleet = replace(fleet, links=tuple(each for each in fleet.links if each.source == "s0"))
    more = replace(fleet, clusters=tuple(with_more(each, share) for each in fleet.clusters))
    for before, after in zip(estimates((fleet, job)), estimates((more, job)), strict=True):
        if not before.admitted or before.way != after.way:
            continue
        for name in ("missing", "transfer", "start", "finish", "cost", "egress"):
            old, new = getattr(before, name).value, getattr(after, name).value
            assert old is None or new <= old + 1e-6


@FEW
@given(worlds(), st.sampled_from([1.5, 10.0]))
def test_a_faster_link_never_makes_a_transfer_longer(world: World, factor: float) -> None:
    """With one source; with several, the objective never gets worse."""
    fleet, job = world
    single = replace(fleet, links=tuple(each for each in fleet.links if each.source == "s0"))
    for slow in (single, fleet):
        fast = replace(
            slow,
            links=tuple(replace(each, bits_per_s=each.bits_per_s * factor) for each in slow.links),
        )
        for before, after in zip(estimates((slow, job)), estimates((fast, job)), strict=True):
            if not before.admitted:
                continue
            assert after.admitted
            assert order(job.objective, after)[0] <= order(job.objective, before)[0]
            if slow is single and before.way == after.way:
                assert (after.transfer.value or 0) <= (before.transfer.value or 0) + 1e-6


@FEW
@given(worlds(), st.randoms(use_true_random=False))
def test_order_of_input_changes_nothing(world: World, chance: object) -> None:
    """Clusters, links and data may come in any order; who comes to rank too."""
    fleet, job = world
    shuffled = replace(
        fleet,
        clusters=tuple(reversed(fleet.clusters)),
        links=tuple(reversed(fleet.links)),
        data=tuple(reversed(fleet.data)),
    )
    first = rank(job, estimates(world))
    assert first == rank(job, tuple(reversed(estimates((shuffled, job)))))


@FEW
@given(worlds())
def test_the_rejected_are_never_ranked(world: World) -> None:
    """All others are, each once, and never a worse one before a better one."""
    job = world[1]
    found = estimates(world)
    ranked = rank(job, found)
    assert {each.cluster for each in ranked} == {each.cluster for each in found if each.admitted}
    assert len(ranked) == len({each.cluster for each in ranked})
    for better, worse in pairwise(ranked):
        assert (order(job.objective, better), better.cluster) < (
            order(job.objective, worse),
            worse.cluster,
        )
    for name, values in views(found).items():
        assert name
        assert set(values) <= {each.cluster for each in ranked}


@FEW
@given(worlds())
def test_another_cluster_changes_no_estimate(world: World) -> None:
    """What a cluster would take has nothing to do with one that it can't fetch from."""
    fleet, job = world
    more = replace(fleet, clusters=(*fleet.clusters, Cluster("zz", "test", ())))
    assert estimates((more, job))[:-1] == estimates(world)


@FEW
@given(worlds())
def test_the_numbers_of_an_explanation_give_the_estimate(world: World) -> None:
    """Bytes from what is held, start from moves and waiting, cost from price and egress."""
    fleet, job = world
    grounds = Grounds(fleet)
    for one in estimates(world):
        told: dict[str, list[Mapping[str, object]]] = {}
        for fact in facts(job, one, NOW):
            told.setdefault(fact.code, []).append(fact.numbers)
            assert fact.sentence
            assert one.cluster == fact.cluster
        if not one.admitted:
            assert told[one.rejections[0].code]
            continue
        copies = job.nodes if one.way == "copy-per-node" else 1
        missing = sum(
            number(each["size_bytes"]) - number(each["counted_bytes"])
            for each in told.get("held", [])
        )
        moves = told.get("move", [])
        assert math.isclose(missing * copies, one.missing.value or 0.0, abs_tol=1)
        assert math.isclose(sum(number(m["bytes"]) for m in moves), missing * copies, abs_tol=1)
        transfer = sum(number(move["seconds"]) for move in moves)
        assert math.isclose(transfer, one.transfer.value or 0.0, abs_tol=1e-6)
        wait = sum(number(each["wait_s"]) for each in told.get("wait", []))
        opens = sum(number(each["opens_in_s"]) for each in told.get("opens", []))
        start = opens + (max(wait, transfer) if job.prewarm else wait + transfer)
        assert math.isclose(start, one.start.value or 0.0, abs_tol=1e-6)
        if job.runtime_s is None:
            assert one.finish.value is None
            continue
        run = job.runtime_s / grounds.clusters[one.cluster].speed
        assert math.isclose(start + run, one.finish.value or 0.0, abs_tol=1e-6)
        rate = grounds.clusters[one.cluster].costs.usd_per_hour * job.nodes
        usd = sum(number(move["usd"]) for move in moves)
        paid = run + (0 if job.prewarm else transfer)
        assert math.isclose(rate * paid / 3600 + usd, one.cost.value or 0.0, abs_tol=1e-6)


def number(written: object) -> float:
    """A number of a fact."""
    assert isinstance(written, int | float)
    return float(written)


ODD = st.sampled_from([math.nan, math.inf, -math.inf, -1.0, 0.0, 1.0, 1e300])


@FEW
@given(ODD, ODD, ODD, ODD, ODD, st.integers(-5, 5))
def test_odd_numbers_give_no_odd_estimates(
    speed: float, price: float, bandwidth: float, wait: float, lost: float, size: int
) -> None:
    """Whatever is told, an estimate is a number of 0 or more, or it is unknown."""
    data = Data("d", "v1", size * GB)
    held = Held("d", "v1", -5, lost_probability=lost)
    cluster = Cluster(
        "c", "test", (), held=(held,), costs=Costs(price), speed=speed, wait_s=wait, room_bytes=-1
    )
    fleet = Fleet((cluster,), links=(Link("s", "c", bandwidth, price),), data=(data,))
    job = JobProfile(runtime_s=60.0, data=(data,), objective="weighted")
    (one,) = estimate_all(job, fleet, fleet.clusters, NOW)
    for name in ("missing", "transfer", "start", "run", "finish", "cost", "egress", "energy"):
        value = getattr(one, name).value
        assert value is None or (math.isfinite(value) and value >= 0), name
    assert facts(job, one, NOW)


@FEW
@given(worlds())
def test_what_a_rejection_asks_for_admits(world: World) -> None:
    """One change for each rule that failed; a transfer that becomes possible may ask for more."""
    fleet, job = world
    for place, one in enumerate(estimates(world)):
        changed, asked, left = fleet, job, one
        for _ in range(3):
            for reason in left.rejections:
                changed, asked = mended(changed, asked, place, reason)
            left = estimates((changed, asked))[place]
        assert left.admitted, left.rejections


def mended(fleet: Fleet, job: JobProfile, place: int, reason: Reason) -> tuple[Fleet, JobProfile]:
    """What the reason's remedy says, done with its numbers."""
    cluster, numbers = fleet.clusters[place], reason.params
    links = fleet.links
    match reason.code:
        case "data_residency":
            cluster = replace(cluster, claims={"region": "EU"})
        case "data_no_source":
            links = (*links, Link("new", cluster.name, 1e12))
        case "data_room":
            room = (cluster.room_bytes or 0) + int(numbers["short_bytes"])
            cluster = replace(cluster, room_bytes=room)
        case "window_over":
            cluster = replace(cluster, windows=((NOW, NOW + 86_400_000),))
        case "window_too_short":
            late = int(numbers["late_ms"])
            longer = tuple((opens, closes + late) for opens, closes in cluster.windows)
            cluster = replace(cluster, windows=longer)
        case "after_deadline":
            job = replace(job, deadline_ms=job.deadline_ms + int(numbers["late_ms"]))
    clusters = (*fleet.clusters[:place], cluster, *fleet.clusters[place + 1 :])
    return replace(fleet, clusters=clusters, links=links), job
