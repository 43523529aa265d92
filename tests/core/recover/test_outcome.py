"""What follows from an end: done, failed, back to the queue (at once or later), or held."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.catalogue import CATALOGUE, render
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.workload import NoticeWhy, Policies, RunEnd
from stellwerk.core.recover.outcome import (
    AWAY_IN_A_ROW,
    BACKOFF_FIRST_MS,
    BACKOFF_MOST_MS,
    LOST,
    LOST_IN_A_ROW,
    QUICK_MS,
    QUICKLY_LOST_MS,
    Outcome,
    node_of,
    outcome,
)
from stellwerk.testing.builders import (
    a_cluster,
    a_node,
    a_request,
    a_run,
    a_shape,
    a_workload,
    an_allocation,
)
from tests.core.hall import Hall

SHAPE = a_shape(a_request(memory_gib=4))
ASKED = RunEnd(how="exited", code=85, put_back=True, checkpointed=True)
CUT_OFF = RunEnd(how="notice", code=143, put_back=True)
FAILED = RunEnd(how="exited", code=1)
NOW = 10_000_000


def follows(
    end: RunEnd,
    *,
    notice: NoticeWhy | str = "",
    policies: Policies | None = None,
    preemptions: int = 0,
    cancelling: bool = False,
    retries: int = 0,
    ran_ms: int = 3_600_000,
    said: Reason | None = None,
) -> tuple[Reason, Outcome]:
    """What follows for a workload whose first run ends now."""
    run = replace(a_run(), notice=notice, notice_reason=said, started_ms=NOW - ran_ms)
    workload = replace(
        a_workload(shape=SHAPE, runs=(run,), policies=policies),
        preemptions=preemptions,
        cancelling=cancelling,
        cancelled_by="bob",
        retries=retries,
    )
    return outcome(workload, run, end, SHAPE, NOW)


TWO_MORE = Policies(max_restarts_on_errors=2, time_limit_ms=60_000)

TABLE: list[tuple[RunEnd, str, Policies, str, str]] = [
    (RunEnd(how="exited", code=0), "", TWO_MORE, "Succeeded", "succeeded"),
    (RunEnd(how="exited", code=0), "preempt", TWO_MORE, "Succeeded", "succeeded"),
    (RunEnd(how="exited", code=0), "abort", TWO_MORE, "Succeeded", "succeeded"),
    (FAILED, "", Policies(), "Failed", "exit_code"),
    (FAILED, "", TWO_MORE, "Requeued", "exit_code"),
    (RunEnd(how="signaled", signal=9, code=137), "", TWO_MORE, "Requeued", "killed"),
    (RunEnd(how="setup_failed", code=1), "", TWO_MORE, "Requeued", "setup_failed"),
    (RunEnd(how="setup_failed", code=1), "", Policies(), "Failed", "setup_failed"),
    (RunEnd(how="spawn_failed"), "", Policies(), "Failed", "spawn_failed"),
    (RunEnd(how="time_limit", code=143), "time_limit", TWO_MORE, "Failed", "time_limit"),
    (RunEnd(how="log_limit"), "", TWO_MORE, "Failed", "log_limit"),
    (RunEnd(how="killed", code=137), "", TWO_MORE, "Failed", "killed_by_order"),
    (RunEnd(how="start_refused", message="x"), "", Policies(), "Requeued", "start_refused"),
    (ASKED, "", Policies(), "Requeued", "checkpointed"),
    (replace(ASKED, code=77), "", Policies(), "Requeued", "checkpointed"),
    (ASKED, "preempt", Policies(), "Requeued", "checkpointed"),
    (CUT_OFF, "preempt", Policies(), "Requeued", "preempted"),
    (CUT_OFF, "window", Policies(), "Requeued", "preempted"),
    (replace(CUT_OFF, code=0), "preempt", Policies(), "Requeued", "preempted"),
    (CUT_OFF, "abort", TWO_MORE, "Failed", "aborted"),
    (ASKED, "abort", TWO_MORE, "Failed", "aborted"),
    (RunEnd(how="reboot"), "", Policies(), "Requeued", "machine_rebooted"),
    (RunEnd(how="reboot"), "preempt", Policies(), "Requeued", "machine_rebooted"),
    (RunEnd(how="wrapper_died"), "", Policies(), "Requeued", "run_lost"),
    (RunEnd(how="machine_lost", message="gone"), "", Policies(), "Requeued", "run_lost"),
    (RunEnd(how="never_started"), "", Policies(), "Requeued", "run_lost"),
    (RunEnd(how="declared_lost", message="eve"), "", Policies(), "Requeued", "declared_lost"),
    (RunEnd(how="cancelled", code=143), "cancel", TWO_MORE, "Cancelled", "cancelled"),
]


@pytest.mark.parametrize(("end", "notice", "policies", "then", "code"), TABLE)
def test_each_end_has_its_outcome(
    end: RunEnd, notice: str, policies: Policies, then: str, code: str
) -> None:
    """With a reason that is known and reads whole."""
    reason, event = follows(end, notice=notice, policies=policies)
    assert reason.code == code
    assert (event.phase if isinstance(event, ev.WorkloadEnded) else type(event).__name__) == then
    for one in (reason, event.reason):
        rendered = render(one)
        assert one.code in CATALOGUE
        assert "not recorded" not in rendered.sentence + rendered.remedy


@pytest.mark.parametrize("row", TABLE)
def test_cancel_wins_over_everything(row: tuple[RunEnd, str, Policies, str, str]) -> None:
    """Success, failure, loss, a wish to go on: after a cancel it is Cancelled, by whom is told."""
    end, notice, policies, _, _ = row
    reason, event = follows(end, notice=notice, policies=policies, cancelling=True)
    assert isinstance(event, ev.WorkloadEnded)
    assert event.phase == "Cancelled"
    assert render(reason).sentence == "cancelled by bob"


def test_an_idle_end_is_no_failure_and_is_not_tried_again() -> None:
    """However it took its notice."""
    idle = Reason("idle", {"idle_ms": 60_000})
    for end in (CUT_OFF, ASKED, RunEnd(how="cancelled", code=0)):
        reason, event = follows(end, notice="abort", policies=TWO_MORE, said=idle)
        assert reason == idle
        assert isinstance(event, ev.WorkloadEnded)
        assert (event.phase, event.reason) == ("Cancelled", idle)


def test_retries_are_counted_and_end() -> None:
    """Two restarts are three runs; each wait is longer; the last failure is the reason."""
    hall = Hall(a_cluster())
    key = hall.submit(policies=Policies(max_restarts_on_errors=2))
    waits = []
    for number in (1, 2):
        hall.settle()
        hall.end(key, FAILED)
        workload = hall.workload(key)
        assert (workload.phase, workload.retries) == ("Pending", number)
        waits.append(workload.not_before_ms - hall.now_ms)
        assert hall.settle() == []
        hall.now_ms = workload.not_before_ms
    assert waits == [BACKOFF_FIRST_MS, 2 * BACKOFF_FIRST_MS]
    assert hall.settle() == [key]
    _, ended = hall.end(key, FAILED)
    assert isinstance(ended, ev.WorkloadEnded)
    assert (ended.phase, ended.reason.code) == ("Failed", "exit_code")


def test_a_retry_tells_what_failed() -> None:
    """In the failure's own words, with the wait."""
    missing = replace(FAILED, last_lines=("ModuleNotFoundError: No module named 'torch'",))
    _, event = follows(missing, policies=TWO_MORE)
    assert render(event.reason).sentence == (
        "try 1 of 3 failed: Python did not find the module `torch`; the next one waits 5 s"
    )


