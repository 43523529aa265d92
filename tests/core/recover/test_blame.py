"""When a node is to blame: for what the runtime saw itself, never for what a job does."""

import pytest
from msgspec.structs import replace

from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.reports import ClusterReport, Reachability
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.core.recover.blame import IN_A_ROW
from stellwerk.core.state import State
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import OK, Hall

BROKEN = RunEnd(how="spawn_failed", message="the log can't be written", of_machine=True)
FULL = RunEnd(
    how="exited", code=1, last_lines=("cp: No space left on device",), disk_free_bytes=4096
)
FULL_ELSEWHERE = replace(FULL, disk_free_bytes=1 << 40)
REFUSED = RunEnd(how="start_refused", message="snapshot/disk-full: no room")
ECC = RunEnd(how="exited", code=1, last_lines=("CUDA error: uncorrectable ECC error",))


def a_machine() -> Hall:
    """One cluster of one node."""
    return Hall(a_cluster("lab", a_node("n1")))


def fail(hall: Hall, end: RunEnd, policies: Policies | None = None) -> WorkloadId:
    """Submits a workload of its own and lets its first run end like that."""
    key = hall.submit(policies=policies)
    hall.settle()
    hall.seen(key)
    hall.end(key, end)
    return key


def state_of(cluster: Cluster) -> str:
    """The state of a cluster's first node."""
    return cluster.nodes[0].state


def is_quarantined(hall: Hall, node: str = "n1") -> bool:
    """Whether a node gets nothing new."""
    return node in hall.state.quarantined.get("lab", {})


@pytest.mark.parametrize("end", [BROKEN, FULL, ECC])
def test_three_workloads_in_a_row_quarantine_a_node(end: RunEnd) -> None:
    """The third one does; then everything waits, with that reason and its remedy."""
    hall = a_machine()
    for number in range(IN_A_ROW):
        assert not is_quarantined(hall), number
        fail(hall, end)
    assert is_quarantined(hall)
    waiting = hall.submit()
    assert hall.settle() == []
    waits = hall.state.shapes[hall.workload(waiting).shape].waits
    assert waits is not None
    (reason,) = waits.reasons
    told = render(reason)
    assert (told.code, told.tier) == ("quarantined", "held")
    assert "3 workloads in a row" in told.sentence
    assert "stw resume lab" in told.remedy


def test_a_refused_start_counts_if_it_is_the_machines() -> None:
    """A full disk does, a missing secret doesn't; one workload counts once, however often."""
    hall = a_machine()
    key = hall.submit()
    for _ in range(2):
        hall.now_ms += 600_000
        hall.settle()
        hall.end(key, REFUSED)
    assert hall.state.faults == {"lab": {"n1": (key,)}}
    missing = RunEnd(how="start_refused", message="store/no-secret: it is gone")
    for _ in range(5):
        fail(hall, missing)
    assert hall.state.faults == {"lab": {"n1": (key,)}}


@pytest.mark.parametrize(
    "end",
    [
        RunEnd(how="exited", code=1),
        RunEnd(how="exited", code=127, last_lines=("bash: x: command not found",)),
        RunEnd(how="signaled", signal=11),
        RunEnd(how="spawn_failed", message="the program `x` can't be executed"),
        RunEnd(how="setup_failed", code=1),
        FULL_ELSEWHERE,
    ],
)
def test_what_a_job_does_never_quarantines(end: RunEnd) -> None:
    """Its exit codes, its signals, its own missing program, a disk that isn't the machine's."""
    hall = a_machine()
    for _ in range(3 * IN_A_ROW):
        fail(hall, end)
    assert not is_quarantined(hall)


@pytest.mark.parametrize("between", [OK, RunEnd(how="exited", code=3)])
def test_a_run_that_works_starts_the_count_anew(between: RunEnd) -> None:
    """In a row means in a row: an exit code of a job's own shows that the node works."""
    hall = a_machine()
    for _ in range(3):
        fail(hall, BROKEN)
        fail(hall, BROKEN)
        fail(hall, between)
    assert not is_quarantined(hall)


def test_what_lasted_is_no_fault_of_the_node() -> None:
    """A disk that was full after hours may have been filled by the job itself."""
    hall = a_machine()
    for _ in range(IN_A_ROW):
        fail(hall, replace(FULL, started_at_ms=1, ended_at_ms=3_600_001))
    assert not is_quarantined(hall)


def test_ends_that_say_nothing_neither_blame_nor_clear() -> None:
    """A cancelled or a lost run doesn't tell whether the node works."""
    hall = a_machine()
    fail(hall, BROKEN)
    fail(hall, BROKEN)
    fail(hall, RunEnd(how="cancelled", code=143))
    fail(hall, RunEnd(how="reboot"))
    fail(hall, BROKEN)
    assert is_quarantined(hall)


def test_a_new_look_at_the_node_does_not_end_its_quarantine() -> None:
    """Facts are facts; only a person says that it works again."""
    hall = a_machine()
    for _ in range(IN_A_ROW):
        fail(hall, BROKEN)
    assert hall.report(ClusterReport(a_cluster("lab", a_node("n1")))) == []
    hall.report(ClusterReport(a_cluster("lab", a_node("n1", boot_id="boot-2"))))
    assert state_of(hall.state.clusters["lab"]) == "quarantined"
    assert state_of(hall.state.observed["lab"]) == "ready"
    hall.report(Reachability("lab", "unreachable", "no answer"))
    assert state_of(hall.state.clusters["lab"]) == "unreachable"


