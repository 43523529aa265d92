"""Gangs are put as near to each other as they ask, on the room that is really free."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.catalogue import render
from stellwerk.core.model.nearness import (
    GROUP_LABEL,
    SLICE_LEVEL_LABEL,
    SLICE_SIZE_LABEL,
    SPOT_LABELS,
    Spot,
    TopologyRequest,
    nearness_of,
    wrong_nearness,
)
from stellwerk.core.model.queueing import HOSTNAME, ResourceFlavor, Topology
from stellwerk.core.model.resources import Shape
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.queued import a_queue, queueing
from tests.core.test_preemption import STOPPED, run, victims_of

PACKED = ResourceFlavor("std", {"site": "lab"}, topology="dc")
DC = Topology("dc", ("block", "rack", HOSTNAME))


def a_room(racks: dict[str, int], *, cpus: int = 2, bound: int | None = 99) -> Hall:
    """Racks of so many nodes each, two racks to a block; with a queue of so many CPUs."""
    nodes = []
    for at, (rack, count) in enumerate(racks.items()):
        where = {"block": f"b{at // 2}", "rack": rack}
        nodes += [replace(a_node(f"{rack}{n}", cpus=cpus), domains=where) for n in range(count)]
    hall = Hall(a_cluster("room", *nodes, kind="room", labels={"site": "lab"}))
    if bound is not None:
        hall.apply(queueing(a_queue("team", bound), flavors=(PACKED,), topologies=(DC,)))
    return hall


def gang(nodes: int, spot: Spot = "required", level: str = "rack", *, cpus: int = 2) -> Shape:
    """So many nodes near to each other."""
    asked = TopologyRequest(spot, level)
    return replace(a_shape(a_request(cpus=cpus), num_nodes=nodes), topology=asked)


def on(hall: Hall, key: str) -> list[str]:
    """The nodes of a workload's run, in the order of ranks."""
    parts = hall.workload(key).runs[-1].allocation.nodes
    assert [one.ranks for one in parts] == [(n,) for n in range(len(parts))]
    return [one.node for one in parts]


def test_a_rack_holds_all_of_a_gang_and_the_tightest_one_does() -> None:
    """Four free in one rack, two in the other: two nodes go where just two are."""
    hall = a_room({"a": 4, "b": 2})
    first = hall.submit(gang(2), queue="team")
    assert hall.settle() == [first]
    assert sorted(on(hall, first)) == ["b0", "b1"]


def test_a_gang_waits_rather_than_be_torn_and_is_told_the_numbers() -> None:
    """Three are free in either rack, and four in all would be enough if it didn't matter."""
    hall = a_room({"a": 4, "b": 4})
    small = [hall.submit(gang(1, "preferred"), queue="team") for _ in range(2)]
    hall.settle()
    assert sorted(on(hall, one)[0][0] for one in small) == ["a", "a"]
    other = hall.submit(gang(1, "required", "rack"), queue="team")
    hall.settle()
    large = hall.submit(gang(4), queue="team")
    anyhow = hall.submit(a_shape(a_request(cpus=2), num_nodes=4), queue="team")
    assert hall.settle() == [large]
    assert on(hall, other)[0].startswith("a")
    assert hall.told(anyhow) == ["no_room"]
    again = hall.submit(gang(5), queue="team")
    hall.settle()
    assert hall.told(again) == ["near_never"]
    told = hall.why(again)
    assert "at most 4 of 5 nodes" in told
    assert "one rack" in told


def test_what_is_preferred_is_left_where_it_can_not_be() -> None:
    """A block does where no rack can, and two blocks where no block can."""
    hall = a_room({"a": 2, "b": 2, "c": 2, "d": 2})
    three = hall.submit(gang(3, "preferred"), queue="team")
    hall.settle()
    assert {name[0] for name in on(hall, three)} in ({"a", "b"}, {"c", "d"})
    five = hall.submit(gang(5, "preferred"), queue="team")
    assert hall.settle() == [five]


