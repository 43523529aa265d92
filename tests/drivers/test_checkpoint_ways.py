"""The ways of checkpoints: no cable where both sides see the home, and the time a copy takes."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reports import CopyTimed, Report, RunReport
from stellwerk.core.model.workload import RunEnd
from stellwerk.drivers.agents.checkpoint_places import FarPlace, Held
from stellwerk.drivers.agents.checkpoint_store import Whole
from stellwerk.drivers.agents.checkpoint_times import LEAST_MS, MOST_MS, CopyTime, predicted
from stellwerk.drivers.base import DriverError, Saved
from stellwerk.drivers.ssh.following import FollowsJobs
from stellwerk.runtime import hand_carrying, hand_files
from stellwerk.runtime.hand_files import Here
from tests.drivers.training import Lab, W


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


def test_what_both_sides_see_needs_no_cable(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home on a file system that the machine has too: it puts its content there itself.

    What it changed meanwhile doesn't count, and no mark is left.
    """

    async def scene() -> None:
        lab.one.sees_home = True
        await lab.start(1, "pc1")
        lab.one.saves(1)
        await lab.home.carry(W)
        assert lab.one.reads == 0
        newest = lab.home.store.newest(W)
        assert newest is not None
        assert not list(lab.home.store.root.glob(".seen*"))
        lab.one.saves(2)
        hold = lab.one.hold

        async def and_write(workload: str, *, over: bool) -> Held:
            found = await hold(workload, over=over)
            lab.one.writes_into(2, b"other")
            return found

        monkeypatch.setattr(lab.one, "hold", and_write)
        with pytest.raises(DriverError, match="was written while"):
            await lab.home.carry(W)
        monkeypatch.undo()
        assert await lab.start(2, "pc2") == []
        assert lab.two.has() == lab.one.has()
        assert not list(lab.home.store.root.glob("*/content/*.lent*"))

    play(scene())


def test_a_machine_takes_from_a_home_that_it_sees(lab: Lab) -> None:
    """Nothing but the list goes over the connection; whether it sees it is asked once."""
    asked: list[str] = []

    class Near:
        closed = asyncio.Event()
        here = Here(str(lab.two.folder))

        async def ask(
            self, op: str, data: bytes = b"", timeout_s: float = 1, **fields: Any
        ) -> tuple[dict[str, Any], bytes]:
            asked.append(op)
            return {**hand_files.OPERATIONS, **hand_carrying.OPERATIONS}[op](
                self.here, {"op": op, **fields}, data
            )

    near = Near()

    async def reach() -> Any:
        return near

    async def scene() -> None:
        lab.one.saves(1)
        await lab.start(1, "pc1")
        await lab.home.carry(W)
        lab.home.add("lab/pc2", FarPlace(reach, lambda: True))
        assert await lab.start(2, "pc2") == []
        assert lab.two.has() == lab.one.has()
        assert asked.count("shares") == asked.count("put") == 1
        lab.two.saves(2)
        await lab.home.carry(W)
        assert asked.count("shares") == asked.count("lend") == 1
        newest = lab.home.store.newest(W)
        assert newest is not None
        assert newest.newest.step == 2

    play(scene())


def test_the_next_copy_takes_what_the_largest_of_late_would(lab: Lab) -> None:
    """By the measured rate and a quarter more, within bounds; nothing is known without a copy."""
    first = Whole(1, ("a",), ("s",), (Saved("x", 1_000_000, 1),), ((),), 0, took_ms=1_000)
    first = replace(first, brought_bytes=1_000_000)
    second = replace(first, found=(Saved("y", 4_000_000, 2),), brought_bytes=3_000_000)
    assert predicted([]) == CopyTime()
    assert predicted([replace(first, brought_bytes=0)]) == CopyTime()
    assert predicted([second, first]) == CopyTime(4_000_000, 2_500)
    assert predicted([second, first, replace(second, took_ms=1 << 40)]).ms == 2_500
    assert predicted([replace(second, took_ms=1 << 40)]).ms == MOST_MS
    assert predicted([replace(second, took_ms=1)]).ms == LEAST_MS
    assert CopyTime(1, 40_000).patience_s == 80
    assert CopyTime().patience_s == 30


def test_who_has_to_leave_holds_the_machine_until_the_copy_is_there(lab: Lab) -> None:
    """The end is told then; one without a notice at once, and what a copy takes is told too."""
    told: list[Report] = []

    class Driver(FollowsJobs):
        def pass_on(self, report: Report) -> None:
            newest = lab.home.store.newest(W)
            step = newest.newest.step if newest is not None else None
            told.append(report)
            steps.append(step)

    steps: list[int | None] = []

    async def scene() -> None:
        driver = Driver()
        driver.cluster, driver.machines, driver.checkpoint_home = "lab", {}, lab.home
        driver.copy_checkpoints()
        driver.copy_no_more()
        await lab.start(1, "pc1")
        lab.one.saves(1, size=2_000_000)
        await lab.home.carry(W)
        lab.one.saves(2, size=1_000)
        (timed,) = told
        assert isinstance(timed, CopyTimed)
        assert (timed.run, timed.generation, timed.bytes) == (f"{W}-1", 1, 2_000_000)
        report = RunReport("lab", RunId(f"{W}-1"), 1, "Ended", RunEnd(how="notice"))
        assert driver.tell_home(report)
        await asyncio.gather(*lab.home._tasks)
        assert told[-1] == report
        assert steps[-1] == 2
        assert not driver.tell_home(replace(report, end=RunEnd(how="exited")))
        await asyncio.gather(*lab.home._tasks)

    play(scene())


def test_a_folder_of_the_same_name_is_another_one(lab: Lab) -> None:
    """A mark that isn't there, or has another word, says so."""

    async def scene() -> None:
        folder = lab.folder / "elsewhere"
        folder.mkdir()
        (folder / ".seen-a").write_text("b")
        for word in ("a", "c"):
            head, _ = await lab.one.ask("shares", folder=str(folder), word=word)
            assert head == {"same": False}

    play(scene())
