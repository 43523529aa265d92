"""What people read: units, explanations, problems; and what jobs and windows are made of."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.data import (
    Catalogue,
    check,
    course,
    estimate_all,
    facts,
    margin,
    profile_of,
    rank,
    views,
)
from stellwerk.core.data.course import told
from stellwerk.core.data.units import (
    at_least_data,
    at_least_span,
    show_data,
    show_energy,
    show_rate,
    show_share,
    show_span,
    show_usd,
)
from stellwerk.core.data.windows import Fit, fit, join
from stellwerk.core.model.cluster import Cluster, Costs, Held
from stellwerk.core.model.estimates import Course, JobProfile
from stellwerk.core.model.fleet import Data, Fleet
from stellwerk.core.model.placement import Limits, Placement
from stellwerk.core.model.resources import GpuRequest, Request
from tests.core.data.fleets import GB, HOUR_MS, IMGS, NOW, cluster, fleet, job, link, one


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (show_data(0), "0 B"),
        (show_data(812_000), "812 kB"),
        (show_data(137.847 * GB), "137.8 GB"),
        (show_data(212 * GB), "212 GB"),
        (show_data(1000 * GB), "1,000 GB"),
        (show_data(12_500 * GB), "12.5 TB"),
        (show_share(450 * GB, 450 * GB), "450 of 450 GB"),
        (show_share(171.9 * GB, 322.4554 * GB), "171.9 of 322.5 GB"),
        (show_data(450 * 2**30), "450 GiB"),
        (show_data(1536 * 2**20), "1.5 GiB"),
        (show_data(450 * 2**30 * 0.5), "225 GiB"),
        (show_share(90 * 2**30, 450 * 2**30), "90 of 450 GiB"),
        (show_share(0, 2 * GB), "0 of 2 GB"),
        (show_share(20_000_000, 2 * GB), "0.02 of 2 GB"),
        (show_span(0), "0 s"),
        (show_span(0.42), "0.4 s"),
        (show_span(43.62), "43.6 s"),
        (show_span(59.97), "1 min"),
        (show_span(276), "4 min 36 s"),
        (show_span(1599.8), "27 min"),
        (show_span(3599), "1 h"),
        (show_span(7800), "2 h 10 min"),
        (show_span(86_399), "1 d"),
        (show_span(100_000), "1 d 4 h"),
        (show_span(-90), "-1 min 30 s"),
        (show_usd(0), "0 USD"),
        (show_usd(0.004), "0.004 USD"),
        (show_usd(3.2), "3.20 USD"),
        (show_usd(90), "90 USD"),
        (show_usd(1234.5), "1,234.50 USD"),
        (show_energy(0.3), "0.3 kWh"),
        (show_energy(1240), "1,240 kWh"),
        (show_rate(2.5e9), "2.5 Gbit/s"),
        (show_rate(100e6), "100 Mbit/s"),
        (show_rate(12), "12 bit/s"),
    ],
)
def test_amounts_for_people(shown: str, text: str) -> None:
    """Two units at most, rounded, and no digit that means nothing."""
    assert shown == text


DATA_UNITS = {
    "B": 1,
    "kB": 1e3,
    "MB": 1e6,
    "GB": 1e9,
    "TB": 1e12,
    "PB": 1e15,
    **{f"{letter}iB": 1024.0**power for power, letter in enumerate("KMGTP", 1)},
}


@given(st.floats(0.001, 1e15))
def test_what_is_told_as_enough_is_enough(amount: float) -> None:
    """What is shown rounded up is never less than what is asked, and hardly more."""
    for shown, units in (
        (at_least_data(amount), DATA_UNITS),
        (at_least_span(amount), {"s": 1, "min": 60, "h": 3600, "d": 86_400}),
    ):
        words = shown.replace(",", "").split()
        total = sum(
            float(number) * units[unit]
            for number, unit in zip(words[::2], words[1::2], strict=True)
        )
        assert amount * (1 - 1e-6) <= total <= max(amount * 1.11, amount + 1)


def test_an_explanation_reads_whole() -> None:
    """Held, moved, waited, run, paid, and each source that was not taken."""
    held = (Held("imgs", "r3", 90 * GB, source="manifest", observed_ms=NOW - 300_000),)
    links = (link("s3", "a", usd=0.02), link("dear", "a", gbit_s=2, usd=0.5))
    found = fleet(
        Cluster(
            "a",
            "test",
            (),
            held=held,
            costs=Costs(2.0, watts=400.0),
            wait_s=600.0,
            room_bytes=300 * GB,
            evictable_bytes=100 * GB,
        ),
        links=links,
    )
    asked = job(objective="cost", runtime_origin="as given")
    assert [fact.sentence for fact in facts(asked, one(found, asked), NOW)] == [
        "a holds 90 of 450 GB of imgs (manifest, 5 min ago)",
        "a would move 360 GB of imgs in 48 min from s3, for 7.20 USD",
        "a must first give up 60 GB of unused data",
        "a has room in 10 min",
        "it would start on a in 58 min, run 2 h (as given) and be over in 2 h 58 min",
        "it would cost 12.80 USD on a, of which 7.20 USD for moving data",
        "it would draw 0.8 kWh on a",
        "dear costs 172 USD more and would finish 24 min sooner",
    ]


def test_a_rejection_says_who_can_do_what() -> None:
    """In the words of the catalogue of reasons, with its numbers."""
    asked = job()
    small = fleet(cluster("a", room_bytes=0), links=(link("s3", "a"),))
    (first, *_) = facts(asked, one(small, asked), NOW)
    assert first.code == "data_room"
    assert first.sentence == (
        "a is out: 450 GB of data must come, a has 0 B free for it (cluster owner: free 450 GB "
        "more on a)"
    )
    assert first.numbers["short_bytes"] == 450 * GB


def test_the_margin_says_what_is_gained_and_lost() -> None:
    """In every number that both have."""
    found = fleet(cluster("a", 450), cluster("b", usd=1.0), links=(link("a", "b"),))
    asked = job()
    best, other = rank(asked, estimate_all(asked, found, found.clusters, NOW))
    gained = margin(asked, best, other)
    assert gained.sentence == "a before b: over 1 h sooner, started 1 h sooner, 3 USD cheaper"
    assert gained.numbers["finish_s"] == 3600
    assert "dearer" in margin(asked, other, best).sentence
    unknown = job(None)
    best, other = rank(unknown, estimate_all(unknown, found, found.clusters, NOW))
    assert margin(unknown, best, other).sentence == "a before b: started 1 h sooner"


def test_to_wait_for_the_warm_one_or_to_move() -> None:
    """A short queue is waited for, a long one isn't; without data there is nothing to move."""
    links = (link("warm", "cold"),)

    def chosen(wait_s: float) -> tuple[Course, str]:
        found = fleet(cluster("warm", 450, wait_s=wait_s), cluster("cold"), links=links)
        ranking = rank(job(), estimate_all(job(), found, found.clusters, NOW))
        return course(ranking), told(ranking).sentence

    assert chosen(1200) == (
        Course("wait", "warm", "cold"),
        "wait 20 min for warm rather than move 450 GB to cold in 1 h",
    )
    assert chosen(7200) == (Course("move", "cold"), "move 450 GB to cold")
    assert chosen(0) == (Course("run", "warm"), "run on warm, where the data is")
    assert course(()) == Course("none")
    assert told(()).sentence == "no cluster can take it"
    alone = Fleet((Cluster("a", "test", ()),))
    asked = JobProfile(runtime_s=1.0)
    assert told(estimate_all(asked, alone, alone.clusters, NOW)).sentence == (
        "run on a; there is no data to move"
    )


