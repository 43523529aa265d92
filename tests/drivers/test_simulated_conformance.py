"""The simulated driver keeps what every driver promises."""

import asyncio

import pytest

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.base import Driver, StartOrder
from stellwerk.drivers.simulated.behaviour import Behaviour
from stellwerk.drivers.simulated.clock import VirtualClock
from stellwerk.drivers.simulated.driver import SimulatedDriver
from stellwerk.drivers.simulated.link import Link
from stellwerk.drivers.simulated.place import SimulatedPlace
from stellwerk.testing.builders import a_cluster, an_order
from stellwerk.testing.driver_session import Program
from stellwerk.testing.driver_suite import DriverSuite


class SimulatedHarness:
    """A place whose script is the programs that orders were made of."""

    def __init__(self) -> None:
        self.clock = VirtualClock()
        self.behaviours: dict[RunId, Behaviour] = {}
        place = SimulatedPlace(
            a_cluster("lab"), self.clock, lambda order: self.behaviours[order.run]
        )
        self.link = Link(place)

    def driver(self) -> Driver:
        return SimulatedDriver(self.link)

    def vanish(self, driver: Driver) -> None:
        assert isinstance(driver, SimulatedDriver)
        driver.drop()

    def order(self, run: str, program: Program, *, generation: int, epoch: int) -> StartOrder:
        order = an_order(run, generation=generation, epoch=epoch)
        self.behaviours[order.run] = Behaviour(
            setup_ms=10 if program.setup_code is not None else 0,
            setup_code=program.setup_code or 0,
            setup_output=program.setup_prints.encode(),
            run_ms=program.lasts_ms,
            code=program.code,
            output=program.prints.encode(),
            notice="ignores" if program.on_notice == "ignores" else "leaves",
            leave_code=85 if program.on_notice == "saves" else None,
        )
        return order

    def refused_order(self, run: str) -> StartOrder:
        order = an_order(run)
        self.behaviours[order.run] = Behaviour(refused="simulated/refused")
        return order

    async def pass_time(self) -> None:
        self.clock.advance(20)
        await asyncio.sleep(0)


class TestSimulatedDriver(DriverSuite):
    """Every test of the suite, in virtual time."""

    @pytest.fixture
    def place(self) -> SimulatedHarness:
        return SimulatedHarness()
