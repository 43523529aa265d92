"""Gangs that may do with fewer nodes take what there is, and never less than they say."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.lower import lower, min_nodes
from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.task import Task
from stellwerk.core.model.workload import Policies, RunEnd
from stellwerk.core.recover.outcome import node_of
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing
from tests.core.test_preemption import STOPPED, run, victims_of


def a_room(nodes: int, quota: int | None = None) -> Hall:
    """So many nodes of two CPUs, and a queue of so many CPUs."""
    hall = Hall(a_cluster("room", *(a_node(f"n{i}", cpus=2) for i in range(nodes)), kind="room"))
    if quota is not None:
        hall.apply(queueing(a_queue("team", quota)))
    return hall


def gang(least: int, full: int) -> Shape:
    """Whole nodes."""
    return replace(a_shape(a_request(cpus=2), num_nodes=full), min_nodes=least)


def nodes_of(hall: Hall, key: str) -> int:
    """How many nodes its run has."""
    return len(hall.workload(key).runs[-1].allocation.nodes)


@pytest.mark.parametrize("quota", [None, 99])
def test_it_takes_all_or_else_the_most_there_is(quota: int | None) -> None:
    """Three of four nodes are free: four if they may be waited for, three if fewer do."""
    hall = a_room(4, quota)
    queue = "team" if quota else "default"
    hall.submit(gang(0, 1), queue=queue)
    hall.settle()
    rigid = hall.submit(gang(0, 4), queue=queue)
    elastic = hall.submit(gang(2, 4), queue=queue)
    assert hall.settle() == [elastic]
    assert nodes_of(hall, elastic) == 3
    assert hall.workload(rigid).phase == "Pending"


def test_quota_bounds_it_too_and_it_holds_what_it_has() -> None:
    """Quota for three nodes of four that are free; the fourth is nobody's business."""
    hall = a_room(4, quota=7)
    key = hall.submit(gang(1, 4), queue="team")
    assert hall.settle() == [key]
    holding = hall.workload(key).runs[-1].holding
    assert nodes_of(hall, key) == 3
    assert holding is not None
    assert holding.amounts["cpu"] == 6_000


def test_less_than_the_least_is_not_enough() -> None:
    """It waits, and starts when there is so much; a later run may have more."""
    hall = a_room(3)
    others = [hall.submit(gang(0, 1)) for _ in range(2)]
    hall.settle()
    key = hall.submit(gang(2, 3))
    assert hall.settle() == []
    hall.end(others[0])
    assert hall.settle() == [key]
    assert nodes_of(hall, key) == 2
    hall.end(others[1])
    hall.seen(key)
    hall.end(key, STOPPED)
    assert hall.settle() == [key]
    assert nodes_of(hall, key) == 3


def test_who_is_stopped_for_others_comes_back_smaller() -> None:
    """Notice, checkpoint, and at once a run on what is left: that is how it shrinks."""
    hall = a_room(4, quota=8)
    elastic = hall.submit(gang(1, 4), queue="team")
    hall.settle()
    run(hall, elastic)
    high = hall.submit(gang(0, 2), queue="team", priority=5)
    assert victims_of(hall) == [elastic]
    hall.end(elastic, STOPPED)
    assert sorted(hall.settle()) == sorted([high, elastic])
    assert (nodes_of(hall, high), nodes_of(hall, elastic)) == (2, 2)


def test_others_are_stopped_for_the_least_where_all_can_not_be_had() -> None:
    """Two nodes of the three that it would like, when no more can be freed."""
    hall = a_room(3, quota=6)
    kept = hall.submit(gang(0, 1), queue="team", priority=9)
    low = [hall.submit(gang(0, 1), queue="team") for _ in range(2)]
    hall.settle()
    run(hall, kept, *low)
    key = hall.submit(gang(2, 3), queue="team", priority=5)
    assert sorted(victims_of(hall)) == sorted(low)
    for one in low:
        hall.end(one, STOPPED)
    assert key in hall.settle()
    assert nodes_of(hall, key) == 2


def test_what_a_task_says() -> None:
    """Our word or Kueue's; as many as all is nothing special, more can't be."""
    label = "kueue.x-k8s.io/job-min-parallelism"
    assert min_nodes(Task(num_nodes=4, min_nodes=2)) == 2
    assert min_nodes(Task(num_nodes=4, labels={label: "3"})) == 3
    assert min_nodes(Task(num_nodes=4, labels={label: "4"})) == 0
    assert min_nodes(Task(num_nodes=4, labels={label: "x"})) is None
    assert min_nodes(Task(num_nodes=4, min_nodes=5)) is None
    lowered = lower(Task(num_nodes=4, min_nodes=2))
    assert (lowered.shape.min_nodes, lowered.policies.full_nodes) == (2, 4)


def test_the_node_of_a_rank_is_found_in_a_smaller_run() -> None:
    """Eight ranks on four nodes are four on two: rank 3 is on the second."""
    hall = a_room(2)
    key = hall.submit(gang(1, 4), policies=Policies(ranks=8, full_nodes=4))
    hall.settle()
    workload = hall.workload(key)
    at = node_of(workload, workload.runs[-1], RunEnd(how="exited", code=1, rank=3))
    assert at == workload.runs[-1].allocation.nodes[1].node


@settings(max_examples=15, deadline=None)
@given(
    st.integers(1, 6),
    st.lists(st.tuples(st.integers(1, 4), st.integers(0, 4), st.booleans()), max_size=6),
)
def test_no_run_has_too_few_nodes_and_nobody_waits_who_could_start(
    nodes: int, asked: list[tuple[int, int, bool]]
) -> None:
    """With topologies as well: whatever is free at the end is too little for whoever waits."""
    hall = a_room(nodes)
    keys = {}
    for least, more, near in asked:
        shape = gang(least, least + more)
        if near:
            shape = replace(shape, topology=TopologyRequest("preferred", "stellwerk/cluster"))
        keys[hall.submit(shape)] = (least, least + more)
    hall.settle()
    free = nodes
    for key, (least, full) in keys.items():
        if hall.workload(key).phase != "Pending":
            assert least <= nodes_of(hall, key) <= full
            free -= nodes_of(hall, key)
    assert free >= 0
    for key, (least, _) in keys.items():
        assert hall.workload(key).phase != "Pending" or free < least
