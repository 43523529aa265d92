"""Commands, reports and plans become facts: refusals have words, noise gives nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.intake import live_runs, missing_runs, on_lost, on_plan, stray_runs
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model import reports as rep
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.ids import RunId, WorkloadId
from stellwerk.core.model.workload import Policies, RunEnd, RunPhase
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import OK, Hall


def refusal(events: list[ev.Event]) -> str:
    """The sentence of a refusal."""
    (event,) = events
    assert isinstance(event, ev.CommandRefused)
    return render(event.reason).sentence


def kinds(events: list[ev.Event]) -> list[str]:
    """The names of some facts."""
    return [type(event).__name__ for event in events]


def a_running_hall() -> tuple[Hall, WorkloadId]:
    """One workload that runs."""
    hall = Hall(a_cluster())
    key = hall.submit()
    hall.settle()
    hall.seen(key)
    return hall, key


def test_a_repeated_submit_is_one_workload() -> None:
    """The same id again gives nothing."""
    hall = Hall(a_cluster())
    key = hall.submit()
    again = cmd.Submit(id=key, name="x", project="p", shape=a_shape(), task=hall.workload(key).task)
    assert hall.command(again) == []


def test_cancel_ends_what_waits_at_once() -> None:
    """A pending, a held and a delayed workload; the actor is known."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    delayed = hall.submit(policies=Policies(max_restarts_on_errors=1))
    hall.settle()
    hall.end(delayed, RunEnd(how="exited", code=1))
    waiting, held = hall.submit(a_shape(a_request(cpus=9))), hall.submit(held=True)
    for key in (delayed, waiting, held):
        events = hall.command(cmd.Cancel(key), actor="bob")
        assert kinds(events) == ["CancelRequested", "WorkloadEnded"]
        assert isinstance(events[1], ev.WorkloadEnded)
        assert render(events[1].reason).sentence == "cancelled by bob"
    assert hall.state.workloads == {}


def test_cancel_asks_what_runs_to_stop_once() -> None:
    """A second cancel gives nothing, one without grace does."""
    hall, key = a_running_hall()
    assert kinds(hall.command(cmd.Cancel(key))) == ["CancelRequested"]
    assert hall.command(cmd.Cancel(key)) == []
    assert kinds(hall.command(cmd.Cancel(key, now=True))) == ["CancelRequested"]
    assert hall.command(cmd.Cancel(key)) == []
    hall.end(key, OK)
    assert hall.state.workloads == {}


@pytest.mark.parametrize(
    ("command", "sentence"),
    [
        (cmd.Hold(WorkloadId("w-00001")), "it is Running, not waiting"),
        (cmd.Release(WorkloadId("w-00001")), "it is Running, not held"),
        (cmd.SetPriority(WorkloadId("w-00001"), 3), "it is Running, not waiting"),
        (cmd.DeclareLost(WorkloadId("w-00001")), "its run can be reached, so it isn't lost"),
        (cmd.Cancel(WorkloadId("w-9")), "it is already over"),
        (cmd.Hold(WorkloadId("w-9")), "it is already over"),
        (
            cmd.DeclareLost(WorkloadId("w-00002")),
            "it is Pending and has no run that could be lost",
        ),
        (cmd.Release(WorkloadId("w-00002")), "it is Pending, not held"),
    ],
)
def test_what_can_not_be_is_refused_in_words(command: cmd.Command, sentence: str) -> None:
    """And changes nothing."""
    hall, _ = a_running_hall()
    hall.submit(a_shape(a_request(cpus=9)))
    before = hall.state.image().workloads
    assert refusal(hall.command(command)) == sentence
    assert hall.state.image().workloads == before


