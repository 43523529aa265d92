"""Fitting: never more than there is, a gang whole or not at all, tight room first."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.resources import Allocation, DeviceShare, GpuRequest, Request
from stellwerk.core.place.room import (
    GIB,
    NodeRoom,
    Room,
    capacity,
    fit,
    fit_most,
    fit_node,
    gpu_name,
    pick_devices,
    right_kind,
)
from stellwerk.testing.builders import a_cluster, a_device, a_node, a_request
from tests.core import oracle
from tests.core.arbitrary import clusters, gangs, requests, used_rooms


def amounts(room: Room) -> dict[str, tuple[int, int, int, dict[int, int]]]:
    """Everything that is free, as a value."""
    return {
        name: (node.cpus_milli, node.memory_bytes, node.disk_bytes, dict(node.device_bytes))
        for name, node in room.nodes.items()
    }


@settings(max_examples=150)
@given(used_rooms(), requests, gangs)
def test_a_gang_fits_exactly_if_some_way_to_place_it_exists(
    room: Room, request: Request, num_nodes: int
) -> None:
    """All replicas or none, and never a no where trying everything finds a way."""
    possible = oracle.replicas(room, request, num_nodes)
    given_parts = fit(room, request, num_nodes)
    assert (given_parts is not None) == (possible == num_nodes)
    assert len(fit_most(room, request, num_nodes)) == possible
    if given_parts is not None:
        assert [part.ranks for part in given_parts] == [(rank,) for rank in range(num_nodes)]


@given(used_rooms(), requests, gangs)
def test_what_fits_is_there(room: Room, request: Request, num_nodes: int) -> None:
    """Taking it part by part never overdraws a node or a card, others' memory included."""
    for part in fit(room, request, num_nodes) or ():
        node = room.nodes[part.node]
        assert node.node.state == "ready"
        assert part.cpus_milli == request.cpus_milli
        assert len({share.index for share in part.devices}) == len(part.devices)
        assert len(part.devices) == (request.gpu.count if request.gpu else 0)
        foreign = {device.index: device.foreign_bytes for device in node.node.devices}
        before = dict(node.device_bytes)
        node.take(part)
        assert min(node.cpus_milli, node.memory_bytes, node.disk_bytes) >= 0
        for share in part.devices:
            limit = foreign[share.index] if request.gpu and request.gpu.shares else 0
            assert node.device_bytes[share.index] >= limit
            assert before[share.index] - share.memory_bytes == node.device_bytes[share.index]


@given(used_rooms(), requests, gangs)
def test_asking_changes_nothing(room: Room, request: Request, num_nodes: int) -> None:
    """``fit`` is a question."""
    before = amounts(room)
    fit(room, request, num_nodes)
    assert amounts(room) == before


@given(used_rooms(), requests, gangs)
def test_in_a_room_each_replica_has_a_node_of_its_own(
    room: Room, request: Request, num_nodes: int
) -> None:
    """One to a node, except on a single machine."""
    parts = fit(room, request, num_nodes) or ()
    names = [part.node for part in parts]
    if room.cluster.kind == "room":
        assert len(set(names)) == len(names)
    else:
        assert set(names) <= {room.cluster.nodes[0].name}


@given(used_rooms(), requests)
def test_the_tightest_node_comes_first(room: Room, request: Request) -> None:
    """Where nothing is known of what comes: no other node that could hold it has less room.

    Less free device memory, or as little and less CPU, and so on; but work without devices goes to
    a node that has some only if there is no other.
    """
    parts = fit(room, request, 1)
    if parts is None:
        return

    def tightness(name: str) -> tuple[bool, int, int, int, int]:
        node = room.nodes[name]
        spoils = request.gpu is None and bool(node.node.devices)
        left = sum(node.device_bytes.values())
        return (spoils, left, node.cpus_milli, node.memory_bytes, node.disk_bytes)

    able = [name for name, node in room.nodes.items() if oracle.ways(node, request)]
    assert tightness(parts[0].node) == min(map(tightness, able))


