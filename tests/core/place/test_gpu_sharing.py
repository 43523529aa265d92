"""Several runs on one GPU by declared memory: never more than it has, never beside a whole ask."""

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Device
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.resources import Allocation, GpuRequest, Request
from stellwerk.core.place.lacks import GPU_PLACES, ever, lack
from stellwerk.core.place.node import JOBS_LABEL, NodeRoom, fit_node, pick_devices
from stellwerk.core.place.packing import Packing, Scores, mix_of
from stellwerk.core.place.preempting import is_free
from stellwerk.core.place.room import Room, capacity, fit
from stellwerk.core.place.rooms import ClusterRoom, Whole
from stellwerk.testing.builders import a_cluster, a_node

CARD = Device(0, "A100", 40 * GIB, reserved_bytes=GIB)
SLICES = tuple(
    Device(200 + n, "H100-MIG-1g.10gb", 10 * GIB, part_of=1, uuid=f"MIG-{n}") for n in range(2)
)
SPARK = Device(0, "GB10", 120 * GIB, unified=True)


def cards(number: int, **more: object) -> tuple[Device, ...]:
    return tuple(replace(CARD, index=index, **more) for index in range(number))


def lab(*devices: Device, jobs: str = "", memory_gib: int = 128, kind: str = "machine") -> Cluster:
    node = replace(a_node("n1", cpus=64, memory_gib=memory_gib), devices=devices)
    return replace(a_cluster("lab", node, kind=kind), labels={JOBS_LABEL: jobs} if jobs else {})


def asks(share_gib: float = 0, count: int = 1, memory_gib: int = 0, **more: object) -> Request:
    gpu = GpuRequest(count, share_bytes=round(share_gib * GIB), **more)  # type: ignore[arg-type]
    return Request(cpus_milli=1000, memory_bytes=memory_gib * GIB, gpu=gpu)


def put(room: Room, *requests: Request) -> list[bool]:
    """Puts one after the other; says of each whether it fitted."""
    found = []
    for request in requests:
        given_to = fit(room, request, 1)
        found.append(given_to is not None)
        if given_to is not None:
            room.take(Allocation("lab", given_to))
    return found


def test_what_the_driver_keeps_is_nobodys() -> None:
    """A card of 40 GiB, one of them reserved, has room for 39; a half is half of that."""
    assert put(Room(lab(CARD), ()), asks(20), asks(19), asks(0.1)) == [True, True, False]
    half = asks(fraction_milli=500)
    assert put(Room(lab(CARD), ()), half, half, half) == [True, True, False]


def test_a_whole_card_is_shared_with_nobody() -> None:
    """Neither before nor after, and it goes to a card on which nobody is."""
    assert put(Room(lab(*cards(2)), ()), asks(1), asks(), asks(), asks(1)) == [
        True,
        True,
        False,
        True,
    ]


def test_small_shares_are_put_together() -> None:
    """The fuller card that still holds it is taken, so that another stays whole."""
    room = Room(lab(*cards(3)), ())
    assert put(room, asks(10), asks(10), asks(10), asks(), asks()) == [True] * 5


def test_at_most_so_many_share_a_card() -> None:
    """Then what is lacking is a place, not memory."""
    room = Room(lab(CARD, jobs="2"), ())
    whole = capacity(room.cluster)
    assert put(room, asks(1), asks(1), asks(1)) == [True, True, False]
    found = lack(room, whole, asks(1), 1, ever(whole, asks(1), 1))
    (short,) = found.shortfalls
    assert (short.resource, short.wanted, short.free, short.largest) == (GPU_PLACES, 1, 0, 1)
    assert not found.never


def test_where_nobody_shares_a_share_has_the_card_alone() -> None:
    """With one run a card; not beside somebody who computes there either."""
    assert put(Room(lab(*cards(2), jobs="1"), ()), asks(1), asks(1), asks(1)) == [True, True, False]
    busy = replace(CARD, foreign_compute=True)
    assert put(Room(lab(busy, jobs="1"), ()), asks(1)) == [False]
    assert put(Room(lab(busy), ()), asks(1)) == [True]


def test_a_slice_is_for_who_names_it_or_its_memory() -> None:
    """Not for who wants a GPU, nor for who wants two devices."""
    room = NodeRoom(lab(*SLICES).nodes[0])
    assert pick_devices(room, GpuRequest(1)) is None
    assert pick_devices(room, GpuRequest(2, share_bytes=GIB)) is None
    for one in (
        GpuRequest(1, kind="MIG-1g.10gb"),
        GpuRequest(1, kind="H100-MIG-1g.10gb"),
        GpuRequest(1, share_bytes=8 * GIB),
        GpuRequest(1, memory_min_bytes=10 * GIB),
    ):
        (share,) = pick_devices(room, one) or ()
        assert share.index == 200
    assert pick_devices(room, GpuRequest(1, kind="A100-MIG-1g.10gb")) is None
    assert pick_devices(room, GpuRequest(1, kind="H100")) is None


