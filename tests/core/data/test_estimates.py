"""Estimates by hand: what is missing, where it comes from, what it takes, why a cluster is out."""

import pytest
from msgspec.structs import replace

from stellwerk.core.data import Grounds, estimate_all, estimate_ways, facts
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster, Costs, Held
from stellwerk.core.model.estimates import Way
from stellwerk.core.model.fleet import Data, Fleet, Told
from tests.core.data.fleets import GB, HOUR_MS, IMGS, NOW, cluster, codes, fleet, job, link, one
from tests.core.data.fleets import ranking as ranked

STORE = (link("s3", "a"),)


def test_another_revision_counts_by_what_it_shares() -> None:
    """And by nothing else, however much of it there is."""
    other = Held("imgs", "r2", 440 * GB, shared_bytes=350 * GB)
    sharing = one(fleet(cluster("a", held=(other,)), links=STORE), job())
    assert sharing.missing.value == 100 * GB
    assert sharing.held[0].through == "r2"
    alone = replace(other, shared_bytes=0)
    assert one(fleet(cluster("a", held=(alone,)), links=STORE), job()).missing.value == 450 * GB


def test_equal_content_counts_under_any_name() -> None:
    """And a name counts for nothing where the content is another."""
    asked = replace(IMGS, content="sha256:1")
    catalogue = (asked, Data("copy-of-imgs", "v9", IMGS.bytes, content="sha256:1"))
    renamed = cluster("a", held=(Held("copy-of-imgs", "v9", 450 * GB),))
    found = one(fleet(renamed, data=catalogue), job(data=(asked,)))
    assert (found.missing.value, found.admitted) == (0, True)
    changed = cluster("a", held=(Held("imgs", "r3", 450 * GB, content="sha256:2"),))
    found = one(fleet(changed, data=catalogue, links=STORE), job(data=(asked,)))
    assert found.missing.value == 450 * GB


def test_what_nobody_can_count_counts_as_nothing() -> None:
    """And is told as assumed, with its age; partial files are nothing too."""
    held = Held("imgs", "r3", None, observed_ms=NOW - 60_000, source="fluid")
    found = one(fleet(cluster("a", held=(held,)), links=STORE), job())
    assert found.missing.value == 450 * GB
    assert found.missing.basis == "assumed"
    assert found.missing.age_ms == 60_000
    partial = Held("imgs", "r3", 0, partial_bytes=200 * GB)
    again = fleet(cluster("a", held=(partial,)), links=STORE)
    assert one(again, job()).missing.value == 450 * GB
    told = [fact.sentence for fact in facts(job(), one(again, job()), NOW)]
    assert "a holds 0 of 450 GB of imgs; 200 GB in partial files don't count" in told


def test_those_who_share_a_link_divide_it() -> None:
    """Four jobs over a shared link take four times as long; over their own, they don't."""
    for shared, seconds in ((True, 4 * 3600), (False, 3600)):
        found = fleet(cluster("a"), links=(link("s3", "a", shared=shared),))
        assert one(found, job(concurrent=4)).transfer.value == pytest.approx(seconds)


def test_prewarm_moves_data_while_the_work_waits() -> None:
    """And then pays no machine for it; without, transfer follows the wait."""
    found = fleet(cluster("a", usd=2.0, wait_s=1800.0), links=(link("s3", "a", usd=0.01),))
    ahead, behind = one(found, job(prewarm=True)), one(found, job())
    assert (ahead.start.value, behind.start.value) == (3600, 5400)
    assert ahead.cost.value == pytest.approx(2 * 2 + 4.5)
    assert behind.cost.value == pytest.approx(2 * 3 + 4.5)
    assert ahead.egress.value == behind.egress.value == pytest.approx(4.5)


