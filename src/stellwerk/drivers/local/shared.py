"""This machine for several people: one room, and for each person's work that person's runtime.

What the machine has is one and is counted once. Orders go to the runtime of whose run it is: the
server's own, or one that its person has started and that has called (`guest.py`). A runtime is
believed about its own person's runs alone.
"""

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from stellwerk.core.inventory.facts import cluster_of
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import (
    ClusterReport,
    Inventory,
    Report,
    RunReport,
    RunSample,
)
from stellwerk.drivers.agents.hands import Hand
from stellwerk.drivers.agents.refusing import refusal_told
from stellwerk.drivers.agents.snapshots import BlobReader
from stellwerk.drivers.base import (
    DriverError,
    ExecOrder,
    ExecSession,
    Folders,
    Kept,
    Left,
    LogChunk,
    LogStream,
    Saved,
    StartOrder,
    StopOrder,
)
from stellwerk.drivers.local.driver import DRIVER, LocalDriver
from stellwerk.drivers.local.guest import Dial, Guest
from stellwerk.drivers.local.tidying import Tidying
from stellwerk.runtime import system

log = logging.getLogger("stellwerk.drivers")

RETRY_FIRST_S = 0.2
RETRY_MOST_S = 15.0
Whose = Callable[[RunId], str | None]
"""As whom a run runs ("" = the server's own user); None where no such run is known."""


class _Process(msgspec.Struct):
    pid: int = 0
    run: str | None = None


class _Gpu(msgspec.Struct):
    processes: list[_Process] | None = None


class _Facts(msgspec.Struct):
    gpus: list[_Gpu] | None = None


class _Told(msgspec.Struct):
    """What a runtime says of processes on GPUs."""

    facts: _Facts


def _may_be_of(person: str, pid: int) -> bool:
    """Whether a process is a person's, as far as the kernel tells."""
    try:
        return system.user_name(os.stat(f"/proc/{pid}").st_uid) == person
    except OSError:
        return True  # it has ended, or others' processes aren't shown here


