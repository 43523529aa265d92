"""Preemption of live work: a promise is a fact, victims are few, and nobody takes the room."""

from random import Random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.actions import ClaimRoom
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.limits import LEAST_RUN_MS, Limits
from stellwerk.core.model.queueing import Preemption
from stellwerk.core.model.reports import CopyTimed, Reachability
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.place.rooms import Memory
from stellwerk.core.state import State, fold
from stellwerk.core.view import Viewer
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing

ONE = a_shape(a_request(cpus=1))
TWO = a_shape(a_request(cpus=2))
FOUR = a_shape(a_request(cpus=4))
STOPPED = RunEnd(how="signaled", signal=15, put_back=True, new_checkpoint=True)


def a_hall(*queues: object, cpus: int = 8) -> Hall:
    """One machine and these queues."""
    hall = Hall(a_cluster("lab", a_node(cpus=cpus, memory_gib=64)))
    hall.apply(queueing(*queues))  # type: ignore[arg-type]
    return hall


def run(hall: Hall, *keys: str) -> None:
    """Lets these be seen, long enough that they may be stopped."""
    for key in keys:
        hall.seen(key)
    hall.now_ms += LEAST_RUN_MS


def victims_of(hall: Hall) -> list[WorkloadId]:
    """Plans once; gives who is stopped."""
    found = [one for one in hall.plan().actions if isinstance(one, ClaimRoom)]
    hall.cycle()
    return [stop.workload for one in found for stop in one.stops]


def test_the_lower_priority_of_its_queue_makes_room_and_the_head_starts_then() -> None:
    """Notice with the head's name; the head starts when the run is over, the victim waits."""
    hall = a_hall(a_queue("team", 4))
    low = [hall.submit(TWO, queue="team") for _ in range(2)]
    hall.settle()
    run(hall, *low)
    high = hall.submit(TWO, queue="team", priority=5)
    assert victims_of(hall) == [low[1]]
    stopped = hall.workload(low[1]).runs[-1]
    assert (stopped.notice, stopped.notice_reason and stopped.notice_reason.params["name"]) == (
        "preempt", "job-3",
    )  # fmt: skip
    claim = hall.workload(high).claim
    assert claim is not None
    assert claim.victims == (stopped.id,)
    assert hall.told(high) == ["queue_victims"]
    assert hall.cycle() == []
    hall.end(low[1], STOPPED)
    assert hall.workload(low[1]).phase == "Pending"
    assert hall.cycle() == [high]
    assert hall.workload(high).runs[-1].allocation == claim.allocation
    assert hall.workload(high).claim is None
    assert hall.settle() == []


def test_only_a_preemptor_that_really_starts_stops_anybody() -> None:
    """Quota could be had, but no node would have the room."""
    hall = Hall(
        a_cluster("room", a_node("x", cpus=2), a_node("y", cpus=2), kind="room"),
    )
    hall.apply(queueing(a_queue("team", 4)))
    low = [hall.submit(TWO, queue="team") for _ in range(2)]
    hall.settle()
    run(hall, *low)
    hall.submit(a_shape(a_request(cpus=3)), queue="team", priority=5)
    assert victims_of(hall) == []


def test_victims_are_those_whose_room_helps() -> None:
    """One of four CPUs on the right node, not two of the same quota on others."""
    hall = Hall(
        a_cluster("room", a_node("x", cpus=4), a_node("y", cpus=2), kind="room"),
    )
    hall.apply(queueing(a_queue("team", 6)))
    large = hall.submit(FOUR, queue="team")
    hall.settle()
    small = hall.submit(TWO, queue="team")
    hall.settle()
    run(hall, large, small)
    hall.submit(FOUR, queue="team", priority=5)
    assert victims_of(hall) == [large]


def test_room_is_made_within_the_queue_where_quota_was_never_short() -> None:
    """A quota larger than the machine: the higher priority gets the room all the same."""
    hall = a_hall(a_queue("team", 100), cpus=4)
    low = [hall.submit(TWO, queue="team") for _ in range(2)]
    hall.settle()
    run(hall, *low)
    high = hall.submit(TWO, queue="team", priority=1)
    assert len(victims_of(hall)) == 1
    equal = hall.submit(TWO, queue="team")
    assert victims_of(hall) == []
    assert high != equal


