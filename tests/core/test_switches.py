"""A gang that asks for nothing is put onto one switch where it is told which nodes are on one."""

from msgspec.structs import replace

from stellwerk.core.model.cluster import Node
from stellwerk.core.place.near import switches_told
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.core.hall import Hall
from tests.core.test_nearness import on

TWO = a_shape(a_request(cpus=2), num_nodes=2)


def pcs(count: int, switch: str, *, first: int = 0) -> list[Node]:
    """Machines of a room at a switch; "" = nobody says at which."""
    where = {"switch": switch} if switch else {}
    names = (f"pc{number}" for number in range(first, first + count))
    return [replace(a_node(name, cpus=2), domains=where) for name in names]


def told(hall: Hall, key: str) -> str:
    """What is said of where a run's nodes are."""
    [cluster] = hall.state.observed.values()
    return switches_told(cluster, hall.workload(key).runs[-1].allocation)


def test_a_gang_is_on_one_switch_if_one_has_room_and_else_goes_over_two() -> None:
    """The tightest that holds it; and it starts all the same where none holds it."""
    hall = Hall(a_cluster("room", *pcs(3, "s1"), *pcs(2, "s2", first=3), kind="room"))
    first = hall.submit(TWO)
    hall.settle()
    assert sorted(on(hall, first)) == ["pc3", "pc4"]
    assert told(hall, first) == "on one switch, s2"
    alone = hall.submit(a_shape(a_request(cpus=2)))
    hall.settle()
    assert on(hall, alone)[0] in {"pc0", "pc1", "pc2"}
    hall = Hall(a_cluster("room", *pcs(1, "s1"), *pcs(1, "s2", first=1), kind="room"))
    torn = hall.submit(TWO)
    assert hall.settle() == [torn]
    assert told(hall, torn).startswith("over 2 switches (1 on s")


def test_a_room_of_which_it_is_not_told_is_used_as_ever() -> None:
    """Also beside one of which it is; and none of its nodes is left out for that."""
    dark = a_cluster("dark", *pcs(1, "s1"), *pcs(1, "", first=1), kind="room")
    lit = a_cluster("lit", *pcs(2, "s9", first=5), kind="room")
    hall = Hall(dark, lit)
    both = [hall.submit(TWO) for _ in range(2)]
    hall.settle()
    assert sorted(tuple(sorted(on(hall, one))) for one in both) == [("pc0", "pc1"), ("pc5", "pc6")]
