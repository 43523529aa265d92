"""What is lacking: the right numbers, a change that turns the verdict, room that is kept."""

from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.decisions import Shortfall
from stellwerk.core.model.resources import Allocation, GpuRequest, Request
from stellwerk.core.place.lacks import (
    GPUS_WITH_MEMORY,
    Credit,
    Lack,
    credit,
    distance,
    ever,
    instead,
    lack,
    smallest_change,
)
from stellwerk.core.place.room import GIB, NodeRoom, Room, capacity, fit
from stellwerk.testing.builders import a_cluster, a_device, a_node, a_request, an_allocation
from tests.core import oracle
from tests.core.arbitrary import gangs, requests, used_rooms


def asked(room: Room, request: Request, num_nodes: int) -> Lack | None:
    """What is lacking, if anything is."""
    if fit(room, request, num_nodes) is not None:
        return None
    whole = capacity(room.cluster)
    return lack(room, whole, request, num_nodes, ever(whole, request, num_nodes))


def kept(room: Room, request: Request, num_nodes: int) -> Credit | None:
    """What is kept for a request."""
    whole = capacity(room.cluster)
    return credit(room, whole, request, num_nodes, ever(whole, request, num_nodes))


def lacking(node: NodeRoom, request: Request) -> int:
    """How many resources a node lacks, asked one by one."""
    alone = [
        Request(cpus_milli=request.cpus_milli),
        Request(cpus_milli=0, memory_bytes=request.memory_bytes),
        Request(cpus_milli=0, disk_bytes=request.disk_bytes),
        Request(cpus_milli=0, gpu=request.gpu),
    ]
    return sum(not oracle.ways(node, one) for one in alone) + _cards_and_memory(node, request.gpu)


def _cards_and_memory(node: NodeRoom, gpu: GpuRequest | None) -> bool:
    """Whether cards are two lacks: too few of them, and none of them large enough."""
    cards = [card for card in node.node.devices if gpu and oracle.suits(card, gpu)]
    return bool(
        gpu
        and gpu.shares
        and 0 < len(cards) < gpu.count
        and all(oracle.share(card, gpu) > card.memory_bytes for card in cards)
    )


@given(used_rooms(), requests, gangs)
def test_never_means_not_even_when_empty(room: Room, request: Request, num_nodes: int) -> None:
    """And anything else means that it would fit if nothing ran and all nodes were ready."""
    found = asked(room, request, num_nodes)
    if found is not None:
        possible = oracle.replicas(capacity(room.cluster), request, num_nodes)
        assert found.never == (possible < num_nodes)


@given(used_rooms(), requests, gangs)
def test_each_shortfall_is_one(room: Room, request: Request, num_nodes: int) -> None:
    """More is wanted than is free, and exactly if it can never be, more than there ever is."""
    found = asked(room, request, num_nodes)
    if found is None or found.missing:
        return
    assert found.shortfalls
    for short in found.shortfalls:
        assert short.wanted > short.free >= 0
        assert short.largest >= short.free
        assert (short.wanted > short.largest) == found.never


@given(used_rooms(), requests)
def test_the_nearest_node_is_told(room: Room, request: Request) -> None:
    """As many resources are told as the best node lacks among those that could ever hold it."""
    found = asked(room, request, 1)
    if found is None:
        return
    whole = capacity(room.cluster)
    able = [name for name, node in whole.nodes.items() if oracle.ways(node, request)]
    ready = [name for name in able if room.nodes[name].node.state == "ready"]
    if found.missing:
        assert able
        assert not ready
        assert found.missing in able
    elif found.never:
        least = min(lacking(node, request) for node in whole.nodes.values())
        assert len(found.shortfalls) == least
    else:
        assert len(found.shortfalls) == min(lacking(room.nodes[name], request) for name in ready)


@settings(max_examples=100)
@given(used_rooms(), requests, gangs)
def test_the_change_turns_the_verdict_and_no_part_of_it_does(
    room: Room, request: Request, num_nodes: int
) -> None:
    """Asking for what is free fits at once; each thing given up is needed."""
    if fit(room, request, num_nodes) is not None:
        return
    shorts = smallest_change(room, capacity(room.cluster), request, num_nodes)
    if not shorts:
        return
    lower = instead(request, num_nodes, shorts)
    assert lower is not None
    assert oracle.replicas(room, *lower) == lower[1]
    for left_out in range(len(shorts)):
        part = instead(request, num_nodes, shorts[:left_out] + shorts[left_out + 1 :])
        assert part is not None
        assert oracle.replicas(room, *part) < part[1]


