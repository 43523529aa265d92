"""Watches the clusters: connects, probes now and then, and passes on what drivers report."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from stellwerk.core.model.reports import ClusterReport, Inventory, Reachability, Report
from stellwerk.drivers.base import Driver, DriverError
from stellwerk.engine.clock import Clock

log = logging.getLogger("stellwerk.engine")

PROBE_EVERY_S = 60.0
RETRY_FIRST_S = 0.2
RETRY_MOST_S = 30.0


class Watch:
    """Keeps an eye on every cluster; ``seen_ms`` says when each was last looked at."""

    def __init__(
        self, drivers: Sequence[Driver], report: Callable[[Report], None], clock: Clock
    ) -> None:
        self.seen_ms: dict[str, int] = {}
        self._drivers = drivers
        self._report = report
        self._clock = clock

    def start(self, group: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Starts watching; cancel the tasks to end it."""
        return [
            group.create_task(self._watch(driver), name=f"watch {driver.cluster}")
            for driver in self._drivers
        ]

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
                        self._report(Reachability(driver.cluster, "reachable"))
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
