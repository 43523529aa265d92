"""Work with wishes goes where a plan over the fleet says, for the same reasons; else it waits."""

from random import Random

import pytest
from msgspec.structs import replace

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.lower import lower
from stellwerk.core.model.actions import Plan, StartRun, TellWaiting
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster, Costs, Held
from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.ids import RunId, ShapeId, WorkloadId, digest
from stellwerk.core.model.placement import Limits, Placement, Prioritizer, Toleration
from stellwerk.core.model.placing import PlacingContext
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.selectors import Requirement
from stellwerk.core.model.standing import Decided
from stellwerk.core.model.task import Task
from stellwerk.core.place.fleet_record import record_of
from stellwerk.core.place.on_fleet import Answer, plan_on_fleet
from stellwerk.core.place.own import OwnAnswer, OwnGround, decide_own, own_policy
from stellwerk.core.place.placing import choose
from stellwerk.core.plan import plan
from stellwerk.core.standing import without_job
from stellwerk.core.view import ClusterView, Head, ShapeView, View
from tests.core.place.small_fleets import (
    DATA,
    NOW_MS,
    ask,
    chance_fleet,
    chance_task,
    cluster,
    fleet_of,
    node,
    task,
)

HOUR_MS = 3_600_000
HEADER = "run: x\nresources: {cpus: 4, labels: {%s}}\n"


def wishing(**wishes: str) -> Task:
    """A job with these labels."""
    texts = (f"stellwerk/{name.replace('_', '-')}: '{value}'" for name, value in wishes.items())
    return task(HEADER % ", ".join(texts))


def live(one: Task, fleet: Fleet, *placements: Placement, now_ms: int = NOW_MS) -> OwnAnswer:
    """What a server decides for a task over a fleet."""
    shape = lower(one).shape
    policy = own_policy(shape, {each.key: each for each in placements})
    assert policy is not None
    return decide_own(shape, policy, OwnGround(fleet), now_ms)


def view_of(
    one: Task, fleet: Fleet, answer: OwnAnswer | None, decided: dict[str, Decided] | None = None
) -> View:
    """A cycle in which the task waits on a fleet of which every cluster can be reached."""
    shape = lower(one).shape
    id = ShapeId(digest(shape))
    taken: dict[str, list[tuple[RunId, Allocation]]] = {}
    for number, held in enumerate(fleet.taken):
        taken.setdefault(held.cluster, []).append((RunId(f"w-{number}-1"), held))
    clusters = tuple(
        ClusterView(each, 1, "", tuple(taken.get(each.name, ()))) for each in fleet.clusters
    )
    head = Head(WorkloadId("w"), 1, 0, 1, NOW_MS, "w")
    shapes = (ShapeView(id, shape, 1, (head,), 1, None),)
    own = {} if answer is None else {id: answer.decided}
    return View(1, NOW_MS, 0, clusters, shapes, (), placements=decided or {}, own=own)


def outcome(planned: Plan) -> tuple[tuple[str, int] | None, Decision]:
    """Where a cycle starts the task, and the decision that says why."""
    [decision] = planned.decisions
    for action in planned.actions:
        if isinstance(action, StartRun):
            return (action.allocation.cluster, action.allocation.alternative), decision
        assert isinstance(action, TellWaiting)
    return None, decision


def placed(answer: Answer) -> tuple[str, int] | None:
    """Where a plan over a fleet puts a job."""
    for name in answer.choice.clusters if answer.allocations else ():
        return name, answer.options[name].alternative
    return None


def chance_case(chance: Random) -> tuple[Task, Fleet]:
    """A job with wishes and limits, and a fleet of which some clusters open later."""
    fleet = chance_fleet(chance)
    opens_ms = NOW_MS + chance.choice((0, HOUR_MS))
    window = (opens_ms, opens_ms + chance.choice((4, 30)) * HOUR_MS)
    clusters = tuple(
        replace(one, windows=(window,)) if chance.random() < 0.25 else one for one in fleet.clusters
    )
    one = chance_task(chance, "t")
    while one.service is not None or one.wishes is None:
        one = chance_task(chance, "t")
    limits = replace(
        one.wishes.limits,
        usd_max=chance.choice((0.0, 0.0, 6.0, 20.0)),
        usd_per_hour_max=chance.choice((0.0, 0.0, 3.0)),
        finish_by_ms=chance.choice((0, 0, NOW_MS + 7 * HOUR_MS)),
    )
    one = replace(one, wishes=replace(one.wishes, limits=limits))
    return one, replace(fleet, clusters=clusters)


