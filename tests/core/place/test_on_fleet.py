"""Plans over a fleet: what each task gets, what it waits for, and what never happens."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.cluster import Costs, Held
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.placement import Limits, Placement, Prioritizer
from stellwerk.core.model.resources import Allocation
from stellwerk.core.place.fleet_record import record_of
from stellwerk.core.place.on_fleet import Answer, FleetPlan, plan_on_fleet, replicas_of
from stellwerk.core.place.options import parts_of
from stellwerk.core.place.policies import find_placement, tighter
from tests.core.place.small_fleets import (
    DATA,
    KINDS,
    NOW_MS,
    ask,
    chance_fleet,
    chance_task,
    cluster,
    fleet_of,
    node,
)

SEEDS = st.integers(0, 1 << 32)
TRAIN = "name: t\nrun: x\nresources:\n  accelerators: A100-80GB:2\n"
HOURS = '  labels: {"stellwerk/expected-runtime": "%dh"}\n'


def one_answer(plan: FleetPlan) -> Answer:
    (answer,) = plan.answers
    return answer


def test_a_job_takes_the_best_of_alternatives_and_clusters() -> None:
    """An alternative that is slower loses to another on another cluster."""
    fleet = fleet_of(
        cluster("slow", node("n", "A100-80GB", 2), speed=1.0),
        cluster("fast", node("n", "L40S", 4), speed=2.0),
    )
    text = "run: x\nresources:\n  %s:\n  - accelerators: A100-80GB:2\n  - accelerators: L40S:4\n"
    for choice, expected in (("any_of", "fast"), ("ordered", "slow")):
        plan = plan_on_fleet([ask(text % choice + HOURS % 4)], fleet, NOW_MS)
        assert one_answer(plan).choice.clusters == (expected,)


def test_what_is_ordered_falls_back_only_where_it_must() -> None:
    """The second alternative is taken if the first is nowhere to be had."""
    fleet = fleet_of(cluster("fast", node("n", "L40S", 4), speed=2.0))
    text = (
        "run: x\nresources:\n  ordered:\n  - accelerators: A100-80GB:2\n  - accelerators: L40S:4\n"
    )
    answer = one_answer(plan_on_fleet([ask(text)], fleet, NOW_MS))
    assert answer.allocations[0].alternative == 1


def test_a_service_takes_on_each_cluster_what_that_has() -> None:
    """One alternative here, another there, in one decision."""
    fleet = fleet_of(
        cluster("a", node("n", "L40S", 1)),
        cluster("b", node("n", "A100-80GB", 2)),
    )
    text = (
        "run: x\nservice: {readiness_probe: /, replicas: 3}\nresources:\n  any_of:\n"
        "  - accelerators: L40S:1\n  - accelerators: A100-80GB:1\n"
        '  labels: {"stellwerk/clusters": "2"}\n'
    )
    answer = one_answer(plan_on_fleet([ask(text)], fleet, NOW_MS))
    assert (answer.replicas, answer.unplaced) == ({"a": 1, "b": 2}, 0)
    assert {one.cluster: one.alternative for one in answer.allocations} == {"a": 0, "b": 1}


def test_a_job_waits_for_room_that_this_plan_has_given_away() -> None:
    """The second begins when the first is over, and says after whom; a third after that."""
    fleet = fleet_of(cluster("a", node("n", "A100-80GB", 2)))
    asks = [ask(TRAIN.replace("t\n", f"t{n}\n", 1) + HOURS % 3) for n in range(3)]
    plan = plan_on_fleet(asks, fleet, NOW_MS)
    records = [record_of(one) for one in plan.answers]
    assert [one.verdict for one in records] == ["placed", "waits", "waits"]
    assert [one.clusters[0].after for one in records] == ["", "t0", "t1"]
    assert [one.clusters[0].figures.starts_s for one in records] == [0, 3 * 3600, 6 * 3600]


def test_nobody_waits_for_what_has_no_known_end() -> None:
    """A job of unknown length holds its room for good, as a service does."""
    fleet = fleet_of(cluster("a", node("n", "A100-80GB", 2)))
    asks = [ask(TRAIN), ask(TRAIN.replace("t\n", "u\n", 1) + HOURS % 3)]
    answers = plan_on_fleet(asks, fleet, NOW_MS).answers
    assert record_of(answers[1]).verdict == "nowhere"
    assert record_of(answers[1]).turns == ("a: 2 more A100-80GB free",)


def test_waiting_for_a_warm_cluster_is_weighed_against_moving() -> None:
    """Where the data is, it waits; and the course says so."""
    warm = cluster("warm", node("n", "A100-80GB", 2), held=(Held("imgs", "r1", DATA.bytes),))
    fleet = fleet_of(replace(warm, wait_s=60.0), cluster("cold", node("n", "A100-80GB", 2)))
    text = TRAIN + '  labels: {"stellwerk/expected-runtime": "1h", "stellwerk/data": "imgs@r1"}\n'
    record = record_of(one_answer(plan_on_fleet([ask(text)], fleet, NOW_MS)))
    assert record.clusters[0].cluster == "warm"
    assert record.course == "wait 1 min for warm rather than move 100 GB to cold in 13 min"


def test_a_job_waits_for_a_window_and_a_service_does_not() -> None:
    """A window that opens later delays the start; who runs for good needs it open now."""
    opens = ((NOW_MS + 3_600_000, NOW_MS + 9 * 3_600_000),)
    fleet = fleet_of(cluster("a", node("n", "A100-80GB", 2), windows=opens))
    job = record_of(one_answer(plan_on_fleet([ask(TRAIN + HOURS % 3)], fleet, NOW_MS)))
    assert (job.verdict, job.clusters[0].figures.starts_s) == ("placed", 3600)
    long = record_of(one_answer(plan_on_fleet([ask(TRAIN + HOURS % 30)], fleet, NOW_MS)))
    assert [each.rule.rule for each in long.candidates[0].refusals] == ["window_too_short"]
    text = TRAIN + "service: {readiness_probe: /}\n"
    assert record_of(one_answer(plan_on_fleet([ask(text)], fleet, NOW_MS))).verdict == "nowhere"


def test_of_two_that_are_over_as_soon_the_cheaper_is_better() -> None:
    """Names decide only between those that cost the same."""
    dear, cheap = (
        cluster(name, node("n", "A100-80GB", 2), costs=Costs(usd))
        for name, usd in (("a", 2.0), ("b", 1.0))
    )
    answer = one_answer(plan_on_fleet([ask(TRAIN + HOURS % 3)], fleet_of(dear, cheap), NOW_MS))
    assert answer.choice.clusters == ("b",)


def test_money_and_time_are_weighed_until_the_end() -> None:
    """With an hour worth enough, the dearer and faster is better."""
    fleet = fleet_of(
        cluster("fast", node("n", "A100-80GB", 2), speed=2.0, costs=Costs(10.0)),
        cluster("slow", node("n", "A100-80GB", 2)),
    )
    for worth, best in ((9.0, "slow"), (11.0, "fast")):
        change = {"objective": "weighted", "usd_per_hour_of_waiting": worth}
        answer = one_answer(plan_on_fleet([ask(TRAIN + HOURS % 4, **change)], fleet, NOW_MS))
        assert answer.choice.clusters == (best,)


def test_a_limit_that_nobody_can_judge_asks_for_the_length() -> None:
    """Where the job's length is all that isn't known, that is what to say."""
    fleet = fleet_of(cluster("a", node("n", "A100-80GB", 2), costs=Costs(1.0)))
    asked = ask(TRAIN, limits=Limits(usd_max=5.0))
    record = record_of(one_answer(plan_on_fleet([asked], fleet, NOW_MS)))
    (refusal,) = record.candidates[0].refusals
    assert refusal.sentence.startswith("nobody said how long it runs")
    assert record.turns == ("a: say so with the label `stellwerk/expected-runtime: 9h`",)


def test_cards_of_any_kind_have_the_price_of_those_that_are_given() -> None:
    """A request by memory alone isn't free."""
    priced = cluster("a", node("n", "A100-80GB", 2), costs=Costs(1.0, {"A100-80GB": 2.0}))
    text = "run: x\nresources:\n  accelerators: 24GB+:2\n" + HOURS % 2
    record = record_of(one_answer(plan_on_fleet([ask(text)], fleet_of(priced), NOW_MS)))
    assert (record.clusters[0].figures.usd_per_hour, record.clusters[0].figures.cost_usd) == (5, 10)


