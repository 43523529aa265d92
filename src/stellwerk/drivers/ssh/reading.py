"""Reads what runs leave on machines over SSH: logs, folders, files, checkpoints."""

import asyncio
import contextlib
from collections.abc import Sequence

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.agents.hands import SOON_S
from stellwerk.drivers.base import (
    Area,
    DriverError,
    FileThere,
    Folders,
    Listing,
    LogChunk,
    LogStream,
    Saved,
    StartOrder,
)
from stellwerk.drivers.ssh.machine import Machine


class ReadsMachines:
    """The reading part of a driver of machines."""

    machines: dict[str, Machine]

    def machine_of(self, run: RunId, rank: int = 0) -> Machine:
        """Where a run, or a rank of it, is.

        While one can't be found, a machine that is silent may have it.
        """
        if len(self.machines) == 1:
            return next(iter(self.machines.values()))
        silent = next((each for each in self.machines.values() if not each.is_connected), None)
        if silent is not None:
            message = f"{run} may be on {silent.host}, which can't be reached"
            raise DriverError("ssh/unreachable", message, final=False)
        return next(iter(self.machines.values()))

    async def read_log(
        self, run: RunId, stream: LogStream, rank: int, offset: int, limit: int
    ) -> LogChunk:
        """Reads a log from its machine."""
        head, data = await self.machine_of(run, rank).ask(
            "log", run, stream=stream, rank=rank, offset=offset, limit=limit
        )
        return LogChunk(data, offset, int(head["size"]))

    async def folders(self, run: RunId) -> Folders:
        """The directories of a run on its machine."""
        head, _ = await self.machine_of(run).ask("folders", run, timeout_s=SOON_S)
        return Folders(head["work"], head["output"], head["checkpoint"])

    async def list_files(self, run: RunId, area: Area, path: str, rank: int = 0) -> Listing:
        """What lies at a path of a run on its machine."""
        head, _ = await self.machine_of(run, rank).ask("list", run, area=area, path=path)
        files = tuple(FileThere(*line) for line in head["files"])
        return Listing(head["root"], head.get("folder") is True, files)

    async def read_file(
        self, run: RunId, area: Area, path: str, offset: int, limit: int, rank: int = 0
    ) -> LogChunk:
        """Bytes of a file of a run on its machine."""
        head, data = await self.machine_of(run, rank).ask(
            "get", run, area=area, path=path, offset=offset, limit=limit
        )
        return LogChunk(data, offset, int(head["size"]))

    async def left_behind(self, order: StartOrder) -> str:
        """Says where a workload that begins again has its checkpoints, if not where it is now.

        They don't follow it to another machine, nor do those that rank 0 saves go to the others.
        """
        if order.generation < 2 or len(self.machines) < 2:
            return ""
        here = min(order.ranks, key=lambda rank: rank.rank).node
        up = [each for each in self.machines.values() if each.is_connected]
        name = RunId(f"{order.workload}-1")
        answers = await asyncio.gather(
            *(each.ask("checkpoints", name) for each in up), return_exceptions=True
        )
        found = {
            each.host.node: max(Saved(*one).modified_ms for one in answer[0]["found"])
            for each, answer in zip(up, answers, strict=True)
            if not isinstance(answer, BaseException) and answer[0]["found"]
        }
        if not found:
            return ""
        there = max(found, key=lambda node: found[node])
        if here in found:
            lacking = sorted({rank.node for rank in order.ranks} - set(found))
            if not lacking:
                return ""
            return (
                f"checkpoints of this job are on {', '.join(sorted(found))}, and none on "
                f"{', '.join(lacking)}: ranks there must get what they load from rank 0, or all "
                "save in a folder that they share"
            )
        return (
            f"this job's last checkpoint is on {there}, and it starts anew on {here}: checkpoints "
            f"don't follow a job to another machine; `stw cp` brings them, `infra` names a machine"
        )

    async def checkpoints(self, workload: str) -> Sequence[Saved]:
        """The whole checkpoints of a workload on the machines that can be reached."""
        found: list[Saved] = []
        for machine in self.machines.values():
            with contextlib.suppress(DriverError):
                head, _ = await machine.ask("checkpoints", RunId(f"{workload}-1"))
                found += [Saved(*one) for one in head["found"]]
        return sorted(found, key=lambda one: one.modified_ms)
