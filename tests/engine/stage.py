"""A real engine on a real store, and a simulated place: killed and started again."""

import asyncio
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from stellwerk.core.invariants import violations
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.commands import Cancel, Command, Submit
from stellwerk.core.model.gates import After, ArrayPart
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.task import Task
from stellwerk.core.model.workload import Policies
from stellwerk.drivers.simulated.behaviour import Behaviour, Script, always
from stellwerk.drivers.simulated.clock import VirtualClock
from stellwerk.drivers.simulated.driver import SimulatedDriver
from stellwerk.drivers.simulated.faults import Faults
from stellwerk.drivers.simulated.link import Link
from stellwerk.drivers.simulated.place import SimulatedPlace
from stellwerk.engine import apply, measure, watch
from stellwerk.engine.loop import Engine
from stellwerk.engine.orders import Launch
from stellwerk.store import NewCommand, Store
from stellwerk.testing.builders import a_cluster, a_node, a_shape


class _Clock:
    """The engine's clock reads the virtual time."""

    def __init__(self, virtual: VirtualClock) -> None:
        self._virtual = virtual

    def now_ms(self) -> int:
        return self._virtual.now_ms


class Stage:
    """Submits, lets virtual time pass, kills and revives the engine."""

    def __init__(
        self,
        home: Path,
        *,
        script: Script | None = None,
        faults: Faults | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self.home = home
        self.virtual = VirtualClock()
        cluster = cluster or a_cluster("lab", a_node("n1", cpus=4))
        self.place = SimulatedPlace(cluster, self.virtual, script or always(Behaviour()))
        self.link = Link(self.place, faults)
        self.store = Store.open(home)
        self.engine: Engine | None = None
        self.task: asyncio.Task[None] | None = None
        self.count = 0

    def quicken(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Makes real waiting short; virtual time is what counts here."""
        for module in (apply, watch):
            monkeypatch.setattr(module, "RETRY_FIRST_S", 0.002)
            monkeypatch.setattr(module, "RETRY_MOST_S", 0.01)
        monkeypatch.setattr(measure, "TICK_S", 0.002)

    async def revive(self) -> Engine:
        """Starts an engine on what is durable."""
        self.engine = Engine(self.store, [SimulatedDriver(self.link)], _Clock(self.virtual))
        await self.engine.load()
        self.task = asyncio.create_task(self.engine.run())
        return self.engine

    async def kill(self) -> None:
        """Takes the engine away in the middle of whatever it does, as kill -9 would."""
        assert self.task is not None
        self.task.cancel()
        with suppress(asyncio.CancelledError):
            await self.task
        self.store.close()
        self.store = Store.open(self.home)

    async def put(self, command: Command) -> str:
        """Writes a command to the inbox; gives the workload's name."""
        item = NewCommand(actor="somebody", project="default", key="", command=command)
        future = self.store.put_commands([item], self.virtual.now_ms)
        acks = await asyncio.wrap_future(future)
        if self.engine is not None:
            self.engine.notify()
        return acks[0].name

    async def submit(
        self,
        shape: Shape | None = None,
        policies: Policies | None = None,
        after: tuple[After, ...] = (),
        array: ArrayPart | None = None,
    ) -> str:
        """Submits a small job."""
        self.count += 1
        task = self.store.blobs.put(msgspec.json.encode(Launch(task=Task(run="true"))))
        return await self.put(
            Submit(
                id=WorkloadId(f"w-{self.count:05}"),
                name="job",
                project="default",
                shape=shape or a_shape(),
                task=BlobHash(task),
                policies=policies or Policies(),
                after=after,
                array=array,
            )
        )

    async def cancel(self, key: str) -> None:
        """Cancels a workload by its id."""
        await self.put(Cancel(WorkloadId(key)))

    async def pass_ms(self, ms: int) -> None:
        """Lets virtual time pass in small steps, and the engine keep up with it."""
        for _ in range(10):
            self.virtual.advance(ms // 10)
            assert self.engine is not None
            self.engine.notify()
            await asyncio.sleep(0.004)
            assert self.task is not None
            if self.task.done():
                self.task.result()
            broken = violations(self.engine.state)
            assert not broken, broken

    async def until_empty(self, limit_ms: int = 3_600_000) -> None:
        """Lets time pass until nothing is alive any more."""
        start = self.virtual.now_ms
        while self.virtual.now_ms - start < limit_ms:
            await self.pass_ms(5_000)
            assert self.engine is not None
            is_durable = self.engine.seq == self.engine.state.seq
            left = self.engine.state.workloads or self.store.take(self.store.inbox_upto())
            if is_durable and not left:
                return
        raise AssertionError(f"still alive: {self.engine and self.engine.state.workloads}")