def test_room_for_data_may_be_made() -> None:
    """By what may be evicted, which is said; what is still too little keeps the cluster out."""
    small = cluster("a", room_bytes=400 * GB, evictable_bytes=100 * GB)
    found = one(fleet(small, links=STORE), job())
    assert found.admitted
    assert found.evict_bytes == 50 * GB
    pinned = (Held("other", "v1", 90 * GB, pinned=True),)
    full = replace(small, evictable_bytes=40 * GB, held=pinned)
    found = one(fleet(full, links=STORE), job())
    assert codes(found) == ["data_room"]
    told = render(found.rejections[0])
    assert told.sentence == (
        "450 GB of data must come, a has 400 GB free for it and could give up 40 GB; 90 GB of what "
        "it holds are pinned"
    )
    assert told.remedy == "free 10 GB more on a"
    freed = replace(full, room_bytes=410 * GB)
    assert one(fleet(freed, links=STORE), job()).admitted


def test_nobody_told_the_room_so_it_keeps_nobody_out() -> None:
    """Unknown room isn't no room."""
    assert one(fleet(cluster("a"), links=STORE), job()).admitted


def test_residency_keeps_out_those_outside_and_of_unknown_place() -> None:
    """Those inside, down to a part of the region, are in."""
    eu = replace(IMGS, residency=("EU",))
    for region, fits in (("EU", True), ("eu-central-1", True), ("US", False), ("europa", False)):
        found = fleet(cluster("a", 450, claims={"region": region}), data=(eu,))
        assert one(found, job(data=(eu,))).admitted == fits
    nowhere = one(fleet(cluster("a", 450), data=(eu,)), job(data=(eu,)))
    assert codes(nowhere) == ["data_residency"]
    assert "in a region that nobody tells" in render(nowhere.rejections[0]).sentence
    three = replace(IMGS, residency=("EU", "UK", "CH"))
    us = one(fleet(cluster("a", 450), data=(three,)), job(data=(three,)))
    assert us.rejections[0].params["allowed"] == "EU, UK or CH"


def test_a_new_name_is_no_way_around_residency() -> None:
    """The rule is of the content, whatever the job calls it."""
    rule = Data("patients", "v2", GB, content="sha256:7", residency=("EU",))
    alias = Data("harmless", "v1", GB, content="sha256:7")
    us = cluster("a", claims={"region": "US"}, held=(Held("harmless", "v1", GB),))
    found = one(fleet(us, data=(rule, alias)), job(data=(alias,)))
    assert codes(found) == ["data_residency"]


def test_sources_that_may_not_or_can_not() -> None:
    """Each is left out for its own reason; with none left, so is the cluster."""
    eu = replace(IMGS, residency=("EU",))
    home = {"region": "EU"}
    clusters = (
        cluster("a", claims=home),
        cluster("part", 300, claims=home),
        cluster("us", 450, claims={"region": "US"}),
        cluster("off", 450, claims=home, available="False"),
        cluster("none", claims=home),
    )
    links = tuple(link(each, "a") for each in ("part", "us", "off", "none"))
    links += (link("dead", "a", gbit_s=0), link("kept", "a", egress="deny"))
    found = one(fleet(*clusters, links=links, data=(eu,)), job(data=(eu,)))
    assert {each.source: each.reason.code for each in found.sources if each.reason} == {
        "dead": "link_unusable",
        "kept": "data_egress_denied",
        "off": "source_away",
        "part": "source_incomplete",
        "us": "data_residency",
    }
    assert codes(found) == ["data_no_source"]
    assert render(found.rejections[0]).sentence == (
        "a lacks 450 GB of imgs, and no replica of it can be brought there: the link from dead to "
        "a is no use: its bandwidth is 0 bit/s; imgs may not leave kept; off holds it and doesn't "
        "answer; part itself holds only 300 GB of 450 GB of imgs; imgs may lie only in EU, and us "
        "is in US"
    )
    assert found.missing.value == 450 * GB
    assert found.transfer.value is found.finish.value is found.cost.value is None
    assert all(render(each.reason).sentence for each in found.sources if each.reason)


def test_data_that_may_not_leave_is_used_where_it_is() -> None:
    """No link helps."""
    kept = replace(IMGS, movable=False)
    found = fleet(cluster("home", 450), cluster("away"), links=(link("home", "away"),))
    assert ranked(found, job(data=(kept,))) == ["home"]


