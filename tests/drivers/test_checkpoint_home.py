"""Checkpoints that follow their job: what is copied home, what counts, and where it is put."""

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.agents import checkpoint_store
from stellwerk.drivers.agents.checkpoint_places import Held
from stellwerk.drivers.agents.checkpoint_store import Running
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.local.driver import LocalDriver
from stellwerk.drivers.ssh.following import FollowsJobs
from stellwerk.runtime.carrying import Piece
from stellwerk.runtime.messages import PIECE
from tests.drivers.training import Lab, W


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


def test_it_follows_from_one_machine_to_another_and_back(lab: Lab) -> None:
    """Only what is new is read; a machine that ran it before has its older ones replaced."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        lab.one.saves(1)
        lab.one.saves(2)
        await lab.home.carry(W)
        reads = lab.one.reads
        assert reads == 2
        await lab.home.carry(W)
        assert lab.one.reads == reads
        lab.one.saves(3)
        assert await lab.start(2, "pc2") == []
        assert lab.one.reads == reads + 1
        assert list(lab.two.has()) == ["step-2.pt", "step-3.pt"]
        assert lab.two.has()["step-3.pt"] == lab.one.has()["step-3.pt"]
        lab.two.saves(4)
        assert await lab.start(3, "pc1") == []
        assert lab.one.has() == {k: v for k, v in lab.two.has().items() if k != "step-2.pt"}
        assert not list(lab.one.folder.glob("carried/*"))

    play(scene())


def test_where_it_was_it_finds_what_it_left(lab: Lab) -> None:
    """Nothing is put over what is newer than the copy at home."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        lab.one.saves(1)
        await lab.home.carry(W)
        lab.one.saves(2)
        assert await lab.start(2, "pc1") == []
        assert list(lab.one.has()) == ["step-1.pt", "step-2.pt"]

    play(scene())


def test_a_start_without_the_newest_is_refused_until_it_is_given_up(lab: Lab) -> None:
    """The refusal names the machine and what is at home; given up, the older copy is told."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        lab.one.saves(1)
        await lab.home.carry(W)
        lab.one.saves(2)
        lab.one.up = False
        with pytest.raises(DriverError, match=r"lab/pc1, which can't.*step-1.pt \(step 1\)") as no:
            await lab.start(2, "pc2")
        assert (no.value.code, no.value.final) == ("checkpoint/away", True)
        assert lab.two.has() == {}
        (note,) = await lab.start(2, "pc2", lost=1)
        assert note.startswith("lab/pc1 was given up; the copy at home is step-1.pt (step 1), made")
        assert list(lab.two.has()) == ["step-1.pt"]
        lab.one.up = True
        lab.one.saves(9)
        await lab.home.carry(W)
        newest = lab.home.store.newest(W)
        assert newest is not None
        assert newest.newest.step == 1

    play(scene())


def test_what_is_all_home_needs_its_machine_no_more(lab: Lab) -> None:
    """After the end of a run its machine may be switched off, also where it saved nothing."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        lab.home.ended(RunId(f"{W}-1"), 1)
        await asyncio.gather(*lab.home._tasks)
        lab.one.up = False
        assert await lab.start(2, "pc2") == []
        lab.two.saves(1)
        lab.home.ended(RunId(f"{W}-1"), 1)  # heard again, and late
        lab.home.ended(RunId(f"{W}-2"), 2)
        await asyncio.gather(*lab.home._tasks)
        lab.one.up, lab.two.up = True, False
        assert await lab.start(3, "pc1") == []
        assert list(lab.one.has()) == ["step-1.pt"]

    play(scene())


def test_a_copy_that_breaks_off_counts_for_nothing_and_is_gone_on_from(lab: Lab) -> None:
    """The cable is cut in the middle of a file, then the server dies: no byte is read twice."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        lab.one.saves(1)
        await lab.home.carry(W)
        lab.one.saves(2, size=10 * PIECE)
        lab.one.reads, lab.one.dies_after = 0, 6
        with pytest.raises(DriverError, match="cut"):
            await lab.home.carry(W)
        told = lab.home.told(W)
        assert told is not None
        assert (told.step, told.newer and told.newer.step, told.newer_on) == (1, 2, ("lab/pc1",))
        lab.one.up, lab.one.reads, lab.one.dies_after = True, 0, 1 << 30
        home = lab.server()
        await home.carry(W)
        assert lab.one.reads <= 6
        told = home.told(W)
        assert told is not None
        assert (told.step, told.newer) == (2, None)
        assert not list(lab.folder.glob("home/*/content/*.part"))

    play(scene())


def test_what_changes_under_the_copy_is_found_out(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Content isn't what its hash says: it doesn't count, and comes anew."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        lab.one.saves(1)
        content = lab.home.store.content(W)
        hold = lab.one.hold

        async def and_write(workload: str, *, over: bool) -> Held:
            held = await hold(workload, over=over)
            lab.one.writes_into(1, b"other")
            return held

        monkeypatch.setattr(lab.one, "hold", and_write)
        with pytest.raises(DriverError, match="was written while"):
            await lab.home.carry(W)
        assert lab.home.store.newest(W) is None
        monkeypatch.undo()
        await lab.home.carry(W)
        newest = lab.home.store.newest(W)
        assert newest is not None
        assert content.path(newest.parts[0][0].hash).read_bytes().startswith(b"other")

    play(scene())


def test_a_quota_is_told_and_the_last_two_copies_stay(tmp_path: Path) -> None:
    """What has no room stays on its machine, and isn't begun without."""
    lab = Lab(tmp_path, most_bytes=3_000_000)

    async def scene() -> None:
        await lab.start(1, "pc1")
        for step in range(1, 5):
            lab.one.saves(step, size=300_000)
            await lab.home.carry(W)
        folder = tmp_path / "home" / W
        assert sorted(path.name for path in folder.glob("*.json")) == [
            "3.json",
            "4.json",
            "run.json",
        ]
        assert len(list((folder / "content").iterdir())) == 3
        lab.one.saves(5, size=3_000_000)
        await lab.home.carry(W)
        told = lab.home.told(W)
        assert told is not None
        assert "may hold 2.86 MiB" in told.trouble
        with pytest.raises(DriverError, match="checkpoint_home_bytes"):
            await lab.start(2, "pc2")

    play(scene())


