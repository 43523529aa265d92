"""Sweeps what lies on the clusters: folders of runs and of workloads that are over, and strays."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol, runtime_checkable

from stellwerk.core.model.ids import RunId, WorkloadId, workload_of
from stellwerk.core.model.workload import ENDED
from stellwerk.drivers.base import DriverError, Kept, Left, Tidies
from stellwerk.server.services import PROJECT, Services
from stellwerk.server.tidying.rules import Found, Kind, due
from stellwerk.server.tidying.tally import Tally
from stellwerk.store import WorkloadFilter

log = logging.getLogger("stellwerk.server")

MOST = 2_000
"""Folders of a kind that one sweep removes on a cluster."""

KEPT: tuple[Kept, ...] = ("outputs", "checkpoints")


@runtime_checkable
class TellsSilent(Protocol):
    """A driver of several machines, some of which may be out of reach."""

    def silent(self) -> Sequence[str]:
        """Machines that couldn't be looked at since this was last asked."""
        ...


def _tell_silent(driver: object) -> Sequence[str]:
    return driver.silent() if isinstance(driver, TellsSilent) else ()


class Places:
    """The clusters whose drivers can tell what is left there."""

    def __init__(self, services: Services, tally: Tally) -> None:
        self._services = services
        self._tally = tally
        names = [cluster.name for cluster, _ in services.store.clusters()]
        found: list[object] = [services.engine.driver(name) for name in names]
        self._drivers = [driver for driver in found if isinstance(driver, Tidies)]

    async def sweep(self) -> frozenset[WorkloadId]:
        """Removes what is due; gives the workloads of which runs are left somewhere."""
        needed: set[WorkloadId] = set()
        for driver in self._drivers:
            _tell_silent(driver)  # of before
            left = await driver.runs_left()
            gone = await self._runs(driver, left) if "runs" in self._tally.rules else set()
            needed |= {workload_of(RunId(one.name)) for one in left if one.name not in gone}
            for kind in KEPT:
                if kind in self._tally.rules:
                    await self._folders(driver, kind)
            await self._strays(driver)
            silent = _tell_silent(driver)
            if silent:
                cluster = str(getattr(driver, "cluster", ""))
                self._tally.skipped += [f"{cluster}/{node}" for node in silent]
                self._tally.unseen[cluster] = None
        return frozenset(needed)

    async def _runs(self, driver: Tidies, left: Sequence[Left]) -> set[str]:
        found = await self._over(left, lambda name: workload_of(RunId(name)))

        async def remove(one: Found) -> None:
            await driver.forget(RunId(one.name))

        return await self._remove("runs", left, found, remove)

    async def _folders(self, driver: Tidies, kind: Kept) -> None:
        left = await driver.folders_left(kind)
        found = await self._over(left, WorkloadId)
        if kind == "checkpoints":
            wanted = await asyncio.to_thread(self._wanted_checkpoints)
            found = [one for one in found if one.name not in wanted]

        async def remove(one: Found) -> None:
            await driver.remove_folder(kind, one.name)

        await self._remove(kind, left, found, remove)

    def _wanted_checkpoints(self) -> frozenset[str]:
        """The workloads from whose checkpoints one goes on that isn't over."""
        rows = self._services.store.workloads(WorkloadFilter())
        return frozenset(row.workload.resumes for row in rows if row.workload.resumes)

    async def _over(
        self, left: Sequence[Left], workload_named: Callable[[str], WorkloadId]
    ) -> list[Found]:
        """Those that belong to a workload that is over; what nobody knows is left alone."""

        def look() -> list[Found]:
            found = []
            for one in left:
                row = self._services.store.workload(workload_named(one.name), PROJECT)
                if row is not None and row.workload.phase in ENDED:
                    found.append(Found(one.name, row.workload.ended_ms, one.bytes))
            return found

        return await asyncio.to_thread(look)

    async def _remove(
        self,
        kind: Kind,
        left: Sequence[Left],
        found: Sequence[Found],
        remove: Callable[[Found], Awaitable[None]],
    ) -> set[str]:
        """Removes what is due of a kind, one after the other; gives the names of what is gone."""
        going = due(found, self._tally.rules[kind], self._tally.now_ms)
        self._tally.more |= len(going) > MOST
        gone: dict[str, int] = {}
        for one in going[:MOST]:
            try:
                if not self._tally.dry_run:
                    await remove(one)
            except DriverError as error:
                log.warning("%s could not be removed: %s", one.name, error.message)
            else:
                gone[one.name] = one.bytes
        stays = [one.bytes for one in left if one.name not in gone]
        self._tally.says(
            kind,
            (len(gone), sum(gone.values())),
            (len(stays), sum(stays)),
            failed=len(going[:MOST]) - len(gone),
        )
        return set(gone)

    async def _strays(self, driver: Tidies) -> None:
        before_ms = self._tally.before_ms("strays")
        if before_ms is None:
            return
        view = self._services.engine.view()
        live = {run for cluster in view.clusters for run, _ in cluster.allocations}
        found = await driver.strays(live, before_ms)
        self._tally.more |= len(found) > MOST
        if not self._tally.dry_run:
            await driver.remove_strays([one.name for one in found[:MOST]])
        size = sum(one.bytes for one in found[:MOST])
        self._tally.says("strays", (len(found[:MOST]), size))