def test_hold_and_release_a_waiting_workload() -> None:
    """A held one isn't started, a released one keeps its place."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    first, second = hall.submit(), hall.submit()
    hall.command(cmd.Hold(first), actor="bob")
    assert render(hall.workload(first).reasons[0]).sentence == "held by bob"
    assert refusal(hall.command(cmd.Hold(first))) == "it is held already"
    assert hall.settle() == [second]
    hall.command(cmd.Release(first))
    hall.end(second)
    assert hall.settle() == [first]


def test_reports_move_a_run_forward_only() -> None:
    """Late and doubled ones give nothing."""
    hall = Hall(a_cluster())
    key = hall.submit()
    hall.settle()
    assert kinds(hall.seen(key, "SettingUp")) == ["RunProgressed"]
    assert kinds(hall.seen(key, "Running")) == ["RunProgressed"]
    assert hall.seen(key, "SettingUp") == []
    assert hall.seen(key, "Running") == []
    assert hall.seen(key, "Starting") == []
    assert kinds(hall.end(key)) == ["RunEnded", "WorkloadEnded"]


def test_a_run_that_stops_says_why() -> None:
    """What it was told here holds before the word of its place, which may know it less well."""
    hall, key = a_running_hall()
    run = RunId(f"{key}-1")
    told = rep.RunReport("lab", run, 1, "Stopping", why="time_limit")
    assert hall.report(told) == [ev.RunProgressed(run, "Stopping", "time_limit")]
    hall = Hall(a_cluster())
    key = hall.submit()
    hall.settle()
    hall.command(cmd.Cancel(key))
    hall.settle()
    assert hall.report(told) == [ev.RunProgressed(run, "Stopping", "cancel")]


def test_reports_about_other_runs_give_nothing() -> None:
    """An unknown workload, another number, an older generation."""
    hall, key = a_running_hall()
    for run, generation in (("w-9-1", 1), (f"{key}-2", 1), (f"{key}-1", 2), (f"{key}-1", 0)):
        report = rep.RunReport("lab", RunId(run), generation, "Ended", OK)
        assert hall.report(report) == []


def test_a_run_that_had_its_notice_before_it_was_seen_counts_as_started() -> None:
    """If its place forgets it, it is lost; it must not be started a second time."""
    hall = Hall(a_cluster())
    key = hall.submit()
    hall.settle()
    hall.command(cmd.Cancel(key))
    hall.settle()
    hall.now_ms += 1
    assert kinds(hall.seen(key, "Running")) == ["RunProgressed"]
    run = hall.workload(key).runs[-1]
    assert (run.phase, run.started_ms) == ("Stopping", hall.now_ms)
    never, lost = missing_runs(hall.state, rep.Inventory("lab", (), hall.now_ms + 1))
    assert (never, [one.id for one in lost]) == ([], [run.id])


def refused(key: WorkloadId, number: int = 1) -> rep.StartRefused:
    """A place that takes no start."""
    return rep.StartRefused("lab", RunId(f"{key}-{number}"), number, "disk", "full")


def test_a_refused_start_is_tried_again_and_then_given_up() -> None:
    """Three refusals in a row, each after a longer wait, uncharged; the reason says what it was."""
    hall = Hall(a_cluster())
    key = hall.submit()
    waits = []
    for number in (1, 2):
        hall.settle()
        assert kinds(hall.report(refused(key, number))) == ["RunEnded", "Requeued"]
        waits.append(hall.workload(key).not_before_ms - hall.now_ms)
        told = render(hall.workload(key).reasons[0]).sentence
        assert told.startswith(f"try {number} of 3 failed: lab refused to start it: disk: full;")
        hall.now_ms += waits[-1]
    assert waits[0] < waits[1]
    assert hall.workload(key).retries == 0
    hall.settle()
    events = hall.report(refused(key, 3))
    assert kinds(events) == ["RunEnded", "WorkloadEnded"]


def test_a_refused_start_ends_a_run_that_had_notice_meanwhile() -> None:
    """Otherwise it would be waited for, for ever."""
    hall = Hall(a_cluster())
    key = hall.submit()
    hall.settle()
    hall.command(cmd.Cancel(key))
    hall.settle()
    assert hall.workload(key).phase == "Stopping"
    assert kinds(hall.report(refused(key))) == ["RunEnded", "WorkloadEnded"]
    assert hall.state.workloads == {}


def test_a_refusal_of_a_run_that_was_seen_is_noise() -> None:
    """It was started by an earlier order."""
    hall, key = a_running_hall()
    assert hall.report(refused(key)) == []


def test_what_can_not_be_reached_gets_no_new_work_and_ends_nothing() -> None:
    """Runs are marked, nodes leave the plan, and the next probe brings them back."""
    hall, key = a_running_hall()
    events = hall.report(rep.Reachability("lab", "unreachable", "no route to host"))
    assert kinds(events) == ["ReachabilityChanged", "ClusterObserved"]
    assert hall.report(rep.Reachability("lab", "unreachable", "no route to host")) == []
    other = hall.submit()
    assert hall.settle() == []
    waits = hall.state.shapes[hall.workload(other).shape].waits
    assert waits
    assert [render(reason).sentence for reason in waits.reasons] == [
        "lab is unreachable: no route to host"
    ]
    assert hall.workload(key).phase == "Running"
    assert kinds(hall.report(rep.ClusterReport(a_cluster()))) == ["ClusterObserved"]
    assert kinds(hall.report(rep.Reachability("lab", "reachable"))) == ["ReachabilityChanged"]
    assert hall.settle() == [other]


def test_nodes_that_were_out_of_use_stay_so_while_their_cluster_is_away() -> None:
    """Their own state says more."""
    room = a_cluster("lab", a_node("a"), a_node("b", state="drained"), kind="room")
    hall = Hall(room)
    hall.report(rep.Reachability("lab", "unreachable"))
    assert [node.state for node in hall.state.clusters["lab"].nodes] == ["unreachable", "drained"]
    assert hall.report(rep.Reachability("nowhere", "unreachable")) == []


def test_a_silent_node_of_a_room_says_nothing_about_the_others() -> None:
    """Only its runs are out of reach; what another node doesn't list is lost on that one alone."""
    hall = Hall(a_cluster("room", a_node("a", cpus=1), a_node("b", cpus=1), kind="room"))
    keys = [hall.submit(), hall.submit()]
    hall.settle()
    runs = {hall.workload(key).runs[-1].allocation.nodes[0].node: key for key in keys}
    for key in keys:
        hall.seen(key)
    hall.now_ms += 10
    events = hall.report(rep.Reachability("room", "unreachable", "off", ("a",)))
    assert kinds(events) == ["ReachabilityChanged", "ClusterObserved"]
    assert [node.state for node in hall.state.clusters["room"].nodes] == ["unreachable", "ready"]
    assert [hall.workload(runs[name]).runs[-1].reachable for name in "ab"] == [False, True]
    of_b = rep.Inventory("room", (), hall.now_ms, ("b",))
    assert [run.id for run in missing_runs(hall.state, of_b)[1]] == [f"{runs['b']}-1"]
    of_all = rep.Inventory("room", (), hall.now_ms)
    assert len(missing_runs(hall.state, of_all)[1]) == 2
    back = hall.report(rep.Reachability("room", "reachable", nodes=("a",)))
    assert kinds(back) == ["ReachabilityChanged"]


