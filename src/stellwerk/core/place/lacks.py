"""What a request lacks where it comes nearest, what it could give up, and what to keep for it.

The *nearest* node is the one that lacks the fewest resources, then the smallest part of them, among
those that could hold a replica when nothing else runs.
"""

from __future__ import annotations

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.cluster import Device
from stellwerk.core.model.decisions import Shortfall
from stellwerk.core.model.resources import DeviceShare, GpuRequest, NodeAllocation, Request
from stellwerk.core.place.node import can_share, shared_from_memory
from stellwerk.core.place.room import (
    NodeRoom,
    Room,
    fill,
    fit_most,
    fit_node,
    free_bytes,
    gpu_name,
    is_whole,
    pick_devices,
    right_kind,
    share_bytes,
)

PER_MILLE = 1000
Far = tuple[int, int]
"""How many resources are lacking, then what parts of them in sum, in thousandths."""

NODES_AT_ONCE = "nodes at once"
GPU_MEMORY = "GPU memory"
GPU_PLACES = "GPUs with a place for one more run"
GPUS_WITH_MEMORY = "GPUs of enough free memory"


class Ever(Struct, frozen=True):
    """What a cluster could hold if all of it were free: so many replicas, on these nodes."""

    at_most: int
    able: tuple[str, ...]


class Lack(Struct, frozen=True):
    """Why a request doesn't fit a cluster now; ``never``: it wouldn't even if all of it were free.

    ``missing`` names a node that could hold it and isn't ready, where no ready one could. ``far``
    tells how far from fitting it is.
    """

    never: bool
    shortfalls: tuple[Shortfall, ...]
    far: Far = (0, 0)
    missing: str = ""


def ever(whole: Room, request: Request, num_nodes: int) -> Ever:
    """Finds what a cluster of this capacity could hold."""
    able = (
        name
        for name in sorted(whole.nodes)
        if fit_node(whole.nodes[name], request, (0,)) is not None
    )
    return Ever(len(fit_most(whole, request, num_nodes)), tuple(able))


def lack(room: Room, whole: Room, request: Request, num_nodes: int, can: Ever) -> Lack:
    """Says what a request that doesn't fit in ``room`` lacks; ``whole`` is the cluster's capacity.

    ``free`` of a shortfall is what the nearest node gives now, ``largest`` what it could give at
    most; of ``nodes at once`` they count replicas.
    """
    if can.at_most == 0:
        return _lack(_lacks_of_nearest(room, whole, request), never=True)
    now = len(fit_most(room, request, num_nodes)) if num_nodes > 1 else 0
    if now or can.at_most < num_nodes:
        short = Shortfall(NODES_AT_ONCE, num_nodes, now, can.at_most)
        return _lack((short,), never=can.at_most < num_nodes)
    able = [name for name in can.able if room.nodes[name].node.state == "ready"]
    if not able:
        return Lack(False, (), missing=can.able[0])
    shorts = [node_lacks(room.nodes[name], whole.nodes[name], request) for name in able]
    return _lack(shorts[0] if len(shorts) == 1 else min(shorts, key=distance), never=False)


def _lack(shorts: tuple[Shortfall, ...], *, never: bool) -> Lack:
    return Lack(never, shorts, distance(shorts))


def smallest_change(
    room: Room, whole: Room, request: Request, num_nodes: int
) -> tuple[Shortfall, ...]:
    """Finds the least to give up in order to start now, on any node that is ready; empty for none.

    Unlike what a request lacks, this looks at nodes too that could never hold all of it.
    """
    now = len(fit_most(room, request, num_nodes))
    if now:
        at_most = len(fit_most(whole, request, num_nodes))
        return (Shortfall(NODES_AT_ONCE, num_nodes, now, at_most),)
    changes = [
        node_lacks(node, whole.nodes[name], request)
        for name, node in sorted(room.nodes.items())
        if node.node.state == "ready"
    ]
    changes = [shorts for shorts in changes if _turns(room, request, num_nodes, shorts)]
    return min(changes, key=distance, default=())


