"""One cycle of planning: who starts, who waits and why, and that nobody waits for ever."""

import random

import pytest
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
from stellwerk.core.plan import KEPT_AT_ONCE, OVERTAKEN_MS, STARTS_PER_CYCLE, plan
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


@given(FLEETS, QUEUES, st.integers(0, 1), st.integers(0, 1 << 32))
def test_planning_a_carried_out_plan_gives_nothing(
    fleet: tuple[Cluster, ...], queue: list[tuple[Shape, int]], aged: int, seed: int
) -> None:
    """Also when room is kept, also when something has ended meanwhile."""
    hall = a_hall(fleet, queue)
    dice = random.Random(seed)
    for _ in range(3):
        hall.now_ms += aged * OVERTAKEN_MS
        hall.cycle()
        assert hall.plan().actions == ()
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


def stream(large: Shape, *, cpus: float, run_ms: int, minutes: int) -> int:
    """Lets small jobs stream past a large one; gives how long the large one waited, or -1."""
    hall = Hall(a_cluster("lab", a_node(cpus=cpus, gpus=2, memory_gib=64)))
    small = a_shape(a_request(cpus=1, memory_gib=1))
    ends: list[tuple[int, str]] = []
    begun = hall.now_ms
    waiting = None
    for step in range(minutes * 6):
        hall.now_ms = begun + step * 10_000
        for _, key in [one for one in ends if one[0] <= hall.now_ms]:
            hall.end(key)
        ends = [one for one in ends if one[0] > hall.now_ms]
        for _ in range(3):
            hall.submit(small)
        if step == 12:
            waiting = hall.submit(large)
        for key in hall.settle():
            if key == waiting:
                return hall.now_ms - hall.workload(key).submitted_ms
            ends.append((hall.now_ms + run_ms, key))
    return -1


LARGE = [
    a_shape(a_request(cpus=4, memory_gib=1)),
    a_shape(a_request(cpus=4, gpus=2)),
    a_shape(a_request(cpus=2), num_nodes=2),
    a_shape(a_request(cpus=4, gpus=1), a_request(cpus=4), ordered=True),
]


@pytest.mark.parametrize("large", LARGE)
def test_a_large_job_is_not_starved_by_a_stream_of_small_ones(large: Shape) -> None:
    """It is passed for ten minutes; then it waits only for what runs already."""
    run_ms = 65_000
    waited = stream(large, cpus=4, run_ms=run_ms, minutes=30)
    assert OVERTAKEN_MS <= waited <= OVERTAKEN_MS + run_ms + 20_000