def test_a_service_is_compared_by_what_an_hour_costs() -> None:
    """It has no end, so what it costs in all isn't known; the price of an hour is."""
    fleet = fleet_of(
        cluster("a", node("n", "L40S", 1), costs=Costs(2.0)),
        cluster("b", node("n", "L40S", 1), costs=Costs(1.0)),
    )
    text = "run: x\nservice: {readiness_probe: /}\nresources: {accelerators: L40S}\n"
    for change in ({"objective": "cost"}, {"prioritizers": (Prioritizer("Cost"),)}):
        answer = one_answer(plan_on_fleet([ask(text, **change)], fleet, NOW_MS))
        assert answer.choice.clusters == ("b",)


def test_clusters_of_which_only_totals_are_known_fill_up_too() -> None:
    """A second task doesn't find what the first has taken."""
    totals = replace(cluster("a"), allocatable={"cpu": 8000, "nvidia.com/gpu": 4000})
    text = "run: x\nresources: {accelerators: 'T4:3'}\n"
    totals = replace(totals, claims={"gpu.model": "T4"})
    plan = plan_on_fleet([ask(text), ask(text)], fleet_of(totals), NOW_MS)
    assert [record_of(one).verdict for one in plan.answers] == ["placed", "nowhere"]


def test_a_cluster_that_does_not_say_which_cards_it_has_is_asked() -> None:
    """Many hubs tell a number of cards and no kind."""
    totals = replace(cluster("a"), allocatable={"cpu": 8000, "nvidia.com/gpu": 4000})
    text = "run: x\nresources: {accelerators: 'T4:3'}\n"
    record = record_of(one_answer(plan_on_fleet([ask(text)], fleet_of(totals), NOW_MS)))
    (refusal,) = record.candidates[0].refusals
    assert refusal.sentence == "has 4 nvidia.com/gpu, asked is 3 T4"
    assert refusal.change_if == "claim a gpu.model=T4"