class SharedDriver:
    """This machine, as everybody whose runtime is here."""

    def __init__(self, own: LocalDriver, blobs: BlobReader, whose: Whose) -> None:
        self.own = own
        self.cluster = own.cluster
        self.capabilities = own.capabilities
        self.guests: dict[str, Guest] = {}
        self._blobs = blobs
        self.whose = whose
        self._inbox: deque[Report] = deque()
        self._news = asyncio.Event()
        self._seen: Cluster | None = None
        self._tidying = Tidying(self)

    # whose runtimes are here

    @property
    def people(self) -> tuple[str, ...]:
        """As whom something can be started now."""
        return ("", *sorted(name for name, guest in self.guests.items() if guest.is_there))

    async def host(self, person: str, hand: Hand, dial: Dial) -> None:
        """Works with a person's runtime for as long as it is connected; a newer one replaces it."""
        guest = Guest(person, self.cluster, hand, self._blobs, self._hearing(person), dial)
        before, self.guests[person] = self.guests.get(person), guest
        if before is not None:
            await before.hand.close()
        delay = RETRY_FIRST_S
        try:
            while not hand.closed.is_set():
                try:
                    await guest.talk.open()
                except DriverError as error:
                    log.warning("the runtime of %s can't be used: %s", person, error.message)
                    await asyncio.sleep(delay)
                    delay = min(delay * 2, RETRY_MOST_S)
                    continue
                delay = RETRY_FIRST_S
                self._tidying.met(person)
                self._announce()
                link = guest.talk.link
                if link is not None:
                    await link.closed.wait()
                self._announce()
        finally:
            if self.guests.get(person) is guest:
                del self.guests[person]
            await guest.talk.close()
            await hand.close()
            self._announce()

    def _announce(self) -> None:
        """Tells for whom something can be started from now on."""
        if self._seen is not None:
            self._tell(ClusterReport(replace(self._seen, serves=self.people)))

    def _hearing(self, person: str) -> Callable[[Report], None]:
        def hear(report: Report) -> None:
            match report:
                case Inventory():
                    runs = tuple(run for run in report.runs if self.whose(run.run) == person)
                    self._tell(replace(report, runs=runs, people=(person,)))
                case RunReport() | RunSample():
                    if self.whose(report.run) == person:
                        self._tell(report)
                case _:
                    log.warning("the runtime of %s tells what it can't know", person)

        return hear

    def _at(self, run: RunId) -> Guest | None:
        """The guest whose run it is; None for one of the server's own. Raises DriverError."""
        return self._guest(self.whose(run) or "")

    def _guest(self, person: str) -> Guest | None:
        if not person:
            return None
        guest = self.guests.get(person)
        if guest is None:
            message = f"no runtime of {person} is connected; as {person}: stw agent start"
            raise DriverError("driver/no-runtime", message, final=False)
        return guest

    # the machine

    async def open(self) -> None:
        """Connects to the server's own agent; guests connect by themselves."""
        await self.own.open()

    async def close(self) -> None:
        """Hangs up everywhere; agents and runs go on."""
        for guest in list(self.guests.values()):
            await guest.hand.close()
        await self.own.close()

    async def reports(self) -> AsyncIterator[Report]:
        """Yields what all agents say; raises DriverError when the own one can't be reached."""
        for guest in self.guests.values():  # what they know is told anew
            if guest.talk.link is not None:
                guest.talk.link.hang_up()
        pump = asyncio.create_task(self._pump(), name=f"reports of {self.cluster}")
        pump.add_done_callback(lambda _: self._news.set())
        try:
            while True:
                while self._inbox:
                    yield self._inbox.popleft()
                if pump.done():
                    pump.result()
                self._news.clear()
                if not self._inbox and not pump.done():
                    await self._news.wait()
        finally:
            pump.cancel()

    async def _pump(self) -> None:
        async for report in self.own.reports():
            self._tell(report)

    def _tell(self, report: Report) -> None:
        self._inbox.append(report)
        self._news.set()

    async def probe(self) -> Cluster:
        """Looks at the machine by the own agent, and asks each guest which processes are its."""
        facts = await self.own.facts()
        live = {*self.own.live, *self._claimed(facts.get("claims") or ())}
        for guest in list(self.guests.values()):
            if guest.is_there and facts.get("gpus"):
                live |= await self._add_processes(guest, facts)
        found = cluster_of(facts, name=self.cluster, driver=DRIVER, runs=live)
        self._seen = replace(found, serves=self.people)
        return self._seen

    def _claimed(self, claims: Collection[Mapping[str, Any]]) -> set[str]:
        """The runs of guests, here or not, among those that say what they hold on this machine.

        They are in the books already. Only their own person can say so of them.
        """
        runs = ((str(one.get("run")), one.get("user")) for one in claims)
        return {run for run, user in runs if user and self.whose(RunId(run)) == user}

    async def _add_processes(self, guest: Guest, facts: Mapping[str, Any]) -> set[str]:
        """Notes which processes on the GPUs belong to runs of a guest, which alone can see it."""
        try:
            told = msgspec.convert(await guest.talk.ask("probe"), _Told)
        except (DriverError, msgspec.ValidationError):
            return set()  # what somebody's own runtime says mustn't hide the machine from others
        theirs = {
            process.pid: process.run
            for gpu in told.facts.gpus or ()
            for process in gpu.processes or ()
            if process.run in guest.talk.live
            and self.whose(RunId(process.run)) == guest.person
            and _may_be_of(guest.person, process.pid)
        }
        for gpu in facts.get("gpus") or ():
            for process in gpu.get("processes") or ():
                if not process.get("run") and process.get("pid") in theirs:
                    process["run"] = theirs[process["pid"]]
        return set(theirs.values())

    # orders

    async def start(self, order: StartOrder) -> None:
        """Has the runtime of the person start a run; twice is once."""
        guest = self._guest(order.person)
        if guest is None:
            await self.own.start(order)
            return
        with refusal_told(self._tell, self.cluster, order):
            await guest.start(order)

    async def stop(self, order: StopOrder) -> None:
        """Has a run given notice."""
        guest = self._at(order.run)
        await (self.own.stop(order) if guest is None else guest.talk.stop(order))

    async def withdraw(self, run: RunId) -> None:
        """Has a notice taken back."""
        await self._about("withdraw", run)

    async def kill(self, run: RunId) -> None:
        """Has everything of a run ended."""
        await self._about("kill", run)

    async def _about(self, op: str, run: RunId) -> None:
        guest = self._at(run)
        if guest is not None:
            await guest.talk.about(op, run)
        elif op == "kill":
            await self.own.kill(run)
        else:
            await self.own.withdraw(run)

    async def forget(self, run: RunId) -> None:
        """Has removed what a finished run left."""
        guest = self._at(run)
        await (self.own.forget(run) if guest is None else guest.forget(run))

    async def exec(self, order: ExecOrder) -> ExecSession:
        """Opens a session with a command inside a run, which runs as that run's person."""
        guest = self._at(order.run)
        return await (self.own.exec(order) if guest is None else guest.exec(order))

    # what a run leaves

    async def folders(self, run: RunId) -> Folders:
        """The directories of a run."""
        guest = self._at(run)
        return await (self.own.folders(run) if guest is None else guest.folders(run))

    async def checkpoints(self, workload: str) -> Sequence[Saved]:
        """The whole checkpoints of a workload, the newest last."""
        guest = self._at(RunId(f"{workload}-1"))
        if guest is None:
            return await self.own.checkpoints(workload)
        return await guest.checkpoints(workload)

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        """Reads a log: a guest's by its own process, which alone may."""
        guest = self._at(run)
        if guest is None:
            return await self.own.read_log(run, stream, rank, offset, limit)
        return await guest.read_log(run, stream, rank, offset, limit)

    # tidying

    def silent(self) -> Sequence[str]:
        """People whose folders couldn't be looked at since this was last asked."""
        return self._tidying.silent()

    async def runs_left(self) -> Sequence[Left]:
        """Runs that left something."""
        return await self._tidying.runs_left()

    async def is_left(self, run: RunId) -> bool:
        """Whether something of a run is there."""
        return await self._tidying.is_left(run)

    async def folders_left(self, kind: Kept) -> Sequence[Left]:
        """Folders of workloads."""
        return await self._tidying.folders_left(kind)

    async def remove_folder(self, kind: Kept, workload: str) -> None:
        """Removes one of them."""
        await self._tidying.remove_folder(kind, workload)

    async def strays(self, live: Collection[str], before_ms: int) -> Sequence[Left]:
        """What belongs to no run."""
        return await self._tidying.strays(live, before_ms)

    async def remove_strays(self, names: Collection[str]) -> None:
        """Removes it."""
        await self._tidying.remove_strays(names)
