"""Small fleets and tasks by chance and by hand, for the tests of plans over a fleet."""

from random import Random
from typing import Any

from msgspec.structs import replace

from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.inventory.merge import with_global_set
from stellwerk.core.model.cluster import Cluster, Costs, Device, Held, Node, Taint
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.fleet import Data, Fleet, Latency, Link
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import Allocation, DeviceShare, NodeAllocation
from stellwerk.core.model.task import Task
from stellwerk.core.place.on_fleet import Ask
from stellwerk.core.place.policies import policy_of

NOW_MS = 1_800_000_000_000
GIB = 1 << 30
KINDS = {"A100-80GB": 80, "L40S": 48, "T4": 16}
REGIONS = ("eu-west", "us-east")
DATA = Data("imgs", "r1", 100_000_000_000)


def node(name: str, kind: str = "", cards: int = 0, cpus: int = 16) -> Node:
    """A node with so many cards of a kind."""
    memory = KINDS.get(kind, 0) * GIB
    devices = tuple(Device(index, kind, memory) for index in range(cards))
    return Node(name, cpus * 1000, 64 * GIB, devices=devices)


def cluster(name: str, *nodes: Node, **more: Any) -> Cluster:
    """A cluster of these nodes."""
    return Cluster(name, "test", nodes, **{"kind": "slurm", **more})


def fleet_of(*clusters: Cluster, **more: Any) -> Fleet:
    """A fleet of these clusters, which all have links to each other and know `imgs`."""
    names = [one.name for one in clusters]
    links = tuple(Link(a, b, 1e9) for a in names for b in names if a != b)
    fleet = Fleet(tuple(clusters), links=links, **{"data": (DATA,), **more})
    return with_global_set(fleet, ("task", "ns"))


def chance_fleet(chance: Random, size: int = 5) -> Fleet:
    """A fleet with every kind of cluster."""
    clusters, taken = [], []
    for index in range(size):
        name = f"c{index}"
        kind = chance.choice(list(KINDS))
        nodes = tuple(
            node(f"n{one}", kind, chance.randint(0, 4), chance.choice([4, 16]))
            for one in range(chance.randint(1, 3))
        )
        region = chance.choice(REGIONS)
        clusters.append(
            cluster(
                name,
                *nodes,
                labels={"topology.kubernetes.io/region": region},
                claims={"region": region, **chance.choice([{}, {"compliance": "gdpr"}])},
                costs=Costs(chance.choice([0.0, 1.5]), {kind: chance.choice([0.0, 0.5, 2.0])}),
                speed=chance.choice([0.5, 1.0, 2.0]),
                wait_s=chance.choice([0.0, 0.0, 600.0]),
                held=(Held("imgs", "r1", DATA.bytes),) if chance.random() < 0.4 else (),
                taints=(Taint("k", "NoSelect"),) if chance.random() < 0.2 else (),
                room_bytes=chance.choice([None, 10**12, 10**9]),
            )
        )
        for one in nodes:
            if one.devices and chance.random() < 0.4:
                share = DeviceShare(0, one.devices[0].memory_bytes)
                taken.append(Allocation(name, (NodeAllocation(one.name, 1000, devices=(share,)),)))
    latencies = tuple(Latency("eu-west", one.name, chance.choice([5.0, 50.0])) for one in clusters)
    return fleet_of(*clusters, taken=tuple(taken), latencies=latencies)


def chance_task(chance: Random, name: str) -> Task:
    """A job or a service, with one alternative or several, with wishes or without."""
    kinds = chance.sample(list(KINDS), chance.randint(1, 2))
    entries = "".join(f"  - accelerators: {kind}:{chance.randint(1, 3)}\n" for kind in kinds)
    wishes = (
        ("expected-runtime", "5h"),
        ("data", "imgs@r1"),
        ("objective", chance.choice(["cost", "finish", "start", "score"])),
        ("prioritize", "Cost=2"),
    )
    labels = [f"    stellwerk/{key}: {value}\n" for key, value in wishes if chance.random() < 0.5]
    choice = chance.choice(["any_of", "ordered"])
    text = f"name: {name}\nrun: x\nresources:\n  {choice}:\n{entries}"
    text += "  labels:\n" + "".join(labels) if labels else ""
    if chance.random() < 0.4:
        text += f"service: {{readiness_probe: /, replicas: {chance.randint(1, 4)}}}\n"
    return task(text)


def task(text: str) -> Task:
    """The task of a file."""
    found = read_tasks(text)
    assert isinstance(found, Task)
    return found


def ask(text_or_task: str | Task, *placements: Placement, **changes: Any) -> Ask:
    """A task that asks for a place, with its policy."""
    one = task(text_or_task) if isinstance(text_or_task, str) else text_or_task
    policy = policy_of(one, {each.key: each for each in placements})
    assert not isinstance(policy, Problem), policy
    return Ask(one.name or "task", one, replace(policy, **changes))