def test_what_was_lent_is_claimed_back_from_who_borrows() -> None:
    """`reclaimWithinCohort: Any`, whatever the priorities; and only as much as is needed."""
    hall = a_hall(a_queue("a", 4, cohort="all"), a_queue("b", 4, cohort="all"))
    lent = [hall.submit(TWO, queue="a", priority=9) for _ in range(4)]
    assert hall.settle() == lent
    run(hall, *lent)
    back = hall.submit(TWO, queue="b")
    victims = victims_of(hall)
    assert len(victims) == 1
    hall.end(victims[0], STOPPED)
    assert hall.settle() == [back]
    assert hall.settle() == []


def test_nobody_else_takes_the_room_and_no_second_set_is_chosen() -> None:
    """Meanwhile something of higher priority in another queue wants the same."""
    hall = a_hall(a_queue("a", 4, cohort="all"), a_queue("b", 4, cohort="all"))
    lent = [hall.submit(TWO, queue="a") for _ in range(4)]
    hall.settle()
    run(hall, *lent)
    back = hall.submit(TWO, queue="b")
    [victim] = victims_of(hall)
    other = hall.submit(TWO, queue="a", priority=50)
    for _ in range(3):
        assert [one for one in victims_of(hall) if one == victim] == []
        hall.now_ms += 60_000
    hall.end(victim, STOPPED)
    started = hall.cycle()
    assert back in started
    assert other not in started


def test_a_promise_survives_a_restart() -> None:
    """From the journal and from an image: the same plan, and no second set of victims."""
    hall = a_hall(a_queue("team", 4))
    low = [hall.submit(TWO, queue="team") for _ in range(2)]
    hall.settle()
    run(hall, *low)
    high = hall.submit(TWO, queue="team", priority=5)
    [victim] = victims_of(hall)
    again = State()
    for line in hall.journal:
        fold(again, msgspec.json.decode(line, type=ev.Record))
    for state in (again, State.from_image(hall.state.image())):
        hall.state, hall.viewer = state, Viewer(state)
        assert hall.plan().actions == ()
    hall.end(victim, STOPPED)
    assert hall.cycle() == [high]


def test_who_has_just_begun_is_spared_and_each_time_for_longer() -> None:
    """Two minutes, then four: the plan wakes up when that is over."""
    hall = a_hall(a_queue("team", 2))
    low = hall.submit(TWO, queue="team")
    hall.settle()
    hall.seen(low)
    started = hall.now_ms
    hall.submit(TWO, queue="team", priority=5)
    planned = hall.plan()
    assert planned.wake_at_ms == started + LEAST_RUN_MS
    hall.cycle()
    hall.now_ms = planned.wake_at_ms - 1
    assert victims_of(hall) == []
    hall.now_ms = planned.wake_at_ms
    assert victims_of(hall) == [low]
    hall.end(low, RunEnd(how="signaled", signal=15, put_back=True))
    [high] = hall.settle()
    hall.end(high)
    assert hall.settle() == [low]
    hall.seen(low)
    hall.submit(TWO, queue="team", priority=5)
    assert hall.plan().wake_at_ms == hall.now_ms + 2 * LEAST_RUN_MS


def test_among_equals_goes_who_loses_least() -> None:
    """The younger run, though the older one was started last by the order of age."""
    hall = a_hall(a_queue("team", 4))
    old = hall.submit(TWO, queue="team")
    hall.settle()
    run(hall, old)
    hall.now_ms += 3_600_000
    young = hall.submit(TWO, queue="team")
    hall.settle()
    run(hall, young)
    hall.submit(TWO, queue="team", priority=5)
    assert victims_of(hall) == [young]


