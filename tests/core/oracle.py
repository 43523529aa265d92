"""The same questions as ``core/place`` asks, answered by trying everything."""

from itertools import combinations

from stellwerk.core.model.cluster import Device
from stellwerk.core.model.resources import DeviceShare, GpuRequest, NodeAllocation, Request
from stellwerk.core.place.room import NodeRoom, Room

SCREEN = 1 << 30


def suits(device: Device, gpu: GpuRequest) -> bool:
    """Whether a card is one of those that are asked for. Sizes here are those that are sold."""
    return (
        (not gpu.kind or device.kind == gpu.kind)
        and device.memory_bytes >= gpu.memory_min_bytes
        and gpu.memory_exact_bytes in {0, device.memory_bytes}
    )


def share(device: Device, gpu: GpuRequest) -> int:
    """What one replica takes of a card."""
    return gpu.share_bytes or device.memory_bytes * gpu.fraction_milli // 1000


def can_give(room: NodeRoom, device: Device, gpu: GpuRequest) -> bool:
    """Whether a card can give its part now."""
    left = room.device_bytes[device.index]
    if gpu.shares:
        return share(device, gpu) <= left - device.foreign_bytes
    return left == device.memory_bytes and device.foreign_bytes <= SCREEN


def ways(room: NodeRoom, request: Request) -> list[NodeAllocation]:
    """Every way to put one replica on a node."""
    if room.node.state != "ready":
        return []
    for wanted, free in (
        (request.cpus_milli, room.cpus_milli),
        (request.memory_bytes, room.memory_bytes),
        (request.disk_bytes, room.disk_bytes),
    ):
        if wanted > 0 and wanted > free:
            return []
    gpu = request.gpu
    if gpu is None:
        return [_part(room, request, ())]
    able = [d for d in room.node.devices if suits(d, gpu) and can_give(room, d, gpu)]
    return [
        _part(room, request, tuple(DeviceShare(d.index, share(d, gpu)) for d in chosen))
        for chosen in combinations(able, gpu.count)
    ]


def _part(room: NodeRoom, request: Request, shares: tuple[DeviceShare, ...]) -> NodeAllocation:
    return NodeAllocation(
        node=room.node.name,
        cpus_milli=request.cpus_milli,
        memory_bytes=request.memory_bytes,
        disk_bytes=request.disk_bytes,
        devices=shares,
    )


def most_on(room: NodeRoom, request: Request, limit: int) -> int:
    """How many replicas a node can hold at once, up to a limit, by trying all ways."""
    best = 0
    for way in ways(room, request) if limit else []:
        left = room.copy()
        left.take(way)
        best = max(best, 1 + most_on(left, request, limit - 1))
        if best == limit:
            break
    return best


def replicas(room: Room, request: Request, limit: int) -> int:
    """How many replicas a cluster can hold, up to a limit: one to a node unless it is a machine."""
    per_node = limit if room.cluster.kind == "machine" else 1
    total = sum(most_on(node, request, per_node) for node in room.nodes.values())
    return min(total, limit)
