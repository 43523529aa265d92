"""Whether a request fits on a cluster, and on which nodes: gangs all or none.

``Room`` is what is free on a cluster: allocatable minus allocated. Which of several nodes comes
first is for ``packing`` to say.
"""

from __future__ import annotations

from collections.abc import Container, Iterable

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.resources import Allocation, GpuRequest, NodeAllocation, Request
from stellwerk.core.place.near import Near, put_near
from stellwerk.core.place.node import (
    WHOLE,
    NodeRoom,
    fit_node,
    free_bytes,
    is_whole,
    jobs_on_a_card,
    pick_devices,
    right_kind,
    share_bytes,
    unheld,
)
from stellwerk.core.place.packing import Mix, Packing, Scores, mix_of

__all__ = [
    "GIB",
    "WHOLE",
    "NodeRoom",
    "Room",
    "capacity",
    "fill",
    "fit",
    "fit_most",
    "fit_node",
    "free_bytes",
    "gpu_name",
    "is_whole",
    "pick_devices",
    "right_kind",
    "share_bytes",
    "unheld",
    "usable_after",
]


class Room:
    """What is free on a cluster's nodes, ready or not.

    Its mix is what the ``held`` allocations asked for, those it was made with. What is taken later
    counts in the next room: what is chosen depends on what was there, not on when it was asked.
    ``near`` = how near to each other the nodes of a gang are to be here (None: anyhow).
    """

    __slots__ = ("cluster", "held", "near", "nodes", "packed", "sums")

    def __init__(self, cluster: Cluster, allocations: Iterable[Allocation]) -> None:
        self.cluster = cluster
        most_jobs = jobs_on_a_card(cluster)
        self.nodes = {node.name: NodeRoom(node, most_jobs) for node in cluster.nodes}
        self.held = tuple(allocations)
        self.near: Near | None = None
        self.packed: Packing | None = None
        self.sums: tuple[int, int] | None = None
        for allocation in self.held:
            self.take(allocation)

    def copy(self) -> Room:
        """Gives an equal room that can be taken from without changing this one."""
        twin = self._with({name: node.copy() for name, node in self.nodes.items()})
        twin.packed = self.packed and self.packed.copy()
        return twin

    def without(self, nodes: Container[str]) -> Room:
        """Gives the same room without some nodes (``cluster/node``), to be looked at only."""
        prefix = f"{self.cluster.name}/"
        return self._with(
            {name: node for name, node in self.nodes.items() if prefix + name not in nodes}
        )

    def nearby(self, near: Near | None) -> Room:
        """Gives the same room where gangs are put as near as is asked, to be looked at only."""
        names = self.nodes if near is None else near.node_values
        twin = self._with({name: node for name, node in self.nodes.items() if name in names})
        twin.near = near
        return twin

    def on(self, nodes: Container[str]) -> Room:
        """Gives the same room on some nodes alone, near or not, to be looked at only."""
        twin = self._with({name: node for name, node in self.nodes.items() if name in nodes})
        twin.near = None
        return twin

    def only_ready(self, cluster: Cluster) -> Room:
        """Gives the same room on those nodes alone that are ready as ``cluster`` is now."""
        ready = {node.name: True for node in cluster.nodes if node.state == "ready"}
        return self._with({name: node for name, node in self.nodes.items() if name in ready})

    def _with(self, nodes: dict[str, NodeRoom]) -> Room:
        twin = Room.__new__(Room)
        twin.cluster = self.cluster
        twin.nodes = nodes
        twin.held = self.held
        twin.near = self.near
        twin.packed = None
        twin.sums = None
        return twin

    def take(self, allocation: Allocation, sign: int = 1) -> None:
        """Takes (or with ``sign=-1`` gives back) what a run holds; unknown nodes hold nothing."""
        for part in allocation.nodes:
            self.take_part(part, sign)

    def take_part(self, part: NodeAllocation, sign: int = 1) -> None:
        """Takes or gives back what is held on one node."""
        room = self.nodes.get(part.node)
        if room is not None:
            room.take(part, sign)
            if self.sums is not None:
                self.sums = (self.sums[0] - sign * part.cpus_milli, self.sums[1])
            if self.packed is not None:
                self.packed.moved(room)

    def packing(self) -> Packing:
        """Gives the order of its nodes, made when it is first asked for and kept up from then."""
        if self.packed is None:
            mix = mix_of(self.nodes, self.held)
            self.packed = Packing(self.nodes.values(), Scores(mix))
        return self.packed

    def cpus(self) -> tuple[int, int]:
        """Gives the milli-CPUs of all nodes together: what is free, and all."""
        if self.sums is None:
            nodes = self.nodes.values()
            left = sum(node.cpus_milli for node in nodes)
            self.sums = (left, sum(node.node.cpus_milli for node in nodes))
        return self.sums

    @property
    def together(self) -> bool:
        """Whether replicas of a gang may share a node: on a single machine they must."""
        return self.cluster.kind == "machine"


def capacity(cluster: Cluster) -> Room:
    """Gives the most a cluster could ever have free: all nodes ready, nothing held by anybody."""
    nodes = tuple(replace(unheld(node), state="ready") for node in cluster.nodes)
    serves = cluster.serves if cluster.owner else ()
    return Room(replace(cluster, nodes=nodes, serves=serves), ())


def fit(room: Room, request: Request, num_nodes: int) -> tuple[NodeAllocation, ...] | None:
    """Fits a gang, all replicas or none, one to a node; a single machine may hold several."""
    given = fit_most(room, request, num_nodes)
    return given if len(given) == num_nodes else None


def fit_most(room: Room, request: Request, most: int) -> tuple[NodeAllocation, ...]:
    """Fits as many replicas as there is room for, up to ``most``; changes nothing."""
    if room.near is not None:
        fitting = {name: _fitting(room, name, request, most) for name in room.nodes}

        def fill_on(names: Container[str], count: int) -> tuple[NodeAllocation, ...]:
            return fit_most(room.on(names), request, count)

        return put_near(room.near, fitting, most, fill_on)
    given: list[NodeAllocation] = []
    if room.together:
        for node in sorted(room.nodes.values(), key=_tightest_first):
            given.extend(fill(node, request, len(given), most))
        return tuple(given)
    for name in room.packing().best(request, most):
        found = fit_node(room.nodes[name], request, (len(given),))
        if found is not None:
            given.append(found)
    return tuple(given)


def _fitting(room: Room, name: str, request: Request, most: int) -> int:
    """How many replicas a node could take now."""
    node = room.nodes[name]
    if room.together:
        return len(fill(node, request, 0, most))
    return 0 if fit_node(node, request, (0,)) is None else 1


def usable_after(room: Room, request: Request | None, mix: Mix = (), num_nodes: int = 1) -> float:
    """Gives the part (0..1) of the free GPU memory that stays usable when a request is placed.

    Usable for the shapes of a mix, by default that of the room. It is 1 where nothing is left that
    could be useless or nothing is known of what comes, and 0 where the request doesn't fit.
    """
    nodes = fit(room, request, num_nodes) if request is not None else ()
    if nodes is None:
        return 0.0
    after = room.copy()
    if mix:
        after.packed = Packing(after.nodes.values(), Scores(mix))
    after.take(Allocation(room.cluster.name, nodes))
    usable, free = after.packing().usable()
    return min(usable / free, 1.0) if free else 1.0


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
