"""Every sentence that the API makes of stored nouns."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.decisions import Candidate, Decision, Inputs, Shortfall
from stellwerk.core.model.holding import Claim, Holding
from stellwerk.core.model.ids import DecisionId, ShapeId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, Request, Shape
from stellwerk.core.model.workload import Phase, RunEnd
from stellwerk.server import views
from stellwerk.testing.builders import (
    GIB,
    a_cluster,
    a_node,
    a_request,
    a_run,
    a_shape,
    a_workload,
    an_allocation,
)


@pytest.mark.parametrize(
    ("shape", "text"),
    [
        (a_shape(), "1 CPU"),
        (a_shape(a_request(cpus=0.5, memory_gib=2)), "0.5 CPUs, 2 GiB"),
        (a_shape(a_request(cpus=4, gpus=2, gpu="A100")), "4 CPUs, 2xA100"),
        (a_shape(a_request(gpus=1)), "1 CPU, 1xGPU"),
        (a_shape(a_request(gpus=1, gpu="A100", gpu_fraction_milli=500)), "1 CPU, 50% of one A100"),
        (a_shape(a_request(gpus=1, gpu_share_gib=12)), "1 CPU, 12 GiB of one GPU"),
        (a_shape(a_request(gpus=2, gpu_share_gib=12)), "1 CPU, 12 GiB of each of 2 GPUs"),
        (a_shape(a_request(disk_gib=10)), "1 CPU, 10 GiB disk"),
        (a_shape(a_request(cpus=2), a_request(cpus=4)), "2 CPUs or 4 CPUs"),
        (a_shape(a_request(cpus=2), a_request(cpus=4), ordered=True), "2 CPUs, else 4 CPUs"),
        (
            a_shape(*(a_request(cpus=n) for n in range(2, 8))),
            "2 CPUs or 3 CPUs or 4 CPUs and 3 more",
        ),
        (a_shape(infra="ssh/k017"), "1 CPU on ssh/k017"),
        (a_shape(a_request(cpus=2), num_nodes=3), "3 nodes of 2 CPUs"),
    ],
)
def test_what_a_workload_wants(shape: Shape, text: str) -> None:
    """Short, exact, and the same for equal requests."""
    assert views.wants_of(shape) == text


@given(
    cpus=st.integers(1, 10**6),
    memory=st.integers(0, 2**50),
    disk=st.integers(0, 2**50),
    nodes=st.integers(1, 9),
)
def test_any_request_has_words(cpus: int, memory: int, disk: int, nodes: int) -> None:
    """Whatever is asked, the text is short and mentions CPUs."""
    request = Request(cpus_milli=cpus, memory_bytes=memory, disk_bytes=disk)
    text = views.wants_of(a_shape(request, num_nodes=nodes))
    assert "CPU" in text
    assert len(text) < 80


@pytest.mark.parametrize(
    ("phase", "own", "waits", "codes"),
    [
        ("Pending", (), (), ["not_planned"]),
        ("Pending", (), (Reason("no_room"),), ["no_room"]),
        (
            "Pending",
            (Reason("behind"),),
            (Reason("no_room"), Reason("never_fits")),
            ["never_fits", "no_room", "behind"],
        ),
        ("Pending", (Reason("no_room"),), (Reason("no_room"),), ["no_room"]),
        ("Held", (), (Reason("no_room"),), ["held"]),
        ("Failed", (Reason("exit_code"),), (), ["exit_code"]),
        ("Running", (), (), []),
    ],
)
def test_reasons_are_told_worst_first_and_once(
    phase: Phase, own: tuple[Reason, ...], waits: tuple[Reason, ...], codes: list[str]
) -> None:
    """A waiting or held workload always has one."""
    import msgspec

    workload = msgspec.structs.replace(a_workload(phase=phase), reasons=own)
    assert [one.code for one in views.reasons_of(workload, waits)] == codes


def test_what_a_check_said_before_is_no_reason_while_it_is_asked_anew() -> None:
    """Then it waits for the answer, and for nothing else."""
    import msgspec

    said, waits = (Reason("check_retry", {"check": "budget"}),), (Reason("check_pending"),)
    workload = msgspec.structs.replace(a_workload(phase="Pending"), reasons=said)
    assert [one.code for one in views.reasons_of(workload, ())] == ["check_retry"]
    claim = Claim(Allocation("lab", ()), Holding("team", {}), checks=("budget",))
    asked = msgspec.structs.replace(workload, claim=claim)
    assert [one.code for one in views.reasons_of(asked, waits)] == ["check_pending"]


@pytest.mark.parametrize(
    ("end", "code"),
    [
        (RunEnd("exited", code=0), 0),
        (RunEnd("exited", code=3), 3),
        (RunEnd("signaled", signal=9), 137),
        (RunEnd("machine_lost"), None),
    ],
)
def test_exit_codes_are_those_of_a_shell(end: RunEnd, code: int | None) -> None:
    """128 and the signal for a process ended by one; none where none is known."""
    run = a_run(phase="Ended", end=end)
    assert views.row(a_workload(phase="Failed", runs=(run,)), a_shape()).exit_code == code


def test_a_row_counts_all_runs() -> None:
    """Those too that are no longer kept."""
    row = views.row(a_workload(phase="Running", runs=(a_run(number=25, phase="Running"),)), None)
    assert (row.runs, row.wants, row.cluster, row.nodes) == (25, "", "lab", ["n1"])


def test_a_decision_names_its_candidates() -> None:
    """The chosen one, the runner-up, shortfalls in words, and the alternative meant."""
    shape = a_shape(a_request(cpus=2), a_request(cpus=8))
    inputs = Inputs(ShapeId("s"), {"lab": "f@1"}, 1000, 0, "0.1.0")
    short = Shortfall("memory", 8 * GIB, 2 * GIB, 4 * GIB, "bytes")
    decision = Decision(
        DecisionId("d-1"),
        inputs,
        (
            Candidate("lab", 0, "chosen", scores={"room": 3}, total=3),
            Candidate("far", 1, "never", (Reason("never_fits"),), (short,)),
            Candidate("gone", 7, "later"),
        ),
        chosen=0,
        runner_up=1,
        change=("x",),
    )
    view = views.decision_view(decision, shape, 4000)
    assert (view.chosen, view.runner_up, view.age_ms, view.change) == ("lab", "far", 3000, ["x"])
    assert [one.wants for one in view.candidates] == ["2 CPUs", "8 CPUs", ""]
    assert view.candidates[1].shortfalls[0].text == (
        "memory: 8 GiB wanted, 2 GiB free, 4 GiB at most"
    )
    import msgspec

    nothing = msgspec.structs.replace(decision, chosen=-1, runner_up=-1)
    assert views.decision_view(nothing, None, 0).chosen is None


def test_a_cluster_says_what_is_left_and_who_holds_it() -> None:
    """Free is what it has less what our runs hold; memory held by others is told apart."""
    node = a_node("n1", cpus=8, memory_gib=32, gpus=2)
    cluster = a_cluster("lab", node, a_node("n2", state="unreachable"))
    held = {"w-1-1": an_allocation(cpus=3, memory_gib=4, devices={0: 40})}
    view = views.cluster_view(cluster, held, 1234)
    assert (view.state, view.facts_age_ms, view.runs) == ("degraded", 1234, ["w-1-1"])
    first = view.nodes[0]
    assert (first.cpus, first.cpus_free) == (8, 5)
    assert first.memory_free_bytes == 28 * GIB
    assert [(one.held_bytes, one.runs) for one in first.devices] == [(40 * GIB, ["w-1-1"]), (0, [])]
    assert views.cluster_view(a_cluster("x", a_node(state="drained")), {}, None).state == (
        "drained"
    )


def test_shares_of_one_run_on_one_card_are_told_as_one() -> None:
    """What it is seen to hold is of all of them together."""
    cluster = a_cluster("lab", a_node("n1", gpus=1))
    (part,) = an_allocation(devices={0: 5}).nodes
    held = {"w-1-1": replace(an_allocation(), nodes=(part, part))}
    (device,) = views.cluster_view(cluster, held, 0).nodes[0].devices
    assert (device.held_bytes, device.runs) == (10 * GIB, ["w-1-1"])
    assert [(one.run, one.asked_bytes) for one in device.users] == [("w-1-1", 10 * GIB)]


@pytest.mark.parametrize(
    ("told_ms", "ended_ms"), [(150, 150), (0, 900), (99, 900), (901, 900), (900, 900), (100, 100)]
)
def test_a_run_ended_when_its_machine_says(told_ms: int, ended_ms: int) -> None:
    """However late that was heard, as after a day without a server; if it can be so at all."""
    end = RunEnd("exited", code=0, ended_at_ms=told_ms)
    run = replace(a_run(phase="Ended", end=end), started_ms=100, ended_ms=900)
    assert views.run_view(run).ended_ms == ended_ms
    work = replace(a_workload(phase="Succeeded", runs=(run,)), ended_ms=901)
    row = views.row(work, None)
    assert (row.started_ms, row.ended_ms) == (100, ended_ms)


def test_what_waits_again_does_not_run() -> None:
    """Its last run is over: neither its start nor its end is the workload's."""
    end = RunEnd("exited", code=85, ended_at_ms=150)
    run = replace(a_run(phase="Ended", end=end), started_ms=100, ended_ms=160)
    waiting = a_workload(phase="Pending", runs=(run,))
    row = views.row(waiting, None)
    assert (row.started_ms, row.ended_ms, row.runs) == (None, None, 1)
    row = views.row(replace(waiting, phase="Cancelled", ended_ms=7_000), None)
    assert row.ended_ms == 7_000


def test_a_run_too_short_to_be_seen_has_a_start() -> None:
    """Its machine wrote it down; between the decision and the end, whatever its clock says."""
    run = replace(a_run(), phase="Ended", planned_ms=1_000, started_ms=0, ended_ms=3_000)
    ended = replace(run, end=RunEnd("exited", code=0, started_at_ms=2_000, ended_at_ms=2_050))
    assert (views.run_view(ended).started_ms, views.run_view(ended).ended_ms) == (2_000, 2_050)
    early = replace(run, end=RunEnd("exited", code=0, started_at_ms=10, ended_at_ms=2_050))
    assert views.began_ms(early) == 1_000
    late = replace(run, end=RunEnd("exited", code=0, started_at_ms=9_000, ended_at_ms=2_050))
    assert views.began_ms(late) == 2_050
    assert views.began_ms(replace(run, end=RunEnd("start_refused"))) is None
    assert views.began_ms(replace(ended, started_ms=1_500)) == 1_500