@given(used_rooms(), requests)
def test_a_change_is_found_if_anything_at_all_is_free(room: Room, request: Request) -> None:
    """Only where some node has a bit of everything that is asked for."""

    def has_a_bit(node: NodeRoom) -> bool:
        bit = Request(
            cpus_milli=min(1, request.cpus_milli),
            memory_bytes=min(1, request.memory_bytes),
            disk_bytes=min(1, request.disk_bytes),
        )
        gpu = request.gpu
        if gpu is None:
            return bool(oracle.ways(node, bit))
        cards = [card for card in node.node.devices if oracle.suits(card, gpu)]
        large_enough = any(oracle.share(card, gpu) <= card.memory_bytes for card in cards)
        if gpu.shares and (len(cards) >= gpu.count or not large_enough):
            little = replace(gpu, share_bytes=1, count=min(gpu.count, len(cards)) or 1)
        else:
            little = replace(gpu, count=1)
        return bool(oracle.ways(node, replace(bit, gpu=little)))

    if fit(room, request, 1) is None:
        found = smallest_change(room, capacity(room.cluster), request, 1)
        assert bool(found) == any(map(has_a_bit, room.nodes.values()))


@given(used_rooms(), requests, gangs)
def test_asking_for_the_largest_fits_when_empty(
    room: Room, request: Request, num_nodes: int
) -> None:
    """What a refusal at submit names as the most is accepted, if there is any of it."""
    found = asked(room, request, num_nodes)
    if found is None or not found.never:
        return
    at_most = tuple(replace(short, free=short.largest) for short in found.shortfalls)
    lower = instead(request, num_nodes, at_most)
    if lower is not None:
        one_at_least = oracle.replicas(capacity(room.cluster), lower[0], 1)
        assert one_at_least == 1
        if found.shortfalls[0].resource == "nodes at once":
            assert fit(capacity(room.cluster), *lower) is not None


@given(used_rooms(ready=True), requests, gangs, st.lists(requests, max_size=6))
def test_what_is_kept_only_gets_nearer(
    room: Room, request: Request, num_nodes: int, others: list[Request]
) -> None:
    """While room is kept, nothing that starts takes what is lacking, whatever it asks for."""
    whole = capacity(room.cluster)
    far = None
    for other in others:
        given = kept(room, request, num_nodes)
        if given is None:
            break
        assert far is None or given.far <= far
        far = given.far
        left = room.copy()
        for part in given.parts:
            left.nodes[part.node].take(part)
        parts = fit(left, other, 1)
        if parts is not None:
            room.take(Allocation("lab", parts))
    given = kept(room, request, num_nodes)
    assert (given is None) == (oracle.replicas(whole, request, num_nodes) < num_nodes)
    assert given is None or far is None or given.far <= far


@given(used_rooms(), requests, gangs)
def test_room_is_kept_exactly_where_it_could_run(
    room: Room, request: Request, num_nodes: int
) -> None:
    """On ready nodes alone, one replica to each, or as many as a machine holds when empty."""
    whole = capacity(room.cluster)
    ready = whole.copy()
    for name, node in room.nodes.items():
        ready.nodes[name].node = replace(ready.nodes[name].node, state=node.node.state)
    given = kept(room, request, num_nodes)
    assert (given is None) == (oracle.replicas(ready, request, num_nodes) < num_nodes)
    if given is not None:
        assert len(given.parts) == num_nodes
        for part in given.parts:
            assert oracle.ways(whole.nodes[part.node], request)


@given(used_rooms(), requests)
def test_what_is_kept_where_it_fits_is_what_fits(room: Room, request: Request) -> None:
    """Nothing is lacking exactly where it could start."""
    given = kept(room, request, 1)
    if given is not None:
        assert (given.far == (0, 0)) == (fit(room, request, 1) is not None)