@given(st.integers(0, 10**9))
def test_the_wait_before_a_retry_is_bounded(retries: int) -> None:
    """However often it may be tried."""
    _, event = follows(FAILED, policies=Policies(max_restarts_on_errors=10**10), retries=retries)
    assert isinstance(event, ev.Requeued)
    assert BACKOFF_FIRST_MS <= event.not_before_ms - NOW <= BACKOFF_MOST_MS


def test_preemptions_and_losses_are_not_charged() -> None:
    """A job that may never be retried survives them."""
    for end, notice in ((CUT_OFF, "preempt"), (RunEnd(how="reboot"), ""), (ASKED, "")):
        _, event = follows(end, notice=notice, policies=Policies())
        assert isinstance(event, ev.Requeued)
        assert not event.charged


@pytest.mark.parametrize(
    ("end", "before", "held"),
    [
        (CUT_OFF, 1, False),
        (CUT_OFF, 2, True),
        (replace(CUT_OFF, new_checkpoint=True), 2, False),
        (replace(CUT_OFF, checkpointed=True), 2, False),
    ],
)
def test_three_stops_without_a_checkpoint_hold_it(end: RunEnd, before: int, held: bool) -> None:
    """A checkpoint, whether by exit status or found in its folder, is progress."""
    _, event = follows(end, notice="preempt", preemptions=before)
    assert isinstance(event, ev.Held) == held
    if held:
        assert render(event.reason).sentence == (
            "it was stopped 3 times in a row and wrote no new checkpoint"
        )


