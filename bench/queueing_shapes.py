"""The shapes of Kueue's own performance test: its queues, what comes when, and what it measured."""

from collections.abc import Iterator
from random import Random
from typing import NamedTuple

from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.queueing import (
    HOSTNAME,
    ClusterQueue,
    FlavorQuotas,
    LocalQueue,
    PodSet,
    Preemption,
    QueuedWorkload,
    QueueObjects,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Topology,
    TopologyNode,
)
from stellwerk.core.model.selectors import Selector

CPU = 1000
NOMINAL, BORROWED = 20, 100
"""CPUs of each queue, and how many more it may borrow."""
RACK = "rack"


class Class(NamedTuple):
    """A set of equal workloads: how many in each queue, what they ask, run and come in.

    ``cpus`` are those of all ``pods``. ``near`` = how they are to be near to each other at a rack.
    """

    name: str
    count: int
    cpus: int
    run_ms: int
    priority: int
    every_ms: int
    pods: int = 1
    near: str = ""

    @property
    def size(self) -> str:
        """The class in Kueue's table."""
        return self.name.partition("-")[0]


class Shape(NamedTuple):
    """Cohorts, queues in each, what comes; what was published: wall in s, admission in ms."""

    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    published_s: float = 0.0
    published_usage: float = 0.0
    published_ms: tuple[int, ...] = ()
    racks: int = 0
    nodes: int = 0

    @property
    def sizes(self) -> tuple[str, ...]:
        """The classes of the table, as they are named first."""
        return tuple(dict.fromkeys(one.size for one in self.classes))


BASELINE = (
    Class("large", 50, 20, 1000, 200, 1200),
    Class("medium", 100, 5, 500, 100, 500),
    Class("small", 350, 1, 200, 50, 100),
)
SPOTS = ("required", "preferred", "balanced")


def _near(size: Class, pods: int, counts: tuple[int, int, int]) -> tuple[Class, ...]:
    """A class by how near its pods are to be; the three come in turn."""
    return tuple(
        size._replace(name=f"{size.name}-{spot}", count=count, pods=pods, near=spot,
                      every_ms=size.every_ms * size.count // count)
        for spot, count in zip(SPOTS, counts, strict=True)
    )  # fmt: skip


SHAPES = {
    "baseline": Shape(5, 6, BASELINE, 351.1, 0.559, (16_501, 76_768, 215_468)),
    "small": Shape(1, 6, BASELINE),
    "large-scale": Shape(
        10,
        100,
        (
            Class("large", 4, 20, 700, 200, 700),
            Class("medium", 11, 5, 350, 100, 300),
            Class("small", 35, 1, 150, 50, 60),
        ),
        1179.4,
        0.3864,
        (105_604, 256_413, 700_379),
    ),
    "tas": Shape(
        5,
        6,
        (
            *_near(BASELINE[0], 8, (17, 17, 16)),
            *_near(BASELINE[1], 4, (34, 33, 33)),
            *_near(BASELINE[2], 2, (120, 120, 110)),
        ),
        401.5,
        0.6241,
        (39_625, 106_500, 246_755),
        racks=10,
        nodes=64,
    ),
}


def objects(shape: Shape, *, preempts: bool) -> QueueObjects:
    """The queues, each with a namespace and a local queue of its own."""
    quota = FlavorQuotas("default", {"cpu": Quota(NOMINAL * CPU, BORROWED * CPU)})
    rules = Preemption("LowerPriority", "Any") if preempts else Preemption()
    named = [(i, j) for i in range(shape.cohorts) for j in range(shape.queues)]
    topologies = (Topology("racks", ("block", RACK, HOSTNAME)),) if shape.racks else ()
    flavor = ResourceFlavor("default")
    if shape.racks:
        flavor = ResourceFlavor("default", labels={"block": "b"}, topology="racks")
    return QueueObjects(
        flavors=(flavor,),
        queues=tuple(
            ClusterQueue(
                name=f"cohort{i}-{j}",
                cohort=f"cohort{i}",
                groups=(ResourceGroup(("cpu",), (quota,)),),
                namespaces=Selector(),
                preemption=rules,
            )
            for i, j in named
        ),
        local_queues=tuple(LocalQueue(f"cohort{i}-{j}", "q", f"cohort{i}-{j}") for i, j in named),
        topologies=topologies,
        nodes=tuple(
            TopologyNode(
                f"r{rack}n{node}",
                {"block": "b", RACK: f"r{rack}", HOSTNAME: f"r{rack}n{node}"},
                {"cpu": 96 * CPU, "pods": 110 * 1000},
            )
            for rack in range(shape.racks)
            for node in range(shape.nodes)
        ),
    )


def arrivals(
    shape: Shape, names: list[str], scatter_ms: int = 0
) -> Iterator[tuple[int, int, QueuedWorkload, Class]]:
    """Everything that comes, with its time; each up to ``scatter_ms`` later than its set.

    What asks for balance asks to be near where it can: balanced packing isn't there.
    """
    number, chance = 0, Random(1)
    for one in shape.classes:
        spot = "preferred" if one.near == "balanced" else one.near
        near = TopologyRequest(spot, RACK) if spot else None  # type: ignore[arg-type]
        each = {"cpu": one.cpus * CPU // one.pods}
        pods = (PodSet("main", one.pods, each, topology=near),)
        for index in range(one.count):
            set_ms = (index + 1) * one.every_ms
            for name in names:
                number += 1
                at_ms = set_ms + (chance.randrange(scatter_ms) if scatter_ms else 0)
                yield (
                    at_ms,
                    number,
                    QueuedWorkload(
                        namespace=name,
                        name=f"{one.name}-{index}",
                        pod_sets=pods,
                        cluster_queue=name,
                        priority=one.priority,
                        created_ms=at_ms,
                        uid=f"{number:07}",
                    ),
                    one,
                )
