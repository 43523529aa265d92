#!/usr/bin/env python3
"""Measures the core alone: folding, views, plans, memory and state images at 100,000 workloads.

    bench/core.py [--pending N]

Everything runs in one process; the last column sets each number against the target of the design,
or against a bare loop that was timed in the same run.
"""

import argparse
import gc
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import msgspec

from stellwerk.core.forecast import Knowledge, Length, forecast
from stellwerk.core.intake import on_command, on_plan, on_report
from stellwerk.core.invariants import violations
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.actions import Plan, StartRun
from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.model.reports import RunReport
from stellwerk.core.model.resources import Alternative, Request, Shape
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.place.rooms import Memory
from stellwerk.core.plan import plan
from stellwerk.core.state import State, StateImage, fold
from stellwerk.core.view import View, Viewer

GIB = 1 << 30
NOW_MS = 1_800_000_000_000
MOST_BYTES_PENDING = 2_000
MOST_START_S = 2.0


class Row(NamedTuple):
    """One line of the table."""

    what: str
    value: str
    against: str


def timed(work: Callable[[], object], repeat: int = 3) -> float:
    """The best of some runs, in seconds of CPU: a busy machine disturbs that least."""
    best = float("inf")
    for _ in range(repeat):
        gc.collect()
        begun = time.process_time()
        work()
        best = min(best, time.process_time() - begun)
    return best


def shapes(count: int) -> list[Shape]:
    """So many different requests."""
    return [
        Shape((Alternative(Request(cpus_milli=1000 + number, memory_bytes=GIB)),))
        for number in range(count)
    ]


def clusters(count: int, cpus: int) -> list[Cluster]:
    """So many machines."""
    return [
        Cluster(
            name=f"c{number:03}",
            driver="simulated",
            nodes=(Node(f"n{number}", cpus * 1000, cpus * 4 * GIB),),
        )
        for number in range(count)
    ]


def submits(count: int, kinds: list[Shape]) -> Iterator[cmd.Submit]:
    """A stream of submissions as the inbox gives them: every text is an object of its own."""
    for number in range(count):
        one = cmd.Submit(
            id=WorkloadId(f"w-{number:020x}"),
            name=f"sweep-{number}",
            project="vision",
            shape=kinds[number % len(kinds)],
            task=BlobHash(f"{number % 50:064x}"),
            snapshot=f"{number % 20:064x}",
            priority=number % 3,
            labels={"team": "vision"},
        )
        yield msgspec.json.decode(msgspec.json.encode(one), type=cmd.Submit)


class Bench:
    """A state, filled."""

    def __init__(self, pending: int, kinds: list[Shape], fleet: list[Cluster]) -> None:
        self.state = State()
        self.viewer = Viewer(self.state)
        self.memory = Memory()
        for cluster in fleet:
            self.fold([ev.ClusterObserved(cluster)])
        for submit in submits(pending, kinds):
            self.fold([ev.Submitted("ada", submit)])
        self.state.drain_touched()

    def fold(self, events: list[ev.Event]) -> None:
        """Folds facts at one moment."""
        for event in events:
            fold(self.state, ev.Record(self.state.seq + 1, NOW_MS, 1, "ada", "vision", event))

    def view(self) -> View:
        """A view now."""
        return self.viewer.take(NOW_MS)

    def cycle(self) -> Plan:
        """Plans and folds what follows."""
        planned = plan(self.view(), self.memory)
        self.fold(on_plan(self.state, planned))
        self.state.drain_touched()
        return planned

    def fill(self) -> int:
        """Starts all that fits."""
        starts = 0
        while True:
            planned = self.cycle()
            starts += sum(isinstance(action, StartRun) for action in planned.actions)
            if not planned.actions:
                return starts

    def end_one(self) -> None:
        """Lets one run end."""
        run = next(iter(self.state.running.values()))
        cluster = next(name for name, held in self.state.allocations.items() if run in held)
        generation = int(run.rsplit("-", 1)[1])
        report = RunReport(cluster, run, generation, "Ended", RunEnd(how="exited", code=0))
        self.fold(on_report(self.state, report, NOW_MS))
        self.state.drain_touched()


def folding(pending: int) -> Iterator[Row]:
    """Submissions, and whole lives."""
    kinds = shapes(100)
    records = [
        ev.Record(number + 1, NOW_MS, 1, "ada", "vision", ev.Submitted("ada", submit))
        for number, submit in enumerate(submits(pending, kinds))
    ]

    def run() -> None:
        state = State()
        for record in records:
            fold(state, record)

    spent = timed(run)
    encoded = [msgspec.json.encode(record) for record in records]

    def replay() -> None:
        state = State()
        decode = msgspec.json.Decoder(ev.Record).decode
        for line in encoded:
            fold(state, decode(line))

    both = timed(replay, 1)
    yield Row("fold: submissions", f"{pending / spent:,.0f}/s", f"{spent / both:.2f} of a replay")
    yield Row("replay: decode and fold", f"{pending / both:,.0f}/s", "")

    def lives() -> None:
        bench = Bench(0, kinds, clusters(1, 64))
        for submit in submits(1_000, kinds[:1]):
            bench.fold(on_command(bench.state, submit, "ada"))
            bench.cycle()
            bench.end_one()

    spent = timed(lives, 1)
    yield Row("submit, plan, start, end: alone", f"{1_000_000 * spent / 1_000:,.0f} us", "")