def put_back(hall: Hall, key: str, *, after_ms: int) -> int:
    """Runs once, asks to be put back after a while; gives how long it must wait then."""
    hall.now_ms = max(hall.now_ms, hall.workload(key).not_before_ms)
    assert hall.settle() == [key]
    hall.seen(key)
    hall.now_ms += after_ms
    hall.end(key, ASKED)
    return max(0, hall.workload(key).not_before_ms - hall.now_ms)


def test_a_job_that_asks_at_once_for_ever_is_slowed_down() -> None:
    """Each time it waits longer, up to a bound; it is told why, and it is never failed for it."""
    hall = Hall(a_cluster())
    key = hall.submit()
    waits = [put_back(hall, key, after_ms=100) for _ in range(30)]
    assert waits[0] == 0
    assert waits[1:4] == [BACKOFF_FIRST_MS, 2 * BACKOFF_FIRST_MS, 4 * BACKOFF_FIRST_MS]
    assert waits == sorted(waits)
    assert waits[-1] == BACKOFF_MOST_MS
    assert hall.workload(key).retries == 0
    told = render(hall.workload(key).reasons[0])
    assert told.sentence.startswith("it asked to be put back 20 times in a row after less than 1 ")
    assert "not recorded" not in told.sentence


def test_a_job_that_works_before_it_asks_is_not() -> None:
    """One long run ends the streak."""
    hall = Hall(a_cluster())
    key = hall.submit()
    assert [put_back(hall, key, after_ms=QUICK_MS) for _ in range(5)] == [0] * 5
    assert put_back(hall, key, after_ms=1) == 0
    assert put_back(hall, key, after_ms=1) > 0
    assert put_back(hall, key, after_ms=QUICK_MS) == 0
    assert put_back(hall, key, after_ms=1) == 0


def test_a_job_that_saves_quickly_when_it_is_told_to_stop_is_not() -> None:
    """It did what it was asked to."""
    hall = Hall(a_cluster())
    key = hall.submit()
    for _ in range(5):
        assert hall.settle() == [key]
        hall.fold([ev.NoticeGiven(hall.workload(key).runs[-1].id, "preempt", 5_000)])
        hall.end(key, ASKED)
    assert hall.workload(key).not_before_ms == 0


def lose(hall: Hall, key: str, how: str, *, after_ms: int) -> list[ev.Event]:
    """Runs once and is lost."""
    assert hall.settle() == [key]
    hall.seen(key)
    hall.now_ms += after_ms
    return hall.end(key, RunEnd(how=how))


@pytest.mark.parametrize("how", sorted(LOST))
def test_what_is_lost_again_and_again_is_given_up(how: str) -> None:
    """Three times before it got anywhere."""
    hall = Hall(a_cluster())
    key = hall.submit()
    for _ in range(LOST_IN_A_ROW - 1):
        _, back = lose(hall, key, how, after_ms=1_000)
        assert isinstance(back, ev.Requeued)
    _, ended = lose(hall, key, how, after_ms=1_000)
    assert isinstance(ended, ev.WorkloadEnded)
    assert (ended.phase, ended.reason.code) == ("Failed", "lost_too_often")
    assert render(ended.reason).sentence.startswith("its run was lost 3 times in a row before")