@pytest.mark.parametrize("seed", range(40))
def test_a_plan_over_the_fleet_and_the_server_say_the_same(seed: int) -> None:
    """The same cluster and alternative, now or when a window opens, and the same rules refuse."""
    one, fleet = chance_case(Random(seed))
    answer = plan_on_fleet([ask(one)], fleet, NOW_MS).answers[0]
    went, decision = outcome(plan(view_of(one, fleet, live(one, fleet))))
    planned_at = placed(answer)
    if planned_at is not None and answer.options[planned_at[0]].estimate.opens_in_s:
        later = [each for each in decision.reasons if each.code == "opens_later"]
        assert went is None
        assert planned_at[0] in [each.params["cluster"] for each in later]
    else:
        assert went == planned_at
    told = {
        (each.cluster, str(reason.params["found"]))
        for each in decision.candidates
        for reason in each.reasons
        if reason.code == "wish_unmet"
    }
    late = {
        each.cluster
        for each in decision.candidates
        for reason in each.reasons
        if reason.code == "after_deadline"
    }
    planned = {
        (each.cluster, refusal.rule.found)
        for each in record_of(answer).candidates
        for refusal in each.refusals
        if refusal.rule.filter not in {"Demand", "Estimates", "Needs", "Infra"}
        and not ("s from now" in refusal.rule.rule and each.cluster in late)
    }
    assert planned <= told


@pytest.mark.parametrize("seed", range(15))
def test_they_agree_on_work_that_names_a_placement_too(seed: int) -> None:
    """Limits, scores and an objective of the placement count beside what the task wishes."""
    chance = Random(seed)
    one, fleet = chance_case(chance)
    fleet = replace(fleet, clusters=tuple(replace(each, windows=()) for each in fleet.clusters))
    limits = Limits(
        (Requirement("compliance", "In", ("gdpr",)),) if chance.random() < 0.3 else (),
        usd_per_hour_max=chance.choice((0.0, 4.0)),
    )
    named = Placement(
        "ns",
        "p",
        limits=limits,
        objective=chance.choice(("score", "cost", "finish")),
        prioritizers=(Prioritizer("Latency", 2), Prioritizer("Cost")),
        tolerations=(Toleration("k", "Exists"),) if chance.random() < 0.5 else (),
    )
    one = replace(one, placement="ns/p")
    context = PlacingContext(NOW_MS)
    stands = choose(without_job(named), FleetColumns(fleet), context).clusters
    view = view_of(one, fleet, live(one, fleet, named), {"ns/p": Decided("pd", stands)})
    went, _ = outcome(plan(view))
    assert went == placed(plan_on_fleet([ask(one, named)], fleet, NOW_MS).answers[0])


def told_of(one: Task, fleet: Fleet, answer: OwnAnswer | None) -> list[tuple[str, str]]:
    """Why a task waits: codes with the cluster, worst first."""
    went, decision = outcome(plan(view_of(one, fleet, answer)))
    assert went is None
    assert all(render(reason).remedy for reason in decision.reasons)
    return [(one.code, str(one.params.get("cluster", ""))) for one in decision.reasons]


def priced(name: str, usd_per_hour: float, **more: object) -> Cluster:
    """A cluster of one node with 16 CPUs at a price."""
    return cluster(name, node("n"), costs=Costs(usd_per_hour), **more)


def test_until_it_is_decided_work_waits_its_turn() -> None:
    """Nothing starts on a guess, and the reason says that it is a matter of moments."""
    one = wishing(objective="cost")
    fleet = fleet_of(priced("a", 1))
    [decision] = plan(view_of(one, fleet, None)).decisions
    assert [render(each).tier for each in decision.reasons] == ["turn"]
    assert told_of(one, fleet, None) == [("own_not_decided", "")]


def test_what_no_cluster_meets_is_told_with_numbers_and_change() -> None:
    """Price, end, claims and latency: each with what was found and the least that would do."""
    fleet = fleet_of(priced("a", 2, claims={"region": "EU"}))
    wishes = {
        "max_usd": ("1", "2 usd", "allow 2 usd"),
        "max_usd_per_hour": ("1.5", "2 usd/h", "allow 2 usd/h"),
        "require": ("compliance in (gdpr)", "no compliance", "claim compliance in (gdpr)"),
        "max_latency": ("5ms", "nobody knows", "tell its latency from eu-west"),
    }
    for name, (value, found, change) in wishes.items():
        one = wishing(expected_runtime="1h", clients="eu-west", **{name: value})
        _, decision = outcome(plan(view_of(one, fleet, live(one, fleet))))
        [reason] = decision.reasons
        assert (reason.code, reason.params["found"]) == ("wish_unmet", found), name
        assert change in render(reason).remedy
        assert render(reason).tier == "blocked"


