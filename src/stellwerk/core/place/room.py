"""Whether a request fits on nodes, now or ever, and what falls short if it doesn't.

``Room`` is what is free on a cluster while a cycle plans: it starts as allocatable minus allocated
and shrinks as the cycle gives things away. All amounts are integers.
"""

from collections.abc import Iterable

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Device, Node
from stellwerk.core.model.decisions import Shortfall
from stellwerk.core.model.resources import (
    Allocation,
    DeviceShare,
    GpuRequest,
    NodeAllocation,
    Request,
)

WHOLE = 1000


class NodeRoom:
    """What is free on one node: milli-CPUs, bytes, and bytes on each device."""

    __slots__ = ("cpus_milli", "device_bytes", "disk_bytes", "memory_bytes", "node")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.cpus_milli = node.cpus_milli
        self.memory_bytes = node.memory_bytes
        self.disk_bytes = node.disk_bytes
        self.device_bytes = {device.index: device.memory_bytes for device in node.devices}

    def take(self, allocation: NodeAllocation, sign: int = 1) -> None:
        """Takes (or with ``sign=-1`` gives back) what an allocation holds."""
        self.cpus_milli -= sign * allocation.cpus_milli
        self.memory_bytes -= sign * allocation.memory_bytes
        self.disk_bytes -= sign * allocation.disk_bytes
        for share in allocation.devices:
            if share.index in self.device_bytes:
                self.device_bytes[share.index] -= sign * share.memory_bytes


class Room:
    """What is free on a cluster's nodes that are ready."""

    def __init__(self, cluster: Cluster, allocations: Iterable[Allocation]) -> None:
        self.cluster = cluster
        self.nodes = {node.name: NodeRoom(node) for node in cluster.nodes}
        for allocation in allocations:
            self.take(allocation)

    def take(self, allocation: Allocation, sign: int = 1) -> None:
        """Takes (or with ``sign=-1`` gives back) what a run holds; unknown nodes hold nothing."""
        for part in allocation.nodes:
            room = self.nodes.get(part.node)
            if room is not None:
                room.take(part, sign)


def share_bytes(device: Device, gpu: GpuRequest) -> int:
    """Gives how many bytes of a device a request takes: all, a fraction, or what it names."""
    if gpu.share_bytes:
        return gpu.share_bytes
    return device.memory_bytes * gpu.fraction_milli // WHOLE


def right_kind(device: Device, gpu: GpuRequest) -> bool:
    """Says whether a device is of the kind that a request names or selects by memory."""
    if gpu.kind and device.kind != gpu.kind:
        return False
    if gpu.vendor and device.vendor != gpu.vendor:
        return False
    if gpu.memory_min_bytes and device.memory_bytes < gpu.memory_min_bytes:
        return False
    return not gpu.memory_exact_bytes or _same_size(device.memory_bytes, gpu.memory_exact_bytes)


def _same_size(actual: int, nominal: int) -> bool:
    """A card's usable memory is some percent off its nominal size: ``24GB`` is 23 to 25 GiB."""
    return abs(actual - nominal) * 12 <= nominal


def pick_devices(room: NodeRoom, gpu: GpuRequest) -> tuple[DeviceShare, ...] | None:
    """Chooses devices, fullest first (best fit), so that whole cards stay whole for others."""
    fitting = []
    for device in room.node.devices:
        if not right_kind(device, gpu):
            continue
        wanted = share_bytes(device, gpu)
        free = room.device_bytes[device.index] - device.foreign_bytes
        untouched = room.device_bytes[device.index] == device.memory_bytes
        if not gpu.shares:
            if untouched and not device.foreign_bytes:
                fitting.append((free, device.index, wanted))
        elif wanted <= free:
            fitting.append((free, device.index, wanted))
    if len(fitting) < gpu.count:
        return None
    fitting.sort()
    return tuple(DeviceShare(index, wanted) for _, index, wanted in fitting[: gpu.count])


