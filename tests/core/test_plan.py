"""One cycle of planning: who starts, who waits and why, and that nobody waits for ever."""

import random

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.actions import StartRun, StopRun, TellWaiting
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Request, Shape
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.core.place.room import Room
from stellwerk.core.plan import OVERTAKEN_MS, STARTS_PER_CYCLE, plan
from stellwerk.core.view import HEADS, View, Viewer
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core import oracle
from tests.core.arbitrary import clusters, shapes
from tests.core.hall import Hall

FLEETS = st.tuples(clusters("a"), clusters("b"))
QUEUES = st.lists(st.tuples(shapes(), st.integers(0, 2)), min_size=1, max_size=8)


def a_hall(fleet: tuple[Cluster, ...], queue: list[tuple[Shape, int]]) -> Hall:
    """A fleet with a queue before it."""
    hall = Hall(*fleet)
    for shape, priority in queue:
        hall.submit(shape, priority=priority)
    return hall


def holds(rooms: list[Room], shape: Shape) -> bool:
    """Whether some cluster has room for some alternative."""
    return any(
        oracle.replicas(room, one.request, shape.num_nodes) == shape.num_nodes
        for room in rooms
        for one in shape.alternatives
    )


def starts_in_order(view: View) -> list[str]:
    """Who must start: everyone in order of priority and age, unless an equal one had to wait."""
    rooms = [Room(one.cluster, (held for _, held in one.allocations)) for one in view.clusters]
    planned = {one.workload: one for one in plan(view).actions if isinstance(one, StartRun)}
    heads = [(head, shape) for shape in view.shapes for head in shape.heads]
    blocked = set()
    started = []
    for head, shape in sorted(heads, key=lambda one: (-one[0].priority, one[0].order)):
        if shape.id in blocked or not holds(rooms, shape.shape):
            blocked.add(shape.id)
            continue
        started.append(head.id)
        allocation = planned[head.id].allocation
        for room in rooms:
            if room.cluster.name == allocation.cluster:
                room.take(allocation)
    return list(started)


@given(FLEETS, QUEUES)
def test_the_queue_is_gone_through_in_order(
    fleet: tuple[Cluster, ...], queue: list[tuple[Shape, int]]
) -> None:
    """Priority, then age; who doesn't fit lets others pass, but not its equals."""
    hall = a_hall(fleet, queue)
    expected = starts_in_order(hall.view())
    assert hall.cycle() == expected


@settings(max_examples=40)
@given(FLEETS, QUEUES, st.integers(0, 1), st.integers(0, 1 << 32))
def test_planning_a_carried_out_plan_gives_nothing(
    fleet: tuple[Cluster, ...], queue: list[tuple[Shape, int]], aged: int, seed: int
) -> None:
    """Also when room is kept, also when something has ended meanwhile."""
    hall = a_hall(fleet, queue)
    dice = random.Random(seed)
    for _ in range(3):
        hall.now_ms += aged * OVERTAKEN_MS
        planned = hall.plan()
        hall.cycle()
        again = hall.plan()
        assert again.actions == ()
        assert planned.complete
        assert again.wake_at_ms == planned.wake_at_ms
        for key in sorted(hall.running()):
            if dice.random() < 0.5:
                hall.end(key)


@given(FLEETS, QUEUES)
def test_who_waits_is_told_why(fleet: tuple[Cluster, ...], queue: list[tuple[Shape, int]]) -> None:
    """After a cycle every shape that waits has its reasons, and the decision has them too."""
    hall = a_hall(fleet, queue)
    planned = hall.plan()
    hall.cycle()
    decisions = {one.id: one for one in planned.decisions}
    for shape in hall.state.shapes.values():
        if shape.entries:
            assert shape.waits
            assert shape.waits.reasons == decisions[shape.waits.decision].reasons
    for action in planned.actions:
        assert not isinstance(action, StartRun) or decisions[action.decision].chosen >= 0


