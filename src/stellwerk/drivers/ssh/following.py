"""Has checkpoints follow their job from one machine of a cluster to another, or to another cluster.

Without a checkpoint home they stay where they are, and that is told.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import CopyTimed, Inventory, Report, RunReport, StartRefused
from stellwerk.core.model.workload import RunEnd
from stellwerk.drivers.agents.checkpoint_home import CheckpointHome
from stellwerk.drivers.agents.checkpoint_places import TOO_OLD, FarPlace
from stellwerk.drivers.agents.checkpoint_times import CopyTime
from stellwerk.drivers.base import (
    Area,
    DriverError,
    Listing,
    LogChunk,
    Saved,
    StartOrder,
)
from stellwerk.drivers.ssh.machine import Machine
from stellwerk.drivers.ssh.reading import ReadsMachines

OLD_RUNTIME = (
    "a machine of this job has an older runtime, from which checkpoints can't be copied: `stw "
    "join` anew there"
)


class FollowsJobs(ReadsMachines):
    """The part of a driver of machines that deals with their checkpoint home."""

    cluster: str
    checkpoint_home: CheckpointHome | None = None
    """Where checkpoints are kept that follow their jobs."""

    _copying: asyncio.Task[None] | None = None

    def copy_checkpoints(self) -> None:
        """Has what becomes whole on these machines be copied home from now on."""
        home = self.checkpoint_home
        if home is not None:
            home.when_timed(self.cluster, self._tell_of_copies)
        if home is None or (self._copying is not None and not self._copying.done()):
            return
        for machine in self.machines.values():
            self.settle(machine)

        def live() -> list[RunId]:
            machines = [each for each in self.machines.values() if each.is_connected]
            return [RunId(run) for each in machines for run in each.talk.live]

        self._copying = asyncio.create_task(home.watch(live), name=f"checkpoints {self.cluster}")

    def copy_no_more(self) -> None:
        """What has come is gone on from when this is open again."""
        if self._copying is not None:
            self._copying.cancel()

    def _tell_of_copies(self, run: RunId, generation: int, time: CopyTime) -> None:
        self.pass_on(CopyTimed(self.cluster, run, generation, time.bytes, time.ms))

    def pass_on(self, report: Report) -> None:
        """Tells whoever hears the reports. Raises where the driver has none."""
        raise DriverError("driver/closed", f"nobody hears {report}", final=False)

    def settle(self, machine: Machine) -> None:
        """Lets the checkpoint home know a machine."""
        if self.checkpoint_home is not None:
            place = FarPlace(machine.handy, lambda: machine.is_connected)
            self.checkpoint_home.add(f"{self.cluster}/{machine.host.node}", place)

    def tell_home(self, report: Report) -> bool:
        """Says at home what is over, so that the rest is copied, and what has never begun.

        Whether the report is told only when that is copied: a run that had to leave holds its
        machine until then.
        """
        home = self.checkpoint_home
        if home is None:
            return False
        if isinstance(report, RunReport) and report.end is not None and _has_to_leave(report.end):
            home.ended(report.run, report.generation, partial(self.pass_on, report))
            return True
        if isinstance(report, StartRefused):
            home.not_begun(report.run, report.generation)
        runs = report.runs if isinstance(report, Inventory) else ()
        for one in (report,) if isinstance(report, RunReport) else runs:
            if one.end is not None:
                home.ended(one.run, one.generation)
        return False

    async def follow(self, order: StartOrder, nodes: Sequence[str]) -> dict[str, Any]:
        """Brings a run's checkpoints to its hosts before it begins.

        Gives what its output is to begin with, as an addition to the runtime's spec. Raises a final
        DriverError where the newest can't be had.
        """
        if self.checkpoint_home is None:
            note = await self.left_behind(order)
            return {"notes": [note]} if note else {}
        names = [f"{self.cluster}/{node}" for node in nodes]
        try:
            notes = await self.checkpoint_home.prepare(order, names)
        except DriverError as error:
            if error.code != TOO_OLD:
                raise
            notes = [await self.left_behind(order) or OLD_RUNTIME]
        if len(nodes) > 1 and not notes:
            notes = list(filter(None, [await self.left_behind(order)]))
        return {"notes": notes} if notes else {}

    async def list_files(self, run: RunId, area: Area, path: str, rank: int = 0) -> Listing:
        """What lies at a path of a run; of checkpoints, where its machine is silent, at home."""
        try:
            return await super().list_files(run, area, path, rank)
        except DriverError as error:
            if area != "checkpoints" or error.final or self.checkpoint_home is None:
                raise
            found = await asyncio.to_thread(self.checkpoint_home.listing, run, path)
            if found is None:
                raise
            return found

    async def read_file(
        self, run: RunId, area: Area, path: str, offset: int, limit: int, rank: int = 0
    ) -> LogChunk:
        """Bytes of a file of a run; of checkpoints, where its machine is silent, at home."""
        try:
            return await super().read_file(run, area, path, offset, limit, rank)
        except DriverError as error:
            if area != "checkpoints" or error.final or self.checkpoint_home is None:
                raise
            found = await asyncio.to_thread(self.checkpoint_home.read, run, path, offset, limit)
            if found is None:
                raise
            return found

    async def checkpoints(self, workload: str) -> Sequence[Saved]:
        """The whole checkpoints of a workload; those at home where no machine tells of any."""
        found = await super().checkpoints(workload)
        if found or self.checkpoint_home is None:
            return found
        whole = await asyncio.to_thread(self.checkpoint_home.store.newest, workload)
        return whole.found if whole is not None else ()


def _has_to_leave(end: RunEnd) -> bool:
    """Whether a run was over because of a notice, and will go on elsewhere."""
    return end.how in {"notice", "window"} or end.checkpointed