def test_memory_of_the_node_is_given_once() -> None:
    """Where a GPU has none of its own, shares and memory are of the same 128 GiB."""
    room = Room(lab(SPARK, memory_gib=128), ())
    assert put(room, asks(60, memory_gib=20), asks(40, memory_gib=20)) == [True, False]
    whole = capacity(room.cluster)
    wanted = asks(40, memory_gib=20)
    (short,) = lack(room, whole, wanted, 1, ever(whole, wanted, 1)).shortfalls
    assert (short.resource, short.wanted, short.free) == ("memory", 60 * GIB, 48 * GIB)
    assert put(Room(lab(SPARK), ()), asks(memory_gib=100)) == [True]
    assert put(room, Request(cpus_milli=0, memory_bytes=49 * GIB)) == [False]


def test_only_what_is_shared_of_the_node_is_taken_from_its_memory() -> None:
    """Beside a card with memory of its own: a share of that one leaves the node's memory alone."""
    spark = replace(SPARK, index=1)
    room = Room(lab(CARD, spark, memory_gib=30), ())
    assert room.packing().best(asks(18, memory_gib=30), 9) == ["n1"]
    assert put(room, asks(18, memory_gib=20), asks(18), asks(18)) == [True, True, False]


def test_cards_that_are_joined_come_together() -> None:
    """Of an island that has enough, the smallest; else as without islands."""
    devices = tuple(
        replace(one, island=island)
        for one, island in zip(cards(6), ("", "a", "a", "a", "b", "b"), strict=True)
    )
    room = NodeRoom(lab(*devices).nodes[0])

    def chosen(count: int) -> list[int]:
        return [share.index for share in pick_devices(room, GpuRequest(count)) or ()]

    assert (chosen(1), chosen(2), chosen(3), chosen(4)) == ([0], [4, 5], [1, 2, 3], [0, 1, 2, 3])


def test_what_was_promised_is_there_only_with_a_place() -> None:
    """Who was promised memory of a card waits for a place on it as well."""
    cluster = lab(CARD, jobs="1")
    room = Room(cluster, ())
    promised = Allocation("lab", fit(room, asks(2), 1) or ())
    whole = Whole(capacity(cluster))
    assert is_free(ClusterRoom(room, whole), promised)
    room.take(promised)
    assert not is_free(ClusterRoom(room, whole), promised)


KINDS = (CARD, replace(CARD, memory_bytes=24 * GIB, kind="RTX3090"), SPARK, SLICES[0])
REQUESTS = st.builds(
    asks,
    st.sampled_from([0, 0, 2, 5, 9, 18]),
    st.integers(1, 2),
    st.sampled_from([0, 30]),
    fraction_milli=st.sampled_from([1000, 1000, 300]),
    memory_min_bytes=st.sampled_from([0, 0, 24 * GIB]),
)


@given(
    st.lists(st.lists(st.sampled_from(KINDS), max_size=3), min_size=1, max_size=3),
    st.sampled_from(["", "1", "2"]),
    st.lists(REQUESTS, max_size=10),
)
def test_nothing_is_given_twice(
    nodes: list[list[Device]], jobs: str, requests: list[Request]
) -> None:
    """Whatever is asked: never more than a card has, no more runs than may share it, a whole one to
    one alone; and the order of nodes by what they spoil says the same as looking at each of them.
    """
    made = [
        replace(
            a_node(f"n{n}", cpus=8, memory_gib=128),
            devices=tuple(replace(one, index=index) for index, one in enumerate(devices)),
        )
        for n, devices in enumerate(nodes)
    ]
    cluster = replace(a_cluster("lab", *made, kind="room"), labels={JOBS_LABEL: jobs or "0"})
    room = Room(cluster, ())
    held: list[Allocation] = []
    for request in requests:
        able = sum(fit_node(one, request, (0,)) is not None for one in room.nodes.values())
        assert len(room.packing().best(request, 9)) == able
        given_to = fit(room, request, 1)
        assert (given_to is not None) == bool(able)
        if given_to is not None:
            held.append(Allocation("lab", given_to))
            room.take(held[-1])
    for node in room.nodes.values():
        for device in node.node.devices:
            shares = [
                share.memory_bytes
                for one in held
                for part in one.nodes
                if part.node == node.node.name
                for share in part.devices
                if share.index == device.index
            ]
            assert sum(shares) <= device.usable_bytes
            assert not jobs or len(shares) <= int(jobs)
            assert device.usable_bytes not in shares or len(shares) == 1
        assert node.memory_bytes >= 0
    fresh = Packing(room.nodes.values(), Scores(mix_of(room.nodes, held)))
    assert all(used <= free for used, free in [fresh.usable()])
