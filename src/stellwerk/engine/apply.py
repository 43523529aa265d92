"""Carries out what has become durable: starts and notices, repeated until the driver has answered.

Nothing here decides. An order whose outcome is unknown is given again: drivers keep a start from
happening twice.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping

from stellwerk.core.model import events as ev
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.core.model.reports import Report, StartRefused
from stellwerk.core.model.workload import Run, Workload
from stellwerk.core.state import State
from stellwerk.core.windows import gone_by_ms
from stellwerk.drivers.base import Driver, DriverError, StartOrder, StopOrder
from stellwerk.engine.orders import start_order
from stellwerk.store import PASSING, Store, StoreError

log = logging.getLogger("stellwerk.engine")

AT_ONCE = 32
RETRY_FIRST_S = 0.2
RETRY_MOST_S = 15.0

Order = Callable[[], Coroutine[None, None, None]]


class Hands:
    """Gives orders to drivers, a bounded number at once."""

    def __init__(
        self, store: Store, drivers: Mapping[str, Driver], report: Callable[[Report], None]
    ) -> None:
        self._store = store
        self._drivers = drivers
        self._report = report
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._group: asyncio.TaskGroup | None = None
        self._orders: dict[str, asyncio.Task[None]] = {}

    def start(self, group: asyncio.TaskGroup) -> None:
        """Lets the orders run as tasks of ``group``."""
        self._group = group

    async def close(self) -> None:
        """Drops what is under way; after a restart it is given again."""
        orders = list(self._orders.values())
        for order in orders:
            order.cancel()
        await asyncio.gather(*orders, return_exceptions=True)

    def carry_out(self, events: Iterable[ev.Event], state: State) -> None:
        """Carries out the durable facts that ask for something; repeating one does no harm."""
        for event in events:
            match event:
                case ev.RunPlanned():
                    self._start(event.run, state)
                case ev.NoticeGiven():
                    self._stop(event, state)
                case ev.WindowMoved():
                    self._move_window(event, state)
                case _:
                    continue

    def _live(self, run: RunId, state: State) -> tuple[Workload, Run] | None:
        workload = state.workloads.get(workload_of(run))
        live = workload.live_run if workload is not None else None
        if workload is None or live is None or live.id != run:
            return None
        return workload, live

    def _start(self, run_id: RunId, state: State) -> None:
        found = self._live(run_id, state)
        if found is None:
            return
        workload, run = found
        cluster = state.clusters.get(run.allocation.cluster)
        driver = self._drivers.get(run.allocation.cluster)
        if driver is None or cluster is None:
            self._report(
                StartRefused(
                    run.allocation.cluster,
                    run.id,
                    run.generation,
                    "no-driver",
                    "no driver serves this cluster now",
                )
            )
            return
        epoch = state.epoch

        async def go() -> None:
            await driver.start(await self._order(workload, run, cluster, epoch))

        def refused(code: str, message: str) -> None:
            self._report(
                StartRefused(run.allocation.cluster, run.id, run.generation, code, message)
            )

        self._give(f"start {run.id}", go, refused)

    async def _order(
        self, workload: Workload, run: Run, cluster: Cluster, epoch: int
    ) -> StartOrder:
        """Puts the order for a start together; nothing has been started where that fails."""
        try:
            return await asyncio.to_thread(start_order, workload, run, cluster, epoch, self._store)
        except StoreError:
            raise
        except Exception as fault:
            log.exception("the order to start %s can't be put together", run.id)
            message = f"its order can't be put together: {fault!r:.200}"
            raise DriverError("engine/fault", message, final=True) from fault

    def _stop(self, notice: ev.NoticeGiven, state: State) -> None:
        found = self._live(notice.run, state)
        if found is None:
            return
        _, run = found
        order = StopOrder(run.id, run.generation, state.epoch, notice.why, notice.grace_ms)
        self._tell(run, f"stop {run.id}", order, "could not be stopped")

    def _move_window(self, moved: ev.WindowMoved, state: State) -> None:
        found = self._live(moved.run, state)
        if found is None:
            return
        workload, run = found
        gone_ms = gone_by_ms(workload, run) or moved.closes_ms
        order = StopOrder(run.id, run.generation, state.epoch, "window", 0, gone_ms)
        key = f"window {run.id} {moved.closes_ms}"
        self._tell(run, key, order, "isn't told when its window closes")

    def _tell(self, run: Run, key: str, order: StopOrder, failed: str) -> None:
        """Has a run told when to stop, after the order to start it has been carried out."""
        driver = self._drivers.get(run.allocation.cluster)
        if driver is None:
            return
        before = self._orders.get(f"start {run.id}")

        async def go() -> None:
            if before is not None and not before.done():
                await asyncio.wait([before])
            await driver.stop(order)

        def refused(code: str, message: str) -> None:
            log.warning("%s %s: %s %s", run.id, failed, code, message)

        self._give(key, go, refused)

    def kill(self, cluster: str, run: RunId) -> None:
        """Ends what still goes on at a place although its run is known to be over."""
        driver = self._drivers.get(cluster)
        if driver is None:
            return
        log.warning("%s goes on at %s although it is over: it is killed", run, cluster)
        self._give(
            f"kill {run}",
            lambda: driver.kill(run),
            lambda code, message: log.warning("%s could not be killed: %s %s", run, code, message),
        )

    def _give(self, name: str, go: Order, refused: Callable[[str, str], None]) -> None:
        if name in self._orders or self._group is None:
            return
        task = self._group.create_task(self._until_answered(name, go, refused), name=name)
        self._orders[name] = task
        task.add_done_callback(lambda _: self._orders.pop(name, None))

    async def _until_answered(
        self, name: str, go: Order, refused: Callable[[str, str], None]
    ) -> None:
        delay = RETRY_FIRST_S
        while True:
            try:
                async with self._slots:
                    await go()
            except DriverError as error:
                if error.final:
                    refused(error.code, error.message)
                    return
                log.info("%s: %s; again in %.1f s", name, error.message, delay)
            except StoreError as error:
                if error.code not in PASSING:
                    refused(error.code, error.message)
                    return
                log.info("%s: %s; again in %.1f s", name, error.message, delay)
            except Exception:
                # A fault of ours with one order must not end all the others. Whether it was carried
                # out isn't known, so it is given again.
                log.exception("%s: a fault of the driver; again in %.1f s", name, delay)
            else:
                return
            await asyncio.sleep(delay)
            delay = min(delay * 2, RETRY_MOST_S)
