"""Whether a request fits on one node, and on which of its devices.

All amounts are integers. What isn't asked for is never short, so a job without a memory request may
start where memory is taken.
"""

from __future__ import annotations

from msgspec.structs import replace

from stellwerk.core.model.cluster import Device, Node
from stellwerk.core.model.devices import sold_memory_gib
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.resources import DeviceShare, GpuRequest, NodeAllocation, Request

WHOLE = 1000
SCREEN_BYTES = GIB
"""Memory of a card that others may hold while it still counts as whole: that of a screen."""


class NodeRoom:
    """What is free on one node: milli-CPUs, bytes, and bytes on each device."""

    __slots__ = ("cpus_milli", "device_bytes", "disk_bytes", "memory_bytes", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.cpus_milli = node.cpus_milli - node.foreign_cpus_milli
        self.memory_bytes = node.memory_bytes - node.foreign_memory_bytes
        self.disk_bytes = node.disk_bytes
        self.device_bytes = {device.index: device.memory_bytes for device in node.devices}

    def copy(self) -> NodeRoom:
        """Gives an equal room that can be taken from without changing this one."""
        twin = NodeRoom.__new__(NodeRoom)
        twin.node = self.node
        twin.cpus_milli = self.cpus_milli
        twin.memory_bytes = self.memory_bytes
        twin.disk_bytes = self.disk_bytes
        twin.device_bytes = self.device_bytes.copy()
        return twin

    def take(self, allocation: NodeAllocation, sign: int = 1) -> None:
        """Takes (or with ``sign=-1`` gives back) what an allocation holds."""
        self.cpus_milli -= sign * allocation.cpus_milli
        self.memory_bytes -= sign * allocation.memory_bytes
        self.disk_bytes -= sign * allocation.disk_bytes
        for share in allocation.devices:
            if share.index in self.device_bytes:
                self.device_bytes[share.index] -= sign * share.memory_bytes


def unheld(node: Node) -> Node:
    """Gives a node of which nobody outside holds anything."""
    return replace(
        node,
        devices=tuple(
            replace(device, foreign_bytes=0, foreign_compute=False) for device in node.devices
        ),
        foreign_cpus_milli=0,
        foreign_memory_bytes=0,
    )


def share_bytes(device: Device, gpu: GpuRequest) -> int:
    """Gives how many bytes of a device a request takes: all, a fraction, or what it names."""
    if gpu.share_bytes:
        return gpu.share_bytes
    return device.memory_bytes * gpu.fraction_milli // WHOLE


def right_kind(device: Device, gpu: GpuRequest) -> bool:
    """Says whether a device is of the kind that a request names, or of the size it is sold with.

    A card of unknown memory is none: nothing could tell when it has been given away.
    """
    if device.memory_bytes <= 0 or (gpu.kind and device.kind != gpu.kind):
        return False
    if gpu.vendor and device.vendor != gpu.vendor:
        return False
    if not gpu.memory_min_bytes and not gpu.memory_exact_bytes:
        return True
    sold = sold_memory_gib(device.memory_bytes) * GIB
    if sold < gpu.memory_min_bytes:
        return False
    return not gpu.memory_exact_bytes or sold == gpu.memory_exact_bytes


def free_bytes(room: NodeRoom, device: Device) -> int:
    """Gives what neither a run nor anybody else holds of a device; below zero if overdrawn."""
    return room.device_bytes[device.index] - device.foreign_bytes


def is_whole(room: NodeRoom, device: Device) -> bool:
    """Says whether a device is free as a whole: no run, nobody computes, at most a screen."""
    untouched = room.device_bytes[device.index] == device.memory_bytes
    is_idle = device.foreign_bytes <= SCREEN_BYTES and not device.foreign_compute
    return untouched and is_idle


def pick_devices(
    room: NodeRoom, gpu: GpuRequest, *, for_many: bool = False
) -> tuple[DeviceShare, ...] | None:
    """Chooses devices, fullest first (best fit), so that whole cards stay whole for others.

    ``for_many`` replicas with several devices each, those with the most shares left come first:
    best fit could leave as many shares, but too few different devices for the last replica.
    """
    fitting = []
    for device in room.node.devices:
        if not right_kind(device, gpu):
            continue
        wanted, free = share_bytes(device, gpu), free_bytes(room, device)
        if wanted <= free if gpu.shares else is_whole(room, device):
            left = -(free // wanted) if for_many and gpu.shares and wanted else 0
            fitting.append((left, free, device.index, wanted))
    if len(fitting) < gpu.count:
        return None
    fitting.sort()
    return tuple(DeviceShare(index, wanted) for _, _, index, wanted in fitting[: gpu.count])


def fit_node(
    room: NodeRoom, request: Request, ranks: tuple[int, ...], *, for_many: bool = False
) -> NodeAllocation | None:
    """Fits one replica on a node."""
    if room.node.state != "ready":
        return None
    cpus, memory, disk = request.cpus_milli, request.memory_bytes, request.disk_bytes
    if cpus > room.cpus_milli and cpus:
        return None
    if (memory > room.memory_bytes and memory) or (disk > room.disk_bytes and disk):
        return None
    devices: tuple[DeviceShare, ...] | None = ()
    if request.gpu is not None:
        devices = pick_devices(room, request.gpu, for_many=for_many)
    if devices is None:
        return None
    return NodeAllocation(
        node=room.node.name,
        cpus_milli=cpus,
        memory_bytes=memory,
        disk_bytes=disk,
        devices=devices,
        ranks=ranks,
    )