def test_a_run_over_two_nodes_is_out_of_reach_with_either_and_back_with_both() -> None:
    """What speaks of one of them, or of runs on one node alone, says nothing about it."""
    hall = Hall(a_cluster("room", a_node("a", cpus=1), a_node("b", cpus=1), kind="room"))
    key = hall.submit(a_shape(num_nodes=2))
    hall.settle()
    hall.seen(key)
    hall.now_ms += 10
    hall.report(rep.Reachability("room", "unreachable", "off", ("b",)))
    assert not hall.workload(key).runs[-1].reachable
    assert hall.report(rep.Reachability("room", "reachable", nodes=("b",))) == []
    assert kinds(hall.report(rep.Reachability("room", "reachable", nodes=("a", "b")))) == [
        "ReachabilityChanged"
    ]
    of_one = rep.Inventory("room", (), hall.now_ms, ("a",))
    assert missing_runs(hall.state, of_one) == ([], [])
    of_both = rep.Inventory("room", (), hall.now_ms, ("a", "b"), spread=True)
    assert [run.id for run in missing_runs(hall.state, of_both)[1]] == [f"{key}-1"]
    nowhere = rep.Inventory("room", (), hall.now_ms, ("",), spread=True)
    assert missing_runs(hall.state, nowhere) == ([], [])


def test_what_speaks_of_runs_over_several_nodes_says_nothing_about_others() -> None:
    """They are on one of those nodes, and told of by its own inventory."""
    hall = Hall(a_cluster("room", a_node("a", cpus=1), a_node("b", cpus=1), kind="room"))
    key = hall.submit()
    hall.settle()
    hall.seen(key)
    hall.now_ms += 10
    of_both = rep.Inventory("room", (), hall.now_ms, ("a", "b"), spread=True)
    assert missing_runs(hall.state, of_both) == ([], [])


def test_a_lost_run_can_be_given_up_by_a_person() -> None:
    """The workload goes on elsewhere; what comes back is a stray."""
    far, near = a_cluster("far", a_node(cpus=8)), a_cluster("near", a_node(cpus=2))
    hall = Hall(far, near)
    key = hall.submit()
    hall.settle()
    hall.seen(key)
    assert hall.workload(key).runs[0].allocation.cluster == "far"
    hall.report(rep.Reachability("far", "unreachable", "gone"))
    events = hall.command(cmd.DeclareLost(key), actor="bob")
    assert kinds(events) == ["RunEnded", "Requeued"]
    told = render(hall.workload(key).reasons[0]).sentence
    assert told == "bob gave the run on far up as lost"
    assert hall.settle() == [key]
    assert hall.workload(key).runs[-1].allocation.cluster == "near"
    back = rep.RunReport("far", RunId(f"{key}-1"), 1, "Running")
    unknown = rep.RunReport("far", RunId("w-77-1"), 1, "Running")
    over = replace(back, phase="Ended", end=OK)
    live = rep.RunReport("near", RunId(f"{key}-2"), 2, "Running")
    assert stray_runs(hall.state, rep.Inventory("far", (back, unknown, live))) == [back]
    assert stray_runs(hall.state, rep.Inventory("far", (over,))) == []
    assert hall.report(back) == []