def test_a_cost_that_nobody_knows_is_not_within_a_limit() -> None:
    """Without a length only what is free meets `max-usd`, and what is missing is told."""
    fleet = fleet_of(priced("a", 2), priced("own", 0))
    one = wishing(max_usd="1")
    assert outcome(plan(view_of(one, fleet, live(one, fleet))))[0] == ("own", 0)
    dear = fleet_of(priced("a", 2))
    _, decision = outcome(plan(view_of(one, dear, live(one, dear))))
    [reason] = decision.reasons
    assert "stellwerk/expected-runtime" in render(reason).remedy


def test_a_full_cluster_gives_way_to_the_next_at_once() -> None:
    """The order is decided once; what is full is left out by each cycle without asking again."""
    busy = Allocation("cheap", replace(plan_parts(), cluster="cheap").nodes)
    fleet = fleet_of(priced("cheap", 1), priced("dear", 2))
    one = wishing(expected_runtime="1h", objective="cost")
    answer = live(one, fleet)
    assert outcome(plan(view_of(one, fleet, answer)))[0] == ("cheap", 0)
    full = replace(fleet, taken=(busy,))
    assert outcome(plan(view_of(one, full, answer)))[0] == ("dear", 0)
    assert live(one, full).decided.matters == answer.decided.matters


def test_what_others_hold_of_a_machine_is_no_refusal() -> None:
    """CPUs, memory and cards that somebody outside has come back like those of one's own runs."""
    mine = node("n", "L4", 1, cpus=4)
    held = replace(
        mine,
        foreign_cpus_milli=4000,
        foreign_memory_bytes=mine.memory_bytes,
        devices=tuple(replace(one, foreign_bytes=one.memory_bytes) for one in mine.devices),
    )
    one = wishing(objective="cost", expected_runtime="1h")
    answer = live(one, fleet_of(cluster("a", held)))
    assert [each.cluster for each in answer.decided.ranked] == ["a"]
    assert answer.decided.refused == ()
    went, decision = outcome(plan(view_of(one, fleet_of(cluster("a", held)), answer)))
    assert went is None
    assert [each.verdict for each in decision.candidates] == ["later"]


def plan_parts() -> Allocation:
    """All of a node."""
    one = task("run: x\nresources: {cpus: 16}\n")
    answer = plan_on_fleet([ask(one)], fleet_of(priced("a", 0)), NOW_MS).answers[0]
    return answer.allocations[0]


def test_it_waits_for_a_window_where_that_is_better() -> None:
    """As the plan does: for the cheap one that opens in an hour, unless it has no room then."""
    opens_ms = NOW_MS + HOUR_MS
    cheap = priced("cheap", 1, windows=((opens_ms, opens_ms + 9 * HOUR_MS),))
    fleet = fleet_of(cheap, priced("dear", 2))
    one = wishing(expected_runtime="1h", objective="cost")
    answer = live(one, fleet)
    assert told_of(one, fleet, answer) == [("opens_later", "cheap"), ("better_opens", "dear")]
    assert answer.due_ms == opens_ms
    planned = plan_on_fleet([ask(one)], fleet, NOW_MS).answers[0]
    assert planned.choice.clusters == ("cheap",)
    assert live(one, fleet, now_ms=opens_ms).decided.ranked[0].cluster == "cheap"
    full = replace(fleet, taken=(replace(plan_parts(), cluster="cheap"),))
    assert outcome(plan(view_of(one, full, live(one, full))))[0] == ("dear", 0)
    policy = own_policy(lower(one).shape, {})
    assert policy is not None
    far = decide_own(lower(one).shape, policy, OwnGround(fleet), NOW_MS, here=("dear",)).decided
    assert [each.cluster for each in far.ranked] == ["dear"], "where no driver is nothing opens"


