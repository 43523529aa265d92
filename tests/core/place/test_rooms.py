"""What is remembered between cycles makes them cheaper and changes nothing."""

from stellwerk.core.model.ids import RunId, ShapeId, digest
from stellwerk.core.model.resources import Allocation
from stellwerk.core.place.candidates import candidates
from stellwerk.core.place.room import fit
from stellwerk.core.place.rooms import Memory
from stellwerk.core.view import ClusterView
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape, an_allocation

SHAPE = a_shape(a_request(cpus=1))
ID = ShapeId(digest(SHAPE))


def a_view(*held: Allocation, name: str = "lab") -> ClusterView:
    """A cluster with four CPUs."""
    runs = tuple((RunId(f"w-{number}-1"), one) for number, one in enumerate(held))
    return ClusterView(a_cluster(name, a_node(cpus=4)), 1, "facts", runs)


LAB = a_view()


def test_a_verdict_holds_until_the_cluster_changes() -> None:
    """The same object comes again in the next cycle, and a new one for another view."""
    memory = Memory()
    (first,) = candidates(SHAPE, ID, memory.rooms([LAB]))
    generation = memory.generation
    (again,) = candidates(SHAPE, ID, memory.rooms([LAB]))
    assert again is first
    assert memory.generation == generation
    (changed,) = candidates(SHAPE, ID, memory.rooms([a_view(an_allocation(cpus=4))]))
    assert changed.candidate.verdict == "later"
    assert memory.generation != generation


def test_what_a_cycle_gives_away_is_forgotten_after_it() -> None:
    """A plan that isn't carried out leaves no trace in the room of the next one."""
    memory = Memory()
    (room,) = memory.rooms([LAB])
    for _ in range(4):
        (found,) = candidates(SHAPE, ID, [room])
        room.take(Allocation("lab", found.nodes))
    (full,) = candidates(SHAPE, ID, [room])
    assert full.candidate.verdict == "later"
    (next_time,) = candidates(SHAPE, ID, memory.rooms([LAB]))
    assert next_time.candidate.verdict == "fits"


def test_taking_from_one_cluster_judges_only_that_one_again() -> None:
    """The other's verdict is the same object before and after."""
    memory = Memory()
    rooms = memory.rooms([a_view(name="a"), a_view(name="b")])
    before = candidates(SHAPE, ID, rooms)
    rooms[0].take(Allocation("a", before[0].nodes))
    after = candidates(SHAPE, ID, rooms)
    assert after[0] is not before[0]
    assert after[1] is before[1]


def test_keeping_room_is_forgotten_after_the_cycle_too() -> None:
    """Who has waited long enough is found anew each time."""
    memory = Memory()
    (room,) = memory.rooms([LAB])
    parts = fit(room.free, a_request(cpus=4), 1)
    assert parts is not None
    room.keep(parts, "big")
    assert room.free.nodes["n1"].cpus_milli == 4000
    assert room.open.nodes["n1"].cpus_milli == 0
    room.take(an_allocation(cpus=1))
    assert room.free.nodes["n1"].cpus_milli == 3000
    assert room.open.nodes["n1"].cpus_milli == -1000
    (fresh,) = memory.rooms([LAB])
    assert fresh.open.nodes["n1"].cpus_milli == 4000


def test_a_cluster_that_is_gone_is_forgotten() -> None:
    """Rooms are those of the view."""
    memory = Memory()
    memory.rooms([a_view(name="a"), a_view(name="b")])
    generation = memory.generation
    assert [room.cluster.name for room in memory.rooms([a_view(name="b")])] == ["b"]
    assert memory.generation != generation


def test_memory_stays_small_when_shapes_come_and_go() -> None:
    """Verdicts about shapes that nobody waits for any more are dropped."""
    memory = Memory()
    for number in range(5_000):
        candidates(SHAPE, ShapeId(f"s-{number}"), memory.rooms([LAB]))
        memory.blocked[ShapeId(f"s-{number}")] = 1
    memory.forget_all_but(3)
    (room,) = memory.rooms([LAB])
    assert not room.verdicts.full
    assert not memory.blocked
    candidates(SHAPE, ID, [room])
    memory.forget_all_but(3)
    (room,) = memory.rooms([LAB])
    assert room.verdicts.full