def test_runs_of_a_newer_life_are_left_alone() -> None:
    """A state that was put back from a copy doesn't kill what it can't know."""
    hall, key = a_running_hall()
    newer = rep.RunReport("lab", RunId(f"{key}-5"), 5, "Running")
    assert stray_runs(hall.state, rep.Inventory("lab", (newer,))) == []


def test_what_a_place_forgot_is_lost_and_goes_back() -> None:
    """With the message of whoever noticed."""
    hall, key = a_running_hall()
    (run,) = live_runs(hall.state, "lab")
    events = hall.fold(on_lost(hall.state, run, "no record of it", hall.now_ms))
    assert kinds(events) == ["RunEnded", "Requeued"]
    told = render(hall.workload(key).reasons[0]).sentence
    assert told == "the run on lab was lost: no record of it"


def test_a_plan_on_an_older_state_is_dropped() -> None:
    """A workload or a cluster that changed meanwhile; the drop says so."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    key = hall.submit()
    planned = hall.plan()
    hall.command(cmd.SetPriority(key, 1))
    (dropped,) = on_plan(hall.state, planned)
    assert isinstance(dropped, ev.ActionDropped)
    assert render(dropped.reason).sentence == "the world had changed by then"
    planned = hall.plan()
    hall.fold([ev.ClusterObserved(a_cluster("lab", a_node(cpus=2)))])
    assert kinds(on_plan(hall.state, planned)) == ["ActionDropped"]
    assert hall.settle() == [key]


def test_reasons_for_a_queue_that_is_empty_meanwhile_are_dropped() -> None:
    """They would be told to the next one that comes."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    key = hall.submit(a_shape(a_request(cpus=3)))
    planned = hall.plan()
    assert kinds(on_plan(hall.state, planned)) == ["ShapeWaits"]
    hall.command(cmd.Hold(key))
    assert on_plan(hall.state, planned) == []


REPORTS = st.lists(
    st.tuples(
        st.sampled_from(("w-00001-1", "w-00001-2", "w-00002-1", "w-00003-1")),
        st.integers(0, 3),
        st.sampled_from(("Starting", "SettingUp", "Running", "Stopping", "Ended", "refused")),
    ),
    max_size=12,
)


@given(REPORTS)
def test_no_report_does_harm_however_late_or_often(reports: list[tuple[str, int, str]]) -> None:
    """Whatever drivers say in whatever order, the state stays sound and nothing ends twice."""
    hall = Hall(a_cluster("lab", a_node(cpus=2)))
    for _ in range(3):
        hall.submit(policies=Policies(max_restarts_on_errors=1))
    hall.settle()
    ended = []
    for run, generation, phase in reports:
        report: rep.Report = rep.StartRefused("lab", RunId(run), generation, "no", "no")
        if phase != "refused":
            end = RunEnd(how="exited", code=1) if phase == "Ended" else None
            seen: RunPhase = phase  # type: ignore[assignment]
            report = rep.RunReport("lab", RunId(run), generation, seen, end)
        ended += [one.run for one in hall.report(report) if isinstance(one, ev.RunEnded)]
        hall.now_ms += 3_000
        hall.settle()
    assert len(ended) == len(set(ended))


def test_a_copys_time_is_a_fact_where_it_has_changed() -> None:
    """Noise isn't journaled; a notice says what the machine is needed for after the end."""
    hall, key = a_running_hall()
    run = hall.workload(key).runs[-1]

    def timed(copy_ms: int, generation: int = run.generation) -> list[ev.Event]:
        return hall.report(rep.CopyTimed("lab", run.id, generation, 10, copy_ms))

    assert timed(12_000, generation=run.generation + 1) == []
    assert timed(12_000) == [ev.CopyTimeLearned(run.id, 10, 12_000)]
    assert timed(14_000) == []
    assert kinds(timed(16_000)) == ["CopyTimeLearned"]
    hall.command(cmd.DrainCluster("lab", now=True))
    run = hall.workload(key).runs[-1]
    assert (run.notice, run.copy_ms, run.leaves_in_ms) == ("drain", 16_000, run.grace_ms + 16_000)
