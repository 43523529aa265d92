"""Hands every new record of the journal, read once, to all who wait for one.

Those who follow events pull at their own pace: recent records lie encoded in a ring, older ones are
read from the journal again, so a slow client costs nothing but its own place. Those who wait for
one workload are woken only when a record is about it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

import msgspec

from stellwerk.core.model import events as ev
from stellwerk.store.journal import subject

RING_RECORDS = 4096
RING_BYTES = 8 * 2**20
PAGE = 500


class Told(msgspec.Struct, frozen=True):
    """A record as it is sent: its place, its type, the workload it is about, and its JSON."""

    seq: int
    type: str
    workload: str
    data: bytes


class Changes(Protocol):
    """Tells when the journal has grown; the engine does."""

    async def changed(self, after_seq: int, timeout_s: float) -> int:
        """Waits until the journal is past `after_seq` or the time is over; gives its seq."""
        ...


ReadRecords = Callable[[int, int], Sequence[ev.Record]]
"""Up to so many records after a sequence number."""


class Feed:
    """The one reader of new records; `run` it as a task beside the server."""

    def __init__(self, changes: Changes, read: ReadRecords, seq: int) -> None:
        self._changes = changes
        self._read = read
        self._seq = seq
        self._ring: deque[Told] = deque()
        self._ring_bytes = 0
        self._watches: dict[str, set[asyncio.Event]] = {}
        self._followers: set[asyncio.Event] = set()
        self.listeners: list[Callable[[Sequence[ev.Record]], None]] = []
        """They are given every new record as it is; what they do must be quick."""

    @property
    def seq(self) -> int:
        """The newest record that was handed on."""
        return self._seq

    async def run(self) -> None:
        """Reads on for ever; ends only by being cancelled or by an error of the journal."""
        while True:
            if await self._changes.changed(self._seq, 60) <= self._seq:
                continue
            while records := self._read(self._seq, PAGE):
                self._publish(records)
                await asyncio.sleep(0)

    @contextmanager
    def watch(self, workload: str) -> Iterator[asyncio.Event]:
        """An event that is set at every record about a workload; clear it before you look."""
        changed = asyncio.Event()
        watches = self._watches.setdefault(workload, set())
        watches.add(changed)
        try:
            yield changed
        finally:
            watches.discard(changed)
            if not watches and self._watches.get(workload) is watches:
                del self._watches[workload]

    @contextmanager
    def follow(self) -> Iterator[asyncio.Event]:
        """An event that is set at every record."""
        changed = asyncio.Event()
        self._followers.add(changed)
        try:
            yield changed
        finally:
            self._followers.discard(changed)

    def after(self, seq: int) -> Sequence[Told]:
        """The records after a place, at most a page of them; empty if there is nothing new yet."""
        if seq >= self._seq:
            return ()
        if self._ring and seq >= self._ring[0].seq - 1:
            start = seq + 1 - self._ring[0].seq
            return [self._ring[i] for i in range(start, min(start + PAGE, len(self._ring)))]
        return [told(record) for record in self._read(seq, PAGE)]

    def wake_all(self) -> None:
        """Wakes everybody who waits, so that they see that the server ends."""
        for watches in self._watches.values():
            for watch in watches:
                watch.set()
        for follower in self._followers:
            follower.set()

    def _publish(self, records: Sequence[ev.Record]) -> None:
        touched: set[str] = set()
        for record in records:
            entry = told(record)
            touched.add(entry.workload)
            self._ring.append(entry)
            self._ring_bytes += len(entry.data)
            while len(self._ring) > RING_RECORDS or self._ring_bytes > RING_BYTES:
                self._ring_bytes -= len(self._ring.popleft().data)
        self._seq = records[-1].seq
        for listen in self.listeners:
            listen(records)
        for workload in touched & self._watches.keys():
            for watch in self._watches[workload]:
                watch.set()
        for follower in self._followers:
            follower.set()


def told(record: ev.Record) -> Told:
    """A record as events are sent."""
    return Told(
        seq=record.seq,
        type=str(type(record.event).__struct_config__.tag),
        workload=subject(record.event) or "",
        data=msgspec.json.encode(record),
    )