def test_a_deadline_is_looked_at_again_when_it_nears() -> None:
    """The last moment to start is when the decision is due; from then on it is refused."""
    by_ms = NOW_MS + 3 * HOUR_MS
    one = wishing(expected_runtime="2h", finish_by="2027-01-15T11:00:00Z")
    assert one.wishes is not None
    assert one.wishes.limits.finish_by_ms == by_ms
    fleet = fleet_of(priced("a", 0))
    answer = live(one, fleet)
    assert outcome(plan(view_of(one, fleet, answer)))[0] == ("a", 0)
    assert answer.due_ms == by_ms - 2 * HOUR_MS + 1
    late = live(one, fleet, now_ms=answer.due_ms)
    assert told_of(one, fleet, late) == [("after_deadline", "a")]


def test_an_order_of_alternatives_holds_over_clusters() -> None:
    """The second is let in only where the first fits nowhere now; a set is ranked by cost."""
    text = "run: x\nresources:\n  %s: [{accelerators: L40S}, {accelerators: T4}]\n"
    text += "  labels: {stellwerk/objective: cost, stellwerk/expected-runtime: 1h}\n"
    big = cluster("big", node("n", "L40S", 1), costs=Costs(5))
    small = cluster("small", node("n", "T4", 1), costs=Costs(1))
    fleet = fleet_of(big, small)
    ordered, either = task(text % "ordered"), task(text % "any_of")
    assert outcome(plan(view_of(ordered, fleet, live(ordered, fleet))))[0] == ("big", 0)
    assert outcome(plan(view_of(either, fleet, live(either, fleet))))[0] == ("small", 1)
    busy = plan_on_fleet([ask(ordered)], fleet, NOW_MS).answers[0].allocations
    full = replace(fleet, taken=busy)
    assert outcome(plan(view_of(ordered, full, live(ordered, full))))[0] == ("small", 1)


def test_a_named_placement_bounds_it_too() -> None:
    """Its limits narrow what the task wishes, and only clusters that it has chosen are used."""
    text = "run: x\nresources: {cpus: 4, labels: {stellwerk/objective: cost, "
    text += "stellwerk/placement: ns/p, stellwerk/expected-runtime: 1h}}\n"
    one = task(text)
    policy = Placement("ns", "p", limits=replace(Placement("", "").limits, usd_max=3.0))
    fleet = fleet_of(priced("a", 1), priced("b", 2), priced("c", 4))
    answer = live(one, fleet, policy)
    assert [each.cluster for each in answer.decided.ranked] == ["a", "b"]
    decided = {"ns/p": Decided("pd", ("c", "b"))}
    went, decision = outcome(plan(view_of(one, fleet, answer, decided)))
    assert went == ("b", 0)
    told = {each.cluster: [r.code for r in each.reasons] for each in decision.candidates}
    assert told == {"a": ["not_chosen"], "b": [], "c": ["wish_unmet"]}
    for known, code in (({}, "no_placement"), ({"ns/p": Decided("")}, "not_decided")):
        went, decision = outcome(plan(view_of(one, fleet, answer, known)))
        assert [each.code for each in decision.reasons] == [code]
    unplaced = lower(one).shape
    assert own_policy(unplaced, {}) is None


def test_data_decides_and_a_name_that_nobody_knows_is_told() -> None:
    """Where it is held comes first; a typo blocks with what it may mean."""
    warm = priced("warm", 1, held=(Held("imgs", "r1", DATA.bytes),))
    fleet = fleet_of(priced("cold", 1), warm)
    one = wishing(data="imgs@r1", expected_runtime="1h", objective="finish")
    assert outcome(plan(view_of(one, fleet, live(one, fleet))))[0] == ("warm", 0)
    typo = wishing(data="imgz@r1")
    assert told_of(typo, fleet, live(typo, fleet)) == [("wish_broken", "")]


@pytest.mark.parametrize("seed", range(6))
def test_what_is_kept_of_clusters_changes_no_answer(seed: int) -> None:
    """A fleet in which some clusters changed is judged as one that nobody has seen before."""
    chance = Random(seed)
    fleet, other = chance_fleet(chance), chance_fleet(chance)
    mixed = replace(
        fleet,
        clusters=tuple(
            chance.choice(pair) for pair in zip(fleet.clusters, other.clusters, strict=True)
        ),
    )
    one = wishing(expected_runtime="1h", objective="cost", max_usd="3")
    shape: Shape = lower(one).shape
    policy = own_policy(shape, {})
    assert policy is not None
    before = OwnGround(fleet)
    decide_own(shape, policy, before, NOW_MS)
    again = decide_own(shape, policy, OwnGround(mixed, before), NOW_MS)
    assert again == decide_own(shape, policy, OwnGround(mixed), NOW_MS)