def test_a_promise_is_taken_back_when_a_victim_is_out_of_reach() -> None:
    """Nobody knows when it will end; the head waits as before and stops somebody else."""
    hall = Hall(a_cluster("one", a_node("one", cpus=2)), a_cluster("two", a_node("two", cpus=2)))
    hall.apply(queueing(a_queue("team", 4)))
    low = [hall.submit(TWO, queue="team") for _ in range(2)]
    hall.settle()
    run(hall, *low)
    high = hall.submit(TWO, queue="team", priority=5)
    [victim] = victims_of(hall)
    away = hall.workload(victim).runs[-1].allocation.cluster
    hall.report(Reachability(away, "unreachable"))
    hall.cycle()
    assert hall.workload(high).claim is None
    assert victims_of(hall) == [one for one in low if one != victim]
    claim = hall.workload(high).claim
    assert claim is not None
    assert claim.allocation.cluster != away


def test_a_cancelled_preemptor_leaves_nothing_behind() -> None:
    """Its promise goes with it; the room goes to the next."""
    hall = a_hall(a_queue("team", 2))
    low = hall.submit(TWO, queue="team")
    hall.settle()
    run(hall, low)
    high = hall.submit(TWO, queue="team", priority=5)
    assert victims_of(hall) == [low]
    hall.command(cmd.Cancel(high))
    assert not hall.state.quota.claims
    hall.end(low, STOPPED)
    assert hall.settle() == [low]


def test_a_held_preemptor_has_no_promise_any_more() -> None:
    """Held, then released: it is looked at anew."""
    hall = a_hall(a_queue("team", 2))
    low = hall.submit(TWO, queue="team")
    hall.settle()
    run(hall, low)
    high = hall.submit(TWO, queue="team", priority=5)
    assert victims_of(hall) == [low]
    hall.command(cmd.Hold(high))
    assert hall.workload(high).claim is None
    hall.command(cmd.Release(high))
    assert victims_of(hall) == []
    hall.end(low, STOPPED)
    assert hall.settle() == [high]


@pytest.mark.parametrize("within", ["Never", "LowerOrNewerEqualPriority"])
def test_the_rule_of_the_queue_says_who_may_be_stopped(within: str) -> None:
    """Nobody; or also who has the same priority and came later."""
    rules = Preemption(within=within)  # type: ignore[arg-type]
    hall = a_hall(a_queue("team", 2, preemption=rules))
    first = hall.submit(FOUR, queue="team")
    hall.settle()
    newer = hall.submit(TWO, queue="team")
    hall.settle()
    run(hall, newer)
    old = hall.submit(TWO, queue="team", priority=1)
    expected = [newer] if within != "Never" else []
    assert victims_of(hall) == expected
    assert first != old


def test_a_queue_that_is_held_and_drained_gives_up_what_runs() -> None:
    """`stopPolicy: HoldAndDrain`; `Hold` lets it go on."""
    for stop in ("Hold", "HoldAndDrain"):
        hall = a_hall(a_queue("team", 4))
        key = hall.submit(TWO, queue="team")
        hall.settle()
        hall.seen(key)
        hall.apply(queueing(a_queue("team", 4, stop=stop)))
        hall.cycle()
        assert bool(hall.workload(key).runs[-1].notice) == (stop == "HoldAndDrain")
        assert hall.cycle() == []


def test_how_long_a_run_is_spared_and_for_how_many_others_stop_are_settings() -> None:
    """A minute is enough where it is said to be, and nobody is stopped where none may be."""
    hall = a_hall(a_queue("team", 2))
    low = hall.submit(TWO, queue="team")
    hall.settle()
    hall.seen(low)
    hall.submit(TWO, queue="team", priority=5)
    hall.now_ms += 60_000
    assert victims_of(hall) == []
    hall.viewer, hall.memory = Viewer(hall.state, Limits(least_run_ms=60_000, promises=0)), Memory()
    assert victims_of(hall) == []
    hall.viewer, hall.memory = Viewer(hall.state, Limits(least_run_ms=60_000)), Memory()
    assert victims_of(hall) == [low]


def would_stop(hall: Hall) -> list[WorkloadId]:
    """Who would be stopped in the next cycle."""
    claims = [one for one in hall.plan().actions if isinstance(one, ClaimRoom)]
    return [stop.workload for claim in claims for stop in claim.stops]


