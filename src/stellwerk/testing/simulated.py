"""A cluster in virtual time that does what programs say, for the suite and for simulations."""

import asyncio

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.drivers.base import Driver, StartOrder
from stellwerk.drivers.simulated.behaviour import Behaviour
from stellwerk.drivers.simulated.clock import VirtualClock
from stellwerk.drivers.simulated.driver import SimulatedDriver
from stellwerk.drivers.simulated.faults import Faults
from stellwerk.drivers.simulated.link import Link
from stellwerk.drivers.simulated.place import SimulatedPlace
from stellwerk.testing.builders import a_cluster, an_order
from stellwerk.testing.driver_session import Program

STEP_MS = 20


class SimulatedCluster:
    """A cluster whose runs follow ``behaviours``; a run without an entry there succeeds at once.

    ``place.truth`` knows what really happened; ``faults`` decides what is lost on the way.
    """

    def __init__(self, cluster: Cluster | None = None, faults: Faults | None = None) -> None:
        self.clock = VirtualClock()
        self.behaviours: dict[RunId, Behaviour] = {}
        self.place = SimulatedPlace(cluster or a_cluster("lab"), self.clock, self._behaviour)
        self.link = Link(self.place, faults)

    def _behaviour(self, order: StartOrder) -> Behaviour:
        return self.behaviours.get(order.run, Behaviour(run_ms=0))

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
            metrics=((0, program.metrics.encode()),),
        )
        return order

    def refused_order(self, run: str) -> StartOrder:
        order = an_order(run)
        self.behaviours[order.run] = Behaviour(refused="simulated/refused")
        return order

    async def pass_time(self) -> None:
        self.clock.advance(STEP_MS)
        await asyncio.sleep(0)