def test_numbers_are_those_of_one_node() -> None:
    """CPU free on one node and memory on another don't add up to a node."""
    room = Room(
        a_cluster("lab", a_node("a", cpus=8, memory_gib=2), a_node("b", cpus=1, memory_gib=64)), ()
    )
    found = asked(room, a_request(cpus=4, memory_gib=16), 1)
    assert found is not None
    assert found.never
    (short,) = found.shortfalls
    assert (short.resource, short.wanted, short.free, short.largest) == (
        "CPUs",
        4000,
        1000,
        1000,
    )


def test_others_on_a_card_keep_a_job_waiting_and_never_refuse_it() -> None:
    """Memory in foreign hands comes free again: `largest` counts the card."""
    device = a_device(gib=40, foreign_gib=30)
    room = Room(a_cluster("lab", replace(a_node(), devices=(device,))), ())
    found = asked(room, a_request(gpus=1), 1)
    assert found is not None
    assert not found.never
    (short,) = found.shortfalls
    assert (short.resource, short.wanted, short.free, short.largest) == ("GPUs", 1, 0, 1)


def test_a_part_of_a_card_is_told_in_bytes() -> None:
    """30 GiB of a card on which 25 are free."""
    room = Room(a_cluster("lab", a_node(gpus=1, gpu_gib=40)), ())
    part = a_request(gpus=1, gpu_share_gib=15)
    parts = fit(room, part, 1)
    assert parts is not None
    room.take(Allocation("lab", parts))
    found = asked(room, a_request(gpus=1, gpu_share_gib=30), 1)
    assert found is not None
    (short,) = found.shortfalls
    assert (short.resource, short.wanted, short.free, short.largest) == (
        "GPU memory",
        30 * GIB,
        25 * GIB,
        40 * GIB,
    )


def test_a_full_card_says_nothing_of_the_memory_of_the_other() -> None:
    """A GiB on each of two is asked, one is given away whole: one of two could serve."""
    room = Room(a_cluster("lab", a_node(gpus=2, gpu_gib=40)), ())
    parts = fit(room, a_request(gpus=1), 1)
    assert parts is not None
    room.take(Allocation("lab", parts))
    found = asked(room, a_request(gpus=2, gpu_share_gib=1), 1)
    assert found is not None
    (short,) = found.shortfalls
    assert short == Shortfall(GPUS_WITH_MEMORY, 2, 1, 2)


def test_a_gang_counts_the_nodes_it_could_have() -> None:
    """Three of four: with three it starts now."""
    nodes = [a_node(f"pc{number}") for number in range(4)]
    room = Room(a_cluster("lab", *nodes, kind="room"), ())
    room.take(an_allocation("lab", "pc0", memory_gib=16))
    found = asked(room, a_request(memory_gib=8), 4)
    assert found is not None
    assert not found.never
    (short,) = found.shortfalls
    assert (short.resource, short.free, short.largest) == ("nodes at once", 3, 4)


def test_a_node_that_is_away_is_named() -> None:
    """Nothing is lacking but the node itself."""
    big = a_node("big", cpus=64, state="quarantined")
    room = Room(a_cluster("lab", a_node("small"), big, kind="room"), ())
    found = asked(room, a_request(cpus=32), 1)
    assert found is not None
    assert not found.never
    assert found.missing == "big"


def test_fewer_lacks_are_nearer_than_smaller_ones() -> None:
    """One resource that is far off is one change; two that are near are two."""
    room = Room(a_cluster("lab", a_node(cpus=4, memory_gib=16)), ())
    one = asked(room, a_request(cpus=400), 1)
    two = asked(room, a_request(cpus=5, memory_gib=17), 1)
    assert one is not None
    assert two is not None
    assert distance(one.shortfalls) < distance(two.shortfalls)


def test_a_gang_on_one_machine_is_kept_cards_of_its_own() -> None:
    """Not the same card for each replica."""
    room = Room(a_cluster("lab", a_node(cpus=8, gpus=2)), ())
    given = kept(room, a_request(gpus=1), 2)
    assert given is not None
    assert sorted(share.index for part in given.parts for share in part.devices) == [0, 1]
    assert given.far == (0, 0)
    assert kept(room, a_request(gpus=1), 3) is None
