"""A driver whose place exists in virtual time: orders and reports meet the faults of a seed.

It speaks the same protocol as a real driver and promises no more: an order may fail with its
outcome unknown, a report may be late, doubled or lost. What was lost is always made up by a later
inventory.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Report, StartRefused
from stellwerk.drivers.base import (
    Capabilities,
    DriverError,
    LogChunk,
    LogStream,
    StartOrder,
    StopOrder,
)
from stellwerk.drivers.simulated.link import Link


class SimulatedDriver:
    """One control plane's access to a simulated place; several may be open to the same place."""

    capabilities = Capabilities(start_guarantee="native name", exec=False)

    def __init__(self, link: Link) -> None:
        self.cluster = link.cluster
        self._link = link
        self._place = link.place
        self._inbox: deque[Report] = deque()
        self._arrived = asyncio.Event()

    async def open(self) -> None:
        """Connects and has the facts and the inventory sent."""
        self._link.check()
        self._link.connect(self)

    async def close(self) -> None:
        """Hears no more of the place; what runs there goes on."""
        self.drop()

    async def probe(self) -> Cluster:
        """Looks at the place."""
        self._link.check()
        return self._place.facts()

    async def start(self, order: StartOrder) -> None:
        """Starts a run, if the order arrives."""
        try:
            self._link.send("start", order.run, lambda: self._place.start(order))
        except DriverError as error:
            if error.final:
                refusal = StartRefused(
                    self.cluster, order.run, order.generation, error.code, error.message
                )
                self._link.report(self, refusal)
            raise

    async def stop(self, order: StopOrder) -> None:
        """Gives notice, if the order arrives."""
        self._link.send("stop", order.run, lambda: self._place.stop(order))

    async def withdraw(self, run: RunId) -> None:
        """Takes a notice back, if the order arrives."""
        self._link.send("withdraw", run, lambda: self._place.withdraw(run))

    async def kill(self, run: RunId) -> None:
        """Ends a run at once, if the order arrives."""
        self._link.send("kill", run, lambda: self._place.kill(run))

    async def forget(self, run: RunId) -> None:
        """Drops a finished run, if the order arrives."""
        self._link.send("forget", run, lambda: self._place.forget(run))

    async def reports(self) -> AsyncIterator[Report]:
        """Yields what arrives, in the order in which it arrives."""
        while True:
            while self._inbox:
                yield self._inbox.popleft()
            self._arrived.clear()
            await self._arrived.wait()

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        """Reads what a run has printed by now."""
        self._link.check()
        return self._place.read_log(run, stream, rank, offset, limit)

    # for a simulation

    def deliver(self, report: Report) -> None:
        """Takes what has arrived."""
        self._inbox.append(report)
        self._arrived.set()

    def take_reports(self) -> tuple[Report, ...]:
        """All that has arrived, at once, for a simulation that runs without an event loop."""
        taken = tuple(self._inbox)
        self._inbox.clear()
        return taken

    def drop(self) -> None:
        """Vanishes as a killed control plane does: hears no more, tells nobody."""
        self._link.disconnect(self)
        self._inbox.clear()
