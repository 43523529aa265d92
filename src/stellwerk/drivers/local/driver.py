"""Runs work on this machine through the runtime's agent, which goes on when the control plane ends.

Orders go over the agent's socket, reports come back on it; logs are read straight from their files.
A connection that breaks is made anew at the next order or report, and begins with an inventory.
"""

import asyncio
import os
import platform
import re
from collections import deque
from collections.abc import AsyncIterator, Collection, Sequence
from pathlib import Path
from typing import Any

from stellwerk.core.inventory.facts import cluster_of
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.core.model.reports import Inventory, Report, RunReport, StartRefused
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
from stellwerk.drivers.local import leftovers
from stellwerk.drivers.local.agent_link import AgentGone, AgentLink, AgentRefused, JSONObject
from stellwerk.drivers.local.agents import AgentHouse, agent_socket
from stellwerk.drivers.local.exec_session import open_session
from stellwerk.drivers.local.layout import lay_out, remove_layout
from stellwerk.drivers.local.translate import inventory_of, report_of, sample_of, spec_of, why_of
from stellwerk.drivers.local.workdir import BlobReader
from stellwerk.runtime.checkpoints import complete
from stellwerk.runtime.files import RUN_NAME, Places, RunFiles, open_file, read_json

DRIVER = "local"
KEPT: dict[str, Kept] = {"checkpoint_dir": "checkpoints", "output_dir": "outputs"}
"""Folders beside the runtime's, with one for each workload: they outlive its runs."""

PROBE_MS = 30_000
OPEN_ENDED = ("unreachable", "machine")
"""Refusals after which the same order may well be carried out."""


