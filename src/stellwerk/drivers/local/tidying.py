"""Says what is left on a machine of several people, and has it removed: each person's by their own
runtime, which is believed of what is theirs and of nothing else.

Whoever isn't there, or doesn't answer, is named, and what is theirs is left for the next time.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Protocol

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.agents.hands import SOON_S
from stellwerk.drivers.base import DriverError, Kept, Left
from stellwerk.drivers.local.driver import LocalDriver
from stellwerk.drivers.local.guest import Guest

LOOK_S = 120.0
"""How long a person's runtime may look through their folders; others wait for it."""


class HasGuests(Protocol):
    """A machine of several people."""

    own: LocalDriver
    guests: dict[str, Guest]

    def whose(self, run: RunId) -> str | None:
        """As whom a run runs; None where no such run is known."""
        ...


class Tidying:
    """Looks and sweeps on behalf of a driver for several people."""

    def __init__(self, machine: HasGuests) -> None:
        self._machine = machine
        self._strays: dict[str, tuple[str, str]] = {}
        self._met: dict[str, None] = {}
        self._unseen: dict[str, None] = {}

    def silent(self) -> Sequence[str]:
        """People who were here since the server's start and couldn't be asked since the last."""
        for person in self._met:
            if person not in self._machine.guests:
                self._unseen[person] = None
        told, self._unseen = tuple(self._unseen), {}
        return told

    def met(self, person: str) -> None:
        """Somebody's runtime is there."""
        self._met[person] = None

    async def runs_left(self) -> Sequence[Left]:
        """Runs that left something, of each those that are theirs."""
        found = await self._ask_all("left", kind="runs")
        theirs = [one for who, one in found if self._machine.whose(RunId(one.name)) == who]
        return [*await self._machine.own.runs_left(), *theirs]

    async def is_left(self, run: RunId) -> bool:
        """Whether something of a run is there; where nobody can be asked, it may be."""
        person = self._machine.whose(run)
        if not person:
            return await self._machine.own.is_left(run)
        guest = self._machine.guests.get(person)
        if guest is None:
            return True
        try:
            head, _ = await guest.hand.ask("left", timeout_s=SOON_S, run=run)
        except DriverError:
            return True
        return bool(head.get("is"))

    async def folders_left(self, kind: Kept) -> Sequence[Left]:
        """Folders of workloads, of each those that are theirs."""
        found = await self._ask_all("left", kind=kind)
        theirs = [one for who, one in found if self._of(one.name) == who]
        return _summed([*await self._machine.own.folders_left(kind), *theirs])

    async def remove_folder(self, kind: Kept, workload: str) -> None:
        """Removes one of them, as whose it is."""
        person = self._of(workload)
        if not person:
            await self._machine.own.remove_folder(kind, workload)
            return
        guest = self._machine.guests.get(person)
        if guest is None:
            message = f"no runtime of {person} is connected"
            raise DriverError("driver/no-runtime", message, final=False)
        await guest.hand.ask("sweep", timeout_s=LOOK_S, kind=kind, workload=workload)

    def _of(self, workload: str) -> str | None:
        return self._machine.whose(RunId(f"{workload}-1"))

    async def strays(self, live: Collection[str], before_ms: int) -> Sequence[Left]:
        """What belongs to no run. Nobody is told of others' runs."""

        def as_seen_by(person: str) -> dict[str, Any]:
            theirs = [run for run in sorted(live) if self._machine.whose(RunId(run)) == person]
            return {"live": theirs, "before_ms": before_ms}

        own = await self._machine.own.strays(live, before_ms)
        self._strays = {}
        found = []
        for person, one in await self._ask_all("strays", as_seen_by):
            name = f"{person}:{one.name}"
            self._strays[name] = person, one.name
            found.append(Left(name, one.bytes))
        return [*own, *found]

    async def remove_strays(self, names: Collection[str]) -> None:
        """Removes it where it was found."""
        of_people: dict[str, list[str]] = {}
        for person, name in (self._strays[name] for name in names if name in self._strays):
            of_people.setdefault(person, []).append(name)
        await self._machine.own.remove_strays([one for one in names if one not in self._strays])
        if of_people:
            await self._ask_all("sweep", lambda person: {"strays": of_people.get(person, [])})

    async def _ask_all(
        self, op: str, of: Callable[[str], Mapping[str, Any]] | None = None, **fields: Any
    ) -> list[tuple[str, Left]]:
        """What each person's runtime names; one that doesn't answer is noted as silent."""
        guests = list(self._machine.guests.values())
        asked = [
            guest.hand.ask(op, timeout_s=LOOK_S, **fields, **(of(guest.person) if of else {}))
            for guest in guests
        ]
        found: list[tuple[str, Left]] = []
        for guest, answer in zip(
            guests, await asyncio.gather(*asked, return_exceptions=True), strict=True
        ):
            if isinstance(answer, BaseException):
                if not isinstance(answer, DriverError):
                    raise answer
                self._unseen[guest.person] = None
            else:
                found += [(guest.person, one) for one in _read(answer[0].get("left"))]
        return found


def _read(told: object) -> list[Left]:
    """What somebody's runtime says is left; what is no name with a size is left out."""
    lines = told if isinstance(told, list) else []
    return [
        Left(line[0], line[1])
        for line in lines
        if isinstance(line, list) and [type(part) for part in line] == [str, int] and line[1] >= 0
    ]


def _summed(found: Sequence[Left]) -> list[Left]:
    sizes: Counter[str] = Counter()
    for one in found:
        sizes[one.name] += one.bytes
    return [Left(name, size) for name, size in sizes.items()]