def test_the_oldest_of_equals_starts_first() -> None:
    """First in, first out, over a restart of the first too."""
    hall = Hall(a_cluster("lab", a_node(cpus=2)))
    keys = [hall.submit() for _ in range(5)]
    assert hall.cycle() == keys[:2]
    hall.end(keys[0], RunEnd(how="exited", code=85, put_back=True, checkpointed=True))
    assert hall.cycle() == [keys[0]]
    hall.end(keys[1])
    assert hall.cycle() == [keys[2]]


def test_a_plan_that_has_not_looked_at_all_says_so() -> None:
    """Of one shape only the first are looked at; who comes after them starts in a later plan."""
    hall = Hall(a_cluster("lab", a_node(cpus=4_000)))
    keys = [hall.submit() for _ in range(2 * HEADS + 1)]
    started: list[WorkloadId] = []
    complete: list[bool] = []
    while not complete or not complete[-1]:
        complete.append(hall.plan().complete)
        started += hall.cycle()
    assert started == keys
    assert complete == [False, False, True]


def test_priority_comes_before_age() -> None:
    """And a changed priority counts at once."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    first, second, third = hall.submit(), hall.submit(priority=1), hall.submit()
    hall.command(cmd.SetPriority(third, 2))
    assert hall.cycle() == [third]
    hall.end(third)
    assert hall.cycle() == [second]
    hall.end(second)
    assert hall.cycle() == [first]


def test_a_second_job_like_one_that_is_over_starts() -> None:
    """The view of the first one isn't taken for that of the second."""
    hall = Hall(a_cluster())
    for _ in range(3):
        key = hall.submit()
        assert hall.settle() == [key]
        hall.end(key)


def test_one_cycle_starts_a_bounded_number() -> None:
    """And the next ones go on where it stopped."""
    hall = Hall(a_cluster("lab", a_node(cpus=1000)))
    keys = [hall.submit(a_shape(a_request(cpus=0.5))) for _ in range(STARTS_PER_CYCLE + 10)]
    others = [hall.submit(a_shape(a_request(cpus=0.25))) for _ in range(10)]
    assert hall.cycle() == keys[:STARTS_PER_CYCLE]
    assert hall.cycle() == [*keys[STARTS_PER_CYCLE:], *others]
    assert hall.cycle() == []


def test_reasons_are_told_again_only_when_they_are_others() -> None:
    """Numbers may drift; a new kind of reason is told."""
    hall = Hall(a_cluster("lab", a_node(cpus=4, memory_gib=16)))
    runs = [hall.submit(a_shape(a_request(cpus=1, memory_gib=4))) for _ in range(4)]
    hall.settle()
    big = hall.submit(a_shape(a_request(cpus=4)))
    assert any(isinstance(action, TellWaiting) for action in hall.plan().actions)
    hall.settle()
    hall.end(runs[0])
    assert hall.plan().actions == ()
    away = replace(hall.state.clusters["lab"].nodes[0], state="drained", note="new cards")
    hall.fold([ev.ClusterObserved(replace(hall.state.clusters["lab"], nodes=(away,)))])
    hall.settle()
    assert hall.told(big) == ["drained"]


def test_a_cancelled_run_is_given_notice_once() -> None:
    """With its grace, or without any."""
    hall = Hall(a_cluster())
    key = hall.submit(policies=Policies(grace_ms=7_000))
    hall.settle()
    hall.command(cmd.Cancel(key))
    (stop,) = hall.plan().actions
    assert isinstance(stop, StopRun)
    assert (stop.why, stop.grace_ms) == ("cancel", 7_000)
    hall.settle()
    assert hall.plan().actions == ()
    hall.command(cmd.Cancel(key, now=True))
    (again,) = hall.plan().actions
    assert isinstance(again, StopRun)
    assert again.grace_ms == 0
    hall.settle()
    assert hall.plan().actions == ()
    assert hall.command(cmd.Cancel(key, now=True)) == []


