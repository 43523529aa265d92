"""Says what is left on machines over SSH, and removes it; machines out of reach are named."""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Coroutine, Sequence
from typing import Any

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.base import DriverError, Kept, Left
from stellwerk.drivers.ssh.machine import Machine

LOOK_S = 600.0
"""A machine may keep millions of files."""


class TidiesMachines:
    """The tidying part of a driver of machines. What is left of one name on several adds up."""

    machines: dict[str, Machine]

    def __init__(self) -> None:
        self._strays: dict[str, list[Machine]] = {}
        self._unseen: dict[str, None] = {}

    def silent(self) -> Sequence[str]:
        """Machines that couldn't be looked at since this was last asked."""
        for name, machine in self.machines.items():
            if not machine.is_connected:
                self._unseen[name] = None
        told, self._unseen = tuple(self._unseen), {}
        return told

    async def runs_left(self) -> Sequence[Left]:
        """Looks through the runtime's folders on every machine that can be reached."""
        return _summed(await self._ask_all("left", kind="runs"))

    async def is_left(self, run: RunId) -> bool:
        """Whether a machine still has a run's folder; while one is out of reach, it may."""
        found = await self._ask_all("left", run=run)
        return len(found) < len(self.machines) or any(said.get("is") for _, said in found)

    async def folders_left(self, kind: Kept) -> Sequence[Left]:
        """Looks through the folders of workloads."""
        return _summed(await self._ask_all("left", kind=kind))

    async def remove_folder(self, kind: Kept, workload: str) -> None:
        """Removes one of them, wherever it is."""
        await self._ask_all("sweep", kind=kind, workload=workload)

    async def strays(self, live: Collection[str], before_ms: int) -> Sequence[Left]:
        """Looks for folders without a run, old builds of the runtime, and old content."""

        def by_its_clock(machine: Machine) -> dict[str, Any]:
            return {"live": sorted(live), "before_ms": before_ms + machine.talk.ahead_ms}

        found = await self._ask_all("strays", by_its_clock)
        self._strays = {}
        for machine, said in found:
            for name, _ in said["left"]:
                self._strays.setdefault(name, []).append(machine)
        return _summed(found)

    async def remove_strays(self, names: Collection[str]) -> None:
        """Removes them where they were found."""
        of_machines: dict[str, list[str]] = {}
        for name in names:
            for machine in self._strays.get(name, ()):
                of_machines.setdefault(machine.host.node, []).append(name)

        def those_there(machine: Machine) -> dict[str, Any]:
            return {"strays": of_machines.get(machine.host.node, [])}

        await self._ask_all("sweep", those_there)

    async def _ask_all(
        self, op: str, of: Callable[[Machine], dict[str, Any]] | None = None, **fields: Any
    ) -> list[tuple[Machine, dict[str, Any]]]:
        """Asks every machine that is connected; one that doesn't answer is noted as silent."""
        asked = [machine for machine in self.machines.values() if machine.is_connected]
        answers = await asyncio.gather(
            *(_ask(machine, op, {**fields, **(of(machine) if of else {})}) for machine in asked),
            return_exceptions=True,
        )
        found = []
        for machine, answer in zip(asked, answers, strict=True):
            if isinstance(answer, DriverError):
                self._unseen[machine.host.node] = None
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found.append((machine, answer))
        return found


def _ask(machine: Machine, op: str, fields: dict[str, Any]) -> Coroutine[Any, Any, dict[str, Any]]:
    async def go() -> dict[str, Any]:
        hand = await machine.handy()
        said, _ = await hand.ask(op, timeout_s=LOOK_S, **fields)
        return said

    return go()


def _summed(found: Sequence[tuple[Machine, dict[str, Any]]]) -> list[Left]:
    sizes: Counter[str] = Counter()
    for _, said in found:
        for name, size in said["left"]:
            sizes[name] += size
    return [Left(name, sizes[name]) for name in sorted(sizes)]
