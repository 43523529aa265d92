"""Whether a request fits on one node, and on which of its devices.

All amounts are integers. What isn't asked for is never short, so a job without a memory request may
start where memory is taken.
"""

from __future__ import annotations

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Device, Node
from stellwerk.core.model.devices import sold_memory_gib
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.resources import DeviceShare, GpuRequest, NodeAllocation, Request

WHOLE = 1000
SLICE = "MIG-"
SCREEN_BYTES = GIB
"""Memory of a card that others may hold while it still counts as whole: that of a screen."""


JOBS_LABEL = "stellwerk/gpu-jobs"
"""A cluster's label: how many runs may hold memory of one card at a time (0 = as it lasts)."""


def jobs_on_a_card(cluster: Cluster) -> int:
    """How many runs may share one card of a cluster; 0 = as many as its memory holds."""
    written = cluster.labels.get(JOBS_LABEL, "")
    return int(written) if written.isdecimal() and len(written) < 5 else 0


class NodeRoom:
    """What is free on one node: milli-CPUs, bytes, and bytes on each device.

    A device without memory of its own takes from the node's where it is shared; who has all of it
    says by ``memory`` what it takes. At most ``most_jobs`` share a device (0 = any number).
    """

    __slots__ = (
        "cpus_milli",
        "device_bytes",
        "device_jobs",
        "disk_bytes",
        "memory_bytes",
        "most_jobs",
        "node",
        "unified",
    )

    def __init__(self, node: Node, most_jobs: int = 0) -> None:
        self.node = node
        self.most_jobs = most_jobs
        self.device_jobs: dict[int, int] = {}
        self.cpus_milli = node.cpus_milli - node.foreign_cpus_milli
        self.memory_bytes = node.memory_bytes - node.foreign_memory_bytes
        self.disk_bytes = node.disk_bytes
        self.device_bytes = {device.index: device.usable_bytes for device in node.devices}
        self.unified = {one.index: one.usable_bytes for one in node.devices if one.unified}

    def copy(self) -> NodeRoom:
        """Gives an equal room that can be taken from without changing this one."""
        twin = NodeRoom.__new__(NodeRoom)
        twin.node = self.node
        twin.cpus_milli = self.cpus_milli
        twin.memory_bytes = self.memory_bytes
        twin.disk_bytes = self.disk_bytes
        twin.device_bytes = self.device_bytes.copy()
        twin.device_jobs = self.device_jobs.copy()
        twin.most_jobs = self.most_jobs
        twin.unified = self.unified
        return twin

    def take(self, allocation: NodeAllocation, sign: int = 1) -> None:
        """Takes (or with ``sign=-1`` gives back) what an allocation holds."""
        self.cpus_milli -= sign * allocation.cpus_milli
        self.memory_bytes -= sign * allocation.memory_bytes
        self.disk_bytes -= sign * allocation.disk_bytes
        for share in allocation.devices:
            if share.index in self.device_bytes:
                self.device_bytes[share.index] -= sign * share.memory_bytes
                self.device_jobs[share.index] = self.device_jobs.get(share.index, 0) + sign
                if share.memory_bytes < self.unified.get(share.index, 0):
                    self.memory_bytes -= sign * share.memory_bytes

    def has_place(self, device: Device) -> bool:
        """Whether another run may share a device, its memory aside."""
        if self.most_jobs == 1:
            return is_whole(self, device)
        return not self.most_jobs or self.device_jobs.get(device.index, 0) < self.most_jobs


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
    return device.usable_bytes * gpu.fraction_milli // WHOLE


def right_kind(device: Device, gpu: GpuRequest) -> bool:
    """Says whether a device is of the kind that a request names, or of the size it is sold with.

    A card of unknown memory is none: nothing could tell when it has been given away. A MIG slice is
    for who names it (with its card, or alone: `MIG-1g.10gb`) or asks by memory, and for who needs
    one device only: a program can use no second one beside it.
    """
    if device.memory_bytes <= 0 or (gpu.vendor and device.vendor != gpu.vendor):
        return False
    by_memory = gpu.memory_min_bytes or gpu.memory_exact_bytes
    if device.part_of >= 0 and not gpu.kind:
        if gpu.count > 1 or not (by_memory or gpu.share_bytes):
            return False
    elif gpu.kind and device.kind != gpu.kind:
        named = gpu.kind.startswith(SLICE) and device.kind.endswith(f"-{gpu.kind}")
        if device.part_of < 0 or not named:
            return False
    if not by_memory:
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
    untouched = room.device_bytes[device.index] == device.usable_bytes
    is_idle = device.foreign_bytes <= SCREEN_BYTES and not device.foreign_compute
    return untouched and is_idle


def can_share(room: NodeRoom, device: Device, wanted: int) -> bool:
    """Says whether so much of a device can be had beside what others hold of it."""
    return wanted <= free_bytes(room, device) and room.has_place(device)


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
        if can_share(room, device, wanted) if gpu.shares else is_whole(room, device):
            left = -(free // wanted) if for_many and gpu.shares and wanted else 0
            fitting.append((left, free, device.index, wanted))
    if len(fitting) < gpu.count:
        return None
    fitting.sort()
    if gpu.count > 1:
        fitting = _joined(room.node, fitting, gpu.count)
    return tuple(DeviceShare(index, wanted) for _, _, index, wanted in fitting[: gpu.count])


Fitting = tuple[int, int, int, int]


def _joined(node: Node, fitting: list[Fitting], count: int) -> list[Fitting]:
    """Those of one island alone, where one has enough: the smallest such, best fit as before."""
    of = {device.index: device.island for device in node.devices if device.island}
    if not of:
        return fitting
    islands: dict[str, list[Fitting]] = {}
    for one in fitting:
        islands.setdefault(of.get(one[2], ""), []).append(one)
    enough = [ones for name, ones in islands.items() if name and len(ones) >= count]
    return min(enough, key=len, default=fitting)


def shared_from_memory(room: NodeRoom, devices: tuple[DeviceShare, ...]) -> int:
    """What devices without memory of their own take from the node's beside what is asked of it."""
    shares = (
        one.memory_bytes for one in devices if one.memory_bytes < room.unified.get(one.index, 0)
    )
    return sum(shares)


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
    more = shared_from_memory(room, devices) if room.unified else 0
    if more and memory + more > room.memory_bytes:
        return None
    return NodeAllocation(
        node=room.node.name,
        cpus_milli=cpus,
        memory_bytes=memory,
        disk_bytes=disk,
        devices=devices,
        ranks=ranks,
    )