def test_a_long_job_in_a_room_of_restarts_is_never_given_up() -> None:
    """Each night's run is progress, whatever the morning does."""
    hall = Hall(a_cluster())
    key = hall.submit()
    for _ in range(10):
        lose(hall, key, "reboot", after_ms=QUICKLY_LOST_MS)
    assert hall.workload(key).phase == "Pending"


def test_other_ends_between_losses_count_anew() -> None:
    """Only losses in a row tell of a place that loses everything."""
    hall = Hall(a_cluster())
    key = hall.submit()
    for _ in range(4):
        lose(hall, key, "reboot", after_ms=1_000)
        lose(hall, key, "machine_lost", after_ms=1_000)
        put_back(hall, key, after_ms=QUICK_MS)
    assert hall.workload(key).phase == "Pending"


def test_the_node_of_the_rank_that_decided_is_named() -> None:
    """Not the first node of the gang."""
    room = a_cluster("room", *(a_node(f"pc{number}", cpus=1) for number in range(3)), kind="room")
    hall = Hall(room)
    key = hall.submit(a_shape(num_nodes=3))
    hall.settle()
    nodes = [part.node for part in hall.workload(key).runs[0].allocation.nodes]
    end = RunEnd(how="exited", code=1, rank=2, last_lines=("a: No space left on device",))
    first, _ = hall.end(key, end)
    assert isinstance(first, ev.RunEnded)
    assert first.reason.params["node"] == nodes[2]


def test_the_node_of_a_process_is_named() -> None:
    """Of two on each node, 2 and 3 are on the second."""
    both = Allocation("room", (*an_allocation().nodes, *an_allocation(node="n2", ranks=(1,)).nodes))
    run = a_run(allocation=both)
    workload = a_workload(runs=(run,), policies=Policies(ranks=4))
    ends = [RunEnd(how="exited", code=1, rank=rank) for rank in range(4)]
    assert [node_of(workload, run, end) for end in ends] == ["n1", "n1", "n2", "n2"]


def test_a_time_limit_is_told_with_its_length() -> None:
    """And isn't tried again: it would only run into it again."""
    reason, event = follows(
        RunEnd(how="time_limit", code=143), notice="time_limit", policies=TWO_MORE
    )
    assert render(reason).sentence == "it ran longer than its time limit of 1 min"
    assert isinstance(event, ev.WorkloadEnded)


def test_a_cancel_while_it_waits_between_tries_ends_it() -> None:
    """The back-off doesn't protect it."""
    hall = Hall(a_cluster())
    key = hall.submit(policies=TWO_MORE)
    hall.settle()
    hall.end(key, FAILED)
    hall.command(cmd.Cancel(key))
    assert hall.state.workloads == {}
    hall.now_ms += BACKOFF_MOST_MS
    assert hall.settle() == []


def test_a_job_waits_for_the_machine_that_has_its_checkpoint() -> None:
    """It is tried again, ever more seldom, then held; it never fails by it, nor is it charged."""
    end = RunEnd(how="start_refused", message="checkpoint/away: it is on lab/pc1, which is off")
    _, again = follows(end, retries=3)
    assert isinstance(again, ev.Requeued)
    assert (again.not_before_ms, again.charged) == (NOW + BACKOFF_FIRST_MS, False)
    said = render(again.reason)
    assert said.sentence == "it is on lab/pc1, which is off; it is tried again after 5 s"
    runs = tuple(
        replace(a_run(), end=end if number < AWAY_IN_A_ROW else None)
        for number in range(1, AWAY_IN_A_ROW + 1)
    )
    workload = a_workload(shape=SHAPE, runs=runs)
    _, held = outcome(workload, runs[-1], end, SHAPE, NOW)
    assert isinstance(held, ev.Held)
    assert "stw release" in render(held.reason).remedy
