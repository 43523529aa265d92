"""Reads growing logs once for all who follow them.

While anybody follows a log, one task looks at its size every few milliseconds (more slowly once it
has been quiet) and keeps its newest bytes; a follower near the end is served from there, one that
is further back reads by itself. A hundred followers cost about as much as one.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple, Protocol

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.base import DriverError, LogChunk, LogStream

QUICK_S = 0.02
SLOW_S = 0.1
QUIET_AFTER = 100
"""Looks without anything new after which a log counts as quiet: about two seconds."""
KEPT_BYTES = 512 * 1024
READ_BYTES = 256 * 1024


class LogName(NamedTuple):
    """Which log: one stream of one rank of a run on a cluster."""

    cluster: str
    run: RunId
    stream: LogStream
    rank: int


class ReadsLogs(Protocol):
    """What is needed of a driver."""

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        """Reads a log by offset; a log that isn't there yet is empty."""
        ...


DriverOf = Callable[[str], ReadsLogs]


class Tail:
    """The end of one log, shared by its followers."""

    def __init__(self, name: LogName, driver: ReadsLogs) -> None:
        self.name = name
        self.waiting: list[asyncio.Event] = []
        self._driver = driver
        self._size = -1
        self._kept = bytearray()
        self._kept_from = 0
        self._quiet = 0

    async def read(self, offset: int, limit: int = READ_BYTES) -> bytes:
        """Bytes from `offset` on, at most `limit`; empty when there are none yet."""
        if self._kept_from <= offset < self._kept_from + len(self._kept):
            start = offset - self._kept_from
            return bytes(self._kept[start : start + limit])
        if offset == self._size:
            return b""
        return (await self._ask(offset, limit)).data

    async def read_through(self, offset: int, limit: int = READ_BYTES) -> bytes:
        """The same, but what the cluster says now: nothing more comes of a log that is over."""
        return (await self._ask(offset, limit)).data

    async def look(self) -> None:
        """Reads what is new, wakes whoever waits for it, and sets the pace of the next look."""
        if self._size < 0:
            self._size = (await self._ask(0, 0)).size
            self._wake()
        chunk = await self._ask(self._size, READ_BYTES)
        if not chunk.data:
            self._quiet += 1
            return
        self._quiet = 0
        self._keep(chunk)
        self._size = chunk.next_offset
        self._wake()

    @property
    def pace_s(self) -> float:
        """How long to wait before the next look."""
        return QUICK_S if self._quiet < QUIET_AFTER else SLOW_S

    async def _ask(self, offset: int, limit: int) -> LogChunk:
        name = self.name
        return await self._driver.read_log(name.run, name.stream, name.rank, offset, limit)

    def _wake(self) -> None:
        for event in self.waiting:
            event.set()

    def _keep(self, chunk: LogChunk) -> None:
        if chunk.offset != self._kept_from + len(self._kept):
            self._kept.clear()
            self._kept_from = chunk.offset
        self._kept += chunk.data
        surplus = len(self._kept) - KEPT_BYTES
        if surplus > 0:
            del self._kept[:surplus]
            self._kept_from += surplus


class Tails:
    """All logs that somebody follows now."""

    def __init__(self, driver_of: DriverOf) -> None:
        self._driver_of = driver_of
        self._open: dict[LogName, tuple[Tail, asyncio.Task[None]]] = {}

    @contextmanager
    def follow(self, name: LogName, wake: asyncio.Event) -> Iterator[Tail]:
        """The shared end of a log; `wake` is set whenever it has grown."""
        if name not in self._open:
            tail = Tail(name, self._driver_of(name.cluster))
            self._open[name] = (tail, asyncio.create_task(_look_on(tail)))
        tail, looking = self._open[name]
        tail.waiting.append(wake)
        try:
            yield tail
        finally:
            tail.waiting.remove(wake)
            if not tail.waiting:
                looking.cancel()
                del self._open[name]

    def __len__(self) -> int:
        return len(self._open)


async def _look_on(tail: Tail) -> None:
    """Looks for ever; a cluster that can't be reached is asked again, more slowly."""
    while True:
        try:
            await tail.look()
            await asyncio.sleep(tail.pace_s)
        except DriverError:
            await asyncio.sleep(1)