def test_the_origin_tells_which_store_has_it() -> None:
    """Where the origin is no end of a link, any store is taken to have it."""
    links = (link("fast", "a", gbit_s=100), link("s3", "a"))
    from_s3 = replace(IMGS, origin="s3")
    found = one(fleet(cluster("a"), links=links), job(data=(from_s3,)))
    assert [move.source for move in found.moves] == ["s3"]
    elsewhere = replace(IMGS, origin="https://example.org/imgs")
    found = one(fleet(cluster("a"), links=links), job(data=(elsewhere,)))
    assert [move.source for move in found.moves] == ["fast"]


def test_the_source_is_chosen_by_the_objective() -> None:
    """The dear fast one for the finish, the cheap slow one for the cost."""
    links = (link("dear", "a", gbit_s=10, usd=0.1), link("slow", "a", gbit_s=1))
    for objective, source in (("finish", "dear"), ("start", "dear"), ("cost", "slow")):
        found = one(fleet(cluster("a"), links=links), job(objective=objective))
        assert [move.source for move in found.moves] == [source]
    for worth, source in ((1.0, "slow"), (100.0, "dear")):
        asked = job(objective="weighted", usd_per_hour_of_waiting=worth)
        found = one(fleet(cluster("a"), links=links), asked)
        assert [move.source for move in found.moves] == [source]


def test_a_source_that_is_too_slow_for_the_deadline_is_left() -> None:
    """Though it is the cheapest; where all are, the least late says what is missing."""
    links = (link("dear", "a", gbit_s=10, usd=0.1), link("slow", "a", gbit_s=1))
    found = fleet(cluster("a"), links=links)
    asked = job(objective="cost", deadline_ms=NOW + round(2.5 * HOUR_MS))
    chosen = one(found, asked)
    assert chosen.admitted
    assert [move.source for move in chosen.moves] == ["dear"]
    (slow,) = [each for each in chosen.sources if each.source == "slow"]
    assert slow.reason is not None
    assert slow.reason.params["late"] == "30 min"
    late = one(found, job(objective="cost", deadline_ms=NOW + HOUR_MS))
    assert codes(late) == ["after_deadline"]
    assert late.rejections[0].params["late_ms"] == round((1.1 - 0) * HOUR_MS)


def test_each_data_set_has_a_source_of_its_own() -> None:
    """They come one after the other."""
    model = Data("llama", "v1", 90 * GB, kind="model", origin="hub")
    imgs = replace(IMGS, origin="s3")
    links = (link("s3", "a", usd=0.01), link("hub", "a", gbit_s=2))
    found = one(fleet(cluster("a"), links=links), job(data=(imgs, model)))
    assert [(move.data, move.source) for move in found.moves] == [("imgs", "s3"), ("llama", "hub")]
    assert found.transfer.value == pytest.approx(3600 + 360)
    assert found.egress.value == pytest.approx(4.5)


def test_many_data_sets_with_many_sources_are_still_chosen_well() -> None:
    """Beyond the number of combinations that are all tried, each set gets its best in turn."""
    data = tuple(Data(f"d{number}", "v1", GB) for number in range(12))
    links = (link("dear", "a", gbit_s=10, usd=0.1), link("slow", "a", gbit_s=1))
    for objective, source in (("finish", "dear"), ("cost", "slow")):
        found = one(
            fleet(cluster("a"), links=links, data=data), job(data=data, objective=objective)
        )
        assert {move.source for move in found.moves} == {source}
        assert len(found.moves) == 12


def test_without_a_runtime_the_end_is_unknown_and_said_so() -> None:
    """Start, transfer and egress are known; the cost only where machines are free."""
    links = (link("s3", "a", usd=0.01), link("s3", "b", usd=0.01))
    found = fleet(cluster("a", usd=1.0), cluster("b"), links=links)
    paid, free = estimate_all(job(None), found, found.clusters, NOW)
    assert (paid.finish.value, paid.finish.basis) == (None, "unknown")
    assert paid.cost.value is None
    assert free.cost.value == pytest.approx(4.5)
    assert paid.start.value == 3600
    told = " ".join(fact.sentence for fact in facts(job(None), paid, NOW))
    assert "nobody said how long it runs" in told
    assert "stellwerk/expected-runtime" in told


