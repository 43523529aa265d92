"""One run as a Job and its pod: begins it there, hears its agent, and brings home what it left.

What is known of it when the pod is gone: the Job's annotation says how it ended, and its logs lie
in a folder of the server.
"""

import asyncio
import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Inventory, Report, RunReport, StartRefused
from stellwerk.core.model.workload import RunEnd
from stellwerk.drivers.agents.bringing import lay_out
from stellwerk.drivers.agents.conversation import Conversation, Met
from stellwerk.drivers.agents.hands import Hand, hello_of
from stellwerk.drivers.agents.layout import layout_of
from stellwerk.drivers.agents.link import AgentLink, OnPush
from stellwerk.drivers.agents.snapshots import BlobReader
from stellwerk.drivers.agents.translate import end_of
from stellwerk.drivers.base import DriverError, LogChunk, LogStream, StartOrder
from stellwerk.drivers.kubernetes.api import Api
from stellwerk.drivers.kubernetes.objects import (
    END,
    FORGOTTEN,
    GENERATION,
    Object,
    is_over,
    is_running,
    last_words,
    why_hopeless,
)
from stellwerk.drivers.kubernetes.pod_main import HOME

AGENT_S = 30.0
AGAIN_S = 0.3
PIECE = 1 << 20
STREAMS: tuple[LogStream, ...] = ("run", "setup", "metrics")
KEPT = {"checkpoint_dir": "checkpoints", "output_dir": "outputs"}


