"""Which node a replica gets: the one that stays most useful for what is asked for."""

import random
from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.resources import (
    Allocation,
    DeviceShare,
    GpuRequest,
    NodeAllocation,
    Request,
)
from stellwerk.core.place.node import NodeRoom, fit_node, free_bytes
from stellwerk.core.place.packing import (
    MOST_SHAPES,
    Mix,
    Packing,
    Scores,
    mix_of,
    weighed,
)
from stellwerk.core.place.room import Room, fit, fit_most, usable_after
from stellwerk.testing.builders import a_cluster, a_device, a_node, a_request
from tests.core import oracle
from tests.core.arbitrary import NODES, REQUESTS, requests

ROOMS = st.lists(st.sampled_from(NODES), min_size=2, max_size=5)
ASKED = st.lists(requests, min_size=1, max_size=6)
WITH_CARDS = [request for request in REQUESTS if request.gpu is not None]
CARDED = [node for node in NODES if node.devices and node.state == "ready"]


def a_room(nodes: list[Node]) -> Cluster:
    """A room of these nodes."""
    named = (replace(node, name=f"n{number}") for number, node in enumerate(nodes))
    return Cluster(name="lab", driver="simulated", kind="room", nodes=tuple(named))


def filled(cluster: Cluster, asked: list[Request]) -> Room:
    """The room as the next cycle has it, when what was asked runs as far as it fits."""
    room = Room(cluster, ())
    held = []
    for request in asked:
        parts = fit(room, request, 1)
        if parts is not None:
            held.append(Allocation("lab", parts))
            room.take(held[-1])
    return Room(cluster, held)


