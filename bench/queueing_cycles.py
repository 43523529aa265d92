#!/usr/bin/env python3
"""How long a cycle of the default policy takes before a long queue, and what waiting work holds.

    bench/queueing_cycles.py [--pending 50000] [--queues 1000]

Three shapes in each queue, ten cohorts, one cluster whose CPUs are the quota of all. The state is
filled; then plans are timed in processor time: at rest, after one end (with its facts, its plan and
the start that follows), and both once all heads have waited so long that quota and room are kept
for them. With `--pending 1000000` it shows what a million takes; memory is that of the state.
"""

import argparse
import gc
import os
import resource
import sys
import time
import tracemalloc
from collections.abc import Iterable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import msgspec

from bench.core import NOW_MS, Bench, clusters
from bench.queueing_shapes import BASELINE, CPU, NOMINAL, Shape, objects
from stellwerk.core.intake import on_plan, on_report
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.actions import ClaimRoom, Plan, StartRun
from stellwerk.core.model.ids import BlobHash, RunId, WorkloadId
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.model.queueing import QueueObjects
from stellwerk.core.model.reports import RunReport
from stellwerk.core.model.resources import Alternative, Request
from stellwerk.core.model.resources import Shape as Asked
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.plan import OVERTAKEN_MS, plan
from stellwerk.core.state import fold

MOST_CYCLE_MS = 50
MOST_BYTES = 2_000


class Long(Bench):
    """A state with many queues before a full cluster; time goes on as it is told."""

    def __init__(self, pending: int, queues: int) -> None:
        self.now_ms = NOW_MS
        super().__init__(0, [], clusters(1, queues * NOMINAL))
        world = objects(Shape(min(10, queues), max(1, queues // 10), BASELINE), preempts=True)
        self.fold(ev.QueueObjectApplied(one) for one in _applied(world))
        for number in range(pending):
            queue, size = number % queues, number // queues % 3
            asked = Asked(
                (Alternative(Request(BASELINE[size].cpus * CPU)),),
                queue=f"cohort{queue % min(10, queues)}-{queue // 10}/q",
            )
            one = cmd.Submit(
                id=WorkloadId(f"w-{number:012x}"),
                name=f"waiting-{number}",
                project="default",
                shape=asked,
                task=BlobHash(f"{number % 7:064x}"),
                priority=BASELINE[size].priority,
            )
            read = msgspec.json.decode(msgspec.json.encode(one), type=cmd.Submit)
            self.fold([ev.Submitted("ada", read)])
            if number % 1000 == 0:
                self.state.drain_touched()
        self.state.drain_touched()

    def fold(self, events: Iterable[ev.Event]) -> None:
        """Folds facts now."""
        for event in events:
            fold(self.state, ev.Record(self.state.seq + 1, self.now_ms, 1, "ada", "vision", event))

    def cycle(self) -> Plan:
        """Plans now, and folds what follows."""
        planned = plan(self.viewer.take(self.now_ms), self.memory)
        self.fold(on_plan(self.state, planned))
        self.state.drain_touched()
        return planned

    def settle(self) -> int:
        """Until nothing more is to be done now."""
        starts = 0
        while True:
            planned = self.cycle()
            starts += sum(isinstance(one, StartRun) for one in planned.actions)
            for claim in planned.actions:
                for stop in claim.stops if isinstance(claim, ClaimRoom) else ():
                    self.stopped(stop.run)
            if not planned.actions:
                return starts

    def end(self, nth: int) -> None:
        """One of those that run is over."""
        run = sorted(self.state.running.values())[nth]
        self.over(run, RunEnd(how="exited", code=0))

    def stopped(self, run: RunId) -> None:
        """One that had notice ends at once."""
        self.over(run, RunEnd(how="signalled", signal=15))

    def over(self, run: RunId, end: RunEnd) -> None:
        """A run is known to be over."""
        generation = int(run.rsplit("-", 1)[1])
        report = RunReport("c000", run, generation, "Ended", end)
        self.fold(on_report(self.state, report, self.now_ms))


def _applied(world: QueueObjects) -> list[QueueObject]:
    return [
        *(QueueObject("ResourceFlavor", one.name, flavor=one) for one in world.flavors),
        *(QueueObject("ClusterQueue", one.name, queue=one) for one in world.queues),
        *(
            QueueObject("LocalQueue", one.name, one.namespace, local_queue=one)
            for one in world.local_queues
        ),
    ]


def measured(bench: Long, times: int = 9) -> tuple[float, float]:
    """Medians in ms: a plan at rest, and a cycle after an end with all its facts."""
    rest, after = [], []
    for nth in range(times):
        bench.now_ms += 1
        begun = time.process_time()
        bench.cycle()
        rest.append((time.process_time() - begun) * 1000)
        bench.end(nth * 37 % len(bench.state.running))
        begun = time.process_time()
        bench.cycle()
        after.append((time.process_time() - begun) * 1000)
        bench.settle()
    return sorted(rest)[times // 2], sorted(after)[times // 2]


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pending", type=int, default=50_000)
    parser.add_argument("--queues", type=int, default=1_000)
    parser.add_argument("--memory", action="store_true", help="measure memory, times are slower")
    given = parser.parse_args()
    if given.memory:
        tracemalloc.start()
    begun = time.process_time()
    bench = Long(given.pending, given.queues)
    spent = time.process_time() - begun
    about = f"{given.pending:,} waiting in {given.queues:,} queues"
    print(f"{about}: submitted and folded in {spent:.1f} s of processor time")
    if given.memory:
        gc.collect()
        each = tracemalloc.get_traced_memory()[0] / given.pending
        print(f"memory of the state, with the queues: {each:,.0f} B each   <= {MOST_BYTES:,} B")
    begun = time.process_time()
    starts = bench.settle()
    print(f"{starts:,} start: {time.process_time() - begun:.1f} s, with reasons for all that wait")
    gc.collect()
    gc.freeze()
    for what, later_ms in (("", 0), (", quota and room kept", OVERTAKEN_MS)):
        bench.now_ms += later_ms
        bench.settle()
        rest, after = measured(bench)
        print(f"a cycle at rest{what}: {rest:.1f} ms   <= {MOST_CYCLE_MS} ms")
        print(f"an end, and the start after it{what}: {after:.1f} ms   <= {MOST_CYCLE_MS} ms")
    whole = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"the whole process {whole:,.0f} MiB, load average {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
