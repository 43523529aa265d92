"""What is left on a machine of several people: each person's is looked for and removed as them."""

import asyncio
from collections.abc import Collection, Sequence
from typing import Any, cast

import pytest

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.base import DriverError, Left
from stellwerk.drivers.local.guest import Guest
from stellwerk.drivers.local.tidying import Tidying

WHOSE = {"w-a-1": "ada", "w-b-1": "ben", "w-s-1": ""}


class Own:
    """The driver of the server's own user."""

    def __init__(self) -> None:
        self.removed: list[str] = []

    async def runs_left(self) -> Sequence[Left]:
        return [Left("w-s-1", 1)]

    async def is_left(self, _run: RunId) -> bool:
        return False

    async def folders_left(self, _kind: str) -> Sequence[Left]:
        return [Left("w-s", 2)]

    async def remove_folder(self, kind: str, workload: str) -> None:
        self.removed.append(f"{kind}/{workload}")

    async def strays(self, live: Collection[str], _before_ms: int) -> Sequence[Left]:
        assert sorted(live) == ["w-a-1", "w-b-1"]
        return [Left("work/old", 3)]

    async def remove_strays(self, names: Collection[str]) -> None:
        self.removed += names


class Hand:
    """A person's, which tells what a test wants; None: it doesn't answer."""

    def __init__(self, left: list[Any] | None) -> None:
        self.left = left
        self.asked: list[tuple[str, dict[str, Any]]] = []

    async def ask(
        self, op: str, *, timeout_s: float = 0, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        self.asked.append((op, fields))
        if self.left is None:
            raise DriverError("driver/connection-lost", "it hangs", final=False)
        return {"left": self.left, "is": True}, b""


class Person:
    def __init__(self, person: str, hand: Hand) -> None:
        self.person, self.hand = person, hand


class Machine:
    """A machine with ada and ben, whose runtimes say what a test wants."""

    def __init__(self, **hands: Hand) -> None:
        self.own = Own()
        self.hands = hands
        self.guests = {name: cast(Guest, Person(name, hand)) for name, hand in hands.items()}
        self.tidying = Tidying(cast(Any, self))
        for name in hands:
            self.tidying.met(name)

    def whose(self, run: RunId) -> str | None:
        return WHOSE.get(run)


def test_each_is_believed_of_what_is_theirs_alone() -> None:
    """Others' runs and nonsense count for nothing; whoever is silent is named."""
    lies = [["w-a-1", 10], ["w-b-1", 20], ["w-s-1", 5], ["w-a-1"], "x", ["w-a-1", -1], [7, 7]]
    machine = Machine(ada=Hand(lies), ben=Hand(None))

    async def scene() -> None:
        assert machine.tidying.silent() == ()
        assert await machine.tidying.runs_left() == [Left("w-s-1", 1), Left("w-a-1", 10)]
        assert machine.tidying.silent() == ("ben",)
        machine.hands["ada"].left = [["w-a", 10], ["w-s", 20]]
        assert await machine.tidying.folders_left("outputs") == [Left("w-s", 2), Left("w-a", 10)]
        assert await machine.tidying.is_left(RunId("w-a-1"))
        assert await machine.tidying.is_left(RunId("w-b-1")), "nobody can say"
        assert not await machine.tidying.is_left(RunId("w-s-1"))
        machine.tidying.silent()
        del machine.guests["ada"]
        assert machine.tidying.silent() == ("ada",)
        with pytest.raises(DriverError):
            await machine.tidying.remove_folder("outputs", "w-a")

    asyncio.run(scene())


def test_what_is_removed_is_removed_as_whose_it_is() -> None:
    """Nobody learns of others' runs on the way."""
    machine = Machine(ada=Hand([["runtime-1.pyz", 4], ["work/w-x-1", 2]]), ben=Hand([]))

    async def scene() -> None:
        found = await machine.tidying.strays(["w-b-1", "w-a-1"], 9)
        assert [one.name for one in found] == [
            "work/old",
            "ada:runtime-1.pyz",
            "ada:work/w-x-1",
        ]
        live = {name: hand.asked[0][1]["live"] for name, hand in machine.hands.items()}
        assert live == {"ada": ["w-a-1"], "ben": ["w-b-1"]}
        await machine.tidying.remove_strays(["work/old", "ada:work/w-x-1"])
        assert machine.own.removed == ["work/old"]
        swept = {name: hand.asked[1] for name, hand in machine.hands.items()}
        assert swept["ada"] == ("sweep", {"strays": ["work/w-x-1"]})
        assert swept["ben"] == ("sweep", {"strays": []})
        await machine.tidying.remove_folder("checkpoints", "w-b")
        await machine.tidying.remove_folder("checkpoints", "w-s")
        assert machine.hands["ben"].asked[-1][1]["workload"] == "w-b"
        assert machine.own.removed[1:] == ["checkpoints/w-s"]

    asyncio.run(scene())
