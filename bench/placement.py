#!/usr/bin/env python3
"""Measures placements over a fleet: cold, after one cluster's score changes, while 1 % flap.

    bench/placement.py [--most 10000] [--compat ocm] [--classes 1]

The shape is that of Open Cluster Management's own benchmark: ten clusters each, by an add-on score,
allocatable CPU and Balance, among those with a label. "cold" decides, explains and packs every
placement, one after the other, each seeing the decisions before it. Beside it stands a bare numpy
scorer that keeps no state, explains nothing and packs nothing. Nothing is stored durably here.
"""

import argparse
import gc
import os
import resource
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import msgspec
import numpy as np
from msgspec.structs import replace

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.model.cluster import Cluster, ScoreObject
from stellwerk.core.model.fleet import SET_LABEL, ClusterSet, Fleet, SetBinding
from stellwerk.core.model.placement import Compat, Placement, Predicate, Prioritizer
from stellwerk.core.model.selectors import Selector
from stellwerk.core.place.placer import Placer
from stellwerk.core.place.placing import stored

NOW_MS = 1_800_000_000_000
SIZES = (100, 1_000, 10_000)
CHANGES = 20
LONGEST_MS = 5_000
"""No further change is made after so long: few clusters for many make each one move thousands."""
TARGETS = {1_000: 2_000, 10_000: 500}
"""Placements a second that are asked for, by the number of clusters."""


class Row(NamedTuple):
    """One line of the table; times in ms."""

    clusters: int
    placements: int
    per_s: float
    p99: float
    bare_per_s: float
    one_change: str
    flapping: str
    bytes_each: float
    memory_mib: float
    total_s: float


def fleet(count: int, chance: Random) -> Fleet:
    """So many clusters, half of them with the label that is asked for."""
    clusters = [
        Cluster(
            name=f"cluster-{number:05}",
            driver="ocm",
            nodes=(),
            labels={SET_LABEL: "all", "tier": "gold" if number % 2 else "iron"},
            capacity={"cpu": 512_000},
            allocatable={"cpu": 1000 * chance.randrange(4, 512)},
            scores={"gpu": ScoreObject({"free": chance.randint(-100, 100)})},
        )
        for number in range(count)
    ]
    binding = SetBinding("bench", "all")
    return Fleet(clusters=tuple(clusters), sets=(ClusterSet("all"),), bindings=(binding,))


def placements(count: int, classes: int, compat: Compat) -> Iterator[Placement]:
    """So many placements with ``classes`` different specs."""
    scores = (
        Prioritizer("free", 1, "gpu"),
        Prioritizer("ResourceAllocatableCPU"),
        Prioritizer("Balance"),
    )
    rule = (Predicate(Selector({"tier": "gold"})),)
    for number in range(count):
        kind = number % classes
        weighted = (replace(scores[0], weight=1 + kind % 10), *scores[1:])
        gain = 10 + kind // 10
        yield Placement(
            "bench", f"p{number:05}", (), rule, 10, "Exact", weighted, compat=compat, move_gain=gain
        )


def rescored(columns: FleetColumns, row: int, chance: Random) -> Cluster:
    """The cluster with another score."""
    scores = {"gpu": ScoreObject({"free": chance.randint(-100, 100)})}
    return replace(columns.clusters[row], scores=scores)


def cold(placer: Placer) -> tuple[list[float], int]:
    """Decides for everybody; gives the time of each and the bytes of all answers."""
    encoder = msgspec.msgpack.Encoder()
    answers = placer.replan(NOW_MS)
    times: list[float] = []
    size = 0
    while True:
        begun = time.perf_counter()
        choice = next(answers, None)
        if choice is None:
            return times, size
        size += len(encoder.encode(stored(choice)))
        times.append(time.perf_counter() - begun)


def bare(columns: FleetColumns, count: int) -> float:
    """A scorer without state, explanation or storing, in the same run: placements a second."""
    gold = np.array([one.labels["tier"] == "gold" for one in columns.clusters])
    free = np.array([one.scores["gpu"].values["free"] for one in columns.clusters], float)
    cpu = np.array([one.allocatable["cpu"] for one in columns.clusters], float)
    used = np.zeros(len(gold))
    begun = time.perf_counter()
    for _ in range(count):
        span = cpu[gold].max() - cpu[gold].min() or 1.0
        total = free + np.trunc(((cpu - cpu[gold].min()) / span - 0.5) * 200)
        total += 2 * np.trunc(100 * (0.5 - used / max(used.max(), 1.0)))
        total[~gold] = -np.inf
        most = min(10, len(total) - 1)
        used[np.argpartition(-total, most)[:most]] += 1
    return count / (time.perf_counter() - begun)


