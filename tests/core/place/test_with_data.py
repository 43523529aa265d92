"""In a room, work goes to machines that have its data, and elsewhere where these are full."""

from typing import Any, Literal

from msgspec.structs import replace

from stellwerk.core.model.cluster import Held, Node
from stellwerk.core.model.resources import Allocation, Request, Shape
from stellwerk.core.model.wishes import Wishes
from stellwerk.core.place.room import Room
from stellwerk.core.place.with_data import fit_with_data
from stellwerk.testing.builders import a_cluster, a_node, a_shape

COMMIT = "c0ffee" * 6 + "0123"
WORDS = f"hf://datasets/lab/words@{COMMIT}"


def node(name: str, whole: Literal["", "proved", "links", "half"] = "") -> Node:
    """A machine of 4 CPUs with the data, or without."""
    held = Held("hf://datasets/lab/words", COMMIT, 9, missing_bytes=0, whole=whole)
    return replace(a_node(name, cpus=4), held=(held,) if whole else ())


def nodes_of(room: Room, shape: Shape) -> Any:
    """On which machines it would be."""
    found = fit_with_data(room, shape.alternatives[0].request, shape)
    return None if found is None else [part.node for part in found]


def shape(num_nodes: int = 1, *data: str, person: str = "") -> Shape:
    """Work for 3 CPUs on each machine."""
    one = replace(a_shape(num_nodes=num_nodes), person=person, wishes=Wishes(data=data))
    (alternative,) = one.alternatives
    return replace(one, alternatives=(replace(alternative, request=Request(cpus_milli=3000)),))


def test_who_has_it_is_taken_first() -> None:
    """Only what is proved counts, all that is named, and a whole gang at a time."""
    cluster = replace(
        a_cluster("k017", node("a"), node("b", "links"), node("c", "proved"), node("d", "half"),
                  node("e", "proved")), kind="room",
    )  # fmt: skip
    room = Room(cluster, ())
    assert nodes_of(room, shape(1, WORDS)) == ["c"]
    assert nodes_of(room, shape(2, WORDS)) == ["c", "e"]
    assert len(nodes_of(room, shape(3, WORDS))) == 3
    assert nodes_of(room, shape(6, WORDS)) is None
    for other in (shape(1), shape(1, "imgs@r3"), shape(1, WORDS, f"hf://lab/net@{COMMIT}")):
        assert nodes_of(room, other) == ["a"]
    assert nodes_of(room, shape(1, WORDS, person="bob")) == ["a"]
    for name in ("c", "e"):
        given = fit_with_data(room.on({name: True}), Request(cpus_milli=3000), shape(1))
        assert given is not None
        room.take(Allocation("k017", given))
    assert nodes_of(room, shape(1, WORDS)) == ["a"]