def test_views_are_the_known_numbers_by_name() -> None:
    """In the units that scores and limits expect; the rejected have none."""
    found = fleet(
        Cluster("a", "test", (), costs=Costs(2.0, watts=300.0), held=cluster("x", 450).held),
        cluster("out"),
        cluster("b", 450),
    )
    seen = views(estimate_all(job(), found, found.clusters, NOW))
    assert seen == {
        "Start": {"a": 0.0, "b": 0.0},
        "Transfer": {"a": 0.0, "b": 0.0},
        "Finish": {"a": 7200.0, "b": 7200.0},
        "Cost": {"a": 4.0, "b": 0.0},
        "Energy": {"a": 600.0},
    }


def test_all_that_is_wrong_is_said_at_once() -> None:
    """Of data, links and clusters, each with its place and what to write."""
    data = (Data("d", "v1", -1), Data("", "v1", 1), Data("d", "v2", 1), Data("d", "v2", 2))
    held = (
        Held("d", "v9", -3),
        Held("d", "v1", 1, lost_probability=7.0),
        Held("d", "v0", 1, shared_bytes=1),
    )
    broken = Cluster(
        "a",
        "test",
        (),
        held=held,
        speed=0.0,
        costs=Costs(-1.0, {"T4": float("nan")}),
        room_bytes=-1,
    )
    links = (link("s3", "a", gbit_s=0), link("a", "nowhere"), link("a", "a", usd=-1.0))
    problems = check(Fleet((broken,), links=links, data=data))
    assert [(each.code, each.path) for each in problems] == [
        ("data/negative", "data.d@v1"),
        ("data/unnamed", "data.@v1"),
        ("data/contradiction", "data"),
        ("link/unusable", "links.s3->a"),
        ("link/unknown-end", "links.a->nowhere"),
        ("link/unusable", "links.a->a"),
        ("cluster/negative", "clusters.a"),
        ("cluster/negative", "clusters.a"),
        ("cluster/negative", "clusters.a"),
        ("cluster/speed", "clusters.a"),
        ("data/negative", "clusters.a.held.d@v9"),
        ("data/unknown-revision", "clusters.a.held.d@v9"),
        ("data/probability", "clusters.a.held.d@v1"),
    ]
    assert all(each.message and each.help for each in problems)


