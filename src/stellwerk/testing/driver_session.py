"""A driver under test with the place it reaches: gives orders, hears reports, waits for them."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Literal, Protocol

import pytest
from msgspec import Struct

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import Inventory, Report, RunReport
from stellwerk.core.model.workload import RunEnd, RunPhase
from stellwerk.drivers.base import Driver, DriverError, LogStream, StartOrder, StopOrder

LIMIT_MS = 15_000


class Program(Struct, frozen=True):
    """What a run of the suite does: it prints, stays for a while, and ends with a code.

    One that ``saves`` at a notice leaves with exit code 85. What it prints comes once it is ready
    for a notice; its ``metrics`` are in its file of metrics by then.
    """

    lasts_ms: int = 0
    code: int = 0
    prints: str = ""
    on_notice: Literal["leaves", "saves", "ignores"] = "leaves"
    setup_prints: str = ""
    setup_code: int | None = None
    metrics: str = ""


class Place(Protocol):
    """A place to try a driver on."""

    def driver(self) -> Driver:
        """A new driver to this place, not opened yet."""
        ...

    def vanish(self, driver: Driver) -> None:
        """Takes a driver away as the death of its process would: without `close`."""
        ...

    def order(self, run: str, program: Program, *, generation: int, epoch: int) -> StartOrder:
        """An order that makes this place do what a program says."""
        ...

    def refused_order(self, run: str) -> StartOrder:
        """An order that this place refuses for good."""
        ...

    async def pass_time(self) -> None:
        """Lets a little time pass."""
        ...


class Session:
    """One driver, opened, with all that it reports."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.driver = place.driver()
        self.heard: list[Report] = []
        self._listening: asyncio.Task[None] | None = None

    async def open(self) -> "Session":
        """Connects and listens until the first inventory."""
        await self.driver.open()
        self._listening = asyncio.create_task(self._listen())
        await self.until(lambda: any(isinstance(each, Inventory) for each in self.heard))
        return self

    async def close(self) -> None:
        """Lets go of the place in good order."""
        self._stop_listening()
        await self.driver.close()

    def vanish(self) -> None:
        """Goes without a word."""
        self._stop_listening()
        self.place.vanish(self.driver)

    async def start(
        self, run: str, program: Program, *, generation: int = 1, epoch: int = 1
    ) -> RunId:
        """Gives the order to start a run; gives the run's id."""
        order = self.place.order(run, program, generation=generation, epoch=epoch)
        await self.driver.start(order)
        return order.run

    async def stop(
        self, run: str, *, generation: int = 1, epoch: int = 1, grace_ms: int = 10_000
    ) -> None:
        """Gives notice."""
        order = StopOrder(RunId(run), generation, epoch, "preempt", grace_ms)
        await self.driver.stop(order)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Lets time pass until something is so; a bounded number of times."""
        async with asyncio.timeout(LIMIT_MS / 1000):
            while not condition():
                await self.place.pass_time()

    async def reaches(self, run: str, phase: RunPhase) -> RunReport:
        """Waits for a report that a run is in this phase."""
        await self.until(lambda: phase in self.phases(run))
        return [report for report in self.reports_of(run) if report.phase == phase][-1]

    async def until_it_printed(self, run: str) -> None:
        """Waits until a program runs and has told how it takes a notice."""
        async with asyncio.timeout(LIMIT_MS / 1000):
            while not await self.log(run):
                await self.place.pass_time()

    async def ends(self, run: str) -> RunEnd:
        """Waits for a run's end."""
        end = (await self.reaches(run, "Ended")).end
        assert end is not None
        return end

    def reports_of(self, run: str) -> list[RunReport]:
        """All that was said of a run, also in inventories."""
        told: list[RunReport] = []
        for report in self.heard:
            if isinstance(report, RunReport):
                told.append(report)
            elif isinstance(report, Inventory):
                told.extend(report.runs)
        return [report for report in told if report.run == run]

    def phases(self, run: str) -> list[RunPhase]:
        """The phases that a run was reported in, without repetitions in a row."""
        phases: list[RunPhase] = []
        for report in self.reports_of(run):
            if not phases or phases[-1] != report.phase:
                phases.append(report.phase)
        return phases

    def first_inventory(self) -> Inventory:
        """What the place knew when this driver connected."""
        return next(report for report in self.heard if isinstance(report, Inventory))

    async def log(self, run: str, stream: LogStream = "run") -> bytes:
        """All of a log."""
        return (await self.driver.read_log(RunId(run), stream, 0, 0, 1 << 20)).data

    async def _listen(self) -> None:
        """Listens as the engine does: when the reports break off, it connects again."""
        while True:
            with contextlib.suppress(DriverError):
                async for report in self.driver.reports():
                    self.heard.append(report)
            await self.place.pass_time()
            with contextlib.suppress(DriverError):
                await self.driver.open()

    def _stop_listening(self) -> None:
        if self._listening is not None:
            self._listening.cancel()


async def refused(order: Coroutine[object, object, object]) -> DriverError:
    """Gives an order that must be refused for good; gives the refusal."""
    with pytest.raises(DriverError) as caught:
        await order
    assert caught.value.final, f"{caught.value.code} leaves the outcome open"
    return caught.value
