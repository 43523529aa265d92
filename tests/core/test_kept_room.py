"""Room is kept for who was passed too long; nodes that are avoided are a last resort."""

import pytest
from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.resources import Shape
from stellwerk.core.plan import KEPT_AT_ONCE, OVERTAKEN_MS
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall


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
    monkeypatch.setattr("stellwerk.core.place.cycle.OVERTAKEN_MS", 1 << 60)
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