def test_a_sound_fleet_has_no_problems() -> None:
    """A link may also lead to the store that data comes from."""
    data = (replace(IMGS, origin="s3"),)
    links = (link("s3", "a"), link("a", "s3"))
    assert check(fleet(cluster("a", 450), data=data, links=links)) == ()


def test_a_profile_is_made_of_what_was_said() -> None:
    """The label gives the length; a task and its policy name data; nothing is made up."""
    catalogue = Catalogue((IMGS, Data("lm", "v1", GB)))
    policy = Placement(
        "team",
        "p",
        data=("imgs", "lm@v9"),
        objective="weighted",
        usd_per_hour_of_waiting=2.0,
        limits=Limits(finish_by_ms=NOW),
    )
    profile, problems = profile_of(
        catalogue,
        runtime_ms=9 * HOUR_MS,
        nodes=2,
        request=Request(gpu=GpuRequest(4, "A100")),
        data=("imgs@r3", "lm"),
        prewarm=True,
        placement=policy,
    )
    assert profile == JobProfile(
        runtime_s=9 * 3600.0,
        runtime_origin="as given by stellwerk/expected-runtime",
        nodes=2,
        devices={"A100": 4},
        data=(IMGS, Data("lm", "v1", GB)),
        objective="weighted",
        usd_per_hour_of_waiting=2.0,
        prewarm=True,
        deadline_ms=NOW,
    )
    assert [problem.code for problem in problems] == ["data/unknown-revision"]
    bare, _ = profile_of(catalogue)
    assert (bare.runtime_s, bare.runtime_origin, bare.data) == (None, "", ())


def test_windows_that_touch_are_one() -> None:
    """What closes before it opens is none."""
    assert join([(5, 9), (0, 5), (20, 10), (12, 15), (13, 14)]) == [(0, 9), (12, 15)]


def test_a_span_gets_the_first_window_that_holds_it() -> None:
    """Else the one that it misses by least; no windows are no limit."""
    assert fit((), 0, 9.0) == Fit(0.0)
    windows = ((0, 4_000), (10_000, 18_000))
    assert fit(windows, 0, 4.0) == Fit(0.0, 0.0, 4_000)
    assert fit(windows, 1_000, 4.0) == Fit(9.0, 0.0, 18_000)
    assert fit(windows, 1_000, 10.0) == Fit(9.0, 2.0 - 1.0 + 1.0, 18_000)
    assert fit(windows, 18_000, 1.0) is None
    assert fit(((9, 1),), 0, 1.0) is None