@given(used_rooms(), requests)
def test_the_fullest_cards_come_first(room: Room, request: Request) -> None:
    """Best fit: no card that was left alone, and would do, is fuller than one that was taken."""
    parts = fit(room, request, 1)
    if parts is None or request.gpu is None:
        return
    node = room.nodes[parts[0].node]
    taken = {share.index for share in parts[0].devices}
    able = [
        device
        for device in node.node.devices
        if oracle.suits(device, request.gpu) and oracle.can_give(node, device, request.gpu)
    ]
    free = {d.index: node.device_bytes[d.index] - d.foreign_bytes for d in able}
    left = [free[index] for index in free if index not in taken]
    assert max(free[index] for index in taken) <= min(left, default=1 << 60)


@given(used_rooms(), requests, gangs, st.randoms(use_true_random=False))
def test_the_order_of_nodes_and_cards_does_not_matter(
    room: Room, request: Request, num_nodes: int, dice: st.DataObject
) -> None:
    """The same cluster told in another order gives the same nodes and cards."""
    parts = list(room.cluster.nodes)
    dice.shuffle(parts)  # type: ignore[attr-defined]
    told_otherwise = tuple(replace(node, devices=tuple(reversed(node.devices))) for node in parts)
    other = Room(replace(room.cluster, nodes=told_otherwise), ())
    for name, (cpus, memory, disk, devices) in amounts(room).items():
        node = other.nodes[name]
        node.cpus_milli, node.memory_bytes, node.disk_bytes = cpus, memory, disk
        node.device_bytes = devices
    assert fit(other, request, num_nodes) == fit(room, request, num_nodes)


@given(used_rooms(), requests, gangs)
def test_more_room_never_turns_a_yes_into_a_no(
    room: Room, request: Request, num_nodes: int
) -> None:
    """What fits in a used cluster fits in the empty one."""
    if fit(room, request, num_nodes) is not None:
        assert fit(capacity(room.cluster), request, num_nodes) is not None


@given(clusters())
def test_a_copy_is_independent(cluster: Cluster) -> None:
    """Taking from a copy leaves the original as it is."""
    room = Room(cluster, ())
    before = amounts(room)
    twin = room.copy()
    assert amounts(twin) == before
    for node in twin.nodes.values():
        for index in node.device_bytes:
            node.device_bytes[index] -= 1
        node.cpus_milli -= 1
    assert amounts(room) == before


def test_what_was_given_back_is_free_again() -> None:
    """Taking and giving back is the same as nothing."""
    room = Room(a_cluster("lab", a_node(gpus=2)), ())
    before = amounts(room)
    parts = fit(room, a_request(cpus=2, memory_gib=3, gpus=1, gpu_share_gib=5), 1)
    assert parts is not None
    allocation = Allocation("lab", parts)
    room.take(allocation)
    assert amounts(room) != before
    room.take(allocation, sign=-1)
    assert amounts(room) == before


def test_the_cpus_of_all_nodes_are_counted_along() -> None:
    """Before and after something was taken, in a copy, and without some of the nodes."""
    room = Room(a_cluster("lab", a_node("a", cpus=4), a_node("b", cpus=8), kind="room"), ())
    assert room.cpus() == (12_000, 12_000)
    parts = fit(room, a_request(cpus=3), 1)
    assert parts is not None
    room.take(Allocation("lab", parts))
    assert room.cpus() == room.copy().cpus() == (9_000, 12_000)
    assert room.without(["lab/b"]).cpus() == (1_000, 4_000)
    room.take(Allocation("lab", parts), sign=-1)
    assert room.cpus() == (12_000, 12_000)


def test_many_shares_of_several_cards_are_spread_so_that_all_replicas_fit() -> None:
    """Cards with 1, 1 and 2 shares hold two replicas of two cards each; best fit would say one."""
    devices = tuple(a_device(index, gib=gib) for index, gib in enumerate((1, 1, 2)))
    node = replace(a_node(cpus=8), devices=devices)
    room = Room(a_cluster("lab", node), ())
    parts = fit(room, a_request(cpus=1, gpus=2, gpu_share_gib=1), 2)
    assert parts is not None
    assert [[share.index for share in part.devices] for part in parts] == [[2, 0], [1, 2]]


