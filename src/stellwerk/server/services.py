"""What the handlers are given: the store, the engine, and what the server itself adds to them.

The engine is a small protocol here, so that the API can be tested without one.
"""

import asyncio
import os
from collections.abc import Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Protocol, runtime_checkable

import msgspec
from litestar.di import NamedDependency
from litestar.params import SkipValidation

from stellwerk.core.lengths import History
from stellwerk.core.model.commands import Command
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.gates import ARRAY_LABEL
from stellwerk.core.model.ids import RunId, WorkloadId
from stellwerk.core.model.telemetry import Telemetry, Usage
from stellwerk.core.model.workload import Run, Workload
from stellwerk.core.state import State
from stellwerk.core.view import View
from stellwerk.drivers.agents.checkpoint_home import CheckpointHome
from stellwerk.drivers.base import DriverError, Folders, Tidies
from stellwerk.engine.measure import Measures
from stellwerk.engine.placements import Placements
from stellwerk.server.belongings import Belongings
from stellwerk.server.callers import Callers, Hosts
from stellwerk.server.feed import Feed
from stellwerk.server.gate import Gate
from stellwerk.server.keys import Keys
from stellwerk.server.pages import Pages
from stellwerk.server.people import People, alone
from stellwerk.server.tails import ReadsLogs, Tails
from stellwerk.server.tally import Tally
from stellwerk.store import Ack, NewCommand, Store, WorkloadFilter

PROJECT = "default"
SETTLE_S = 2.0
"""How long a look-up waits for the engine to get to a command that is in the inbox already."""
LOOK_S = 0.05
"""So often it looks meanwhile: of a command that changes nothing no event tells."""

CLOSE_NAMES = 200
"""So many of the newest workloads are looked through for a name that was meant."""


class Status(Protocol):
    """How much the engine looks after now, and when each cluster was last looked at."""

    @property
    def live(self) -> int:
        """Workloads that aren't over."""
        ...

    @property
    def pending(self) -> int:
        """Those that wait."""
        ...

    @property
    def running(self) -> int:
        """Those that have a run."""
        ...

    @property
    def facts_ms(self) -> Mapping[str, int]:
        """When each cluster was last looked at."""
        ...


@runtime_checkable
class KnowsFolders(Protocol):
    """What a driver is that can say where its runs work and write."""

    async def folders(self, run: RunId) -> Folders:
        """The directories of a run, as far as they are known."""
        ...


class Engine(Protocol):
    """The one loop, as far as the API needs it."""

    @property
    def epoch(self) -> int:
        """The epoch of this leader."""
        ...

    def look_again(self, cluster: str) -> None:
        """Says that whose a cluster is, or whom it serves, has changed."""
        ...

    def notify(self) -> None:
        """Says that the inbox has something new."""
        ...

    def status(self) -> Status:
        """Counts what is alive."""
        ...

    def driver(self, cluster: str) -> ReadsLogs | None:
        """The driver of a cluster, if it has one now."""
        ...

    def view(self) -> View:
        """An immutable cut of what is known now."""
        ...

    @property
    def lengths(self) -> History:
        """What is known of how long work runs; any thread may ask it."""
        ...

    @property
    def state(self) -> State:
        """The live state; only the loop that changes it may go through it."""
        ...

    @property
    def measures(self) -> Measures:
        """What live runs tell of themselves."""
        ...

    def usage(self, run: RunId) -> Usage | None:
        """What a live run uses, as last sampled."""
        ...

    async def telemetry(self, run: RunId, cluster: str) -> Telemetry:
        """What a run tells of itself, or told."""
        ...

    async def changed(self, after_seq: int, timeout_s: float) -> int:
        """Waits until the journal is past `after_seq` or the time is over; gives its seq."""
        ...

    @property
    def placements(self) -> Placements:
        """What decides for placements."""
        ...

    async def decided(self, timeout_s: float) -> None:
        """Waits until all placements have been decided on what is known, and that is durable."""
        ...


class Clock(Protocol):
    """Says what time it is."""

    def now_ms(self) -> int:
        """UTC milliseconds."""
        ...


class Identity(msgspec.Struct, frozen=True):
    """What `GET /v1/server` tells that never changes while it runs."""

    pid: int
    version: str
    started_ms: int
    home: str
    socket: str


