"""Watches the clusters: connects, probes now and then, and passes on what drivers report."""

import asyncio
import logging
from collections.abc import Callable

from stellwerk.core.model.reports import ClusterReport, Inventory, Reachability, Report
from stellwerk.drivers.base import Driver, DriverError
from stellwerk.engine.clock import Clock

log = logging.getLogger("stellwerk.engine")

PROBE_EVERY_S = 60.0
RETRY_FIRST_S = 0.2
RETRY_MOST_S = 30.0
UNSERVED = "no driver serves it any more"


class Watch:
    """Keeps an eye on every cluster; ``seen_ms`` says when each was last looked at.

    ``drivers`` are all there are, by cluster: they may become more and fewer.
    """

    def __init__(
        self, drivers: dict[str, Driver], report: Callable[[Report], None], clock: Clock
    ) -> None:
        self.seen_ms: dict[str, int] = {}
        self._drivers = drivers
        self._report = report
        self._clock = clock
        self._group: asyncio.TaskGroup | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}

    def start(self, group: asyncio.TaskGroup) -> None:
        """Starts watching."""
        self._group = group
        for driver in list(self._drivers.values()):
            self.add(driver)

    def stop(self) -> None:
        """Ends it."""
        self._group = None
        for task in self._tasks.values():
            task.cancel()

    def add(self, driver: Driver) -> None:
        """Serves a cluster from now on, and watches it as soon as watching has started."""
        self._drivers[driver.cluster] = driver
        if self._group is not None:
            task = self._group.create_task(self._watch(driver), name=f"watch {driver.cluster}")
            self._tasks[driver.cluster] = task

    async def remove(self, cluster: str) -> None:
        """Serves a cluster no more; what runs there goes on."""
        driver = await self.detach(cluster)
        if driver is not None:
            await driver.close()

    async def detach(self, cluster: str) -> Driver | None:
        """Serves a cluster no more, and gives its driver, still open, to who asks."""
        task = self._tasks.pop(cluster, None)
        if task is not None:
            task.cancel()
            await asyncio.wait([task])
        driver = self._drivers.pop(cluster, None)
        if driver is not None:
            self._report(Reachability(cluster, "unreachable", UNSERVED))
        return driver

    async def _watch(self, driver: Driver) -> None:
        delay = RETRY_FIRST_S
        while True:
            probing: asyncio.Task[None] | None = None
            try:
                await driver.open()
                await self._probe(driver)
                probing = asyncio.create_task(self._probe_often(driver))
                async for report in driver.reports():
                    if isinstance(report, Inventory):
                        delay = RETRY_FIRST_S
                        again = Reachability(
                            driver.cluster, "reachable", nodes=report.nodes, people=report.people
                        )
                        self._report(again)
                    self._report(report)
            except DriverError as error:
                log.warning("%s can't be reached: %s", driver.cluster, error.message)
                self._report(Reachability(driver.cluster, "unreachable", error.message))
            except Exception as fault:
                # A driver that breaks on one machine must not end the engine of all of them.
                log.exception("%s can't be watched: a fault of its driver", driver.cluster)
                message = f"a fault of its driver: {fault!r:.200}"
                self._report(Reachability(driver.cluster, "unreachable", message))
            finally:
                if probing is not None:
                    probing.cancel()
            await asyncio.sleep(delay)
            delay = min(delay * 2, RETRY_MOST_S)

    async def look(self, cluster: str) -> None:
        """Looks at a cluster now, as far as that can be."""
        driver = self._drivers.get(cluster)
        if driver is not None:
            try:
                await self._probe(driver)
            except DriverError as error:
                log.info("%s could not be looked at: %s", cluster, error.message)

    async def _probe(self, driver: Driver) -> None:
        cluster = await driver.probe()
        self.seen_ms[cluster.name] = self._clock.now_ms()
        self._report(ClusterReport(cluster))

    async def _probe_often(self, driver: Driver) -> None:
        while True:
            await asyncio.sleep(PROBE_EVERY_S)
            try:
                await self._probe(driver)
            except DriverError as error:
                log.info("%s could not be looked at: %s", driver.cluster, error.message)
            except Exception:
                log.exception("%s could not be looked at: a fault of its driver", driver.cluster)