def test_a_card_that_shows_a_screen_is_still_whole() -> None:
    """A GiB or less in foreign hands is a screen's; more than that is somebody's work."""
    wanted = a_request(gpus=1)
    for foreign_bytes, fits in ((0, True), (GIB, True), (GIB + 1, False)):
        device = replace(a_device(gib=40), foreign_bytes=foreign_bytes)
        room = Room(a_cluster("lab", replace(a_node(), devices=(device,))), ())
        assert (fit(room, wanted, 1) is not None) == fits


def test_a_card_of_unknown_memory_is_given_to_nobody() -> None:
    """Nothing could tell when it is full, so it would be given away twice."""
    device = replace(a_device(), memory_bytes=0)
    room = Room(a_cluster("lab", replace(a_node(), devices=(device,))), ())
    assert fit(room, a_request(gpus=1), 1) is None


def test_a_card_is_as_large_as_it_is_sold() -> None:
    """An A10 shows 22.5 of its 24 GiB: it answers to `24GB`, `24GB+` and `16GB+`, not to `22GB`."""
    card = replace(a_device(kind="A10"), memory_bytes=22 * GIB + GIB // 2)

    def answers(exactly: int = 0, at_least: int = 0) -> bool:
        size = GpuRequest(1, memory_exact_bytes=exactly * GIB, memory_min_bytes=at_least * GIB)
        return right_kind(card, size)

    assert answers(exactly=24)
    assert answers(at_least=24)
    assert answers(at_least=16)
    assert not answers(exactly=22)
    assert not answers(at_least=40)


def test_a_maker_that_is_named_must_be_the_cards() -> None:
    """`nvidia:24GB+` is no AMD card."""
    card = replace(a_device(), vendor="amd")
    assert not right_kind(card, GpuRequest(count=1, vendor="nvidia"))
    assert right_kind(card, GpuRequest(count=1, vendor="amd"))


def test_a_share_leaves_the_rest_of_the_card() -> None:
    """Half a card twice, then nothing is left."""
    room = Room(a_cluster("lab", a_node(cpus=8, gpus=1, gpu_gib=40)), ())
    half = a_request(gpus=1, gpu_fraction_milli=500)
    for _ in range(2):
        parts = fit(room, half, 1)
        assert parts is not None
        assert parts[0].devices == (DeviceShare(0, 20 * GIB),)
        room.take(Allocation("lab", parts))
    assert fit(room, half, 1) is None


def test_what_is_not_asked_for_is_never_short() -> None:
    """A node whose memory is overdrawn still takes work that asks for none."""
    node = NodeRoom(a_node())
    node.memory_bytes = -1
    assert fit_node(node, a_request(cpus=1), (0,)) is not None
    assert fit_node(node, a_request(cpus=1, memory_gib=1), (0,)) is None


def test_work_without_gpus_spares_the_nodes_that_have_some() -> None:
    """The node without cards is taken, although the other has less free CPU."""
    room = Room(a_cluster("lab", a_node("a", cpus=2, gpus=1), a_node("b", cpus=8), kind="room"), ())
    parts = fit(room, a_request(cpus=1), 1)
    assert parts is not None
    assert parts[0].node == "b"


def test_too_few_cards_are_none() -> None:
    """Two of one card can't be had."""
    assert pick_devices(NodeRoom(a_node(gpus=1)), GpuRequest(count=2)) is None


def test_a_request_is_named_as_it_was_written() -> None:
    """By kind, by size, or plainly."""
    assert gpu_name(GpuRequest(1, kind="A100")) == "A100"
    assert gpu_name(GpuRequest(1, memory_min_bytes=24 * GIB)) == "GPUs of 24+ GiB"
    assert gpu_name(GpuRequest(1, memory_exact_bytes=24 * GIB)) == "GPUs of 24 GiB"
    assert gpu_name(GpuRequest(1)) == "GPUs"
