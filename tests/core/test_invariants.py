"""The invariants see what they are there to see."""

from collections.abc import Callable

import pytest
from msgspec.structs import replace

from stellwerk.core.invariants import overbooks, violations
from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import DecisionId, RunId, WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation
from stellwerk.core.state import State
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape, an_allocation
from tests.core.hall import Hall


def a_sound_hall() -> Hall:
    """One runs, one waits, one is held."""
    hall = Hall(a_cluster("lab", a_node(cpus=1)))
    for held in (False, False, True):
        hall.submit(held=held)
    hall.settle()
    assert violations(hall.state) == []
    return hall


def two_runs(state: State) -> None:
    """A second live run of the first workload."""
    workload = state.workloads[WorkloadId("w-00001")]
    twice = replace(workload.runs[0], number=2)
    state.workloads[workload.id] = replace(workload, runs=(workload.runs[0], twice))


def over_but_here(state: State) -> None:
    """An ended workload in memory."""
    workload = state.workloads[WorkloadId("w-00003")]
    state.workloads[workload.id] = replace(workload, phase="Failed")


def runs_while_pending(state: State) -> None:
    """A phase that says waiting, with a live run."""
    workload = state.workloads[WorkloadId("w-00001")]
    state.workloads[workload.id] = replace(workload, phase="Held", reasons=(Reason("held"),))


def allocated_to_nobody(state: State) -> None:
    """Room that no run holds."""
    state.allocations["lab"][RunId("w-9-1")] = an_allocation()


def not_running(state: State) -> None:
    """A live run that isn't listed."""
    state.running.clear()


def lost_from_the_queue(state: State) -> None:
    """A pending workload that nobody would start."""
    for queue in state.shapes.values():
        queue.entries.clear()


def out_of_order(state: State) -> None:
    """A queue that isn't sorted."""
    for queue in state.shapes.values():
        queue.entries.append((-5, 0, WorkloadId("w-00002")))


def miscounted(state: State) -> None:
    """A shape that would be forgotten too early."""
    for queue in state.shapes.values():
        queue.users -= 1


def wait_miscounted(state: State) -> None:
    """A shape that would forget its reasons too early."""
    for queue in state.shapes.values():
        queue.pending += 1


def old_key(state: State) -> None:
    """A priority that changed while the place in the queue did not."""
    workload = state.workloads[WorkloadId("w-00002")]
    state.workloads[workload.id] = replace(workload, priority=7)


def held_without_reason(state: State) -> None:
    """Nobody could tell why."""
    workload = state.workloads[WorkloadId("w-00003")]
    state.workloads[workload.id] = replace(workload, reasons=())


def unknown_reason(state: State) -> None:
    """A code without a remedy."""
    workload = state.workloads[WorkloadId("w-00003")]
    state.workloads[workload.id] = replace(workload, reasons=(Reason("because"),))


@pytest.mark.parametrize(
    "breach",
    [
        two_runs,
        over_but_here,
        runs_while_pending,
        allocated_to_nobody,
        not_running,
        lost_from_the_queue,
        out_of_order,
        miscounted,
        wait_miscounted,
        old_key,
        held_without_reason,
        unknown_reason,
    ],
)
def test_a_breach_is_seen(breach: Callable[[State], None]) -> None:
    """Each of them is told in words."""
    hall = a_sound_hall()
    breach(hall.state)
    assert violations(hall.state)


def planned(allocation: Allocation) -> ev.RunPlanned:
    """A start on some room."""
    return ev.RunPlanned(WorkloadId("w-7"), RunId("w-7-1"), 1, allocation, DecisionId("d-1"))


def test_a_start_on_what_is_not_there_is_seen() -> None:
    """CPUs, memory, a card, a node, a cluster: each is named."""
    hall = Hall(a_cluster("lab", a_node(cpus=2, memory_gib=4, gpus=1, gpu_gib=40)))
    hall.submit(a_shape(a_request(cpus=1, memory_gib=2, gpus=1, gpu_share_gib=30)))
    hall.settle()
    fine = an_allocation(cpus=1, memory_gib=2, devices={0: 10})
    assert overbooks(hall.state, planned(fine)) == []
    for allocation in (
        an_allocation(cpus=1.5),
        an_allocation(memory_gib=3),
        an_allocation(devices={0: 11}),
        an_allocation(devices={1: 1}),
        an_allocation(node="n2"),
        an_allocation(cluster="elsewhere"),
    ):
        assert len(overbooks(hall.state, planned(allocation))) == 1


def test_a_cluster_that_shrinks_under_its_runs_is_no_breach() -> None:
    """Only a further start would be one."""
    hall = Hall(a_cluster("lab", a_node(cpus=4)))
    hall.submit(a_shape(a_request(cpus=4)))
    hall.settle()
    hall.fold([ev.ClusterObserved(a_cluster("lab", a_node(cpus=2)))])
    hall.submit(a_shape(a_request(cpus=1)))
    assert hall.settle() == []
    assert violations(hall.state) == []
    assert overbooks(hall.state, planned(an_allocation(cpus=1)))


def test_a_start_on_a_node_out_of_use_is_seen() -> None:
    """However much is free on it."""
    hall = Hall(a_cluster("lab", a_node(state="quarantined")))
    assert overbooks(hall.state, planned(an_allocation())) == [
        "w-7-1 on lab/n1: the node isn't ready"
    ]