def fit_node(room: NodeRoom, request: Request, ranks: tuple[int, ...]) -> NodeAllocation | None:
    """Fits one replica on a node."""
    if room.node.state != "ready":
        return None
    if (request.cpus_milli > room.cpus_milli or request.memory_bytes > room.memory_bytes
            or request.disk_bytes > room.disk_bytes):
        return None
    devices = pick_devices(room, request.gpu) if request.gpu is not None else ()
    if devices is None:
        return None
    return NodeAllocation(
        node=room.node.name, cpus_milli=request.cpus_milli, memory_bytes=request.memory_bytes,
        disk_bytes=request.disk_bytes, devices=devices, ranks=ranks)


def fit(room: Room, request: Request, num_nodes: int) -> tuple[NodeAllocation, ...] | None:
    """Fits a gang, all replicas or none, one to a node; one machine alone may hold several.

    Nodes with the least free CPU that still fit come first, so that large room stays large.
    """
    together = room.cluster.kind == "machine"
    given: list[NodeAllocation] = []
    for rank in range(num_nodes):
        used = {part.node for part in given}
        order = sorted(room.nodes.values(), key=lambda r: (r.cpus_milli, r.node.name))
        found = None
        for node in order:
            if together or node.node.name not in used:
                found = fit_node(node, request, (rank,))
                if found is not None:
                    node.take(found)
                    given.append(found)
                    break
        if found is None:
            break
    for part in given:
        room.nodes[part.node].take(part, -1)
    return tuple(given) if len(given) == num_nodes else None


def shortfalls(room: Room, request: Request, num_nodes: int) -> tuple[Shortfall, ...]:
    """Says, resource by resource, what a request lacks on the node that comes nearest.

    ``free`` and ``largest`` are what the best single node gives now and could give at most (for
    ``nodes``: how many could hold a replica now, and at most).
    """
    nodes = [room.nodes[name] for name in sorted(room.nodes)]
    found = []
    plain = (
        ("CPUs", "milli", request.cpus_milli, "cpus_milli"),
        ("memory", "bytes", request.memory_bytes, "memory_bytes"),
        ("disk", "bytes", request.disk_bytes, "disk_bytes"),
    )
    for resource, unit, wanted, field in plain:
        free = max((getattr(node, field) for node in nodes), default=0)
        largest = max((getattr(node.node, field) for node in nodes), default=0)
        if wanted > free:
            found.append(Shortfall(resource, wanted, max(free, 0), largest, unit))
    if request.gpu is not None:
        short = _gpu_shortfall(nodes, request.gpu)
        if short is not None:
            found.append(short)
    if not found:
        found.append(_node_shortfall(room, request, num_nodes))
    return tuple(found)


def _gpu_shortfall(nodes: list[NodeRoom], gpu: GpuRequest) -> Shortfall | None:
    free = max((_count_devices(node, gpu) for node in nodes), default=0)
    largest = max((_count_devices(NodeRoom(node.node), gpu) for node in nodes), default=0)
    if gpu.count <= free:
        return None
    return Shortfall(gpu_name(gpu), gpu.count, free, largest)


def _count_devices(room: NodeRoom, gpu: GpuRequest) -> int:
    """Counts the devices that could serve the request one by one."""
    count = 0
    while pick_devices(room, replace(gpu, count=count + 1)) is not None:
        count += 1
    return count


def gpu_name(gpu: GpuRequest) -> str:
    """Names what a GPU request asks for: ``A100``, ``24GB+``, ``GPUs``."""
    gib = 1 << 30
    if gpu.kind:
        return gpu.kind
    if gpu.memory_min_bytes:
        return f"GPUs of {gpu.memory_min_bytes // gib}+ GiB"
    if gpu.memory_exact_bytes:
        return f"GPUs of {gpu.memory_exact_bytes // gib} GiB"
    return "GPUs"


def _node_shortfall(room: Room, request: Request, num_nodes: int) -> Shortfall:
    free = _count_replicas(room, request, num_nodes)
    largest = _count_replicas(Room(room.cluster, ()), request, num_nodes)
    return Shortfall("nodes at once", num_nodes, free, largest)


def _count_replicas(room: Room, request: Request, most: int) -> int:
    for count in range(most, 0, -1):
        if fit(room, request, count) is not None:
            return count
    return 0
