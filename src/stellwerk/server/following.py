"""Walks through a workload's logs in order, as asked: setup, then run, then the next run.

An offset counts over everything that was asked for, so a reader that lost its connection goes on
with the number of bytes it has. While following, nothing is held but a place: the reader is woken
by the journal or by the log's growth, whichever comes first.
"""

import asyncio
import logging
from collections.abc import AsyncIterator

import msgspec

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.workload import ENDED, Run, Workload
from stellwerk.drivers.base import DriverError, LogStream
from stellwerk.server.services import Services
from stellwerk.server.tails import READ_BYTES, LogName, Tail

logger = logging.getLogger("stellwerk.server")

LOOK_AGAIN_S = 30.0
UNREACHABLE_S = 1.0


class Choice(msgspec.Struct, frozen=True):
    """What a reader wants: `number` 0 is the newest run (with `all_runs` the first one kept)."""

    number: int = 0
    all_runs: bool = False
    streams: tuple[LogStream, ...] = ("run",)
    rank: int = 0
    offset: int = 0
    limit: int = 0
    follow: bool = False


class LogReader:
    """One reader's way through one workload's logs."""

    def __init__(self, services: Services, workload: Workload, choice: Choice) -> None:
        self._services = services
        self._workload = workload
        self._choice = choice
        self._seen = services.feed.seq
        self._skip = choice.offset
        self._left = choice.limit or None

    async def pieces(self) -> AsyncIterator[bytes]:
        """The bytes, until everything asked for is sent and (following) the run is over."""
        with self._services.feed.watch(self._workload.id) as wake:
            number = self._first_number()
            while (run := await self._run(number, wake)) is not None:
                for stream in self._choice.streams:
                    async for piece in self._segment(run.number, stream, wake):
                        yield piece
                        if self._left == 0:
                            return
                if not self._choice.all_runs or self._services.stopping.is_set():
                    return
                number = run.number + 1

    def _first_number(self) -> int:
        runs = self._workload.runs
        if self._choice.number:
            known = [run.number for run in runs]
            past = known and self._choice.number < known[0]
            future = self._choice.number > (known[-1] if known else 0)
            if past or (future and not self._choice.follow):
                raise StellwerkError.of(
                    "find/run",
                    f"{self._workload.name} has no run {self._choice.number} to read",
                    f"it has {_runs_told(known)}",
                )
            return self._choice.number
        if not runs:
            return 1
        return runs[0].number if self._choice.all_runs else runs[-1].number

    async def _run(self, number: int, wake: asyncio.Event) -> Run | None:
        """The run of a number; following, it is waited for as long as it may come."""
        while True:
            wake.clear()
            await self._refresh()
            for run in self._workload.runs:
                if run.number >= number:
                    return run
            over = self._workload.phase in ENDED or self._services.stopping.is_set()
            if over or not self._choice.follow:
                return None
            await _wait(wake, LOOK_AGAIN_S)

    async def _segment(
        self, number: int, stream: LogStream, wake: asyncio.Event
    ) -> AsyncIterator[bytes]:
        run = self._run_now(number)
        name = LogName(run.allocation.cluster, run.id, stream, self._choice.rank)
        if self._choice.follow and not _over(run, stream):
            with self._services.tails.follow(name, wake) as tail:
                async for piece in self._follow(number, tail, wake):
                    yield piece
            return
        driver = self._services.driver(name.cluster)
        size = (await driver.read_log(run.id, stream, self._choice.rank, 0, 0)).size
        offset = min(self._skip, size)
        self._skip -= offset
        while offset < size:
            limit = min(READ_BYTES, size - offset)
            chunk = await driver.read_log(run.id, stream, self._choice.rank, offset, limit)
            if not chunk.data:
                return
            offset = chunk.next_offset
            yield self._cut(chunk.data)

    async def _follow(self, number: int, tail: Tail, wake: asyncio.Event) -> AsyncIterator[bytes]:
        offset, self._skip = self._skip, 0
        while True:
            wake.clear()
            await self._refresh()
            over = _over(self._run_now(number), tail.name.stream)
            try:
                data = await (tail.read_through(offset) if over else tail.read(offset))
            except DriverError as error:
                if over:
                    logger.warning("the log of %s ends early: %s", tail.name.run, error)
                    return
                await _wait(self._services.stopping, UNREACHABLE_S)
                data = b""
            if data:
                offset += len(data)
                yield self._cut(data)
            elif over or self._services.stopping.is_set():
                return
            else:
                await _wait(wake, LOOK_AGAIN_S)

    def _cut(self, data: bytes) -> bytes:
        if self._left is None:
            return data
        data = data[: self._left]
        self._left -= len(data)
        return data

    async def _refresh(self) -> None:
        """Reads the workload again if the journal has grown since it was read."""
        newest = self._services.feed.seq
        if newest != self._seen:
            self._seen = newest
            self._workload = await self._services.find(self._workload.id)

    def _run_now(self, number: int) -> Run:
        """The run as it is now; one that has left the workload's memory is the oldest kept."""
        runs = self._workload.runs
        return next((run for run in runs if run.number == number), runs[0])


def _over(run: Run, stream: LogStream) -> bool:
    """Whether nothing more can come of a stream."""
    return run.phase == "Ended" or (stream == "setup" and run.running_ms > 0)


def _runs_told(known: list[int]) -> str:
    if not known:
        return "no run yet"
    return f"run {known[0]}" if len(known) == 1 else f"runs {known[0]} to {known[-1]}"


async def _wait(event: asyncio.Event, timeout_s: float) -> None:
    try:
        await asyncio.wait_for(event.wait(), timeout_s)
    except TimeoutError:
        pass  # whoever waits looks again