def test_a_start_that_was_refused_leaves_things_as_they_were(lab: Lab) -> None:
    """The machine on which it never began has nothing that would have to be waited for."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        lab.one.saves(1)
        await lab.home.prepare(lab.order(2), ["lab/pc2"])
        lab.home.not_begun(RunId(f"{W}-2"), 2)
        await asyncio.gather(*lab.home._tasks)
        assert lab.home.store.running(W) == Running(1, ("lab/pc1",), final=True, run=f"{W}-1")
        lab.two.up = False
        assert await lab.start(3, "pc1") == []

    play(scene())


def test_a_run_that_was_ordered_and_never_began_hides_nothing(lab: Lab) -> None:
    """The server died in between: what the run before it left is the newest."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        lab.one.saves(1)
        await lab.home.carry(W)
        lab.one.saves(2)
        await lab.home.prepare(lab.order(2), ["lab/pc1"])
        assert await lab.start(3, "pc2") == []
        assert list(lab.two.has()) == ["step-1.pt", "step-2.pt"]

    play(scene())


def test_an_older_runtime_is_no_hindrance(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that dials in may have one: the run begins, and its output says what is missing."""

    async def unknown(*_: object, **__: object) -> None:
        raise DriverError("runtime/unknown_op", "`settled` is no operation", final=False)

    async def scene() -> None:
        await lab.start(1, "pc1")
        driver = FollowsJobs()
        driver.cluster, driver.machines, driver.checkpoint_home = "lab", {}, lab.home
        monkeypatch.setattr(lab.one, "ask", unknown)
        found = await driver.follow(lab.order(2), ["pc1"])
        assert "older runtime" in found["notes"][0]
        assert await driver.follow(lab.order(1), ["pc1"]) == {}

    play(scene())


def test_whoever_changes_something_is_alone(lab: Lab) -> None:
    """Also where one waits and another comes just as the first one leaves."""
    inside, most = 0, 0

    async def one() -> None:
        nonlocal inside, most
        async with lab.home.alone(W):
            inside += 1
            most = max(most, inside)
            await asyncio.sleep(0)
            inside -= 1

    async def scene() -> None:
        async def again() -> None:
            await one()
            await one()

        await asyncio.gather(again(), again(), again())
        assert most == 1
        assert not lab.home._locks

    play(scene())


def test_a_machine_that_was_set_up_anew_is_told(lab: Lab) -> None:
    """Its disk is empty: the copy at home is taken, also on itself."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        lab.one.saves(1)
        await lab.home.carry(W)
        os.rename(lab.one.folder, lab.folder / "old")
        (note,) = await lab.start(2, "pc1")
        assert note.startswith("lab/pc1 has no record of the last run; the copy at home is step-1")
        assert list(lab.one.has()) == ["step-1.pt"]

    play(scene())


def test_copies_are_read_like_folders(lab: Lab) -> None:
    """While their machine is off: listed, read by offset; what isn't there is said."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        run = RunId(f"{W}-1")
        assert lab.home.listing(run, "") is None
        lab.one.saves(1)
        folder = lab.one.folder / "checkpoints" / W / "sub"
        folder.mkdir()
        (folder / "a").write_bytes(b"abc")
        await lab.home.carry(W, over=True)
        store = lab.home.store
        whole = store.newest(W)
        assert whole is not None
        listing = lab.home.listing(run, "")
        assert listing is not None
        assert [(one.name, one.kind) for one in listing.files] == [
            ("step-1.pt", "file"),
            ("sub", "folder"),
        ]
        chunk = lab.home.read(run, "sub/a", 1, 9)
        assert chunk is not None
        assert (chunk.data, chunk.size) == (b"bc", 3)
        for path in ("none", "../x"):
            with pytest.raises(DriverError):
                lab.home.listing(run, path)
        assert [one.name for one in store.left()] == [W]
        store.remove(W)
        assert store.left() == []

    play(scene())


def test_a_full_disk_is_told(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some of the disk is left to others."""
    monkeypatch.setattr(checkpoint_store, "RESERVE_BYTES", 1 << 62)
    assert "make room in" in lab.home.store.check_room([Piece("a", size=1, hash="0" * 64)])


def test_what_is_at_home_is_tidied_with_the_checkpoints_here(lab: Lab) -> None:
    """One size for both, and one removal."""

    async def scene() -> None:
        await lab.start(1, "pc1")
        lab.one.saves(1, size=50_000)
        await lab.home.carry(W)
        own = lab.folder / "own"
        driver = LocalDriver(home=own, socket_dir=lab.folder, blobs=lab.home.store.content(W))
        driver.checkpoint_home = lab.home
        (own / "checkpoints" / W).mkdir(parents=True)
        (own / "checkpoints" / W / "a").write_bytes(b"x" * 50_000)
        (left,) = await driver.folders_left("checkpoints")
        assert left.name == W
        assert left.bytes > 100_000
        assert await driver.folders_left("outputs") == []
        await driver.remove_folder("checkpoints", W)
        assert await driver.folders_left("checkpoints") == []
        assert lab.home.store.newest(W) is None

    play(scene())
