#!/usr/bin/env python3
"""Queues of Kueue's own performance test: how good, how long a cycle takes, how much is durable.

    bench/queueing.py [--shape baseline|small|large-scale|tas] [--policy kueue|default]
        [--clock virtual|real] [--store none|disk|memory] [--scatter-ms N] [--no-preemption]

Every set of workloads is created at its interval in all queues at once, runs for its time after it
is admitted, and is gone at once when it is preempted (its work is lost). Beside what is measured
stands what Kueue's test measured for the real one.

`--policy kueue` decides as the reference does, one head of each queue in a cycle. In virtual time
cycles take no time if not said, so the figures are what the rules alone give; with `--clock real`
a second is a second. With a store every arrival, admission, eviction and end is journaled and
flushed before anything runs, on the disk or on a file system in memory. `--policy default` is the
server's own engine: commands from its inbox, its plan, its journal and rows, real time, a driver
whose runs are timers. With `--scatter-ms` each workload comes up to so much later than its set.
"""

import argparse
import asyncio
import gc
import os
import resource
import sys
import time
from collections.abc import Iterator
from heapq import heapify, heappop, heappush
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.queueing_journal import STORES, Journal, a_store
from bench.queueing_server import ServerRun
from bench.queueing_shapes import NOMINAL, SHAPES, Class, Shape, arrivals, objects
from stellwerk.core.model.queueing import QueuedWorkload
from stellwerk.core.queue.cycle import decide
from stellwerk.core.queue.live import Queues


class Run:
    """One run by the reference's rules, in virtual or in real time."""

    def __init__(
        self,
        shape: Shape,
        *,
        preempts: bool,
        cycle_ms: int = 0,
        real: bool = False,
        scatter_ms: int = 0,
        journal: Journal | None = None,
    ) -> None:
        self.cycle_ms = cycle_ms
        self.real = real
        self.journal = journal
        world = objects(shape, preempts=preempts)
        self.queues = Queues(world)
        self.shape = shape
        self.coming = list(arrivals(shape, [one.name for one in world.queues], scatter_ms))
        heapify(self.coming)
        self.kinds: dict[str, Class] = {}
        self.due_ms: dict[str, int] = {}
        self.waited: dict[str, list[int]] = {one: [] for one in shape.sizes}
        self.ends: list[tuple[int, int, str]] = []
        self.started: dict[str, tuple[int, int]] = {}
        self.cycles_s: list[float] = []
        self.rest_s = 0.0
        self.evicted = 0
        self.lost_cpu_ms = 0
        self.used_cpu_ms = 0
        self.admissions = 0
        self.most_pending = 0
        self.now_ms = 0
        self.wall_s = 0.0

    def go(self) -> None:
        """Until all have ended."""
        began_s, more = time.perf_counter(), False
        while self.coming or self.ends or more:
            self.pass_time(began_s, more=more)
            began = time.perf_counter()
            while self.ends and self.ends[0][0] <= self.now_ms:
                self.end(heappop(self.ends))
            while self.coming and self.coming[0][0] <= self.now_ms:
                at_ms, _, workload, kind = heappop(self.coming)
                self.come(at_ms, workload, kind)
            self.rest_s += time.perf_counter() - began
            self.most_pending = max(self.most_pending, len(self.queues.waiters))
            more = self.cycle()
        self.wall_s = time.perf_counter() - began_s

    def pass_time(self, began_s: float, *, more: bool) -> None:
        """On to when something is to be done."""
        due_ms = min((heap[0][0] for heap in (self.coming, self.ends) if heap), default=0)
        if self.real:
            if not more:
                time.sleep(max(0.0, began_s + due_ms / 1000 - time.perf_counter()))
            self.now_ms = int((time.perf_counter() - began_s) * 1000)
        elif not more:
            self.now_ms = max(self.now_ms, due_ms)
        else:
            self.now_ms += self.cycle_ms

    def come(self, at_ms: int, workload: QueuedWorkload, kind: Class) -> None:
        self.kinds[workload.key], self.due_ms[workload.key] = kind, at_ms
        self.queues.submit(workload)
        if self.journal is not None:
            self.journal.came(self.now_ms, workload, kind)

    def end(self, entry: tuple[int, int, str]) -> None:
        _, number, key = entry
        began_ms, current = self.started.get(key, (0, -1))
        if current == number:
            del self.started[key]
            self.used_cpu_ms += self.kinds[key].cpus * (self.now_ms - began_ms)
            self.queues.release(key)
            if self.journal is not None:
                self.journal.ended(self.now_ms, key, "exited")

    def cycle(self) -> bool:
        """One cycle, carried out; whether there may be more to do now."""
        began = time.perf_counter()
        outcome = decide(self.queues, self.now_ms)
        decided = time.perf_counter()
        self.queues.apply(outcome, self.now_ms)
        if self.journal is not None:
            admitted = [(one, self.kinds[one.key]) for one in outcome.admitted]
            self.journal.decided(self.now_ms, admitted, outcome.evicted)
            self.journal.flush()
        for one in outcome.admitted:
            self.admissions += 1
            kind = self.kinds[one.key]
            self.started[one.key] = (self.now_ms, self.admissions)
            heappush(self.ends, (self.now_ms + kind.run_ms, self.admissions, one.key))
            due_ms = self.due_ms.pop(one.key, None)
            if due_ms is not None:
                self.waited[kind.size].append(self.now_ms - due_ms)
        for gone in outcome.evicted:
            began_ms, _ = self.started.pop(gone.key)
            spent = self.kinds[gone.key].cpus * (self.now_ms - began_ms)
            self.lost_cpu_ms += spent
            self.used_cpu_ms += spent
            self.evicted += 1
            if self.journal is not None:
                self.journal.ended(self.now_ms, gone.key, "preempted")
            self.queues.release(gone.key, again=gone.reason)
        self.cycles_s.append(decided - began)
        self.rest_s += time.perf_counter() - decided
        return not outcome.empty or any(one.parks for one in outcome.waits)


