"""What machines tell of what is left on them comes together; one that is silent is named."""

import asyncio
from types import SimpleNamespace
from typing import Any

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.ssh.tidying import TidiesMachines


class Far:
    """A machine with some things on it."""

    def __init__(self, name: str, things: dict[str, int], *, state: str = "well") -> None:
        self.host = SimpleNamespace(node=name)
        self.talk = SimpleNamespace(ahead_ms=5_000)
        self.is_connected = state != "off"
        self.things = things
        self.breaks = state == "breaks"
        self.asked: list[dict[str, Any]] = []

    async def handy(self) -> "Far":
        return self

    async def ask(self, op: str, timeout_s: float, **fields: Any) -> tuple[dict[str, Any], bytes]:
        assert timeout_s > 60
        if self.breaks:
            raise DriverError("ssh/connection-lost", "cut", final=False)
        self.asked.append({"op": op, **fields})
        if "run" in fields:
            return {"is": fields["run"] in self.things}, b""
        return {"left": [[name, size] for name, size in self.things.items()]}, b""


def a_room(*machines: Far) -> TidiesMachines:
    room = TidiesMachines()
    room.machines = {one.host.node: one for one in machines}  # type: ignore[misc]
    return room


def test_what_lies_on_several_machines_adds_up() -> None:
    """And is removed where it was found, by each machine's own clock."""
    first, second = Far("pc1", {"work/a-1.1": 10, "work/b-1.1": 1}), Far("pc2", {"work/a-1.1": 5})
    room = a_room(first, second)
    found = asyncio.run(room.strays({"w-1-1"}, 100_000))
    assert [(one.name, one.bytes) for one in found] == [("work/a-1.1", 15), ("work/b-1.1", 1)]
    assert first.asked[0] == {"op": "strays", "live": ["w-1-1"], "before_ms": 105_000}
    asyncio.run(room.remove_strays(["work/a-1.1", "work/b-1.1"]))
    assert first.asked[1]["strays"] == ["work/a-1.1", "work/b-1.1"]
    assert second.asked[1]["strays"] == ["work/a-1.1"]
    assert room.silent() == ()


def test_a_silent_machine_is_named_and_may_have_anything() -> None:
    """One that is off, and one whose connection breaks meanwhile."""
    room = a_room(
        Far("pc1", {"w-1-1": 7}), Far("pc2", {}, state="off"), Far("pc3", {}, state="breaks")
    )
    assert [one.name for one in asyncio.run(room.runs_left())] == ["w-1-1"]
    assert sorted(room.silent()) == ["pc2", "pc3"]
    assert room.silent() == ("pc2",)
    assert asyncio.run(room.is_left(RunId("w-2-1")))
    alone = a_room(Far("pc1", {"w-1-1": 7}))
    assert [asyncio.run(alone.is_left(RunId(run))) for run in ("w-1-1", "w-2-1")] == [True, False]
