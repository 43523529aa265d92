"""Hypothesis strategies for clusters and requests so small that every answer can be tried out.

Nodes and requests are drawn whole from pools, the plain ones first: a draw is cheap, and a failure
shrinks to something plain.
"""

import random

from hypothesis import strategies as st
from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Device, Node, NodeState
from stellwerk.core.model.resources import (
    Allocation,
    Alternative,
    GpuRequest,
    Request,
    Shape,
)
from stellwerk.core.place.room import Room, fit

GIB = 1 << 30
KINDS = ("T4", "L4")
STATES: tuple[NodeState, ...] = ("ready", "ready", "ready", "unreachable", "quarantined")


def _device(dice: random.Random, index: int) -> Device:
    return Device(
        index=index,
        kind=dice.choice(KINDS),
        memory_bytes=dice.randint(1, 4) * GIB,
        foreign_bytes=dice.choice((0, 0, 0, 1, 2)) * GIB,
    )


def _node(dice: random.Random) -> Node:
    cpus, gib = dice.randint(0, 4), dice.randint(0, 4)
    is_shared = dice.random() < 0.2
    return Node(
        name="",
        cpus_milli=cpus * 1000,
        memory_bytes=gib * GIB,
        foreign_cpus_milli=dice.randint(0, cpus) * 1000 if is_shared else 0,
        foreign_memory_bytes=dice.randint(0, gib) * GIB if is_shared else 0,
        disk_bytes=dice.randint(0, 2) * GIB,
        devices=tuple(_device(dice, index) for index in range(dice.randint(0, 3))),
        state=dice.choice(STATES),
    )


def _gpu(dice: random.Random) -> GpuRequest:
    part = dice.choice(("whole", "fraction", "bytes"))
    return GpuRequest(
        count=dice.randint(1, 3),
        kind=dice.choice(("", *KINDS)),
        fraction_milli=dice.choice((250, 500)) if part == "fraction" else 1000,
        share_bytes=dice.randint(1, 5) * GIB // 2 if part == "bytes" else 0,
        memory_min_bytes=dice.choice((0, 0, 2)) * GIB,
    )


def _request(dice: random.Random) -> Request:
    return Request(
        cpus_milli=dice.randint(0, 5) * 500,
        memory_bytes=dice.randint(0, 5) * GIB,
        disk_bytes=dice.randint(0, 3) * GIB,
        gpu=_gpu(dice) if dice.random() < 0.6 else None,
    )


def _few_cards(node: Node) -> tuple[int, int]:
    return (len(node.devices), node.cpus_milli + node.memory_bytes)


def _asks_little(request: Request) -> tuple[int, int]:
    return (request.gpu.count if request.gpu else 0, request.cpus_milli + request.memory_bytes)


_DICE = random.Random(1)
NODES = sorted((_node(_DICE) for _ in range(400)), key=_few_cards)
REQUESTS = sorted((_request(_DICE) for _ in range(400)), key=_asks_little)

requests = st.sampled_from(REQUESTS)
gangs = st.integers(1, 3)


@st.composite
def clusters(draw: st.DrawFn, name: str = "lab", *, ready: bool = False) -> Cluster:
    """A machine of its own, or a room of up to four."""
    kind = draw(st.sampled_from(("machine", "room")))
    most = 1 if kind == "machine" else 4
    drawn = draw(st.lists(st.sampled_from(NODES), min_size=1, max_size=most))
    nodes = (
        replace(node, name=f"n{number}", state="ready" if ready else node.state)
        for number, node in enumerate(drawn)
    )
    return Cluster(name=name, driver="simulated", kind=kind, nodes=tuple(nodes))


@st.composite
def used_rooms(draw: st.DrawFn, name: str = "lab", *, ready: bool = False) -> Room:
    """A cluster on which up to three requests have been placed."""
    room = Room(draw(clusters(name, ready=ready)), ())
    for request in draw(st.lists(requests, max_size=3)):
        parts = fit(room, request, 1)
        if parts is not None:
            room.take(Allocation(name, parts))
    return room


@st.composite
def shapes(draw: st.DrawFn) -> Shape:
    """One or two alternatives, alone or as a gang."""
    return Shape(
        alternatives=tuple(map(Alternative, draw(st.lists(requests, min_size=1, max_size=2)))),
        ordered=draw(st.booleans()),
        num_nodes=draw(gangs),
    )