class PodRun:
    """A run that has a Job; ``tell`` is given what is to be reported of it."""

    def __init__(
        self,
        cluster: str,
        run: RunId,
        job: Object,
        api: Callable[[], Api],
        digest: str,
        folder: Path,
        blobs: BlobReader,
        now_ms: Callable[[], int],
        tell: Callable[[Report], None],
    ) -> None:
        about = job["metadata"]
        self.run = run
        self.job, self.uid = str(about["name"]), str(about["uid"])
        self.pod: Object | None = None
        self.order: StartOrder | None = None
        self.begun = False
        self.failed = False
        self.changing = asyncio.Lock()
        self.folder = folder
        self.talk = Conversation(cluster, self._reach, self._heard, self._broke)
        said = str((about.get("annotations") or {}).get(GENERATION, "1"))
        generation = int(said) if said.isdecimal() else 1
        self.report = RunReport(cluster, run, generation, "Starting", at_ms=now_ms())
        self._cluster = cluster
        self._api = api
        self._build = f"{HOME}/runtime/runtime-{digest[:12]}.pyz"
        self._blobs = blobs
        self._now_ms = now_ms
        self._tell = tell
        self._hand: Hand | None = None
        self._news = asyncio.Event()
        self._following: asyncio.Task[None] | None = None
        self._bringing: asyncio.Task[None] | None = None

    @property
    def end(self) -> RunEnd | None:
        """How it ended, once that is kept."""
        return self.report.end

    @property
    def is_over(self) -> bool:
        """Whether it has ended, kept or not."""
        return self.end is not None or self._bringing is not None

    async def brought_home(self) -> None:
        """Waits until its end is kept, if it is over."""
        if self._bringing is not None:
            await asyncio.shield(self._bringing)

    def ended_before(self, end: RunEnd) -> None:
        """Its Job says that it is over."""
        self.report = replace(self.report, phase="Ended", end=end, at_ms=end.ended_at_ms)

    def saw(self, pod: Object | None) -> None:
        """Its pod is so now; None: it is gone."""
        before, self.pod = self.pod, pod
        self._news.set()
        if self.end is not None or self._bringing is not None:
            return
        if pod is None:
            if before is not None or self.failed:
                self._lost("its pod was deleted", b"")
        elif hopeless := why_hopeless(pod):
            self._spawn_end(self._refuse(*hopeless))
        elif is_over(pod):
            status = pod.get("status") or {}
            why = status.get("message") or status.get("reason") or "its pod ended before it did"
            self._lost(str(why), last_words(pod))

    def _lost(self, why: str, words: bytes) -> None:
        """Its pod is over: what its first process wrote last says how it ended, if it could."""
        end = RunEnd("machine_lost", message=why, put_back=True, ended_at_ms=self._now_ms())
        with contextlib.suppress(msgspec.DecodeError):
            if isinstance(said := msgspec.json.decode(words), dict):
                end = end_of(said)
        self._spawn_end(self._finish(end))

    def _spawn_end(self, doing: Any) -> None:
        self._bringing = asyncio.create_task(doing, name=f"end of {self.run}")

    # beginning and hearing

    def follow(self) -> None:
        """Begins it and listens, as soon as its pod runs and whenever the connection breaks."""
        if self.end is None and (self._following is None or self._following.done()):
            self._following = asyncio.create_task(self._follow(), name=f"follow {self.run}")

    async def _follow(self) -> None:
        while self.end is None:
            self._news.clear()
            if self.pod is not None and is_running(self.pod) and self._bringing is None:
                try:
                    await self.connect()
                except DriverError as error:
                    if error.final:
                        self._spawn_end(self._refuse(error.code, error.message))
                    await asyncio.sleep(AGAIN_S)
                    continue
            if not self._news.is_set():
                await self._news.wait()

    async def connect(self) -> None:
        """Speaks with its agent, and has it begin the run if it hasn't. Raises DriverError."""
        async with self.changing:
            link = self.talk.link
            if link is None or link.closed.is_set():
                await self.talk.open()
            if self.order is not None and not self.begun and self.end is None:
                await self._begin(self.order)

    async def _begin(self, order: StartOrder) -> None:
        plain = replace(order, image="")
        layout = await asyncio.to_thread(layout_of, plain, f"{HOME}/runtime", self._blobs)
        assert self._hand is not None
        await lay_out(self._hand, layout, self._blobs)
        spec = {what: f"{HOME}/{folder}/{order.workload}" for what, folder in KEPT.items()}
        await self.talk.start(plain, {**spec, **layout.spec})
        self.begun = True

    async def _reach(self, on_push: OnPush, on_break: Callable[[], None]) -> Met:
        if self.pod is None:
            raise DriverError("kubernetes/no-pod", f"{self.run} has no pod yet", final=False)
        if self._hand is None or self._hand.closed.is_set():
            pod = str(self.pod["metadata"]["name"])
            stream = await self._api().exec(pod, self._command("hand"))
            self._hand = Hand(pod, stream, HOME)
        await self._hand.ask("agent", timeout_s=AGENT_S)
        link = AgentLink(on_push, on_break)
        self._hand.join(link)
        return link, await hello_of(link, f"in {self._hand.place}")

    def _command(self, mode: str) -> list[str]:
        return ["python3", "-I", "-S", self._build, mode, "--home", HOME]

    def _broke(self) -> None:
        self._news.set()

    def _heard(self, report: Report) -> None:
        if isinstance(report, Inventory):
            for run in report.runs:
                self._heard(run)
        elif isinstance(report, RunReport) and report.run == self.run:
            self.begun = True
            if report.end is None:
                self.report = report
                self._tell(report)
            elif self._bringing is None and self.end is None:
                self._spawn_end(self._bring_home(report))
        elif not isinstance(report, RunReport):
            self._tell(report)

    async def exec_stream(self) -> Any:
        """A stream to its agent for a command beside it."""
        if self.pod is None or not is_running(self.pod):
            raise DriverError("runtime/not_running", f"{self.run} isn't running", final=True)
        return await self._api().exec(str(self.pod["metadata"]["name"]), self._command("relay"))

    # its end

    async def _refuse(self, code: str, message: str) -> None:
        """It will never begin: its Job stays as the record of that, without a pod."""
        refused = StartRefused(self._cluster, self.run, self.report.generation, code, message)
        self._tell(refused)
        end = RunEnd("start_refused", message=message, ended_at_ms=self._now_ms())
        await self._finish(end, told=True)

    async def end_unbegun(self, how: str, *, put_back: bool) -> None:
        """Ends what hasn't begun."""
        end = RunEnd(how, put_back=put_back, ended_at_ms=self._now_ms(), message="before it began")
        await self._finish(end)

    async def _bring_home(self, report: RunReport) -> None:
        assert report.end is not None
        ranks = sorted({0, *map(int, report.end.ranks)})
        with contextlib.suppress(DriverError):
            for stream in STREAMS:
                for rank in ranks if stream == "run" else [0]:
                    await self._keep(stream, rank)
        await self._finish(report.end)

    async def _keep(self, stream: LogStream, rank: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        offset = 0
        with (self.folder / f"{stream}.{rank}").open("wb") as file:
            while True:
                chunk = await self._read_there(stream, rank, offset, PIECE)
                file.write(chunk.data)
                offset = chunk.next_offset
                if not chunk.data:
                    return

    async def _finish(self, end: RunEnd, *, told: bool = False) -> None:
        """Writes its end to its Job and takes the pod away, then tells it."""
        change: dict[str, Any] = {
            "metadata": {"annotations": {END: msgspec.json.encode(end).decode()}},
            "spec": {"suspend": True},
        }
        while True:
            try:
                await self._api().patch_job(self.job, self.uid, change)
                break
            except DriverError as error:
                if error.code in {"kubernetes/gone", "kubernetes/conflict"} or error.final:
                    break  # somebody has deleted it: there is nothing left to write to
            await asyncio.sleep(AGAIN_S)
        self.report = replace(self.report, phase="Ended", end=end, at_ms=end.ended_at_ms, why="")
        if not told:
            self._tell(self.report)
        self._news.set()
        await self._hang_up()

    async def forget(self) -> None:
        """Removes its logs here; its Job remains, so that it can't start again."""
        change = {"metadata": {"annotations": {FORGOTTEN: "true", END: None}}}
        await self._api().patch_job(self.job, self.uid, change)
        for stream in self.folder.glob("*") if self.folder.exists() else ():
            stream.unlink()
        if self.folder.exists():
            self.folder.rmdir()

    # logs

    async def read_log(self, stream: LogStream, rank: int, offset: int, limit: int) -> LogChunk:
        """Reads a log where it is now."""
        kept = self.folder / f"{stream}.{rank}"
        if self.end is not None:
            if not kept.exists():
                return LogChunk(b"", offset, 0)
            with kept.open("rb") as file:
                size = file.seek(0, 2)
                file.seek(offset)
                return LogChunk(file.read(limit), offset, size)
        if self._hand is None or self._hand.closed.is_set():
            return LogChunk(b"", offset, 0)
        return await self._read_there(stream, rank, offset, limit)

    async def _read_there(self, stream: LogStream, rank: int, offset: int, limit: int) -> LogChunk:
        assert self._hand is not None
        head, data = await self._hand.ask(
            "log",
            run=self.run,
            workload="",
            stream=stream,
            rank=rank,
            offset=offset,
            limit=limit,
        )
        return LogChunk(data, offset, int(head["size"]))

    async def close(self) -> None:
        """Hangs up; it goes on."""
        for task in (self._following, self._bringing):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
        self._following = self._bringing = None
        await self._hang_up()

    def vanish(self) -> None:
        """Ends what it does here without a word."""
        for task in (self._following, self._bringing):
            if task is not None:
                task.cancel()
        if self.talk.link is not None:
            self.talk.link.hang_up()

    async def _hang_up(self) -> None:
        await self.talk.close()
        hand, self._hand = self._hand, None
        if hand is not None:
            await hand.close()