def naive_usable(node: NodeRoom, mix: Mix) -> int:
    """What the mix could use of a node, shape by shape and card by card."""
    usable = 0
    for shape, weight in mix:
        gpu = shape.gpu
        assert gpu is not None
        able = [
            d for d in node.node.devices if oracle.suits(d, gpu) and oracle.can_give(node, d, gpu)
        ]
        if len(able) < gpu.count:
            continue
        if shape.cpus_milli > max(node.cpus_milli, 0):
            continue
        if shape.memory_bytes > max(node.memory_bytes, 0):
            continue
        free = [1000 if not gpu.shares else free_bytes(node, d) for d in able]
        size = [1000 if not gpu.shares else d.memory_bytes for d in able]
        part = weight * sum(f * 1000 // s for f, s in zip(free, size, strict=True))
        times = sum(free_bytes(node, d) // oracle.share(d, gpu) if gpu.shares else 1 for d in able)
        often = max(times // gpu.count, 1)
        bounds = [part]
        for asked, there in (
            (shape.cpus_milli, node.cpus_milli),
            (shape.memory_bytes >> 20, node.memory_bytes >> 20),
        ):
            needed = max(-(-asked * often * 2 // 3), asked)
            if there < needed:
                bounds.append(part * there // needed)
        usable += min(bounds)
    return usable


def naive_order(room: Room, mix: Mix, request: Request) -> dict[str, tuple[bool, int, int, int]]:
    """What each node that could hold a request is ordered by."""
    found = {}
    for name, node in room.nodes.items():
        part = fit_node(node, request, (0,))
        if part is not None:
            after = node.copy()
            after.take(part)
            lost = naive_usable(node, mix) - naive_usable(after, mix)
            spoils = request.gpu is None and bool(node.node.devices)
            left = sum(node.device_bytes.values())
            found[name] = (spoils, lost if node.node.devices else 0, left, node.cpus_milli)
    return found


@pytest.mark.parametrize("seed", range(12))
def test_the_nodes_are_those_that_lose_least(seed: int) -> None:
    """The same nodes, in the same order of merit, as trying each of them out gives."""
    dice = random.Random(seed)
    for _ in range(40):
        nodes = dice.choices(CARDED, k=dice.randint(2, 6))
        room = filled(a_room(nodes), dice.choices(REQUESTS, k=dice.randint(0, 3)))
        mix = weighed(Counter(dice.choices(WITH_CARDS, k=dice.randint(1, 4))))
        request, count = dice.choice(REQUESTS), dice.randint(1, 3)
        order = naive_order(room, mix, request)
        names = Packing(room.nodes.values(), Scores(mix)).best(request, count)
        assert len(set(names)) == len(names)
        assert [order[name] for name in names] == sorted(order.values())[:count]


@given(ROOMS, ASKED, ASKED, requests)
def test_an_order_that_is_kept_up_is_that_of_a_new_room(
    nodes: list[Node], asked: list[Request], later: list[Request], request: Request
) -> None:
    """After taking and giving back in between, questions asked on the way or not."""
    room = filled(a_room(nodes), asked)
    fresh = room.copy()
    held = []
    for one in later:
        parts = fit(room, one, 1)
        if parts is not None:
            held.append(Allocation("lab", parts))
            room.take(held[-1])
    for allocation in held[::2]:
        room.take(allocation, sign=-1)
    for allocation in held[1::2]:
        fresh.take(allocation)
    for one in (request, *later, *asked):
        assert fit_most(room, one, 3) == fit_most(fresh, one, 3)


@given(ROOMS, ASKED, ASKED)
def test_giving_back_restores_every_answer(
    nodes: list[Node], asked: list[Request], later: list[Request]
) -> None:
    """What was taken for a while leaves no trace."""
    room = filled(a_room(nodes), asked)
    before = [fit_most(room, one, 2) for one in later]
    held = []
    for one in later:
        parts = fit(room, one, 1)
        if parts is not None:
            held.append(Allocation("lab", parts))
            room.take(held[-1])
    for allocation in reversed(held):
        room.take(allocation, sign=-1)
    assert [fit_most(room, one, 2) for one in later] == before


@given(ROOMS, ASKED)
def test_a_copy_goes_its_own_way(nodes: list[Node], asked: list[Request]) -> None:
    """What is taken from a copy is still there in the room it was copied from."""
    room = filled(a_room(nodes), asked)
    before = [fit_most(room, one, 2) for one in asked]
    twin = room.copy()
    for one in asked:
        parts = fit(twin, one, 1)
        if parts is not None:
            twin.take(Allocation("lab", parts))
    assert [fit_most(room, one, 2) for one in asked] == before


@given(ROOMS, ASKED, st.randoms(use_true_random=False))
def test_names_do_not_matter(nodes: list[Node], asked: list[Request], dice: random.Random) -> None:
    """Nodes with other names, told in another order, end up holding as much of each kind."""
    cluster = a_room(nodes)
    names = [node.name for node in cluster.nodes]
    dice.shuffle(names)
    others = [replace(node, name=name) for node, name in zip(cluster.nodes, names, strict=True)]
    dice.shuffle(others)
    renamed = replace(cluster, nodes=tuple(others))

    def state(node: NodeRoom) -> tuple[object, ...]:
        cards = sorted((d.kind, d.memory_bytes, free_bytes(node, d)) for d in node.node.devices)
        return (node.cpus_milli, node.memory_bytes, node.disk_bytes, node.node.state, cards)

    def ends(cluster: Cluster) -> list[str]:
        room = filled(cluster, asked)
        for request in asked:
            parts = fit(room, request, 1)
            if parts is not None:
                room.take(Allocation("lab", parts))
        return sorted(repr(state(node)) for node in room.nodes.values())

    assert ends(renamed) == ends(cluster)


@given(ROOMS, ASKED, requests, st.integers(1, 4))
def test_a_gang_is_placed_whole_or_not_at_all(
    nodes: list[Node], asked: list[Request], request: Request, count: int
) -> None:
    """As many replicas as trying everything finds, one to a node."""
    room = filled(a_room(nodes), asked)
    possible = oracle.replicas(room, request, count)
    assert len(fit_most(room, request, count)) == possible
    assert (fit(room, request, count) is not None) == (possible == count)


def many(count: int) -> tuple[Cluster, list[Request]]:
    """A room like real ones: few CPUs beside many cards here, many beside two there."""
    dice = random.Random(7)
    nodes = [
        a_node(f"a{number:03}", cpus=48, memory_gib=192, gpus=4, gpu="L4", gpu_gib=20)
        for number in range(count)
    ]
    nodes += [
        a_node(f"b{number:03}", cpus=104, memory_gib=512, gpus=2, gpu="T4", gpu_gib=20)
        for number in range(count // 2)
    ]
    pods = (
        *[a_request(cpus=3, memory_gib=5, gpus=1, gpu_share_gib=15)] * 3,
        *[a_request(cpus=12, memory_gib=46, gpus=1, gpu_share_gib=9)] * 3,
        *[a_request(cpus=18, memory_gib=63, gpus=1)] * 2,
        *[a_request(cpus=11, memory_gib=48, gpus=1)] * 3,
        a_request(cpus=4, memory_gib=22, gpus=1, gpu_share_gib=5),
        a_request(cpus=8, memory_gib=60, gpus=4),
        a_request(cpus=12, memory_gib=60),
    )
    return a_cluster("lab", *nodes, kind="room"), [dice.choice(pods) for _ in range(14 * count)]


def device_bytes(request: Request) -> int:
    """What a request takes of the cards of ``many``."""
    gpu = request.gpu
    return gpu.count * (gpu.share_bytes or 20 << 30) if gpu else 0


def best_fit(room: Room, request: Request) -> str | None:
    """The node with the least left of everything."""
    able = [
        ((sum(node.device_bytes.values()) >> 30) * 1000 + node.cpus_milli, name)
        for name, node in room.nodes.items()
        if fit_node(node, request, (0,)) is not None
    ]
    return min(able)[1] if able else None


def packed_by(choose: Callable[[Room, Request], str | None]) -> int:
    """How much device memory is given away to one work after the other."""
    cluster, asked = many(30)
    room, held = Room(cluster, ()), []
    given_bytes = 0
    for number, request in enumerate(asked):
        name = choose(room, request)
        if name is not None:
            part = fit_node(room.nodes[name], request, (0,))
            assert part is not None
            held.append(Allocation("lab", (part,)))
            room.take(held[-1])
            given_bytes += device_bytes(request)
        if number % 40 == 39:
            room = Room(cluster, held)
    for node in room.nodes.values():
        assert min(node.cpus_milli, node.memory_bytes, *node.device_bytes.values()) >= 0
    return given_bytes


def test_more_is_given_away_than_by_best_fit() -> None:
    """On a room as they are, what stays free is less by a tenth at least; nothing is overdrawn."""

    def ours(room: Room, request: Request) -> str | None:
        parts = fit(room, request, 1)
        return parts[0].node if parts else None

    cluster, _ = many(30)
    there = sum(d.memory_bytes for node in cluster.nodes for d in node.devices)
    assert there - packed_by(ours) < 0.9 * (there - packed_by(best_fit))


def test_cpus_are_left_beside_free_cards() -> None:
    """A job that asks for many CPUs goes where cards don't need them, though it is less tight."""
    few = a_node("few", cpus=16, gpus=4)
    many_cpus = a_node("many", cpus=64, gpus=4)
    done = a_node("done", cpus=4, gpus=1)
    cluster = a_cluster("lab", few, many_cpus, done, kind="room")
    usual, big = a_request(cpus=4, gpus=1), a_request(cpus=12, gpus=1)
    part = fit_node(NodeRoom(done), usual, (0,))
    assert part is not None
    parts = fit(Room(cluster, ()), big, 1)
    assert parts is not None
    assert parts[0].node == "few"
    parts = fit(Room(cluster, [Allocation("lab", (part,))]), big, 1)
    assert parts is not None
    assert parts[0].node == "many"


def test_what_ended_counts_no_more() -> None:
    """The mix is that of what runs: whole cards and shares, the commonest first."""
    cluster = a_cluster("lab", a_node("a", cpus=16, gpus=4), a_node("b", cpus=16), kind="room")
    whole, shared = a_request(cpus=2, gpus=1), a_request(cpus=1, gpus=1, gpu_share_gib=10)
    room = filled(cluster, [whole, shared, shared, a_request(cpus=1)])
    assert mix_of(room.nodes, room.held) == (
        (Request(cpus_milli=1000, gpu=GpuRequest(1, share_bytes=10 << 30)), 666),
        (Request(cpus_milli=2000, gpu=GpuRequest(1)), 333),
    )
    assert [one for one, _ in mix_of(room.nodes, room.held[:1])] == [whole]
    assert mix_of(room.nodes, ()) == ()


def test_the_commonest_shapes_are_enough() -> None:
    """What is asked for once among many doesn't count."""
    counts = {a_request(cpus=1 + number, gpus=1): 100 - number for number in range(50)}
    mix = weighed(counts)
    assert len(mix) == MOST_SHAPES
    assert [one for one, _ in mix] == list(counts)[:MOST_SHAPES]


def test_usable_memory_is_what_the_mix_can_take() -> None:
    """A quarter of one of two cards that are asked for whole or not at all: one card is useful."""
    cluster = a_cluster("lab", a_node("a", gpus=1), a_node("b", gpus=1), kind="room")
    room = Room(cluster, ())
    quarter = a_request(cpus=1, gpus=1, gpu_fraction_milli=250)
    whole: Mix = ((a_request(cpus=1, gpus=1), 1),)
    either: Mix = (*whole, (quarter, 1))
    assert usable_after(room, quarter, whole) == 1000 / 1750
    assert usable_after(room, quarter, either) == (1000 + 1750) / (2 * 1750)
    assert usable_after(room, quarter) == 1.0
    assert usable_after(room, a_request(gpus=2), whole) == 0.0
    assert usable_after(room, a_request(gpus=1), whole, 2) == 1.0


def test_nodes_in_one_state_are_taken_by_name() -> None:
    """Equal nodes differ in name alone, and nodes that aren't ready are none."""
    nodes = [a_node(name, gpus=1) for name in ("c", "a", "b")]
    nodes.append(a_node("_", gpus=1, state="drained"))
    packing = Packing([NodeRoom(node) for node in nodes], Scores(()))
    assert packing.best(a_request(gpus=1), 5) == ["a", "b", "c"]
    assert packing.best(a_request(gpus=1, gpu="H100"), 5) == []


def test_a_named_kind_in_the_mix_leaves_other_cards_to_others() -> None:
    """Where only one kind is asked for by name, what any card can do goes to the other kind."""
    nodes = [
        replace(a_node(name, cpus=8), devices=(a_device(kind=kind),))
        for name, kind in (("a", "A100"), ("b", "T4"))
    ]
    rooms = [NodeRoom(node) for node in nodes]
    picky: Mix = ((a_request(gpus=1, gpu="A100"), 1000),)
    assert Packing(rooms, Scores(())).best(a_request(gpus=1), 1) == ["a"]
    assert Packing(rooms, Scores(picky)).best(a_request(gpus=1), 1) == ["b"]


@given(
    ROOMS,
    st.lists(requests, min_size=2, max_size=6),
    st.lists(st.integers(0, 3), min_size=5, max_size=5),
)
def test_nodes_that_shrank_below_what_runs_on_them(
    nodes: list[Node], asked: list[Request], shrunk: list[int]
) -> None:
    """Overdrawn in CPUs, memory or both: who asks for none of it is served as ever."""
    room = filled(a_room(nodes), asked)
    after = tuple(
        replace(
            node,
            cpus_milli=0 if how & 1 else node.cpus_milli,
            memory_bytes=0 if how & 2 else node.memory_bytes,
        )
        for node, how in zip(room.cluster.nodes, shrunk, strict=False)
    )
    room = Room(replace(room.cluster, nodes=after), room.held)
    for request in (*asked, *(replace(one, cpus_milli=0, memory_bytes=0) for one in asked)):
        fitting = {name for name, one in room.nodes.items() if fit_node(one, request, (0,))}
        assert {part.node for part in fit_most(room, request, len(nodes))} == fitting
        assert 0 <= usable_after(room, request) <= 1


@pytest.mark.parametrize("asked", [a_request(cpus=0, gpus=1), a_request(cpus=1, gpus=1)])
def test_an_overdrawn_node_still_gives_what_is_asked_of_it(asked: Request) -> None:
    """Its runs hold more memory, and more CPUs if nobody asks for any, than it has by now."""
    cluster = a_room([a_node(cpus=4, memory_gib=1, gpus=3)])
    held = [
        NodeAllocation("n0", 0 if asked.cpus_milli else 9_000, 9 << 30),
        NodeAllocation("n0", asked.cpus_milli, devices=(DeviceShare(0, 40 << 30),)),
    ]
    room = Room(cluster, [Allocation("lab", (part,)) for part in held])
    [given] = fit_most(room, asked, 2)
    assert [share.index for share in given.devices] == [1]
    assert usable_after(room, asked) == 1.0