@pytest.mark.parametrize("large", LARGE[:2])
def test_it_would_starve_if_no_room_were_kept(
    large: Shape, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream is one that starves: the test above shows something."""
    monkeypatch.setattr("stellwerk.core.plan.OVERTAKEN_MS", 1 << 60)
    assert stream(large, cpus=4, run_ms=65_000, minutes=14) == -1


def test_kept_room_leaves_the_rest_to_others() -> None:
    """One that needs both cards doesn't close the machine for work without."""
    hall = Hall(a_cluster("lab", a_node(cpus=8, gpus=2)))
    holder = hall.submit(a_shape(a_request(cpus=1, gpus=1)))
    hall.settle()
    both = hall.submit(a_shape(a_request(cpus=2, gpus=2)))
    hall.now_ms += OVERTAKEN_MS
    one_card = hall.submit(a_shape(a_request(cpus=1, gpus=1)))
    plain = [hall.submit(a_shape(a_request(cpus=1))) for _ in range(8)]
    assert hall.settle() == plain[:5]
    assert hall.told(one_card) == ["room_kept"]
    assert hall.told(both) == ["no_room"]
    hall.end(holder)
    assert hall.settle()[0] == both


def test_room_is_kept_where_it_is_nearest() -> None:
    """The other machine of the room stays open."""
    room = a_cluster("room", a_node("pc0", cpus=4), a_node("pc1", cpus=4), kind="room")
    hall = Hall(room)
    short, long = hall.submit(a_shape(a_request(cpus=1))), hall.submit(a_shape(a_request(cpus=3)))
    hall.settle()
    assert [hall.workload(key).runs[0].allocation.nodes[0].node for key in (short, long)] == [
        "pc0",
        "pc0",
    ]
    hall.end(short)
    other = hall.submit(a_shape(a_request(cpus=2)))
    hall.settle()
    assert hall.workload(other).runs[0].allocation.nodes[0].node == "pc1"
    large = hall.submit(a_shape(a_request(cpus=4)))
    hall.settle()
    hall.now_ms += OVERTAKEN_MS
    hall.submit(a_shape(a_request(cpus=2)))
    assert hall.settle() == []
    hall.end(long)
    assert hall.settle()[0] == large


def test_room_is_kept_for_a_few_at_a_time() -> None:
    """For the first in the queue; on two more nodes others still pass."""
    nodes = [a_node(f"pc{number:02}", cpus=2) for number in range(KEPT_AT_ONCE + 2)]
    hall = Hall(a_cluster("room", *nodes, kind="room"))
    holders = [hall.submit(a_shape(a_request(cpus=1.5))) for _ in nodes]
    assert hall.settle() == holders
    wide = [hall.submit(a_shape(a_request(cpus=2, disk_gib=size))) for size in range(1, 13)]
    hall.settle()
    hall.now_ms += OVERTAKEN_MS
    small = [hall.submit(a_shape(a_request(cpus=0.5))) for _ in nodes]
    assert hall.settle() == small[:2]
    for holder in holders[:3]:
        hall.end(holder)
    assert hall.settle() == wide[:3]


def test_one_cycle_starts_a_bounded_number() -> None:
    """And the next ones go on where it stopped."""
    hall = Hall(a_cluster("lab", a_node(cpus=1000)))
    keys = [hall.submit(a_shape(a_request(cpus=0.5))) for _ in range(STARTS_PER_CYCLE + 10)]
    others = [hall.submit(a_shape(a_request(cpus=0.25))) for _ in range(10)]
    assert hall.cycle() == keys[:STARTS_PER_CYCLE]
    assert hall.cycle() == [*keys[STARTS_PER_CYCLE:], *others]
    assert hall.cycle() == []


def test_a_view_shows_only_the_heads_of_a_queue() -> None:
    """Counted are all."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    keys = [hall.submit() for _ in range(HEADS + 5)]
    (shape,) = hall.view().shapes
    assert [head.id for head in shape.heads] == keys[:HEADS]
    assert shape.count == HEADS + 5


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
    assert hall.told(big) == ["not_ready"]


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


def test_a_node_that_is_avoided_is_used_only_where_no_other_could_do() -> None:
    """It waits for another node, and comes back to this one when the other is gone."""
    room = a_cluster("room", a_node("bad", cpus=2), a_node("good", cpus=2), kind="room")
    hall = Hall(room)
    holder = hall.submit(replace(a_shape(a_request(cpus=2)), avoid=("room/bad",)))
    assert hall.settle() == [holder]
    assert hall.workload(holder).runs[0].allocation.nodes[0].node == "good"
    waiting = hall.submit(replace(a_shape(a_request(cpus=1)), avoid=("room/bad",)))
    assert hall.settle() == []
    assert hall.told(waiting) == ["no_room"]
    away = replace(room, nodes=(room.nodes[0], replace(room.nodes[1], state="drained")))
    hall.fold([ev.ClusterObserved(away)])
    assert hall.settle() == [waiting]
    assert hall.workload(waiting).runs[0].allocation.nodes[0].node == "bad"


def test_a_cluster_of_avoided_nodes_alone_says_so() -> None:
    """While another cluster could do."""
    hall = Hall(a_cluster("a", a_node("a1")), a_cluster("b", a_node("b1", cpus=1)))
    shape = replace(a_shape(a_request(cpus=1)), avoid=("a/a1",))
    first, second = hall.submit(shape), hall.submit(shape)
    assert hall.settle() == [first]
    assert hall.workload(first).runs[0].allocation.cluster == "b"
    assert sorted(hall.told(second)) == ["no_room", "nodes_avoided"]