def told(run: Run | ServerRun, title: str, cpu_s: float) -> Iterator[str]:
    """What was measured, in the form of Kueue's table, and what it cost."""
    shape = run.shape
    sizes = [f"{f'admitted, {one}':>18}" for one in shape.sizes]
    yield f"{'':<34}{'wall':>10}{'usage':>8}{''.join(sizes)}"
    usage = run.used_cpu_ms / (shape.cohorts * shape.queues * NOMINAL * run.now_ms)
    means = [sum(run.waited[one]) / len(run.waited[one]) / 1000 for one in shape.sizes]
    yield _row(title, run.now_ms / 1000, usage, means)
    if shape.published_s:
        published = [one / 1000 for one in shape.published_ms]
        yield _row("Kueue, as published", shape.published_s, shape.published_usage, published)
    lost = f"{run.lost_cpu_ms / 1000:,.0f} CPU s of work lost"
    yield f"preempted           {run.evicted:10,}     {lost}"
    cycles = sorted(run.cycles_s)
    total = sum(cycles)
    rest = f", {run.rest_s:.1f} s all else" if run.rest_s else ""
    yield f"cycles              {len(cycles):10,}     {total:.1f} s to decide{rest}"
    p50, p99 = cycles[len(cycles) // 2], cycles[len(cycles) * 99 // 100]
    yield (
        f"one cycle, p50 / p99 / most {p50 * 1000:6.2f} / {p99 * 1000:.1f} / "
        f"{cycles[-1] * 1000:.1f} ms, with up to {run.most_pending:,} waiting"
    )
    each = run.admissions / run.wall_s
    yield f"admissions          {run.admissions:10,}     {each:,.0f} in a second by the clock"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield (
        f"processor time      {cpu_s:10.1f} s     {run.admissions / cpu_s:,.0f} admissions in a "
        f"second of it     memory {memory:.0f} MiB"
    )


def _row(title: str, wall_s: float, usage: float, means: list[float]) -> str:
    waits = "".join(f"{mean:16.2f} s" for mean in means)
    return f"{title:<34}{wall_s:8.1f} s{usage:8.1%}{waits}"


def given_of(parser: argparse.ArgumentParser) -> argparse.Namespace:
    """What was asked for."""
    parser.add_argument("--shape", choices=sorted(SHAPES), default="baseline")
    parser.add_argument("--policy", choices=("kueue", "default"), default="kueue")
    parser.add_argument("--clock", choices=("virtual", "real"), default="virtual")
    parser.add_argument("--store", choices=STORES, default="none")
    parser.add_argument("--home", default="", help="a folder on the disk to be measured")
    parser.add_argument("--no-preemption", action="store_true")
    parser.add_argument("--scatter-ms", type=int, default=0, metavar="N")
    parser.add_argument("--cycle-ms", type=int, default=0, metavar="N")
    given = parser.parse_args()
    if given.policy == "default":
        given.clock, given.store = "real", "disk" if given.store == "none" else given.store
        if given.shape == "tas":
            parser.error("`--policy default` has no nodes for `--shape tas`")
    return given


def main() -> int:
    given = given_of(argparse.ArgumentParser(description=__doc__))
    load = os.getloadavg()[0]
    shape, preempts = SHAPES[given.shape], not given.no_preemption
    title = f"{given.policy}, {given.clock} time, store: {given.store}"
    run: Run | ServerRun
    if given.policy == "default":
        with a_store(given.store, given.home) as store:
            run = ServerRun(shape, store, preempts=preempts, scatter_ms=given.scatter_ms)
            began = time.process_time()
            asyncio.run(run.go())
    else:
        with a_store(given.store, given.home) as store:
            run = Run(
                shape,
                preempts=preempts,
                cycle_ms=given.cycle_ms,
                real=given.clock == "real",
                scatter_ms=given.scatter_ms,
                journal=Journal(store) if given.store != "none" else None,
            )
            gc.collect()
            gc.freeze()
            began = time.process_time()
            run.go()
    print("\n".join(told(run, title, time.process_time() - began)))
    print(f"load average {load:.1f} before; times of cycles are wall times")
    return 0


if __name__ == "__main__":
    sys.exit(main())