def test_resume_takes_it_back_into_use() -> None:
    """Once; what isn't quarantined isn't resumed, and the count begins anew."""
    hall = a_machine()
    for _ in range(IN_A_ROW):
        fail(hall, BROKEN)
    waiting = hall.submit()
    assert hall.settle() == []
    assert hall.command(cmd.ResumeNode("lab", "n1"), "bob") == [ev.NodeResumed("lab", "n1")]
    assert hall.command(cmd.ResumeNode("lab", "n1"), "bob") == []
    assert hall.command(cmd.ResumeNode("nowhere", "n1"), "bob") == []
    assert hall.settle() == [waiting]
    hall.end(waiting, BROKEN)
    assert not is_quarantined(hall)


def test_what_runs_on_a_quarantined_node_goes_on() -> None:
    """Nothing is taken from it; it only gets nothing new."""
    hall = a_machine()
    lasting = hall.submit()
    hall.settle()
    hall.seen(lasting)
    for _ in range(IN_A_ROW):
        fail(hall, BROKEN)
    assert is_quarantined(hall)
    assert hall.workload(lasting).phase == "Running"
    hall.end(lasting)
    assert lasting not in hall.state.workloads


def test_at_most_half_of_a_cluster_is_quarantined() -> None:
    """Where everything fails everywhere, something else is the matter."""
    hall = Hall(a_cluster("lab", *(a_node(f"n{n}", cpus=1) for n in range(4)), kind="room"))
    for _ in range(30):
        hall.submit()
        hall.now_ms += 600_000
        hall.settle()
        for key in hall.running():
            hall.end(key, BROKEN)
    assert len(hall.state.quarantined["lab"]) == 2


def test_a_run_moves_to_another_node_uncharged() -> None:
    """The failed node is avoided as long as another could do; the job's own restarts are kept."""
    room = a_cluster("lab", *(a_node(f"n{n}", cpus=1) for n in range(2)), kind="room")
    hall = Hall(room)
    key = fail(hall, BROKEN)
    workload = hall.workload(key)
    assert (workload.phase, workload.retries) == ("Pending", 0)
    assert render(workload.reasons[0]).sentence == (
        "the machine was at fault: the command could not be started: the log can't be written; "
        "the next run waits 5 s and goes to another node than n0"
    )
    hall.now_ms += 10_000
    blocker = hall.submit(a_shape(a_request(cpus=1)), priority=9)
    second = hall.submit(a_shape(a_request(cpus=1)), priority=9)
    hall.settle()
    assert sorted(hall.running()) == [blocker, second]
    assert hall.told(key) == ["no_room"]
    on_bad = next(
        k for k in (blocker, second) if hall.workload(k).runs[-1].allocation.nodes[0].node == "n0"
    )
    hall.end(on_bad)
    assert hall.settle() == [], "the node that it failed on is free, and still avoided"
    hall.end(blocker if on_bad == second else second)
    assert hall.settle() == [key]
    assert hall.workload(key).runs[-1].allocation.nodes[0].node == "n1"
    hall.end(key, BROKEN)
    assert key not in hall.state.workloads, "there is no third node, and it has no restarts"


def test_an_avoided_node_is_used_when_no_other_is_left() -> None:
    """Better there than never: the other one is gone for good."""
    room = a_cluster("lab", *(a_node(f"n{n}", cpus=1) for n in range(2)), kind="room")
    hall = Hall(room)
    key = fail(hall, BROKEN)
    hall.report(ClusterReport(a_cluster("lab", a_node("n0", cpus=1), kind="room")))
    hall.now_ms += 10_000
    assert hall.settle() == [key]
    assert hall.workload(key).runs[-1].allocation.nodes[0].node == "n0"


def test_a_run_short_of_memory_asks_for_more() -> None:
    """Half as much again with each retry that it has; told with the numbers, and folded again."""
    hall = Hall(a_cluster("lab", a_node("n1", memory_gib=16)))
    shape = a_shape(a_request(memory_gib=8))
    key = hall.submit(shape, policies=Policies(max_restarts_on_errors=2))
    oom = RunEnd(how="exited", code=1, last_lines=("MemoryError",), peak_memory_bytes=8 << 30)
    asked = []
    for _ in range(3):
        hall.now_ms += 600_000
        hall.settle()
        run = hall.workload(key).runs[-1]
        asked.append(run.allocation.nodes[0].memory_bytes >> 30)
        events = hall.end(key, oom)
    assert asked == [8, 12, 16]
    assert isinstance(events[-1], ev.WorkloadEnded)
    assert hall.state.shapes == {}
    again = State.from_image(hall.state.image())
    assert again.shapes == {}


def test_a_retry_with_more_memory_says_so() -> None:
    """What was too little, and what it asks for now."""
    hall = Hall(a_cluster("lab", a_node("n1", memory_gib=16)))
    shape = a_shape(a_request(memory_gib=8))
    key = hall.submit(shape, policies=Policies(max_restarts_on_errors=2))
    hall.settle()
    hall.end(key, RunEnd(how="signaled", signal=9, peak_memory_bytes=8 << 30))
    assert render(hall.workload(key).reasons[0]).sentence == (
        "try 1 of 3 failed: it ran out of memory, having used up to 8 GiB of 8 GiB asked for; "
        "the next one waits 5 s and asks for 12 GiB of memory"
    )