def test_it_is_woken_when_time_alone_changes_something() -> None:
    """The end of a back-off, or that the first in a queue has been passed long enough."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    failing = hall.submit(policies=Policies(max_restarts_on_errors=1))
    hall.settle()
    begun = hall.now_ms
    hall.end(failing, RunEnd(how="exited", code=1))
    due = hall.workload(failing).not_before_ms
    assert due > begun
    assert hall.plan().wake_at_ms == due
    assert hall.cycle() == []
    hall.now_ms = due
    assert hall.cycle() == [failing]
    waiting = hall.submit()
    hall.settle()
    assert hall.plan().wake_at_ms == hall.workload(waiting).queued_ms + OVERTAKEN_MS
    hall.now_ms += OVERTAKEN_MS
    hall.settle()
    assert hall.plan().wake_at_ms == 0


@settings(max_examples=30)
@given(FLEETS, QUEUES, st.integers(0, 1 << 32))
def test_the_order_in_which_shapes_are_told_does_not_matter(
    fleet: tuple[Cluster, ...], queue: list[tuple[Shape, int]], seed: int
) -> None:
    """The same starts at the same places, whatever order a view lists its parts in."""
    view = a_hall(fleet, queue).view()
    mixed = list(view.shapes)
    random.Random(seed).shuffle(mixed)
    one, other = plan(view), plan(replace(view, shapes=tuple(mixed)))

    def starts(actions: tuple[object, ...]) -> list[object]:
        return [action for action in actions if isinstance(action, StartRun)]

    assert starts(one.actions) == starts(other.actions)
    assert set(map(repr, one.actions)) == set(map(repr, other.actions))


def test_an_empty_view_gives_an_empty_plan() -> None:
    """Nothing waits, nothing is to be done, nothing wakes it."""
    hall = Hall(a_cluster())
    planned = plan(hall.view())
    assert (planned.actions, planned.decisions, planned.wake_at_ms) == ((), (), 0)


def test_a_decision_names_what_it_was_made_of() -> None:
    """The state it saw, by its place in the journal, the facts by hash, the time and the rules."""
    hall = Hall(a_cluster())
    hall.submit()
    view = hall.view()
    (decision,) = plan(view).decisions
    assert decision.inputs.seq == hall.state.seq
    assert decision.inputs.now_ms == hall.now_ms
    assert decision.inputs.facts == {"lab": view.clusters[0].facts}


def test_work_that_names_no_room_waits_beside_work_that_has_some() -> None:
    """A gang that is too large for now doesn't stop a small job of another shape."""
    nodes = [a_node(f"pc{number}", cpus=2) for number in range(3)]
    hall = Hall(a_cluster("room", *nodes, kind="room"))
    gang = a_shape(a_request(cpus=2), num_nodes=3)
    first, second = hall.submit(gang), hall.submit(gang)
    small = hall.submit(a_shape(Request(cpus_milli=500)))
    assert hall.settle() == [first]
    assert hall.told(second) == ["no_room"]
    assert hall.told(small) == ["no_room"]
    hall.end(first)
    assert hall.settle() == [second]


def test_two_viewers_of_one_state_plan_the_same() -> None:
    """A plan is a function of its view."""
    hall = Hall(a_cluster("lab", a_node(cpus=2)))
    for _ in range(4):
        hall.submit()
    assert plan(hall.view()) == plan(Viewer(hall.state).take(hall.now_ms))


def test_held_and_unknown_workloads_are_no_part_of_a_plan() -> None:
    """What is held isn't started, and has its reason."""
    hall = Hall(a_cluster())
    key = hall.submit(held=True)
    assert hall.settle() == []
    assert hall.workload(key).reasons == (Reason("held", {"actor": "ada"}),)
    hall.command(cmd.Release(key))
    assert hall.settle() == [WorkloadId(key)]