class LocalDriver:
    """This machine, as this user."""

    capabilities = Capabilities(start_guarantee="claim file", exec=True)

    def __init__(
        self, *, home: Path, socket_dir: Path, blobs: BlobReader, cluster: str = ""
    ) -> None:
        self.cluster = cluster or cluster_name(platform.node())
        self._home = home
        self._root = home / "runtime"
        self._blobs = blobs
        self._house = AgentHouse(self._root, agent_socket(socket_dir, self._root))
        self._link: AgentLink | None = None
        self._linking = asyncio.Lock()
        self._inbox: deque[Report] = deque()
        self._news = asyncio.Event()
        self._early: list[JSONObject] | None = None
        self._is_open = False
        self._epoch = 0
        self._live: set[str] = set()

    # connecting

    async def open(self) -> None:
        """Connects to the agent, starting it where there is none."""
        await self.close()
        self._is_open = True
        await self._connected()

    async def close(self) -> None:
        """Hangs up; agent and runs go on."""
        self._is_open = False
        link, self._link = self._link, None
        if link is not None:
            await link.close()

    async def _connected(self) -> AgentLink:
        async with self._linking:
            if not self._is_open:
                raise DriverError("driver/closed", "the driver isn't open", final=False)
            if self._link is None or self._link.closed.is_set():
                self._link = await self._connect()
            return self._link

    async def _connect(self) -> AgentLink:
        """Connects and asks for all runs; what is pushed before those are told is told after."""
        self._early = []
        link, hello = await self._house.reach(self._pushed, self._news.set)
        try:
            answer = await link.call("watch")
        except (AgentGone, AgentRefused) as error:
            link.hang_up()
            raise DriverError("driver/agent-silent", str(error), final=False) from error
        early, self._early = self._early, None
        self._tell(inventory_of(self.cluster, answer["runs"], int(hello["now_ms"])))
        for push in early:
            self._pushed(push)
        return link

    # reports

    async def reports(self) -> AsyncIterator[Report]:
        """Yields what the agent says; raises DriverError when it can't be reached any more."""
        while True:
            while self._inbox:
                yield self._inbox.popleft()
            await self._connected()
            if not self._inbox:
                self._news.clear()
                await self._news.wait()

    def _pushed(self, push: JSONObject) -> None:
        if self._early is not None:
            self._early.append(push)
        elif push.get("event") == "run":
            self._tell(report_of(self.cluster, push["run"]))
        elif push.get("event") == "sample":
            self._tell(sample_of(self.cluster, push))

    def _tell(self, report: Report) -> None:
        match report:
            case Inventory(runs=runs):
                self._live = {run.run for run in runs if run.end is None}
            case RunReport(run=run, end=None):
                self._live.add(run)
            case RunReport(run=run):
                self._live.discard(run)
        self._inbox.append(report)
        self._news.set()

    # orders

    async def probe(self) -> Cluster:
        """Asks the agent for the facts of the machine."""
        answer = await self._ask("probe", timeout_ms=PROBE_MS)
        return cluster_of(answer["facts"], name=self.cluster, driver=DRIVER, runs=self._live)

    async def start(self, order: StartOrder) -> None:
        """Makes the work directory, then has the agent start the run; twice is once."""
        try:
            await self._start(order)
        except DriverError as error:
            if error.final:
                self._tell(StartRefused(
                    self.cluster, order.run, order.generation, error.code, error.message
                ))  # fmt: skip
            raise

    async def _start(self, order: StartOrder) -> None:
        if RUN_NAME.fullmatch(order.run) is None:
            raise DriverError("runtime/spec_invalid", f"`{order.run}` is no run's name", final=True)
        self._epoch = max(self._epoch, order.epoch)
        # Only what touches the disk is worth the way to another thread and back.
        if order.snapshot or order.mounts or order.setup:
            laid = await asyncio.to_thread(lay_out, order, self._root, self._blobs)
        else:
            laid = lay_out(order, self._root, self._blobs)
        spec = {**spec_of(order), **laid.spec}
        for what, folder in KEPT.items():
            spec[what] = spec[what] or str(self._home / folder / order.workload)
        if order.resumes:
            spec["resume_from"] = str(self._kept("checkpoints", order.resumes))
        sent: JSONObject = {"spec": spec, "secrets": order.secrets}
        if order.secret_files:
            sent["secret_files"] = order.secret_files
        try:
            answer = await self._ask("start", **sent)
        except DriverError as error:
            if error.final:
                await asyncio.to_thread(laid.take_back)
            raise
        if answer.get("existing"):
            self._tell(report_of(self.cluster, answer))

    async def stop(self, order: StopOrder) -> None:
        """Has the agent give notice to a run."""
        self._epoch = max(self._epoch, order.epoch)
        await self._ask(
            "stop",
            run=order.run,
            generation=order.generation,
            epoch=order.epoch,
            why=why_of(order.why),
            grace_ms=order.grace_ms,
        )

    async def withdraw(self, run: RunId) -> None:
        """Has the agent take a notice back."""
        await self._ask("withdraw", run=run, epoch=self._epoch or None)

    async def kill(self, run: RunId) -> None:
        """Has the agent end everything of a run."""
        await self._ask("kill", run=run, epoch=self._epoch or None)

    async def forget(self, run: RunId) -> None:
        """Has the agent remove what a finished run left, and removes its work directory."""
        await self._ask("forget", run=run, epoch=self._epoch or None)
        await asyncio.to_thread(remove_layout, self._root, run)

    async def _ask(self, op: str, *, timeout_ms: int = 10_000, **fields: Any) -> JSONObject:
        link = await self._connected()
        try:
            return await link.call(op, timeout_ms, **fields)
        except AgentGone as error:
            # Whoever connects anew finds out whether it is only slow, and says so where it isn't.
            link.hang_up()
            raise DriverError("driver/no-answer", str(error), final=False) from error
        except AgentRefused as refusal:
            final = refusal.code not in OPEN_ENDED
            raise DriverError(f"runtime/{refusal.code}", refusal.message, final=final) from refusal

    # commands inside a run

    async def exec(self, order: ExecOrder) -> ExecSession:
        """Has the agent hand a connection over to a keeper beside the run."""
        await self._connected()
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
        """Looks through the folder that a workload's runs had for them."""
        found = await asyncio.to_thread(complete, str(self._kept("checkpoints", workload)))
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
        return await asyncio.to_thread(leftovers.runs_left, self._root)

    async def is_left(self, run: RunId) -> bool:
        """Whether the runtime still has the run's folder."""
        return await asyncio.to_thread(os.path.isdir, self._files(run).directory)

    async def folders_left(self, kind: Kept) -> Sequence[Left]:
        """Looks through the folders of workloads."""
        return await asyncio.to_thread(leftovers.folders_left, self._home / kind)

    async def remove_folder(self, kind: Kept, workload: str) -> None:
        """Removes one of them."""
        await asyncio.to_thread(leftovers.remove_folder, self._home / kind, workload)

    async def strays(self, live: Collection[str], before_ms: int) -> Sequence[Left]:
        """Looks for folders without a run, and for old builds of the runtime."""
        return await asyncio.to_thread(leftovers.strays, self._root, live, before_ms)

    async def remove_strays(self, names: Collection[str]) -> None:
        """Removes them."""
        await asyncio.to_thread(leftovers.remove_strays, self._root, names)

    def _files(self, run: RunId) -> RunFiles:
        if RUN_NAME.fullmatch(run) is None:
            raise DriverError("runtime/unknown_run", f"`{run}` is no run's name", final=True)
        return Places(str(self._root)).run(run)


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