def test_a_cluster_of_which_nothing_is_known_is_refused_once_and_a_lack_of_cpus_is_one() -> None:
    """Nobody said that it has none; and where no CPUs are told that isn't about its cards."""
    text = "run: x\nresources: {accelerators: 'T4:3', cpus: 2, memory: 1}\n"
    cards = {"nvidia.com/gpu": 4000, "memory": 1000 * 8 * 2**30}
    counted = replace(cluster("b"), claims={"gpu.model": "T4"}, allocatable=cards)
    plan = plan_on_fleet([ask(text)], fleet_of(cluster("a"), counted), NOW_MS)
    told = {one.cluster: one.refusals for one in record_of(one_answer(plan)).candidates}
    assert [one.sentence for one in told["a"]] == ["nobody says what it has"]
    assert [one.sentence for one in told["b"]] == ["asks for 2 CPUs, 0 free of 0"]


def test_a_placement_may_be_named_without_its_namespace() -> None:
    """As long as only one has the name; else it is said what there is, or what may be meant."""
    known = {f"{space}/{name}": Placement(space, name) for space, name in (("a", "x"), ("b", "y"))}
    found = find_placement("x", known)
    assert isinstance(found, Placement)
    assert found.key == "a/x"
    both = {**known, "b/x": Placement("b", "x")}
    assert find_placement("x", both) == Problem(
        "fleet/placement", "several placements are called `x`", "write `a/x` or `b/x`"
    )
    for written, remedy in (("a/z", "did you mean `a/x`?"), ("ö", "placements are `a/x`, `b/y`")):
        missing = find_placement(written, known)
        assert isinstance(missing, Problem)
        assert missing.help == remedy


