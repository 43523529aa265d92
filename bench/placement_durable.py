#!/usr/bin/env python3
"""Measures placements as the server keeps them: decided, explained, journaled and durable.

    bench/placement_durable.py [--most 10000] [--home FOLDER]

The fleet and the placements are those of bench/placement.py. They are applied as one fleet file to
an engine over a store; time runs from the command until every decision is on the disk. Then one
cluster's score changes, twenty times: until everything that follows is decided and durable. After
each the server is left to rest as long as it does by itself.
"""

import argparse
import asyncio
import os
import resource
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from bench.placement import fleet, placements
from stellwerk.core.inventory.live import FleetFacts
from stellwerk.core.inventory.merge import Source
from stellwerk.core.model.cluster import Cluster, ScoreObject
from stellwerk.core.model.commands import ApplyFleet
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.ids import BlobHash
from stellwerk.engine.clock import SystemClock
from stellwerk.engine.loop import Engine
from stellwerk.engine.placements import PAUSE_S
from stellwerk.store import NewCommand, Store

SIZES = ((100, 1_000), (1_000, 1_000), (1_000, 10_000), (10_000, 1_000), (10_000, 10_000))
CHANGES = 20
TARGETS = {1_000: 2_000, 10_000: 500}


class Row(NamedTuple):
    """One line of the table; times in ms."""

    clusters: int
    placements: int
    per_s: float
    per_cpu_s: float
    change: float
    worst: float
    change_cpu: float
    worst_cpu: float
    moved: float
    bytes_each: float
    memory_mib: float


@contextmanager
def a_home(given: str) -> Iterator[Path]:
    """A folder of its own, on the disk that is to be measured."""
    folder = Path(tempfile.mkdtemp(prefix="stw-bench-", dir=given or None))
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


async def measure(home: Path, clusters: int, count: int) -> Row:
    """One line of the table."""
    chance = Random(clusters + count)
    with Store.open(home) as store:
        engine = Engine(store, [], SystemClock())
        await engine.load()
        running = asyncio.create_task(engine.run())
        facts = FleetFacts((Source("bench", "told", fleet(clusters, chance), 1),))
        blob = BlobHash(store.blobs.put(msgspec.json.encode(facts)))
        file = ApplyFleet("bench", blob, blob, clusters, tuple(placements(count, 1, "")))
        item = NewCommand("bench", "default", "", file)
        begun, used = time.perf_counter(), time.process_time()
        await asyncio.wrap_future(store.put_commands([item], 1))
        engine.notify()
        while engine.seq < count:
            await engine.changed(engine.seq, 10)
        await engine.decided(600)
        taken, used = time.perf_counter() - begun, time.process_time() - used
        assert all(one.decided for one in engine.state.standing.placements.values())
        before = engine.seq
        size = sum(os.stat(store.path + end).st_size for end in ("", "-wal"))
        times, cpu_times = [], []
        await asyncio.sleep(PAUSE_S)
        for _ in range(CHANGES):
            begun_cpu = time.process_time()
            times.append(await change(engine, clusters, chance))
            cpu_times.append(1000 * (time.process_time() - begun_cpu))
            await asyncio.sleep(min(times[-1] / 1000, PAUSE_S))
            if running.done():
                await running
        engine.stop()
        await running
    times.sort()
    cpu_times.sort()
    return Row(
        clusters,
        count,
        count / taken,
        count / used,
        times[len(times) // 2],
        times[-1],
        cpu_times[len(cpu_times) // 2],
        cpu_times[-1],
        (engine.seq - before) / CHANGES,
        size / count,
        resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    )


async def change(engine: Engine, clusters: int, chance: Random) -> float:
    """Another score of one cluster; how long until all that follows is durable."""
    name = f"cluster-{chance.randrange(clusters):05}"
    scores = {"gpu": ScoreObject({"free": chance.randint(-100, 100)})}
    told = Fleet(clusters=(Cluster(name, "", (), scores=scores),))
    begun = time.perf_counter()
    engine.placements.tell("bench", Source("a score", "declared", told, 1, whole=False))
    await engine.decided(60)
    return 1000 * (time.perf_counter() - begun)


def main() -> int:
    parser = argparse.ArgumentParser(prog="bench/placement_durable.py", description=__doc__)
    parser.add_argument("--most", type=int, default=10_000, help="the largest size")
    parser.add_argument("--home", default="", help="a folder on the disk to be measured")
    given = parser.parse_args()
    print(
        f"{'clusters':>8} {'placements':>10} {'durable/s':>9} {'a CPU s':>7} "
        f"{'one change: median / worst ms':>30} {'CPU ms':>13} {'facts':>6} "
        f"{'B each':>7} {'MiB':>5}"
    )
    missed = False
    for clusters, count in SIZES:
        if max(clusters, count) > given.most:
            continue
        with a_home(given.home) as home:
            row = asyncio.run(measure(home, clusters, count))
        moves = f"{row.change:.0f} / {row.worst:.0f}"
        cpu = f"{row.change_cpu:.0f} / {row.worst_cpu:.0f}"
        print(
            f"{row.clusters:>8,} {row.placements:>10,} {row.per_s:>9,.0f} {row.per_cpu_s:>7,.0f} "
            f"{moves:>30} {cpu:>13} {row.moved:>6.0f} "
            f"{row.bytes_each:>7,.0f} {row.memory_mib:>5,.0f}",
            flush=True,
        )
        missed |= row.per_s < TARGETS.get(clusters, 0)
    cores = len(os.sched_getaffinity(0))
    print(
        f"\n{cores} cores, load average {os.getloadavg()[0]:.1f}; facts: journaled for each change"
    )
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
