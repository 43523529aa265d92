"""Work with wishes goes where a plan over the fleet says, for the same reasons; else it waits."""

from random import Random

import pytest
from msgspec.structs import replace

from stellwerk.core.lower import lower
from stellwerk.core.model.actions import Plan, StartRun, TellWaiting
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster, Costs, Held
from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.ids import RunId, ShapeId, WorkloadId, digest
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.standing import Decided
from stellwerk.core.model.task import Task
from stellwerk.core.place.fleet_record import record_of
from stellwerk.core.place.on_fleet import Answer, plan_on_fleet
from stellwerk.core.place.own import OwnAnswer, OwnGround, decide_own, own_policy
from stellwerk.core.plan import plan
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


@pytest.mark.parametrize("seed", range(60))
def test_a_plan_over_the_fleet_and_the_server_say_the_same(seed: int) -> None:
    """The same cluster, the same alternative, and of each cluster that is refused the same rules."""
    chance = Random(seed)
    fleet = chance_fleet(chance)
    one = chance_task(chance, "t")
    while one.service is not None or one.wishes is None:
        one = chance_task(chance, "t")
    answer = plan_on_fleet([ask(one)], fleet, NOW_MS).answers[0]
    went, decision = outcome(plan(view_of(one, fleet, live(one, fleet))))
    assert went == placed(answer)
    told = {
        (each.cluster, reason.params["found"])
        for each in decision.candidates
        for reason in each.reasons
        if reason.code == "wish_unmet"
    }
    planned = {
        (each.cluster, refusal.rule.found)
        for each in record_of(answer).candidates
        for refusal in each.refusals
        if refusal.rule.filter not in {"Demand", "Estimates", "Needs", "Infra"}
    }
    assert planned <= told
