"""What is asked for the next time: more memory as far as there is, another node where there is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.resources import NAMESPACES, Shape
from stellwerk.core.recover.again import AVOIDED_MOST, on_another_node, with_more_memory
from stellwerk.testing.builders import GIB, a_cluster, a_node, a_request, a_shape

LAB = a_cluster("lab", a_node("small", memory_gib=16), a_node("big", memory_gib=64), kind="room")


def memories(shape: Shape | None) -> list[float]:
    """GiB of each alternative."""
    assert shape is not None
    return [one.request.memory_bytes / GIB for one in shape.alternatives]


def test_half_as_much_again_of_what_was_asked() -> None:
    """Whatever the run had used."""
    shape = a_shape(a_request(memory_gib=8))
    assert memories(with_more_memory(shape, 0, 7 * GIB, [LAB])) == [12]


def test_without_a_request_it_is_what_was_used() -> None:
    """And where neither is known, nothing can be said."""
    shape = a_shape(a_request())
    assert memories(with_more_memory(shape, 0, 10 * GIB, [LAB])) == [15]
    assert with_more_memory(shape, 0, 0, [LAB]) is None


def test_no_more_than_the_largest_node_has() -> None:
    """And nothing changes where that is asked for already, or where nobody is known."""
    shape = a_shape(a_request(memory_gib=50))
    assert memories(with_more_memory(shape, 0, 0, [LAB])) == [64]
    assert with_more_memory(a_shape(a_request(memory_gib=64)), 0, 0, [LAB]) is None
    assert with_more_memory(shape, 0, 0, []) is None


def test_only_nodes_that_have_all_else_count() -> None:
    """The largest memory is of no use without the device; nor is a cluster that isn't meant."""
    cards = a_cluster("cards", a_node("card", memory_gib=32, gpus=1))
    shape = a_shape(a_request(memory_gib=24, gpus=1))
    assert memories(with_more_memory(shape, 0, 0, [LAB, cards])) == [32]
    bound = a_shape(a_request(memory_gib=24), infra="cards")
    assert memories(with_more_memory(bound, 0, 0, [LAB, cards])) == [32]


def test_a_gang_gets_what_all_its_nodes_have() -> None:
    """In a room the second largest node bounds two replicas; on one machine they share it."""
    asked = a_request(memory_gib=12)
    pair = a_shape(asked, num_nodes=2)
    assert memories(with_more_memory(pair, 0, 0, [LAB])) == [16]
    machine = a_cluster("one", a_node("one", memory_gib=30))
    assert memories(with_more_memory(pair, 0, 0, [machine])) == [15]


def test_other_alternatives_get_no_less() -> None:
    """What was too little for one is too little for all; who asks for more keeps it."""
    shape = a_shape(a_request(memory_gib=4), a_request(memory_gib=8), a_request(memory_gib=20))
    assert memories(with_more_memory(shape, 1, 0, [LAB])) == [12, 12, 20]


@given(asked=st.integers(0, 80), used=st.integers(0, 80), sizes=st.lists(st.integers(1, 96)))
def test_more_is_more_and_never_more_than_there_is(asked: int, used: int, sizes: list[int]) -> None:
    """For any node sizes: larger than before, at most half as much again, and it fits."""
    nodes = (a_node(f"n{i}", memory_gib=size) for i, size in enumerate(sizes))
    clusters = [a_cluster("room", *nodes, kind="room")] if sizes else []
    grown = with_more_memory(a_shape(a_request(memory_gib=asked)), 0, used * GIB, clusters)
    if grown is not None:
        (now,) = memories(grown)
        before = asked or used
        assert before < now <= min(1.5 * before, max(sizes))


def test_a_node_is_avoided_while_another_could_do() -> None:
    """One after the other, but not more than a few of them."""
    room = a_cluster("room", *(a_node(f"pc{n}") for n in range(9)), kind="room")
    shape: Shape | None = a_shape()
    for number in range(AVOIDED_MOST):
        assert shape is not None
        shape = on_another_node(shape, "room", f"pc{number}", [room])
    assert shape is not None
    assert shape.avoid == ("room/pc0", "room/pc1", "room/pc2")
    assert on_another_node(shape, "room", "pc3", [room]) is None


@pytest.mark.parametrize(
    "others",
    [
        [],
        [a_cluster("lab", a_node("small", cpus=1))],
        [a_cluster("lab", a_node("other", state="unreachable"))],
        [a_cluster("lab", a_node("other", state="quarantined"))],
        [a_cluster("lab", a_node("other"), claims={NAMESPACES: "no: forbidden"})],
    ],
)
def test_without_another_node_it_stays(others: list[Cluster]) -> None:
    """None there, too small, not ready, or not able to do what is needed."""
    here = a_cluster("here", a_node("n1"))
    shape = a_shape(a_request(cpus=2))
    alternatives = tuple(replace(one, needs=(NAMESPACES,)) for one in shape.alternatives)
    shape = replace(shape, alternatives=alternatives)
    assert on_another_node(shape, "here", "n1", [here, *others]) is None
