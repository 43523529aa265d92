"""Runs work on this machine through the runtime's agent, which goes on when the control plane ends.

Orders go over the agent's socket, reports come back on it; logs are read straight from their files.
A connection that breaks is made anew at the next order or report, and begins with an inventory.
"""

import asyncio
import os
import platform
import re
from collections import Counter, deque
from collections.abc import AsyncIterator, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stellwerk.core.inventory.facts import cluster_of
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.core.model.reports import Inventory, Report
from stellwerk.drivers.agents.checkpoint_home import CheckpointHome
from stellwerk.drivers.agents.checkpoint_places import OwnPlace
from stellwerk.drivers.agents.conversation import Conversation, check_name
from stellwerk.drivers.agents.refusing import refusal_told
from stellwerk.drivers.agents.snapshots import BlobReader
from stellwerk.drivers.base import (
    Capabilities,
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
from stellwerk.drivers.local.agents import AgentHouse, agent_socket
from stellwerk.drivers.local.exec_session import open_session
from stellwerk.drivers.local.layout import lay_out, remove_layout
from stellwerk.runtime import leftovers
from stellwerk.runtime.checkpoints import complete
from stellwerk.runtime.files import RUN_NAME, Places, RunFiles, open_file, read_json

DRIVER = "local"
KEPT: dict[str, Kept] = {"checkpoint_dir": "checkpoints", "output_dir": "outputs"}
"""Folders beside the runtime's, with one for each workload: they outlive its runs."""

PROBE_MS = 30_000


class LocalDriver:
    """This machine, as this user."""

    capabilities = Capabilities(start_guarantee="claim file", exec=True)
    checkpoint_home: CheckpointHome | None = None
    """Where checkpoints come from that a job has saved on another machine."""

    def __init__(
        self, *, home: Path, socket_dir: Path, blobs: BlobReader, cluster: str = ""
    ) -> None:
        self.cluster = cluster or cluster_name(platform.node())
        self._home = home
        self._root = home / "runtime"
        self._blobs = blobs
        self._house = AgentHouse(self._root, agent_socket(socket_dir, self._root))
        self._inbox: deque[Report] = deque()
        self._news = asyncio.Event()
        self._talk = Conversation(self.cluster, self._house.reach, self._tell, self._news.set)

    async def open(self) -> None:
        """Connects to the agent, starting it where there is none."""
        if self.checkpoint_home is not None:
            self.checkpoint_home.add(self.cluster, OwnPlace(self._home))
        await self._talk.open()

    async def close(self) -> None:
        """Hangs up; agent and runs go on."""
        await self._talk.close()

    # reports

    async def reports(self) -> AsyncIterator[Report]:
        """Yields what the agent says; raises DriverError when it can't be reached any more."""
        while True:
            while self._inbox:
                yield self._inbox.popleft()
            await self._talk.connected()
            if not self._inbox:
                self._news.clear()
                await self._news.wait()

    def _tell(self, report: Report) -> None:
        if isinstance(report, Inventory):  # of other people's runs this agent knows nothing
            report = replace(report, people=("",))
        self._inbox.append(report)
        self._news.set()

    # orders

    async def probe(self) -> Cluster:
        """Asks the agent for the facts of the machine."""
        return cluster_of(await self.facts(), name=self.cluster, driver=DRIVER, runs=self.live)

    async def facts(self) -> dict[str, Any]:
        """The facts of the machine as the agent tells them."""
        facts: dict[str, Any] = (await self._talk.ask("probe", timeout_ms=PROBE_MS))["facts"]
        return facts

    @property
    def live(self) -> Collection[str]:
        """The runs that aren't over, as far as the agent has said."""
        return self._talk.live

    async def start(self, order: StartOrder) -> None:
        """Makes the work directory, then has the agent start the run; twice is once."""
        with refusal_told(self._tell, self.cluster, order):
            await self._start(order)

    async def _start(self, order: StartOrder) -> None:
        check_name(order.run)
        more = await self._follow(order)
        # Only what touches the disk is worth the way to another thread and back.
        if order.snapshot or order.mounts or order.setup:
            laid = await asyncio.to_thread(lay_out, order, self._root, self._blobs)
        else:
            laid = lay_out(order, self._root, self._blobs)
        spec: dict[str, Any] = {
            what: str(self._home / folder / order.workload) for what, folder in KEPT.items()
        }
        spec |= {what: asked for what in KEPT if (asked := getattr(order, what))}
        if order.resumes:
            spec["resume_from"] = str(self._kept("checkpoints", order.resumes))
        try:
            await self._talk.start(order, {**spec, **laid.spec, **more})
        except DriverError as error:
            if error.final:
                await asyncio.to_thread(laid.take_back)
            raise

    async def _follow(self, order: StartOrder) -> dict[str, Any]:
        """Brings checkpoints here that the job has saved elsewhere. Raises DriverError.

        A first run has none, and what it saves here is where it would be copied to.
        """
        if self.checkpoint_home is None or (order.generation == 1 and not order.resumes):
            return {}
        notes = await self.checkpoint_home.prepare(order, [self.cluster])
        return {"notes": notes} if notes else {}

    async def stop(self, order: StopOrder) -> None:
        """Has the agent give notice to a run."""
        await self._talk.stop(order)

    async def withdraw(self, run: RunId) -> None:
        """Has the agent take a notice back."""
        await self._talk.about("withdraw", run)

    async def kill(self, run: RunId) -> None:
        """Has the agent end everything of a run."""
        await self._talk.about("kill", run)

    async def forget(self, run: RunId) -> None:
        """Has the agent remove what a finished run left, and removes its work directory."""
        await self._talk.about("forget", run)
        await asyncio.to_thread(remove_layout, self._root, run)

    # commands inside a run

    async def exec(self, order: ExecOrder) -> ExecSession:
        """Has the agent hand a connection over to a keeper beside the run."""
        await self._talk.connected()
        return await open_session(str(self._house.socket), order)

    # what a run leaves

    async def folders(self, run: RunId) -> Folders:
        """The directories of a run that the runtime knows."""
        files = self._files(run)
        spec = await asyncio.to_thread(read_json, files.spec) or {}
        if not spec:
            kept = {what: self._home / folder / workload_of(run) for what, folder in KEPT.items()}
            there = {what: str(path) for what, path in kept.items() if path.is_dir()}
            return Folders("", there.get("output_dir", ""), there.get("checkpoint_dir", ""))
        return Folders(
            work=spec.get("cwd") or files.path("work"),
            output=spec.get("output_dir") or files.path("output"),
            checkpoint=spec.get("checkpoint_dir") or files.path("checkpoint"),
        )

    async def checkpoints(self, workload: str) -> Sequence[Saved]:
        """Looks through the folder that a workload's runs had for them.

        An agent of before, which goes on for the jobs it has, would refuse to start with them.
        """
        await self._talk.connected()
        if "resume" not in self._talk.hello.get("can", ()):
            raise DriverError("runtime/too_old", "the agent starts nothing with them", final=True)
        folder = str(self._kept("checkpoints", workload))
        try:
            found = await asyncio.to_thread(complete, folder)
        except OSError as error:
            message = f"{error.filename or folder}: {error.strerror}"
            raise DriverError("runtime/checkpoints", message, final=False) from error
        return [Saved(one.name, one.bytes, one.modified_ms, one.step) for one in found]

    def _kept(self, kind: Kept, workload: str) -> Path:
        if RUN_NAME.fullmatch(workload) is None:
            message = f"`{workload}` is no workload's id"
            raise DriverError("runtime/spec_invalid", message, final=True)
        return self._home / kind / workload

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        """Reads a log from its file."""
        files = self._files(run)
        path = {"setup": files.setup_log, "metrics": files.metrics}.get(stream)
        return await asyncio.to_thread(_read, path or files.rank_log(rank), offset, limit)

    async def runs_left(self) -> Sequence[Left]:
        """Looks through the runtime's folders."""
        return _left(await asyncio.to_thread(leftovers.runs_left, self._root))

    async def is_left(self, run: RunId) -> bool:
        """Whether the runtime still has the run's folder."""
        return await asyncio.to_thread(os.path.isdir, self._files(run).directory)

    async def folders_left(self, kind: Kept) -> Sequence[Left]:
        """Looks through the folders of workloads."""
        left = _left(await asyncio.to_thread(leftovers.folders_left, self._home / kind))
        if kind != "checkpoints" or self.checkpoint_home is None:
            return left
        copies = await asyncio.to_thread(self.checkpoint_home.store.left)
        sizes = Counter({one.name: one.bytes for one in left})
        sizes.update({one.name: one.bytes for one in copies})
        return [Left(name, sizes[name]) for name in sorted(sizes)]

    async def remove_folder(self, kind: Kept, workload: str) -> None:
        """Removes one of them."""
        await asyncio.to_thread(leftovers.remove_folder, self._home / kind, workload)
        if kind == "checkpoints" and self.checkpoint_home is not None:
            await asyncio.to_thread(self.checkpoint_home.store.remove, workload)

    async def strays(self, live: Collection[str], before_ms: int) -> Sequence[Left]:
        """Looks for folders without a run, and for old builds of the runtime."""
        return _left(await asyncio.to_thread(leftovers.strays, self._root, live, before_ms))

    async def remove_strays(self, names: Collection[str]) -> None:
        """Removes them."""
        await asyncio.to_thread(leftovers.remove_strays, self._root, names)

    def _files(self, run: RunId) -> RunFiles:
        if RUN_NAME.fullmatch(run) is None:
            raise DriverError("runtime/unknown_run", f"`{run}` is no run's name", final=True)
        return Places(str(self._root)).run(run)


def _left(found: Iterable[leftovers.Left]) -> list[Left]:
    return [Left(one.name, one.bytes) for one in found]


def cluster_name(hostname: str) -> str:
    """A cluster's name from a machine's: its first label, in letters that need no quoting."""
    label = re.sub(r"[^a-z0-9-]+", "-", hostname.partition(".")[0].lower()).strip("-")
    return label[:63].strip("-") or "local"


def _read(path: str, offset: int, limit: int) -> LogChunk:
    try:
        with open_file(path) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(offset)
            return LogChunk(file.read(max(0, limit)), offset, size)
    except FileNotFoundError:
        return LogChunk(b"", offset, 0)
    except OSError as error:
        message = f"{path} can't be read: {error.strerror}"
        raise DriverError("driver/log-unreadable", message, final=False) from error