class Services:
    """Everything a handler may use."""

    def __init__(
        self,
        *,
        identity: Identity,
        store: Store,
        engine: Engine,
        clock: Clock,
        people: People | None = None,
        belongings: Belongings | None = None,
    ) -> None:
        self.identity = identity
        self.store = store
        self.engine = engine
        self.clock = clock
        self.feed = Feed(engine, store.records_page, store.seq())
        self.tally = Tally(self._live_or_known)
        self.feed.listeners.append(self.tally.take)
        self.pages = Pages(store, engine.usage, clock.now_ms, lambda: engine.lengths.peaks)
        self.tails = Tails(self.driver)
        self.gate = Gate()
        self._keys = Keys(store.blobs)
        self.people = people or alone(os.geteuid())
        self.belongings = belongings or Belongings(
            Path(identity.home) / "belongings.json",
            self.people.owner,
            shared=self.people.shared,
        )
        self.callers = Callers()
        self.hosts: Hosts | None = None
        self.checkpoint_home: CheckpointHome | None = None
        self.copies: object = None
        """Copies of data between machines, once somebody asks (`data_copies.py`)."""
        self._background: set[asyncio.Task[None]] = set()
        self.stopping = asyncio.Event()
        self.applying = asyncio.Lock()
        """Whoever looks at what there is, to change it, does so alone."""
        self._newest_ack = store.inbox_newest()  # a server before this one may have ended amid it

    def _live_or_known(self, id: WorkloadId) -> Workload | None:
        """A workload as it is now; one that is over, as it was."""
        live = self.engine.state.workloads.get(id)
        if live is not None:
            return live
        row = self.store.workload(id, "")
        return row.workload if row is not None else None

    def driver(self, cluster: str) -> ReadsLogs:
        """The driver of a cluster; raises DriverError if nothing serves it now."""
        found = self.engine.driver(cluster)
        if found is None:
            raise DriverError(
                "no-driver", f"no driver serves the cluster {cluster} now", final=False
            )
        return found

    def background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        """Starts something that goes on beside requests."""
        task = asyncio.create_task(work)
        self._background.add(task)
        task.add_done_callback(self._background.discard)
        return task

    def owner_of(self, cluster: str) -> str:
        """Whose a cluster is."""
        return self.belongings.owner_of(cluster)

    async def folders(self, workload: Workload) -> Folders:
        """Where the newest run works and writes; nothing if that can't be said now."""
        if not workload.runs:
            return Folders()
        run = workload.runs[-1]
        driver: object = self.engine.driver(run.allocation.cluster)
        if not isinstance(driver, KnowsFolders):
            return Folders()
        try:
            return await driver.folders(run.id)
        except DriverError:
            return Folders()

    async def telemetry(self, workload: Workload) -> Telemetry:
        """What the newest run tells of itself."""
        if not workload.runs:
            return Telemetry()
        run = workload.runs[-1]
        return await self.engine.telemetry(run.id, run.allocation.cluster)

    async def is_gone(self, run: Run) -> bool:
        """Whether a run that is over left nothing that could still be read."""
        if run.end is None or run.end.how == "start_refused":
            return False
        driver: object = self.engine.driver(run.allocation.cluster)
        return isinstance(driver, Tidies) and not await driver.is_left(run.id)

    async def take(self, commands: Sequence[NewCommand]) -> list[Ack]:
        """Writes commands durably to the inbox, all or none, and tells the engine."""
        acks = await asyncio.wrap_future(
            self.store.put_commands(commands, self.clock.now_ms(), self._keys.agree)
        )
        self._newest_ack = max(self._newest_ack, *(ack.seq for ack in acks))
        self.engine.notify()
        return acks

    async def order(self, command: Command, actor: str, key: str) -> None:
        """Writes one command about a workload."""
        await self.take([NewCommand(actor, PROJECT, key, command)])

    async def find(self, ref: str) -> Workload:
        """A workload by its name, its id, or a unique prefix of its id; raises if there is none.

        One that was submitted a moment ago is waited for until the engine has got to it.
        """
        row = self.store.workload(ref, PROJECT)
        if row is None and await self.settled(SETTLE_S):
            row = self.store.workload(ref, PROJECT)
        if row is None:
            raise self.unknown(ref)
        return row.workload

    async def settled(self, timeout_s: float) -> bool:
        """Waits until the engine has got to what is acknowledged; says if that was needed."""
        newest = self._newest_ack
        if not newest:
            return False
        deadline = asyncio.get_running_loop().time() + timeout_s
        with self.feed.follow() as grown:
            while True:
                grown.clear()
                left = deadline - asyncio.get_running_loop().time()
                if self.store.inbox_upto() >= newest:
                    if self._newest_ack == newest:
                        self._newest_ack = 0
                    return True
                if left <= 0 or self.stopping.is_set():
                    return True
                try:
                    await asyncio.wait_for(grown.wait(), min(left, LOOK_S))
                except TimeoutError:
                    pass  # another look follows

    def stop(self) -> None:
        """Ends the server: everything that waits or follows is woken and ends by itself."""
        self.stopping.set()
        self.feed.wake_all()

    def unknown(self, ref: str) -> StellwerkError:
        """Says that there is no such workload, and which one may have been meant."""
        from difflib import get_close_matches

        elements = WorkloadFilter(live=False, labels={ARRAY_LABEL: ref}, project=PROJECT, limit=1)
        if element := self.store.workloads(elements):
            return StellwerkError.of(
                "find/workload",
                f"`{ref[:80]}` is an array, not one workload",
                f"name one of its elements, such as `{element[0].workload.name}`;"
                f" `stw ps -A {ref}` lists them",
            )
        newest = self.store.workloads(WorkloadFilter(live=False, sort="newest", limit=CLOSE_NAMES))
        close = get_close_matches(ref, [row.workload.name for row in newest], 1)
        return StellwerkError.of(
            "find/workload",
            f"there is no workload `{ref[:80]}`",
            f"did you mean `{close[0]}`?" if close else "`stw ps -A` lists all",
        )


Given = NamedDependency[SkipValidation[Services]]
"""How handlers ask for the services."""
