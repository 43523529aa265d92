"""Work may use kept room that it is predicted to leave in time; wrong predictions cost little."""

from collections.abc import Mapping

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.core.lengths import keys_of
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.ids import WorkloadId, digest
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Policies
from stellwerk.core.place.keeping import Keeping
from stellwerk.core.plan import OVERTAKEN_MS
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing

MINUTE = 60_000


def cpus(count: float, nodes: int = 1) -> Shape:
    """A shape of so many CPUs on so many nodes."""
    return a_shape(a_request(cpus=count, memory_gib=0), num_nodes=nodes)


def taught(hall: Hall, lengths: Mapping[str, int], times: int = 3) -> None:
    """Lets each kind of work be known to have run for so many minutes."""
    for work, minutes in lengths.items():
        keys = keys_of("p", "ada", work, digest(work), "any")
        for _ in range(times):
            hall.state.lengths.learn(keys, minutes * MINUTE)


def a_hall(*, nodes: int = 1) -> Hall:
    """A room of nodes of four CPUs."""
    machines = [a_node(f"n{number}", cpus=4) for number in range(nodes)]
    return Hall(a_cluster("lab", *machines, kind="room"))


def blocked(hall: Hall, queue: str = "default") -> tuple[WorkloadId, WorkloadId]:
    """One that holds three CPUs of four, and one that wants all and was passed for long enough."""
    holder = hall.submit(cpus(3), work="holder", queue=queue)
    assert hall.settle() == [holder]
    head = hall.submit(cpus(4), work="head", queue=queue)
    assert hall.settle() == []
    hall.now_ms += OVERTAKEN_MS
    return holder, head


def passed(hall: Hall, key: WorkloadId) -> tuple[str, ...]:
    """Whom the last run of a workload passed."""
    return hall.workload(key).runs[-1].allocation.passed


@pytest.mark.parametrize("queue", ["default", "bound"])
def test_what_is_over_in_time_uses_kept_room(queue: str) -> None:
    """And what isn't says how long it may run and when the room is needed."""
    hall = a_hall()
    taught(hall, {"holder": 60, "short": 40, "long": 120})
    hall.apply(queueing(a_queue("bound", 8)))
    holder, head = blocked(hall, queue)
    long = hall.submit(a_shape(a_request(cpus=1, memory_gib=1)), work="long", queue=queue)
    assert hall.settle() == []
    waits = hall.state.shapes[hall.workload(long).shape].waits
    assert waits is not None
    [reason] = waits.reasons
    assert reason.code == "room_kept"
    assert int(reason.params["lasts_ms"]) > int(reason.params["needed_ms"])
    assert "it may run for 2 h" in render(reason).sentence
    short = hall.submit(cpus(1), work="short", queue=queue)
    assert hall.settle() == [short]
    assert passed(hall, short) == (head,)
    hall.now_ms += 40 * MINUTE
    hall.end(short)
    hall.end(holder)
    assert hall.settle()[0] == head


def test_nothing_passes_by_a_length_that_nobody_knows() -> None:
    """Neither where its own isn't known, nor where that of what holds the room isn't."""
    hall = a_hall()
    taught(hall, {"short": 5})
    blocked(hall)
    short = hall.submit(cpus(1), work="short")
    assert hall.settle() == []
    waits = hall.state.shapes[hall.workload(short).shape].waits
    assert waits is not None
    assert waits.reasons[0].params["unknown"] == "what else is there"
    hall = a_hall()
    taught(hall, {"holder": 600})
    blocked(hall)
    hall.submit(a_shape(a_request(cpus=1, memory_gib=1)), work="new")
    limit = Policies(time_limit_ms=20 * MINUTE)
    limited = hall.submit(cpus(1), work="new", policies=limit)
    assert hall.settle() == [limited]


def test_who_comes_later_may_pass_once_more_is_known() -> None:
    """What outlives its median is expected to run on; the plan asks to be made again by then."""
    hall = a_hall()
    taught(hall, {"holder": 30, "quick": 25})
    taught(hall, {"holder": 100}, times=2)
    blocked(hall)
    quick = hall.submit(cpus(1), work="quick")
    begun_ms, started = hall.now_ms, hall.settle()
    while not started and (wake_ms := hall.plan().wake_at_ms):
        assert begun_ms < wake_ms < begun_ms + 40 * MINUTE
        hall.now_ms = wake_ms
        started = hall.settle()
    assert started == [quick]


@pytest.mark.parametrize("nodes", [1, 2])
def test_it_would_starve_if_those_who_passed_were_counted_on(
    nodes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The property below shows something: runs that never keep their time would follow another."""
    lives = [(step, 50) for step in range(5, 150, 5)]
    assert waited_for(nodes, 70, lives) <= 0
    monkeypatch.setattr(Keeping, "_without_passers", lambda _self, room, _id: room)
    monkeypatch.setattr("stellwerk.core.place.cycle.marked", lambda one, _kept, _head, _queue: one)
    assert waited_for(nodes, 70, lives) > 0


@settings(max_examples=12, deadline=None)
@given(
    nodes=st.integers(1, 2),
    holds=st.integers(15, 90),
    lives=st.lists(st.tuples(st.integers(0, 120), st.integers(1, 90)), min_size=3, max_size=12),
)
def test_a_head_is_late_by_one_wrong_run_at_most(
    nodes: int, holds: int, lives: list[tuple[int, int]]
) -> None:
    """However long those run that are let pass, and however long what holds the room."""
    assert waited_for(nodes, holds, lives) <= 0


def waited_for(nodes: int, holds: int, lives: list[tuple[int, int]]) -> int:
    """By how many minutes a head that wants all nodes is later than the last end of what held them
    when they began to be kept, and then the longest run of one that passed; and two for the steps.

    Those that come have a minute and how long they really run; they are said to run for ten.
    """
    hall = a_hall(nodes=nodes)
    taught(hall, {"holder": 60, "short": 10}, times=60)
    begun_ms = hall.now_ms
    holder = hall.submit(cpus(3), work="holder")
    hall.settle()
    head = hall.submit(cpus(4, nodes), work="head")
    lengths, ends = dict[WorkloadId, int](), {holder: holds}
    kept_from = OVERTAKEN_MS // MINUTE
    longest, last, late = 0, kept_from, dict[WorkloadId, None]()
    minutes, minute = {kept_from, *(at for at, _ in lives)}, 0
    while minutes or ends:
        minute = min((*minutes, *ends.values()))
        minutes.discard(minute)
        hall.now_ms = begun_ms + minute * MINUTE
        for key in [key for key, end in ends.items() if end <= minute]:
            last = last if key in late else max(last, minute)
            hall.end(key)
            del ends[key]
        coming = [length for at, length in lives if at == minute]
        lengths.update({hall.submit(cpus(1), work="short"): length for length in coming})
        started = hall.cycle()
        assert not hall.cycle()
        for key in started:
            if key == head:
                return minute - last - longest - 2
            ends[key] = minute + lengths[key]
            if minute >= kept_from:
                late[key] = None
                longest = max(longest, lengths[key])
    return minute