def test_who_saved_lately_loses_less_than_who_began_lately() -> None:
    """The age of the last checkpoint counts, and what moving it takes; both come from reports."""
    hall = a_hall(a_queue("team", 4))
    saved = hall.submit(TWO, queue="team")
    hall.settle()
    run(hall, saved)
    hall.now_ms += 3_600_000
    young = hall.submit(TWO, queue="team")
    hall.settle()
    run(hall, young)
    hall.now_ms += 600_000

    def copied(copy_ms: int) -> list[ev.Event]:
        one = hall.workload(saved).runs[-1]
        return hall.report(CopyTimed("lab", one.id, one.generation, 10, copy_ms))

    noted = [event for event in copied(1_000) if isinstance(event, ev.CheckpointNoted)]
    assert [one.saved_ms for one in noted] == [hall.now_ms - 1_000]
    assert not copied(1_000), "what is hardly newer isn't noted"
    hall.submit(TWO, queue="team", priority=5)
    assert would_stop(hall) == [saved]
    copied(900_000)
    assert would_stop(hall) == [young], "moving it costs more than the other's work is worth"


def test_so_often_a_day_is_a_workload_stopped_and_so_many_an_hour_on_a_cluster() -> None:
    """After that it is spared, or nobody is stopped there, until the time is over."""
    hall = a_hall(a_queue("team", 2))
    hall.viewer = Viewer(hall.state, Limits(stops_per_day=1))
    low = hall.submit(TWO, queue="team")
    hall.settle()
    run(hall, low)
    hall.now_ms += LEAST_RUN_MS
    first = hall.submit(TWO, queue="team", priority=5)
    hall.settle()
    told_ms = hall.now_ms
    hall.end(low, RunEnd(how="exited", code=85, put_back=True, checkpointed=True))
    assert hall.settle() == [first]
    hall.end(first)
    assert hall.settle() == [low]
    run(hall, low)
    hall.now_ms += 3_600_000
    hall.submit(TWO, queue="team", priority=5)
    assert would_stop(hall) == []
    hall.now_ms = told_ms + 86_400_000
    assert would_stop(hall) == [low]
    hall.viewer, hall.memory = Viewer(hall.state, Limits(stops_per_hour=1)), Memory()
    assert would_stop(hall) == [low], "the one before was more than an hour ago"
    hall.settle()
    hall.end(low, RunEnd(how="exited", code=85, put_back=True, checkpointed=True))
    [second] = hall.settle()
    run(hall, second)
    hall.now_ms += LEAST_RUN_MS
    hall.submit(TWO, queue="team", priority=9)
    where = hall.workload(second).runs[-1].allocation.cluster
    told_ms = hall.state.stops.image()[where][-1]
    assert would_stop(hall) == []
    assert hall.plan().wake_at_ms <= told_ms + 3_600_000
    hall.settle()
    third = max(hall.state.workloads)
    assert hall.told(third) == ["queue_quota", "stops_used_up"]
    hall.now_ms = told_ms + 3_600_000
    assert would_stop(hall) == [second]


@settings(max_examples=5, deadline=None)
@given(st.randoms(use_true_random=False))
def test_what_the_hourly_bound_keeps_waiting_is_told_alike_with_and_without_memory(
    dice: Random,
) -> None:
    """On several clusters, where another one is used up as time goes on: each plan is compared."""
    hall = Hall(*(a_cluster(name, a_node("n0", cpus=4, memory_gib=64)) for name in ("lab", "hall")))
    rules = Preemption(within="LowerPriority", reclaim="Any")
    queues = (replace(a_queue(name, 4, cohort="all"), preemption=rules) for name in "ab")
    hall.apply(queueing(*queues))
    hall.viewer = Viewer(hall.state, Limits(stops_per_hour=dice.randint(1, 2)))
    for _ in range(30):
        shape, priority = a_shape(a_request(cpus=dice.randint(1, 3))), dice.randint(0, 3)
        match dice.choice(("submit", "submit", "end", "wait")):
            case "submit":
                hall.submit(shape, queue=dice.choice("ab"), priority=priority)
            case "end" if hall.running():
                hall.end(dice.choice(list(hall.running())))
            case _:
                hall.now_ms += dice.choice((60_000, 150_000, 900_000, 3_600_000))
        hall.settle()
        for key in list(hall.running()):
            hall.seen(key)
            if hall.workload(key).runs[-1].notice and dice.random() < 0.6:
                hall.end(key, STOPPED)