def test_a_flavor_without_a_topology_has_no_nearness() -> None:
    """It is out of the question, with the reason; so is a level that its topology lacks."""
    hall = a_room({"a": 2}, bound=None)
    hall.apply(queueing(a_queue("team", 9)))
    plain = hall.submit(gang(2), queue="team")
    hall.settle()
    assert hall.told(plain) == ["queue_no_flavor"]
    hall = a_room({"a": 2})
    level = hall.submit(gang(2, "required", "nvlink"), queue="team")
    hall.settle()
    assert hall.told(level) == ["queue_no_flavor"]


def test_work_that_no_queue_binds_may_ask_for_it_too() -> None:
    """Then the label itself is the level; nodes that lack it are none of them."""
    hall = a_room({"a": 2, "b": 3}, bound=None)
    first = hall.submit(gang(3))
    hall.settle()
    assert sorted(on(hall, first)) == ["b0", "b1", "b2"]
    nowhere = hall.submit(gang(2, "required", "nvlink"))
    hall.settle()
    assert hall.told(nowhere) == ["near_nowhere"]
    waits = hall.state.shapes[hall.workload(nowhere).shape].waits
    assert waits is not None
    assert "none has the level `nvlink`" in render(waits.reasons[0]).sentence


def test_others_are_stopped_for_a_rack_only_where_the_gang_then_starts() -> None:
    """One of the lower priority in the right rack goes, and the claim is in one rack."""
    hall = a_room({"a": 2, "b": 1})
    low = [hall.submit(a_shape(a_request(cpus=2)), queue="team") for _ in range(3)]
    hall.settle()
    run(hall, *low)
    high = hall.submit(gang(2), queue="team", priority=5)
    stopped = victims_of(hall)
    assert len(stopped) == 2
    for one in stopped:
        hall.end(one, STOPPED)
    assert high in hall.settle()
    assert {name[0] for name in on(hall, high)} == {"a"}


def test_what_labels_ask_for() -> None:
    """Kueue's words; two at once, and slices that don't divide the gang, are told."""
    required, preferred = SPOT_LABELS["required"], SPOT_LABELS["preferred"]
    assert nearness_of({}) is None
    assert nearness_of({required: "rack"}) == TopologyRequest("required", "rack")
    sliced = {preferred: "block", SLICE_LEVEL_LABEL: "rack", SLICE_SIZE_LABEL: "2"}
    assert nearness_of(sliced) == TopologyRequest("preferred", "block", "rack", 2)
    assert wrong_nearness(sliced, 4) == ""
    assert "slices of 2" in wrong_nearness(sliced, 3)
    assert "at once" in wrong_nearness({required: "rack", preferred: "rack"}, 2)
    assert "names no level" in wrong_nearness({required: ""}, 2)
    assert "one set of nodes" in wrong_nearness({GROUP_LABEL: "both"}, 2)
    assert "no number" in wrong_nearness({SLICE_SIZE_LABEL: "x"}, 2)


@settings(max_examples=15, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=5), st.lists(st.integers(1, 4), max_size=6))
def test_a_required_gang_is_in_one_domain_or_waits(racks: list[int], gangs: list[int]) -> None:
    """And it waits only where no rack has enough free nodes, whatever the order."""
    hall = a_room({chr(97 + n): count for n, count in enumerate(racks)})
    keys = [hall.submit(gang(count), queue="team") for count in gangs]
    hall.settle()
    free = {chr(97 + n): count for n, count in enumerate(racks)}
    for key in keys:
        if hall.workload(key).phase != "Pending":
            [rack] = {name[0] for name in on(hall, key)}
            free[rack] -= len(on(hall, key))
    for key, count in zip(keys, gangs, strict=True):
        if hall.workload(key).phase == "Pending":
            assert max(free.values()) < count
