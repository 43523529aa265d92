"""The same shapes through the server's own engine: its inbox, its plan, its journal, real time.

Commands are durable before the engine takes them, decisions and starts before a driver hears of
them. The driver's runs are timers: each ends when its time is over, and at once on notice.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from heapq import heapify, heappop

import msgspec

from bench.queueing_shapes import CPU, NOMINAL, Class, Shape, arrivals, objects
from stellwerk.core.model import commands as cmd
from stellwerk.core.model.actions import Plan
from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.ids import BlobHash, RunId, WorkloadId
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.model.queueing import QueueObjects
from stellwerk.core.model.reports import Inventory, Report, RunReport
from stellwerk.core.model.resources import Alternative, Request
from stellwerk.core.model.resources import Shape as Asked
from stellwerk.core.model.task import Task
from stellwerk.core.model.workload import RunEnd
from stellwerk.core.place.rooms import Memory
from stellwerk.core.view import View
from stellwerk.drivers.base import Capabilities, LogChunk, LogStream, StartOrder, StopOrder
from stellwerk.engine import loop
from stellwerk.engine.clock import SystemClock
from stellwerk.engine.orders import Launch
from stellwerk.store import NewCommand, Store

CLUSTER = "bench"


class Timers:
    """A driver whose runs are nothing but time."""

    capabilities = Capabilities(start_guarantee="native name", reads_logs=False)

    def __init__(self, run: "ServerRun", cpus: int) -> None:
        self.cluster = CLUSTER
        self._run = run
        self._seen: asyncio.Queue[Report] = asyncio.Queue()
        self._live: dict[RunId, tuple[int, asyncio.TimerHandle]] = {}
        node = Node("n", cpus * CPU, cpus << 30)
        self._facts = Cluster(name=CLUSTER, driver="bench", nodes=(node,))

    async def open(self) -> None:
        """Tells that nothing runs."""
        self._seen.put_nowait(Inventory(CLUSTER, ()))

    async def close(self) -> None:
        """Nothing is held."""

    async def probe(self) -> Cluster:
        """One node with all CPUs."""
        return self._facts

    async def start(self, order: StartOrder) -> None:
        """Begins a run's time."""
        if order.run in self._live:
            return
        kind = self._run.began(order)
        again = asyncio.get_running_loop().call_later(
            kind.run_ms / 1000, self._over, order.run, order.generation, "exited", 0
        )
        self._live[order.run] = order.generation, again
        self._seen.put_nowait(RunReport(CLUSTER, order.run, order.generation, "Running"))

    async def stop(self, order: StopOrder) -> None:
        """Ends a run at once."""
        known = self._live.get(order.run)
        if known is not None and not order.window_end_ms:
            known[1].cancel()
            self._over(order.run, order.generation, "signalled", None)

    def _over(self, run: RunId, generation: int, how: str, code: int | None) -> None:
        del self._live[run]
        self._run.ended(run, whole=code == 0)
        end = RunEnd(how, code, None if code == 0 else 15)
        self._seen.put_nowait(RunReport(CLUSTER, run, generation, "Ended", end))

    async def withdraw(self, run: RunId) -> None:
        """Nothing gives notice but the engine."""

    async def kill(self, run: RunId) -> None:
        """Nothing is left of a run that is over."""

    async def forget(self, run: RunId) -> None:
        """Nothing is kept."""

    async def reports(self) -> AsyncIterator[Report]:
        """What happened."""
        while True:
            yield await self._seen.get()

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        """There are none."""
        return LogChunk(b"", offset, 0)