def test_wishes_only_narrow() -> None:
    """The tighter of both limits holds."""
    limits = tighter(Limits(usd_max=5, latency_ms=0), Limits(usd_max=9, latency_ms=3))
    assert (limits.usd_max, limits.latency_ms) == (5, 3)


def _planned(seed: int) -> tuple[Fleet, FleetPlan]:
    chance = Random(seed)
    fleet = chance_fleet(chance)
    asks = [ask(chance_task(chance, f"t{number}")) for number in range(3)]
    return fleet, plan_on_fleet(asks, fleet, NOW_MS)


@settings(max_examples=40)
@given(SEEDS)
def test_no_device_is_given_away_beyond_its_memory_at_any_time(seed: int) -> None:
    """Over all tasks that overlap, with what was in use before."""
    fleet, plan = _planned(seed)
    for moment in {booking.from_s for booking in plan.bookings}:
        held: dict[tuple[str, str, int], int] = {}
        running = [b.allocation for b in plan.bookings if b.from_s <= moment < b.until_s]
        for one in (*fleet.taken, *running):
            for part in one.nodes:
                for share in part.devices:
                    key = (one.cluster, part.node, share.index)
                    held[key] = held.get(key, 0) + share.memory_bytes
        sizes = {
            (c.name, n.name, d.index): d.memory_bytes
            for c in fleet.clusters
            for n in c.nodes
            for d in n.devices
        }
        assert all(amount <= sizes[key] for key, amount in held.items())


@settings(max_examples=40)
@given(SEEDS)
def test_replicas_are_all_placed_or_told_and_lie_evenly(seed: int) -> None:
    """On chosen clusters only; one has two more than another only where that one is full."""
    chance = Random(seed)
    fleet = chance_fleet(chance)
    one = ask(chance_task(chance, "t"))
    answer = one_answer(plan_on_fleet([one], fleet, NOW_MS))
    counts = {name: answer.replicas.get(name, 0) for name in answer.choice.clusters}
    assert sum(counts.values()) + answer.unplaced == replicas_of(one.task)
    assert set(answer.replicas) <= set(counts)
    for allocation in answer.allocations:
        name = allocation.cluster
        if one.task.service is None:
            continue
        assert len(allocation.nodes) == counts[name]
        held = tuple(each for each in fleet.taken if each.cluster == name)
        more = parts_of(
            next(each for each in fleet.clusters if each.name == name),
            (*held, allocation),
            answer.options[name].request,
            1,
        )
        if more:
            assert max(counts.values()) <= counts[name] + 1
            assert not answer.unplaced


@settings(max_examples=40)
@given(SEEDS)
def test_wishes_of_a_task_can_only_narrow_what_it_may_have(seed: int) -> None:
    """With one limit more, no cluster passes that didn't pass before."""
    chance = Random(seed)
    fleet, one = chance_fleet(chance), ask(chance_task(chance, "t"))
    limits = chance.choice(
        [
            Limits(usd_per_hour_max=chance.choice([0.6, 2.0])),
            Limits(usd_max=chance.choice([1.0, 5.0])),
            Limits(latency_ms=10.0, client_regions=("eu-west",)),
        ]
    )
    narrowed = replace(one, policy=replace(one.policy, limits=tighter(one.policy.limits, limits)))
    passed, fewer = (
        {
            each.cluster
            for each in record_of(one_answer(plan_on_fleet([asked], fleet, NOW_MS))).candidates
            if each.verdict != "refused"
        }
        for asked in (one, narrowed)
    )
    if one.task.choice != "ordered":
        assert fewer <= passed


@settings(max_examples=40)
@given(SEEDS)
def test_a_cluster_that_cannot_be_had_changes_nothing(seed: int) -> None:
    """One more cluster, without anything that is asked for, changes no decision."""
    chance = Random(seed)
    fleet = chance_fleet(chance)
    asks = [ask(chance_task(chance, f"t{number}")) for number in range(2)]
    empty = cluster("zz", node("n", "", 0, 4))
    larger = replace(fleet, clusters=(*fleet.clusters, empty))
    before, after = (plan_on_fleet(asks, one, NOW_MS) for one in (fleet, larger))
    for old, new in zip(before.answers, after.answers, strict=True):
        assert (old.choice.clusters, old.allocations) == (new.choice.clusters, new.allocations)