def memory_of(pending: int) -> Iterator[Row]:
    """What one waiting workload holds, by tracemalloc."""
    kinds = shapes(100)
    gc.collect()
    tracemalloc.start()
    bench = Bench(pending, kinds, [])
    gc.collect()
    size, _ = tracemalloc.get_traced_memory()
    each = size / pending
    yield Row("memory for a pending workload", f"{each:,.0f} B", f"<= {MOST_BYTES_PENDING} B")
    image = msgspec.json.encode(bench.state.image())
    del bench
    gc.collect()
    tracemalloc.reset_peak()
    before, _ = tracemalloc.get_traced_memory()
    state = State.from_image(msgspec.json.decode(image, type=StateImage))
    gc.collect()
    size, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(state.workloads) == pending
    each = (size - before) / pending
    yield Row("the same after a restart", f"{each:,.0f} B", f"<= {MOST_BYTES_PENDING} B")
    yield Row("peak while restarting", f"{(peak - before) / (1 << 20):,.0f} MiB", "")


def images(pending: int) -> Iterator[Row]:
    """A restart."""
    bench = Bench(pending, shapes(100), clusters(100, 4))
    bench.fill()
    image = msgspec.json.encode(bench.state.image())
    encode = timed(lambda: msgspec.json.encode(bench.state.image()))
    decode = timed(lambda: msgspec.json.decode(image, type=StateImage))
    value = msgspec.json.decode(image, type=StateImage)
    build = timed(lambda: State.from_image(value))
    yield Row("image: take and encode", f"{encode * 1000:,.0f} ms", f"{len(image) / 1e6:,.0f} MB")
    yield Row("image: decode", f"{decode * 1000:,.0f} ms", "")
    yield Row("image: rebuild the state", f"{build * 1000:,.0f} ms", "")
    yield Row("start, decode and rebuild", f"{decode + build:.2f} s", f"<= {MOST_START_S} s")


def planning(pending: int, kinds: int, fleet: int) -> Iterator[Row]:
    """Cycles before a long queue: at rest, after one end, and one that starts many."""
    name = f"{kinds} shapes on {fleet} clusters"
    bench = Bench(pending, shapes(kinds), clusters(fleet, 8))
    begun = time.process_time()
    starts = bench.fill()
    spent = time.process_time() - begun
    assert not violations(bench.state)
    yield Row(f"{name}: {starts} starts", f"{starts / spent:,.0f}/s", "with their decisions")
    rest = timed(bench.view)
    changed = []
    views = []
    for _ in range(10):
        bench.end_one()
        views.append(timed(bench.view, 1))
        changed.append(timed(bench.cycle, 1))
    fresh = timed(lambda: Viewer(bench.state).take(NOW_MS))
    view = sorted(views)[5]
    yield Row(f"{name}: view, 1 change", f"{view * 1e6:,.0f} us", f"1/{fresh / view:,.0f} of anew")
    yield Row(f"{name}: view at rest", f"{rest * 1e6:,.0f} us", f"1/{fresh / rest:,.0f} of anew")
    known = timed(lambda: plan(bench.view(), bench.memory))
    anew = timed(lambda: plan(bench.view()), 1)
    yield Row(f"{name}: plan at rest", f"{known * 1e3:,.2f} ms", f"1/{anew / known:,.0f} of anew")
    yield Row(
        f"{name}: 1 end, plan, 1 start", f"{sorted(changed)[5] * 1e3:,.2f} ms", "with its facts"
    )


def forecasting(pending: int) -> Iterator[Row]:
    """Start times for those that are next, out of lengths that are known."""
    bench = Bench(pending, shapes(20), clusters(20, 8))
    bench.fill()
    view = bench.view()
    length = Length((600_000, 900_000, 1_200_000), 3_600_000)
    live = dict.fromkeys(bench.state.running.values(), (NOW_MS, length))
    waiting = {head.id: length for shape in view.shapes for head in shape.heads}
    heads = sorted(
        (-head.priority, head.order, head.id) for shape in view.shapes for head in shape.heads
    )
    wanted = [key for _, _, key in heads[:200]]
    told = {}

    def ask() -> None:
        told.update(forecast(view, Knowledge(live, waiting), wanted))

    spent = timed(ask, 1)
    assert all(one.likely_ms is not None for one in told.values())
    yield Row("forecast: the next 200 starts", f"{spent * 1e3:,.0f} ms", "three futures")


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--pending", type=int, default=100_000)
    pending = parser.parse_args().pending
    print(f"{pending:,} pending workloads, Python {sys.version.split()[0]}")
    rows = [
        folding(pending),
        memory_of(pending),
        images(pending),
        planning(pending, 1, 1),
        planning(pending, 100, 1),
        planning(pending, 1, 100),
        planning(pending, 100, 100),
        planning(pending // 10, 5_000, 10),
        forecasting(pending // 10),
    ]
    for part in rows:
        for row in part:
            print(f"{row.what:48} {row.value:>14}   {row.against}", flush=True)


if __name__ == "__main__":
    main()
