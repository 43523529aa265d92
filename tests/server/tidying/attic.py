"""A cluster on which runs leave things, a clock that can be put forward, and old files."""

import os
from collections.abc import Collection, Sequence
from pathlib import Path

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.base import DriverError, Kept, Left
from stellwerk.engine.clock import SystemClock
from stellwerk.testing.builders import a_cluster, a_node
from tests.server.stage import HandDriver

DAY_MS = 86_400_000


class Later(SystemClock):
    """The time, so many days from now."""

    def __init__(self) -> None:
        self.ahead_ms = 0

    def now_ms(self) -> int:
        return super().now_ms() + self.ahead_ms


class TidyDriver(HandDriver):
    """Remembers what runs and workloads left, by name and bytes."""

    def __init__(self) -> None:
        super().__init__(a_cluster("lab", a_node("n1", cpus=4)))
        self.runs: dict[str, int] = {}
        self.kept: dict[str, dict[str, int]] = {"outputs": {}, "checkpoints": {}}
        self.stray: dict[str, int] = {}
        self.seen_live: set[str] = set()
        self.stubborn: set[str] = set()
        self.off: tuple[str, ...] = ()

    def silent(self) -> Sequence[str]:
        return self.off

    async def runs_left(self) -> Sequence[Left]:
        return [Left(name, size) for name, size in self.runs.items()]

    async def is_left(self, run: RunId) -> bool:
        return run in self.runs

    async def forget(self, run: RunId) -> None:
        if run in self.stubborn:
            raise DriverError("runtime/not_ended", f"{run} hasn't ended", final=True)
        del self.runs[run]

    async def folders_left(self, kind: Kept) -> Sequence[Left]:
        return [Left(name, size) for name, size in self.kept[kind].items()]

    async def remove_folder(self, kind: Kept, workload: str) -> None:
        del self.kept[kind][workload]

    async def strays(self, live: Collection[str], before_ms: int) -> Sequence[Left]:
        self.seen_live = set(live)
        return [Left(name, size) for name, size in self.stray.items()]

    async def remove_strays(self, names: Collection[str]) -> None:
        for name in names:
            del self.stray[name]


def age_all(folder: Path, days: int = 400) -> None:
    """Makes every file below a folder look as if it had been made so many days ago."""
    for path in folder.rglob("*"):
        if path.is_file():
            at = path.stat().st_mtime - days * 86_400
            os.utime(path, (at, at))