@settings(max_examples=40)
@given(SEEDS)
def test_names_of_clusters_are_only_names(seed: int) -> None:
    """Other names in the same order give the same plan under these names."""
    chance = Random(seed)
    fleet = chance_fleet(chance)
    asks = [ask(chance_task(chance, f"t{number}")) for number in range(2)]
    names = {one.name: f"x-{one.name}" for one in fleet.clusters}
    renamed = replace(
        fleet,
        clusters=tuple(replace(one, name=names[one.name]) for one in fleet.clusters),
        links=tuple(
            replace(one, source=names[one.source], target=names[one.target]) for one in fleet.links
        ),
        taken=tuple(replace(one, cluster=names[one.cluster]) for one in fleet.taken),
        latencies=tuple(replace(one, cluster=names[one.cluster]) for one in fleet.latencies),
    )
    before, after = (plan_on_fleet(asks, one, NOW_MS) for one in (fleet, renamed))
    for old, new in zip(before.answers, after.answers, strict=True):
        told = tuple(Allocation(names[a.cluster], a.nodes, a.alternative) for a in old.allocations)
        assert told == new.allocations


@settings(max_examples=40)
@given(SEEDS)
def test_planning_again_on_what_was_decided_changes_nothing(seed: int) -> None:
    """With its own decisions as what exists, a plan has no moves."""
    chance = Random(seed)
    fleet = chance_fleet(chance)
    asks = [ask(chance_task(chance, f"t{number}")) for number in range(2)]
    first = plan_on_fleet(asks, fleet, NOW_MS)
    again = plan_on_fleet(asks, fleet, NOW_MS, first.decisions)
    for old, new in zip(first.answers, again.answers, strict=True):
        assert set(old.choice.clusters) == set(new.choice.clusters)
        assert new.choice.moves == ()


@settings(max_examples=40)
@given(SEEDS)
def test_every_cluster_is_told_with_numbers_that_add_up(seed: int) -> None:
    """Each has a verdict; scores sum up to the total; who is refused has a rule, who isn't none."""
    fleet, plan = _planned(seed)
    for answer in plan.answers:
        record = record_of(answer)
        assert {one.cluster for one in record.candidates} == {one.name for one in fleet.clusters}
        for one in record.candidates:
            assert (one.verdict == "refused") == bool(one.refusals)
            if one.verdict != "refused":
                assert one.total == sum(score.contribution for score in one.scores)


def test_a_deadline_that_is_missed_is_told_once() -> None:
    """In the words of the estimate, with the change that would turn it, which does."""
    text = (
        "run: x\nresources: {labels: {stellwerk/expected-runtime: 2h,"
        " stellwerk/finish-by: '2027-01-15T09:00:00Z'}}\n"
    )
    fleet = fleet_of(cluster("a", node("n")))
    record = record_of(one_answer(plan_on_fleet([ask(text)], fleet, NOW_MS)))
    (refusal,) = record.candidates[0].refusals
    assert refusal.sentence == "on a it would be over 1 h after its deadline"
    assert refusal.change_if == "limit finish-by=7200s"


@pytest.mark.parametrize("kind", list(KINDS))
def test_what_a_cluster_has_is_said_beside_what_is_asked(kind: str) -> None:
    """A kind that isn't there at all is named with the kinds that are."""
    other = next(one for one in KINDS if one != kind)
    fleet = fleet_of(cluster("a", node("n", other, 2)))
    text = f"run: x\nresources: {{accelerators: '{kind}:2'}}\n"
    record = record_of(one_answer(plan_on_fleet([ask(text)], fleet, NOW_MS)))
    (refusal,) = record.candidates[0].refusals
    assert refusal.sentence == f"has 2 {other}, asked is 2 {kind}"