def test_without_a_runtime_the_earlier_start_is_the_earlier_finish() -> None:
    """Even where that one costs something and the other one doesn't."""
    found = fleet(cluster("free", 450, wait_s=60.0), cluster("paid", 450, usd=1.0))
    assert ranked(found, job(None)) == ["paid", "free"]


def test_what_is_unknown_never_beats_what_is_known() -> None:
    """A cluster of no known speed comes last, though it is ready at once."""
    found = fleet(cluster("a", 450, speed=0.0), cluster("b", 450, wait_s=99_999.0))
    assert ranked(found, job()) == ["b", "a"]


def test_speed_scales_the_runtime_and_nodes_the_price() -> None:
    """Accelerators have prices of their own by kind, power gives energy."""
    costs = Costs(1.0, {"A100": 2.0}, watts=500.0)
    fast = Cluster("a", "test", (), speed=2.0, costs=costs)
    found = one(fleet(fast), job(4.0, data=(), nodes=3, devices={"A100": 2, "T4": 1}))
    assert found.run.value == 2 * 3600
    assert found.cost.value == pytest.approx(3 * (1 + 2 * 2) * 2)
    assert found.energy.value == pytest.approx(3 * 0.5 * 2)


def test_ages_are_those_of_the_oldest_fact_behind_a_number() -> None:
    """Of the data for the transfer, and of the prices for the cost."""
    held = (Held("imgs", "r3", 450 * GB, observed_ms=NOW - 5_000),)
    told = {"a": {"costs": Told("file", NOW - 90_000), "held": Told("probe", NOW - 1)}}
    found = one(fleet(cluster("a", held=held), told=told), job())
    assert (found.transfer.age_ms, found.cost.age_ms, found.energy.age_ms) == (5_000, 90_000, None)


def test_a_window_that_opens_later_is_waited_for() -> None:
    """The first that is long enough; none that is over counts."""
    windows = (
        (NOW - 9 * HOUR_MS, NOW - HOUR_MS),
        (NOW - HOUR_MS, NOW + HOUR_MS),
        (NOW + 5 * HOUR_MS, NOW + 9 * HOUR_MS),
    )
    found = one(fleet(cluster("a", 450, windows=windows)), job())
    assert found.admitted
    assert (found.opens_in_s, found.finish.value) == (5 * 3600, 7 * 3600)
    late = one(fleet(cluster("a", 450, windows=windows)), job(4.5))
    assert codes(late) == ["window_too_short"]
    assert late.rejections[0].params["late"] == "30 min"
    over = one(fleet(cluster("a", 450, windows=windows[:1])), job())
    assert codes(over) == ["window_over"]


@pytest.mark.parametrize(("hours", "prewarm", "told"), [
    (2.5, False, True), (1.5, False, False), (2.5, True, False),
])  # fmt: skip
def test_moving_data_before_is_offered_only_where_it_is_enough(
    hours: float, prewarm: bool, told: bool
) -> None:
    """450 GB take an hour: half an hour too late is mended so, an hour and a half isn't.

    With `prewarm` they come while it waits for an hour, and nothing is gained.
    """
    window = ((NOW, NOW + round(hours * HOUR_MS)),)
    there = cluster("a", windows=window, wait_s=3600.0 if prewarm else 0.0)
    found = one(fleet(there, links=STORE), job(prewarm=prewarm))
    assert codes(found) == ["window_too_short"]
    assert ("have its data moved there before" in render(found.rejections[0]).remedy) is told


def test_every_rule_that_fails_is_said() -> None:
    """Not the first alone."""
    eu = replace(IMGS, residency=("EU",))
    small = cluster("a", room_bytes=GB, windows=((NOW, NOW + 60_000),))
    found = one(fleet(small, data=(eu,), links=STORE), job(data=(eu,), deadline_ms=NOW + 1))
    assert codes(found) == ["data_residency", "data_room", "window_too_short", "after_deadline"]


