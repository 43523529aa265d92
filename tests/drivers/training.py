"""Machines on which a job saves, and a server with a checkpoint home, all in folders here."""

import json
import os
import time
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from stellwerk.drivers.agents.checkpoint_home import CheckpointHome
from stellwerk.drivers.agents.checkpoint_places import OwnPlace
from stellwerk.drivers.agents.checkpoint_store import CheckpointStore
from stellwerk.drivers.base import DriverError, StartOrder
from stellwerk.testing.builders import an_order

W = "w-1"


class Computer(OwnPlace):
    """A machine whose folder is on this one, and whose cable can be pulled; it counts reads."""

    is_home = False

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.folder = folder
        self.up = True
        self.reads = 0
        self.sees_home = False
        self.dies_after = 1 << 30

    @property
    def is_up(self) -> bool:
        return self.up

    async def ask(
        self, op: str, timeout_s: float = 1, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        if op == "held" and fields["path"]:
            self.reads += 1
            if self.reads > self.dies_after:
                self.up = False
        if not self.up:
            raise DriverError("driver/connection-lost", "it was cut", final=False)
        return await super().ask(op, timeout_s, **fields)

    async def shares(self, folder: Path) -> bool:
        return self.sees_home and await super().shares(folder)

    def begins(self, generation: int, run: int = 0) -> None:
        """A run begins here."""
        folder = self.folder / "runtime" / "runs" / f"{W}-{run or generation}"
        folder.mkdir(parents=True)
        (folder / "spec.json").write_text(json.dumps({"generation": generation}))

    def saves(self, step: int, size: int = 100, *, age_s: float = 0.0) -> None:
        """A job saves, as one does that renames into place; later ones are younger."""
        folder = self.folder / "checkpoints" / W
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"tmp-{step}"
        path.write_bytes(os.urandom(size))
        at_s = time.time() - 1000 + step - age_s
        os.utime(path, (at_s, at_s))
        os.rename(path, folder / f"step-{step}.pt")

    def writes_into(self, step: int, data: bytes) -> None:
        """A job changes one that it has saved."""
        with open(self.folder / "checkpoints" / W / f"step-{step}.pt", "r+b") as file:
            file.write(data)

    def has(self) -> dict[str, bytes]:
        """The checkpoints that a job would find."""
        folder = self.folder / "checkpoints" / W
        return {path.name: path.read_bytes() for path in sorted(folder.glob("*"))}

    @property
    def newest(self) -> str:
        """The last of them by its step."""
        return max(self.has(), key=lambda name: int(name[5:-3]))


class Lab:
    """Two machines, and a server that may die."""

    def __init__(self, folder: Path, most_bytes: int = 0) -> None:
        self.folder = folder
        self.one, self.two = Computer(folder / "pc1"), Computer(folder / "pc2")
        self.most_bytes = most_bytes
        self.home = self.server()

    def server(self) -> CheckpointHome:
        """A new one on the same state."""
        store = CheckpointStore(self.folder / "home", self.most_bytes)
        home = CheckpointHome(store, lambda: time.time_ns() // 1_000_000)
        home.places = {"lab/pc1": self.one, "lab/pc2": self.two}
        self.home = home
        return home

    async def start(self, generation: int, *nodes: str, lost: int = 0) -> list[str]:
        """What a driver does before a run begins, and the beginning."""
        order = self.order(generation, lost)
        notes = await self.home.prepare(order, [f"lab/{node}" for node in nodes])
        for node in nodes:
            {"pc1": self.one, "pc2": self.two}[node].begins(generation)
        return notes

    @staticmethod
    def order(generation: int, lost: int = 0) -> StartOrder:
        order = an_order(f"{W}-{generation}")
        return replace(order, workload=W, generation=generation, lost_generation=lost)