def replans(placer: Placer, changed: list[list[Cluster]]) -> str:
    """Changes and renews; gives the median and the worst time, and how many choices changed."""
    times, moved = [], 0
    for round, clusters in enumerate(changed):
        begun = time.perf_counter()
        placer.columns.update(clusters)
        moved += len(list(placer.replan(NOW_MS + round)))
        times.append(1000 * (time.perf_counter() - begun))
        if sum(times) > LONGEST_MS:
            break
    each = moved / len(times)
    times.sort()
    return f"{times[len(times) // 2]:.1f} / {times[-1]:.0f} ({each:.0f})"


def resident_mib() -> float:
    """What the process holds now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / (1 << 20)


def growth(row: Row, tenth: Row | None) -> str:
    """How many times as long, and as much memory, as a tenth of the placements took."""
    if tenth is None:
        return ""
    memory = row.memory_mib / max(tenth.memory_mib, 0.1)
    return f"{row.total_s / tenth.total_s:.1f} / {memory:.1f}"


def measure(clusters: int, count: int, classes: int, compat: Compat) -> Row:
    """One line of the table."""
    chance = Random(clusters + count)
    gc.collect()
    before = resident_mib()
    columns = FleetColumns(fleet(clusters, chance))
    gc.collect()
    placer = Placer(columns)
    for one in placements(count, classes, compat):
        placer.put(one)
    gc.collect()
    times, size = cold(placer)
    total = sum(times)
    held = resident_mib() - before
    times.sort()
    changes = [[rescored(columns, chance.randrange(clusters), chance)] for _ in range(CHANGES)]
    single = replans(placer, changes)
    part = max(1, clusters // 100)
    flaps = [
        [rescored(columns, row, chance) for row in chance.sample(range(clusters), part)]
        for _ in range(3)
    ]
    return Row(
        clusters,
        count,
        count / total,
        1000 * times[min(len(times) - 1, int(0.99 * len(times)))],
        bare(columns, min(count, 1000)),
        single,
        replans(placer, flaps),
        size / count,
        held,
        total,
    )


def alone(clusters: int, count: int, classes: int, compat: Compat) -> Row:
    """The same in a process of its own, so that memory is what this line takes."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(measure, clusters, count, classes, compat).result()


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/placement.py", description=__doc__)
    parser.add_argument("--most", type=int, default=SIZES[-1], help="the largest size")
    parser.add_argument("--compat", default="", choices=["", "ocm"])
    parser.add_argument("--classes", type=int, default=1, help="how many different specs there are")
    given = parser.parse_args()
    print(
        f"{'clusters':>8} {'placements':>10} {'placed/s':>9} {'p99 ms':>7} {'bare/s':>8}  "
        f"{'one change: median / worst ms':>32}  {'1 % flap':>22}  {'B each':>7} {'MiB':>5} "
        f"{'x10: time / MiB':>16}"
    )
    missed = False
    for clusters in SIZES:
        tenth = None
        for count in SIZES:
            if max(clusters, count) > given.most:
                continue
            row = alone(clusters, count, min(given.classes, count), given.compat)
            print(
                f"{row.clusters:>8,} {row.placements:>10,} {row.per_s:>9,.0f} {row.p99:>7.2f} "
                f"{row.bare_per_s:>8,.0f}  {row.one_change:>32}  {row.flapping:>22}  "
                f"{row.bytes_each:>7,.0f} {row.memory_mib:>5,.0f} "
                f"{growth(row, tenth):>16}",
                flush=True,
            )
            tenth = row
            missed |= row.per_s < TARGETS.get(clusters, 0)
            missed |= count >= 1_000 and row.p99 > 10  # the first answer reads the columns in
    cores = len(os.sched_getaffinity(0))
    print(
        f"\n{cores} cores, load average {os.getloadavg()[0]:.1f}; in brackets: choices that changed"
    )
    print("each time; MiB: held for the fleet and all decisions, beyond what was held before; x10:")
    print("the time and memory of this line, as multiples of those of a tenth of the placements.")
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