def test_a_stream_reads_again_what_the_cache_does_not_hold() -> None:
    """An epoch takes the longer of computing and reading; machines and egress are paid for it."""
    found = fleet(
        cluster("a", usd=3.0, room_bytes=150 * GB), links=(link("s3", "a", gbit_s=2, usd=0.01),)
    )
    asked = job(None, mode="stream", epochs=3, compute_s_per_epoch=1500.0)
    read = one(found, asked)
    # 450 GB take 1800 s, the 300 GB of later epochs 1200 s, which computing hides.
    assert read.read_bytes == pytest.approx((450 + 2 * 300) * GB)
    assert read.run.value == pytest.approx(1800 + 2 * 1500)
    assert read.cost.value == pytest.approx(3 * 4800 / 3600 + 10.5)
    assert (read.start.value, read.admitted) == (0, True)
    whole = one(found, replace(asked, cache_bytes=0))
    assert whole.read_bytes == pytest.approx(3 * 450 * GB)


def test_a_room_is_fed_one_by_one_or_by_its_own_switch() -> None:
    """The better way is taken; both can be asked for."""
    room = Cluster("pcs", "test", (), kind="room")
    lm = Data("lm", "v1", 40 * GB)
    asked = job(12.0, data=(lm,), nodes=12)
    links = (link("s3", "pcs"),)
    alone = one(Fleet((room,), links=links), asked)
    assert (alone.way, alone.missing.value) == ("copy-per-node", 480 * GB)
    assert alone.transfer.value == pytest.approx(3840)
    inner = (*links, link("pcs", "pcs"))
    fanned = one(Fleet((room,), links=inner), asked)
    assert fanned.way == "fan-out"
    assert fanned.transfer.value == pytest.approx(640)
    offered = (Way("twice", copies_over_uplink=2), Way("once"))
    both = estimate_ways(asked, Fleet((room,), links=links), room, offered, NOW)
    assert [each.transfer.value for each in both] == [pytest.approx(640), pytest.approx(320)]


def test_waits_may_be_known_better_than_the_cluster_tells() -> None:
    """What placement found out about free room replaces the cluster's own word."""
    found = fleet(cluster("a", 450, wait_s=60.0), cluster("b", 450, wait_s=60.0))
    first, second = estimate_all(job(), found, found.clusters, NOW, {"a": 7200.0})
    assert (first.start.value, second.start.value) == (7200, 60)


def test_a_fleet_is_prepared_once_for_many_jobs() -> None:
    """The same answers from grounds as from the fleet."""
    found = fleet(cluster("a"), cluster("b", 450), links=STORE)
    grounds = Grounds(found)
    for hours in (1.0, 3.0):
        asked = job(hours)
        assert estimate_all(asked, grounds, found.clusters, NOW) == estimate_all(
            asked, found, found.clusters, NOW
        )


def test_a_cache_that_may_be_lost_counts_by_its_chance() -> None:
    """The number is told as an expected one."""
    held = (Held("imgs", "r3", 400 * GB, lost_probability=0.25),)
    found = one(fleet(cluster("a", held=held), links=STORE), job())
    assert found.missing.value == pytest.approx(150 * GB)
    assert found.missing.basis == found.cost.basis == "expected"


def test_more_said_than_there_is_counts_as_all_of_it() -> None:
    """And less than nothing as nothing."""
    for amount, missing in ((900, 0), (-5, 450)):
        held = (Held("imgs", "r3", amount * GB),)
        found = one(fleet(cluster("a", held=held), links=STORE), job())
        assert found.missing.value == missing * GB


def test_a_number_is_as_old_as_the_oldest_fact_behind_it() -> None:
    """The start rests on the wait, the run on the speed, the end on both, by the names of facts."""
    known = cluster("a", wait_s=60.0, speed=2.0)
    told = {"a": {"wait_s": Told("slurm", NOW - 7_000), "speed": Told("lab.yaml", NOW - 90_000)}}
    found = one(replace(fleet(known), told=told), job(data=()))
    assert (found.start.age_ms, found.run.age_ms, found.finish.age_ms) == (7_000, 90_000, 90_000)
