#!/usr/bin/env python3
"""Queues of Kueue's own performance test, in virtual time: how good, and how long a cycle takes.

    bench/queueing.py [--shape baseline|small|large-scale] [--no-preemption] [--cycle-ms N]

Every set of workloads is created at its interval in all queues at once, runs for its time after it
is admitted, and is gone at once when it is preempted (its work is lost). Cycles take no virtual
time if not said, so wall, usage and mean time to admission are what the rules alone give; beside
them stands
what Kueue's test measured for the real one. The time of a cycle is measured on this machine.
Nothing is stored durably here.
"""

import argparse
import gc
import os
import resource
import sys
import time
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

from stellwerk.core.model.queueing import (
    ClusterQueue,
    FlavorQuotas,
    PodSet,
    Preemption,
    QueuedWorkload,
    QueueObjects,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from stellwerk.core.model.selectors import Selector
from stellwerk.core.queue.cycle import decide
from stellwerk.core.queue.live import Queues

CPU = 1000


class Class(NamedTuple):
    """A set of equal workloads: how many in each queue, what they ask, run and come in."""

    name: str
    count: int
    cpus: int
    run_ms: int
    priority: int
    every_ms: int


class Shape(NamedTuple):
    """Cohorts, queues in each, what comes; what was published: wall in s, admission in ms."""

    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    published_s: float = 0.0
    published_ms: tuple[int, int, int] = (0, 0, 0)


BASELINE = (
    Class("large", 50, 20, 1000, 200, 1200),
    Class("medium", 100, 5, 500, 100, 500),
    Class("small", 350, 1, 200, 50, 100),
)
SHAPES = {
    "baseline": Shape(5, 6, BASELINE, 351.1, (16_501, 76_768, 215_468)),
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
        (105_604, 256_413, 700_379),
    ),
}


def objects(shape: Shape, *, preempts: bool) -> QueueObjects:
    """The queues: 20 CPUs each, up to 100 borrowed."""
    quota = FlavorQuotas("default", {"cpu": Quota(20 * CPU, 100 * CPU)})
    rules = Preemption("LowerPriority", "Any") if preempts else Preemption()
    return QueueObjects(
        flavors=(ResourceFlavor("default"),),
        queues=tuple(
            ClusterQueue(
                name=f"cohort{i}-{j}",
                cohort=f"cohort{i}",
                groups=(ResourceGroup(("cpu",), (quota,)),),
                namespaces=Selector(),
                preemption=rules,
            )
            for i in range(shape.cohorts)
            for j in range(shape.queues)
        ),
    )


def arrivals(shape: Shape, names: list[str]) -> Iterator[tuple[int, int, QueuedWorkload, Class]]:
    """Everything that comes, with its time."""
    number = 0
    for one in shape.classes:
        pods = (PodSet("main", 1, {"cpu": one.cpus * CPU}),)
        for index in range(one.count):
            at_ms = (index + 1) * one.every_ms
            for name in names:
                number += 1
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