class ServerRun:
    """One run of a shape in real time, and what was measured."""

    def __init__(self, shape: Shape, store: Store, *, preempts: bool, scatter_ms: int) -> None:
        self.shape = shape
        self._store = store
        self._world = objects(shape, preempts=preempts)
        self._coming = list(arrivals(shape, [one.name for one in self._world.queues], scatter_ms))
        heapify(self._coming)
        self._kinds: dict[str, Class] = {}
        self._due_s: dict[str, float] = {}
        self._began_s: dict[RunId, float] = {}
        self._left = len(self._coming)
        self._over = asyncio.Event()
        self.waited: dict[str, list[int]] = {one: [] for one in shape.sizes}
        self.cycles_s: list[float] = []
        self.rest_s = 0.0
        self.evicted = self.admissions = self.most_pending = 0
        self.lost_cpu_ms = self.used_cpu_ms = 0.0
        self.now_ms = 0
        self.wall_s = 0.0

    async def go(self) -> None:
        """Until all have ended."""
        plan = loop.plan

        def timed(view: View, memory: Memory | None = None) -> Plan:
            began = time.perf_counter()
            found = plan(view, memory)
            self.cycles_s.append(time.perf_counter() - began)
            self.most_pending = max(self.most_pending, sum(one.count for one in view.shapes))
            return found

        loop.plan = timed
        queues = self.shape.cohorts * self.shape.queues
        engine = loop.Engine(self._store, [Timers(self, queues * NOMINAL)], SystemClock())
        await engine.load()
        running = asyncio.create_task(engine.run())
        await self._put(engine, [cmd.ApplyQueues(_applied(self._world))])
        while not engine.state.queueing.kept or CLUSTER not in engine.state.clusters:
            await engine.changed(engine.seq, 0.05)
        began_s = time.perf_counter()
        await self._submit_all(engine, began_s)
        await self._over.wait()
        self.wall_s = time.perf_counter() - began_s
        self.now_ms = round(self.wall_s * 1000)
        engine.stop()
        await running
        loop.plan = plan

    async def _submit_all(self, engine: loop.Engine, began_s: float) -> None:
        launch = Launch(task=Task(run="true"))
        task = BlobHash(self._store.blobs.put(msgspec.json.encode(launch)))
        while self._coming:
            await asyncio.sleep(began_s + self._coming[0][0] / 1000 - time.perf_counter())
            now_ms, batch = (time.perf_counter() - began_s) * 1000, []
            while self._coming and self._coming[0][0] <= now_ms:
                at_ms, number, workload, kind = heappop(self._coming)
                id = WorkloadId(f"w-{number:08}")
                self._kinds[id], self._due_s[id] = kind, began_s + at_ms / 1000
                queue = f"{workload.namespace}/q"
                asked = Asked((Alternative(Request(kind.cpus * CPU)),), queue=queue)
                batch.append(
                    cmd.Submit(
                        id, workload.name, workload.namespace, asked, task, priority=kind.priority
                    )
                )
            await self._put(engine, batch)

    async def _put(self, engine: loop.Engine, batch: list[cmd.Submit] | list[cmd.Command]) -> None:
        items = [NewCommand("bench", "bench", "", one) for one in batch]
        await asyncio.wrap_future(self._store.put_commands(items, SystemClock().now_ms()))
        engine.notify()

    def began(self, order: StartOrder) -> Class:
        """A start has arrived, and is durable since before."""
        now_s, kind = time.perf_counter(), self._kinds[order.workload]
        self._began_s[order.run] = now_s
        self.admissions += 1
        due_s = self._due_s.pop(order.workload, None)
        if due_s is not None:
            self.waited[kind.size].append(round((now_s - due_s) * 1000))
        return kind

    def ended(self, run: RunId, *, whole: bool) -> None:
        """A run is over."""
        spent = (time.perf_counter() - self._began_s.pop(run)) * 1000
        spent *= self._kinds[run.rsplit("-", 1)[0]].cpus
        self.used_cpu_ms += spent
        if whole:
            self._left -= 1
            if not self._left:
                self._over.set()
        else:
            self.evicted += 1
            self.lost_cpu_ms += spent


def _applied(world: QueueObjects) -> tuple[QueueObject, ...]:
    return (
        *(QueueObject("ResourceFlavor", one.name, flavor=one) for one in world.flavors),
        *(QueueObject("ClusterQueue", one.name, queue=one) for one in world.queues),
        *(
            QueueObject("LocalQueue", one.name, one.namespace, local_queue=one)
            for one in world.local_queues
        ),
    )