def _turns(room: Room, request: Request, num_nodes: int, shorts: tuple[Shortfall, ...]) -> bool:
    lower = instead(request, num_nodes, shorts)
    return lower is not None and len(fit_most(room, *lower)) == lower[1]


def distance(shorts: tuple[Shortfall, ...]) -> Far:
    """Tells how far from fitting something is."""
    return (
        len(shorts),
        sum((s.wanted - s.free) * PER_MILLE // s.wanted for s in shorts if s.wanted),
    )


def instead(
    request: Request, num_nodes: int, shorts: tuple[Shortfall, ...]
) -> tuple[Request, int] | None:
    """Lowers a request to what the shortfalls say is free; None where nothing of one is free."""
    for short in shorts:
        if short.free <= 0:
            return None
        match short.resource:
            case "CPUs":
                request = replace(request, cpus_milli=short.free)
            case "memory":
                request = replace(request, memory_bytes=short.free)
            case "disk":
                request = replace(request, disk_bytes=short.free)
            case "nodes at once":
                num_nodes = short.free
            case "GPU memory":
                request = replace(request, gpu=_with_gpu(request, share_bytes=short.free))
            case _:
                request = replace(request, gpu=_with_gpu(request, count=short.free))
    return request, num_nodes


def _with_gpu(request: Request, **changes: int) -> GpuRequest:
    assert request.gpu is not None, "only a request with GPUs lacks some"
    return replace(request.gpu, **changes)


def _lacks_of_nearest(room: Room, whole: Room, request: Request) -> tuple[Shortfall, ...]:
    """Says what no node could ever give, as far as the one that comes nearest when empty."""
    if not whole.nodes:
        return (Shortfall(NODES_AT_ONCE, 1, 0, 0),)
    ever = {name: node_lacks(node, node, request) for name, node in sorted(whole.nodes.items())}
    best = min(ever, key=lambda name: distance(ever[name]))
    now = {s.resource: s for s in node_lacks(room.nodes[best], whole.nodes[best], request)}
    return tuple(now.get(short.resource, short) for short in ever[best])


def node_lacks(node: NodeRoom, whole: NodeRoom, request: Request) -> tuple[Shortfall, ...]:
    """Compares a request with one node, resource by resource; nothing found means that it fits."""
    found = []
    plain = (
        ("CPUs", "milli", request.cpus_milli, node.cpus_milli, whole.cpus_milli),
        ("memory", "bytes", request.memory_bytes, node.memory_bytes, whole.memory_bytes),
        ("disk", "bytes", request.disk_bytes, node.disk_bytes, whole.disk_bytes),
    )
    for resource, unit, wanted, free, largest in plain:
        if wanted > free and wanted:
            found.append(Shortfall(resource, wanted, max(free, 0), largest, unit))
    if request.gpu is not None:
        found.extend(_gpu_lack(node, whole, request.gpu))
        found.extend(() if found else _memory_beside(node, whole, request))
    return tuple(found)


def _memory_beside(node: NodeRoom, whole: NodeRoom, request: Request) -> list[Shortfall]:
    """A lack of memory where GPUs have that of the node: what is asked of both counts together."""
    if request.gpu is None or not request.gpu.shares or not node.unified:
        return []
    devices = pick_devices(node, request.gpu) or ()
    wanted = request.memory_bytes + shared_from_memory(node, devices)
    if not devices or wanted <= node.memory_bytes:
        return []
    return [Shortfall("memory", wanted, max(node.memory_bytes, 0), whole.memory_bytes, "bytes")]


def _gpu_lack(node: NodeRoom, whole: NodeRoom, gpu: GpuRequest) -> list[Shortfall]:
    """A lack of cards that could serve, or of memory on each of the cards there are, or of both."""
    cards = [device for device in node.node.devices if right_kind(device, gpu)]
    able = [card for card in cards if share_bytes(card, gpu) <= whole.device_bytes[card.index]]
    if gpu.shares and node.most_jobs and len(able) >= gpu.count:
        has_place = [card for card in able if node.has_place(card)]
        if len(has_place) < gpu.count:
            return [Shortfall(GPU_PLACES, gpu.count, len(has_place), len(able))]
    if not gpu.shares or (len(cards) < gpu.count and able):
        return _too_few(gpu, sum(_serves(node, card, gpu) for card in cards), len(able))
    if not cards:
        return _too_few(gpu, 0, 0)
    found = _too_few(gpu, len(cards), len(cards))
    nearest = _nearest_cards(node, gpu)
    serving = sum(_serves(node, card, gpu) for card in nearest)
    if 0 < serving < len(nearest) and free_bytes(node, nearest[-1]) <= 0:
        # One of them is full: how little is free of it says nothing of the others.
        found.append(Shortfall(GPUS_WITH_MEMORY, gpu.count, serving, len(able)))
    elif serving < len(nearest):
        wanted = max(share_bytes(card, gpu) for card in nearest)
        free = min(free_bytes(node, card) for card in nearest)
        largest = sorted(whole.device_bytes[card.index] for card in cards)[-len(nearest)]
        found.append(Shortfall(GPU_MEMORY, wanted, max(free, 0), largest, "bytes"))
    return found


def _too_few(gpu: GpuRequest, free: int, largest: int) -> list[Shortfall]:
    return [] if gpu.count <= free else [Shortfall(gpu_name(gpu), gpu.count, free, largest)]


def _serves(node: NodeRoom, card: Device, gpu: GpuRequest) -> bool:
    return can_share(node, card, share_bytes(card, gpu)) if gpu.shares else is_whole(node, card)


def _nearest_cards(node: NodeRoom, gpu: GpuRequest) -> list[Device]:
    """The cards, as many as are wanted, that lack the least of what is wanted of them."""
    cards = [device for device in node.node.devices if right_kind(device, gpu)]
    cards.sort(key=lambda card: (share_bytes(card, gpu) - free_bytes(node, card), card.index))
    return cards[: gpu.count]


class Credit(Struct, frozen=True):
    """What to keep for a request that can't start yet, and how far it is from starting there."""

    far: Far
    parts: tuple[NodeAllocation, ...]


def credit(room: Room, whole: Room, request: Request, num_nodes: int, can: Ever) -> Credit | None:
    """Chooses the nodes and devices nearest to holding a request, for taking it on credit.

    Taken from the room in advance, it leaves others what it doesn't need, and what it lacks goes to
    nobody else: so what it lacks only gets less. None where it could never run.
    """
    parts_of = room.near.required() if room.near is not None else []
    if parts_of:
        tried = [credit(room.on(names), whole, request, num_nodes, can) for names in parts_of]
        return min((one for one in tried if one is not None), key=lambda one: one.far, default=None)
    nodes = {
        name: room.nodes[name].copy()
        for name in can.able
        if name in room.nodes and room.nodes[name].node.state == "ready"
    }
    places = {
        name: len(fill(whole.nodes[name], request, 0, num_nodes if room.together else 1))
        for name in nodes
    }
    far = (0, 0)
    parts: list[NodeAllocation] = []
    for rank in range(num_nodes):
        ranked = [
            (distance(node_lacks(nodes[name], whole.nodes[name], request)), name)
            for name, left in places.items()
            if left
        ]
        if not ranked:
            return None
        lacking, name = min(ranked)
        far = (far[0] + lacking[0], far[1] + lacking[1])
        part = _on_credit(nodes[name], request, rank)
        nodes[name].take(part)
        places[name] -= 1
        parts.append(part)
    return Credit(far, tuple(parts))


def _on_credit(node: NodeRoom, request: Request, rank: int) -> NodeAllocation:
    gpu = request.gpu
    cards = _nearest_cards(node, gpu) if gpu is not None else []
    return NodeAllocation(
        node=node.node.name,
        cpus_milli=request.cpus_milli,
        memory_bytes=request.memory_bytes,
        disk_bytes=request.disk_bytes,
        devices=tuple(
            DeviceShare(card.index, share_bytes(card, gpu)) for card in cards if gpu is not None
        ),
        ranks=(rank,),
    )