class Run:
    """One run in virtual time."""

    def __init__(self, shape: Shape, *, preempts: bool, cycle_ms: int) -> None:
        self.cycle_ms = cycle_ms
        world = objects(shape, preempts=preempts)
        self.queues = Queues(world)
        self.shape = shape
        self.coming = list(arrivals(shape, [one.name for one in world.queues]))
        heapify(self.coming)
        self.kinds: dict[str, Class] = {}
        self.came_ms: dict[str, int] = {}
        self.waited: dict[str, list[int]] = {one.name: [] for one in shape.classes}
        self.ends: list[tuple[int, int, str]] = []
        self.started: dict[str, tuple[int, int]] = {}
        self.cycles_s: list[float] = []
        self.rest_s = 0.0
        self.evicted = 0
        self.lost_cpu_ms = 0
        self.used_cpu_ms = 0
        self.number = 0
        self.most_pending = 0
        self.now_ms = 0

    def go(self) -> None:
        """Until all have ended."""
        more = False
        while self.coming or self.ends or more:
            if more and self.cycle_ms:
                self.now_ms += self.cycle_ms
            elif not more:
                self.now_ms = min(heap[0][0] for heap in (self.coming, self.ends) if heap)
            began = time.perf_counter()
            while self.ends and self.ends[0][0] <= self.now_ms:
                self.end(heappop(self.ends))
            while self.coming and self.coming[0][0] <= self.now_ms:
                self.come(*heappop(self.coming)[2:])
            self.rest_s += time.perf_counter() - began
            self.most_pending = max(self.most_pending, len(self.queues.waiters))
            more = self.cycle()

    def come(self, workload: QueuedWorkload, kind: Class) -> None:
        self.kinds[workload.key], self.came_ms[workload.key] = kind, self.now_ms
        self.queues.submit(workload)

    def end(self, entry: tuple[int, int, str]) -> None:
        _, number, key = entry
        began_ms, current = self.started.get(key, (0, -1))
        if current == number:
            del self.started[key]
            self.used_cpu_ms += self.kinds[key].cpus * (self.now_ms - began_ms)
            self.queues.release(key)

    def cycle(self) -> bool:
        """One cycle, carried out; whether there may be more to do now."""
        began = time.perf_counter()
        outcome = decide(self.queues, self.now_ms)
        decided = time.perf_counter()
        self.queues.apply(outcome, self.now_ms)
        for one in outcome.admitted:
            self.number += 1
            kind = self.kinds[one.key]
            self.started[one.key] = (self.now_ms, self.number)
            heappush(self.ends, (self.now_ms + kind.run_ms, self.number, one.key))
            came_ms = self.came_ms.pop(one.key, None)
            if came_ms is not None:
                self.waited[kind.name].append(self.now_ms - came_ms)
        for gone in outcome.evicted:
            began_ms, _ = self.started.pop(gone.key)
            spent = self.kinds[gone.key].cpus * (self.now_ms - began_ms)
            self.lost_cpu_ms += spent
            self.used_cpu_ms += spent
            self.evicted += 1
            self.queues.release(gone.key, again=gone.reason)
        self.cycles_s.append(decided - began)
        self.rest_s += time.perf_counter() - decided
        return not outcome.empty or any(one.parks for one in outcome.waits)


def told(run: Run, cpu_s: float) -> Iterator[str]:
    """The lines of the table."""
    shape = run.shape
    queues = shape.cohorts * shape.queues
    wall_s = run.now_ms / 1000
    beside = f"   Kueue measured {shape.published_s:.1f} s" if shape.published_s else ""
    yield f"virtual wall        {wall_s:10.1f} s{beside}"
    usage = run.used_cpu_ms / (queues * 20 * run.now_ms)
    yield f"mean use of quota   {usage:10.1%}"
    for one, published_ms in zip(shape.classes, shape.published_ms, strict=True):
        waited = run.waited[one.name]
        mean = sum(waited) / len(waited) / 1000
        line = f"mean time to admission, {one.name:<7}{mean:7.2f} s"
        if published_ms:
            line += f"   Kueue measured {published_ms / 1000:.1f} s"
        yield line
    lost = f"{run.lost_cpu_ms / 1000:,.0f} CPU s of work lost"
    yield f"preempted           {run.evicted:10,}     {lost}"
    cycles = sorted(run.cycles_s)
    total = sum(cycles)
    spent = f"{total:.1f} s to decide, {run.rest_s:.1f} s all else"
    yield f"cycles              {len(cycles):10,}     {spent}"
    p50, p99 = cycles[len(cycles) // 2], cycles[len(cycles) * 99 // 100]
    yield (
        f"one cycle, p50 / p99 / most {p50 * 1000:6.2f} / {p99 * 1000:.1f} / "
        f"{cycles[-1] * 1000:.1f} ms, with up to {run.most_pending:,} waiting"
    )
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield f"processor time      {cpu_s:10.1f} s     memory {memory:.0f} MiB"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shape", choices=sorted(SHAPES), default="baseline")
    parser.add_argument("--no-preemption", action="store_true")
    parser.add_argument("--cycle-ms", type=int, default=0, metavar="N")
    given = parser.parse_args()
    load = os.getloadavg()[0]
    shape, preempts = SHAPES[given.shape], not given.no_preemption
    run = Run(shape, preempts=preempts, cycle_ms=given.cycle_ms)
    gc.collect()
    gc.freeze()
    began = time.process_time()
    run.go()
    print("\n".join(told(run, time.process_time() - began)))
    print(f"load average {load:.1f} before; times of cycles are wall times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
