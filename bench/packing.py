#!/usr/bin/env python3
"""Measures how much of a cluster's GPU memory is given away before what comes doesn't fit any more.

    bench/packing.py [--data FOLDER] [--seeds N]

The nodes and pods are those of the openb trace (cite Weng et al., ATC'23): the pods and clones of
them drawn at random up to 130 % of the GPUs there are, shuffled, and none ever ends. FOLDER, or
STELLWERK_DATA, holds `openb_nodes.csv` and `openb_pods.csv`, itself or in `traces/`. Each rule gets
the same pods in the same order. FGD knows all pods in advance, as published; Stellwerk knows what
it has placed so far.
"""

import argparse
import csv
import os
import random
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from bench.packing_peers import BestFit, Fgd, FgdByName, Peer, Random
from stellwerk.core.model.cluster import Cluster, Device, Node
from stellwerk.core.model.resources import Allocation, GpuRequest, Request
from stellwerk.core.place.room import Room, fit

MIB = 1 << 20
CARD_BYTES = 1000 * MIB
DEMAND = 1.3
TARGET_PERCENT = 95.2
TARGET_SPEED = 2_000
FIRST_LEARNED = 64


class Outcome(NamedTuple):
    """What one rule made of one order of pods."""

    at_demand: float
    at_end: float
    speed: float
    slow_ms: float


def read(folder: Path) -> tuple[Cluster, list[Request]] | None:
    """Reads the trace; None where it isn't there."""
    for base in (folder, folder / "traces"):
        if (base / "openb_nodes.csv").is_file() and (base / "openb_pods.csv").is_file():
            return _cluster(base / "openb_nodes.csv"), _pods(base / "openb_pods.csv")
    return None


def _cluster(path: Path) -> Cluster:
    with path.open() as file:
        nodes = tuple(
            Node(
                name=row["sn"],
                cpus_milli=int(row["cpu_milli"]),
                memory_bytes=int(row["memory_mib"]) * MIB,
                devices=tuple(
                    Device(index, row["model"], CARD_BYTES) for index in range(int(row["gpu"]))
                ),
            )
            for row in csv.DictReader(file)
        )
    return Cluster(name="openb", driver="simulated", kind="room", nodes=nodes)


def _pods(path: Path) -> list[Request]:
    with path.open() as file:
        return [
            Request(
                cpus_milli=int(row["cpu_milli"]),
                memory_bytes=int(row["memory_mib"]) * MIB,
                gpu=GpuRequest(int(row["num_gpu"]), fraction_milli=int(row["gpu_milli"]))
                if int(row["num_gpu"])
                else None,
            )
            for row in csv.DictReader(file)
        ]


def asked(request: Request) -> int:
    """The GPUs that a pod asks for, in thousandths."""
    return request.gpu.count * request.gpu.fraction_milli if request.gpu else 0


def arrivals(pods: list[Request], there: int, seed: int) -> list[Request]:
    """The pods and clones of them up to the demand, shuffled."""
    dice = random.Random(seed)
    drawn = list(pods)
    demand = sum(map(asked, drawn))
    while demand < DEMAND * there:
        drawn.append(dice.choice(pods))
        demand += asked(drawn[-1])
    dice.shuffle(drawn)
    return drawn


Place = Callable[[Request], bool]


class Stellwerk:
    """The room as the scheduler has it, made anew of what runs each time that has grown enough."""

    def __init__(self, cluster: Cluster, pods: list[Request], seed: int) -> None:
        self.cluster = cluster
        self.room = Room(cluster, ())
        self.held: list[Allocation] = []
        self.learn_at = FIRST_LEARNED

    def place(self, request: Request) -> bool:
        """Puts a pod where it spoils least."""
        nodes = fit(self.room, request, 1)
        if nodes is None:
            return False
        allocation = Allocation(self.cluster.name, nodes)
        self.room.take(allocation)
        self.held.append(allocation)
        if len(self.held) == self.learn_at:
            self.room = Room(self.cluster, self.held)
            self.learn_at *= 2
        return True


def run(place: Place, pods: list[Request], there: int) -> Outcome:
    """Lets pods arrive one after the other."""
    arrived = given = 0
    at_demand = None
    spent = []
    for pod in pods:
        begun = time.process_time()
        placed = place(pod)
        spent.append(time.process_time() - begun)
        arrived += asked(pod)
        given += asked(pod) if placed else 0
        if at_demand is None and arrived >= there:
            at_demand = 100 * given / there
    spent.sort()
    slow = spent[len(spent) * 99 // 100] * 1000
    assert at_demand is not None, "130 % of the demand is more than all of it"
    return Outcome(at_demand, 100 * given / there, len(pods) / sum(spent), slow)


def renamed(cluster: Cluster) -> Cluster:
    """The same nodes in another order with other names."""
    dice = random.Random(2023)
    nodes = list(cluster.nodes)
    dice.shuffle(nodes)
    told = (
        Node(f"r{number:05}", one.cpus_milli, one.memory_bytes, devices=one.devices)
        for number, one in enumerate(nodes)
    )
    return Cluster(name="openb", driver="simulated", kind="room", nodes=tuple(told))


Rule = type[Peer] | type[Stellwerk]


def rules(cluster: Cluster) -> Iterator[tuple[str, Rule, Cluster]]:
    """The rules that are compared, with the nodes that they see."""
    yield "random", Random, cluster
    yield "best fit", BestFit, cluster
    yield "FGD, ties by best fit", Fgd, cluster
    yield "FGD as published", FgdByName, cluster
    yield "… nodes renamed", FgdByName, renamed(cluster)
    yield "Stellwerk", Stellwerk, cluster
    yield "… nodes renamed", Stellwerk, renamed(cluster)


def main() -> int:
    """Prints the table; 1 if a target is missed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--data", type=Path, default=Path(os.environ.get("STELLWERK_DATA", ".")))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", metavar="WORD", help="rules whose name holds it")
    given = parser.parse_args()
    trace = read(given.data)
    if trace is None:
        print(f"left out: {given.data} has no openb_nodes.csv and openb_pods.csv (--data FOLDER)")
        return 0
    cluster, pods = trace
    cards = sum(len(node.devices) for node in cluster.nodes)
    print(f"{len(cluster.nodes):,} nodes, {cards:,} GPUs, {len(pods):,} pods, {given.seeds} orders")
    print(f"{'rule':24} {'at 100 %':>9} {'at 130 %':>9} {'pods/s':>9} {'p99 ms':>7}")
    missed = False
    for name, rule, nodes in rules(cluster):
        if given.only not in name:
            continue
        made = []
        for seed in range(given.seeds):
            drawn = arrivals(pods, cards * 1000, seed)
            made.append(run(rule(nodes, pods, seed).place, drawn, cards * 1000))
        mean = Outcome(*(sum(part) / len(made) for part in zip(*made, strict=True)))
        print(
            f"{name:24} {mean.at_demand:9.2f} {mean.at_end:9.2f} {mean.speed:9,.0f}"
            f" {mean.slow_ms:7.2f}",
            flush=True,
        )
        if rule is Stellwerk:
            missed |= mean.at_demand < TARGET_PERCENT or mean.speed < TARGET_SPEED
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
