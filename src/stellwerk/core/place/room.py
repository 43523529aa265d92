"""Whether a request fits on nodes, and on which: nodes and devices, gangs all or none.

``Room`` is what is free on a cluster: allocatable minus allocated. All amounts are integers. What
isn't asked for is never short, so a job without a memory request may start where memory is taken.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Device, Node
from stellwerk.core.model.devices import sold_memory_gib
from stellwerk.core.model.resources import (
    Allocation,
    DeviceShare,
    GpuRequest,
    NodeAllocation,
    Request,
)

WHOLE = 1000
GIB = 1 << 30
SCREEN_BYTES = GIB
"""Memory of a card that others may hold while it still counts as whole: that of a screen."""


class NodeRoom:
    """What is free on one node: milli-CPUs, bytes, and bytes on each device."""

    __slots__ = ("cpus_milli", "device_bytes", "disk_bytes", "memory_bytes", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.cpus_milli = node.cpus_milli
        self.memory_bytes = node.memory_bytes
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


class Room:
    """What is free on a cluster's nodes, ready or not."""

    __slots__ = ("cluster", "nodes")

    def __init__(self, cluster: Cluster, allocations: Iterable[Allocation]) -> None:
        self.cluster = cluster
        self.nodes = {node.name: NodeRoom(node) for node in cluster.nodes}
        for allocation in allocations:
            self.take(allocation)

    def copy(self) -> Room:
        """Gives an equal room that can be taken from without changing this one."""
        twin = Room.__new__(Room)
        twin.cluster = self.cluster
        twin.nodes = {name: node.copy() for name, node in self.nodes.items()}
        return twin

    def without(self, nodes: Container[str]) -> Room:
        """Gives the same room without some nodes (``cluster/node``); what is left is shared."""
        twin = Room.__new__(Room)
        twin.cluster = self.cluster
        prefix = f"{self.cluster.name}/"
        twin.nodes = {name: node for name, node in self.nodes.items() if prefix + name not in nodes}
        return twin

    def only_ready(self, cluster: Cluster) -> Room:
        """Gives the same room on those nodes alone that are ready as ``cluster`` is now."""
        twin = Room.__new__(Room)
        twin.cluster = self.cluster
        ready = {node.name: True for node in cluster.nodes if node.state == "ready"}
        twin.nodes = {name: node for name, node in self.nodes.items() if name in ready}
        return twin

    def take(self, allocation: Allocation, sign: int = 1) -> None:
        """Takes (or with ``sign=-1`` gives back) what a run holds; unknown nodes hold nothing."""
        for part in allocation.nodes:
            room = self.nodes.get(part.node)
            if room is not None:
                room.take(part, sign)

    @property
    def together(self) -> bool:
        """Whether replicas of a gang may share a node: on a single machine they must."""
        return self.cluster.kind == "machine"


def capacity(cluster: Cluster) -> Room:
    """Gives the most a cluster could ever have free: all nodes ready, nothing held by anybody."""
    nodes = tuple(
        replace(
            node,
            state="ready",
            devices=tuple(replace(device, foreign_bytes=0) for device in node.devices),
        )
        for node in cluster.nodes
    )
    return Room(replace(cluster, nodes=nodes), ())


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
    """Says whether a device is free as a whole: no run on it, and at most a screen of others."""
    untouched = room.device_bytes[device.index] == device.memory_bytes
    return untouched and device.foreign_bytes <= SCREEN_BYTES


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


def fit(room: Room, request: Request, num_nodes: int) -> tuple[NodeAllocation, ...] | None:
    """Fits a gang, all replicas or none, one to a node; a single machine may hold several."""
    given = fit_most(room, request, num_nodes)
    return given if len(given) == num_nodes else None


def fit_most(room: Room, request: Request, most: int) -> tuple[NodeAllocation, ...]:
    """Fits as many replicas as there is room for, up to ``most``; changes nothing.

    Nodes with the least free device memory, then the least free CPU, come first: work without
    devices stays off the nodes that have some, and large room stays large.
    """
    given: list[NodeAllocation] = []
    for node in sorted(room.nodes.values(), key=_tightest_first):
        if len(given) == most:
            break
        if room.together:
            given.extend(fill(node, request, len(given), most))
            continue
        found = fit_node(node, request, (len(given),))
        if found is not None:
            given.append(found)
    return tuple(given)


def _tightest_first(room: NodeRoom) -> tuple[int, int, str]:
    return (sum(room.device_bytes.values()), room.cpus_milli, room.node.name)


def fill(room: NodeRoom, request: Request, first_rank: int, most: int) -> list[NodeAllocation]:
    """Fits replicas from ``first_rank`` on one node until it is full or there are ``most``."""
    for_many = most - first_rank > 1 and request.gpu is not None and request.gpu.count > 1
    given: list[NodeAllocation] = []
    node = room
    for rank in range(first_rank, most):
        found = fit_node(node, request, (rank,), for_many=for_many)
        if found is None:
            break
        given.append(found)
        if rank + 1 < most:
            if node is room:
                node = room.copy()
            node.take(found)
    return given


def gpu_name(gpu: GpuRequest) -> str:
    """Names what a GPU request asks for: ``A100``, ``GPUs of 24+ GiB``, ``GPUs``."""
    if gpu.kind:
        return gpu.kind
    if gpu.memory_min_bytes:
        return f"GPUs of {gpu.memory_min_bytes // GIB}+ GiB"
    if gpu.memory_exact_bytes:
        return f"GPUs of {gpu.memory_exact_bytes // GIB} GiB"
    return "GPUs"
