"""Checkpoints of several hosts of one run: what belongs together, and who gets what of it."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from stellwerk.drivers.agents import checkpoint_copying
from stellwerk.drivers.agents.checkpoint_parts import given_of, put_together
from stellwerk.drivers.agents.checkpoint_places import Held, Look
from stellwerk.drivers.base import Saved
from stellwerk.runtime.carrying import Piece
from tests.drivers.training import Lab, W


@pytest.fixture
def lab(tmp_path: Path) -> Lab:
    return Lab(tmp_path)


def play(scene: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scene)


def test_hosts_of_one_run_keep_in_step(lab: Lab) -> None:
    """Of a gang counts what all have saved; its hosts get their own parts, whoever they are."""

    async def scene() -> None:
        await lab.start(1, "pc1", "pc2")
        for step in (1, 2):
            lab.one.saves(step)
            lab.two.saves(step)
        lab.one.saves(3)
        first, second = lab.one.has()["step-2.pt"], lab.two.has()["step-2.pt"]
        await lab.home.carry(W)
        newest = lab.home.store.newest(W)
        assert newest is not None
        assert newest.newest.step == 2
        await lab.start(2, "pc2", "pc1")
        assert lab.two.has()["step-2.pt"] == first
        assert lab.one.has()["step-2.pt"] == second
        assert "step-3.pt" not in lab.two.has()

    play(scene())


def test_what_rank_0_saves_is_everywhere_when_it_goes_on(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over three runs, on the same hosts and with the first one changed: the newest, and no other.

    A host that is given something later saves the first itself; what it was given is no checkpoint
    of its own that would hold back or replace what rank 0 has.
    """

    async def scene() -> None:
        await lab.start(1, "pc1", "pc2")
        lab.one.saves(1)
        await lab.home.carry(W)
        assert lab.home.store.newest(W) is None
        monkeypatch.setattr(checkpoint_copying, "SLOWER_S", 0.0)
        await lab.home.carry(W)
        await lab.start(2, "pc1", "pc2")
        assert list(lab.two.has()) == ["step-1.pt"]
        lab.one.saves(2)
        lab.one.writes_into(1, b"changed")
        lab.one.saves(3)
        await lab.start(3, "pc2", "pc1")
        assert lab.two.has() == lab.one.has()
        assert list(lab.two.has()) == ["step-2.pt", "step-3.pt"]
        lab.two.saves(4)
        assert await lab.start(4, "pc1", "pc2") == []
        assert lab.one.has() == lab.two.has()
        assert list(lab.one.has()) == ["step-3.pt", "step-4.pt"]
        assert await lab.start(5, "pc2") == []
        assert list(lab.two.has()) == ["step-3.pt", "step-4.pt"]

    play(scene())


def test_hosts_that_were_cut_apart_go_back_to_what_they_had_together(lab: Lab) -> None:
    """Without such a copy each has its own, and that is told."""

    async def scene() -> None:
        await lab.start(1, "pc1", "pc2")
        lab.one.saves(1)
        lab.two.saves(2)
        (note,) = await lab.start(2, "pc1", "pc2")
        assert "(lab/pc1: step-1.pt, lab/pc2: step-2.pt): each has what it saved" in note
        assert list(lab.one.has()) == ["step-1.pt"]
        for machine in (lab.one, lab.two):
            machine.saves(3)
        await lab.home.carry(W)
        lab.one.saves(9)
        lab.two.saves(8)
        for machine in (lab.one, lab.two):
            (machine.folder / "checkpoints" / W / "step-3.pt").unlink()
        (note,) = await lab.start(3, "pc2", "pc1")
        assert "saved no step together" in note
        assert "the copy at home is step-3.pt" in note
        assert (lab.one.newest, lab.two.newest) == ("step-3.pt", "step-3.pt")

    play(scene())


def held(*steps: int, **more: str) -> Held:
    """What a host holds: checkpoints of steps, whose content tells the host, and other files."""
    found = tuple(Saved(f"step-{step}.pt", 1, step, step) for step in steps)
    files = {one.name: f"{more.get('by', '')}{one.name}" for one in found} | {"readme": "all"}
    files |= {name: content for name, content in more.items() if name != "by"}
    pieces = [Piece(name, hash=content) for name, content in sorted(files.items())]
    return Held(Look(1, str(steps), found), pieces)


def names(*held: Held, patient: bool = True) -> list[list[str]] | None:
    """The steps that each host gets; None while that isn't known."""
    together = put_together(held, patient=patient)
    if together is None or together.apart:
        return None
    return [[one.path[5:-3] for one in part if one.path != "readme"] for part in together.parts]


def test_steps_in_common() -> None:
    """Hosts that save nothing get all; without a common step nothing counts."""
    assert names(held(1, 2), Held(Look(1, "", ()), [])) == [["1", "2"], ["1", "2"]]
    assert names(held(1, 2), held(1)) == [["1"], ["1"]]
    assert names(held(1, 2, 3), held(1, 3)) == [["1", "3"], ["1", "3"]]
    assert names(held(1), held(2)) is None


def test_a_host_without_a_step_may_only_be_slower() -> None:
    """It is waited for before what the other has saved counts without it."""
    nothing = Held(Look(1, "", ()), [])
    assert names(held(1), nothing, patient=False) is None
    assert names(held(1), held(1), patient=False) == [["1"], ["1"]]


def test_what_was_given_isnt_saved_by_the_host_that_has_it() -> None:
    """Rank 0 goes on and removes old ones: the others get what it has now, and nothing else."""
    before = given_of(held(1, 2, best="two", last="two").pieces)
    one, two = held(2, 3, 4, best="two", last="four"), held(1, 2, best="two", last="two")
    together = put_together([one, two], [before, before])
    assert together is not None
    assert together.parts[0] == together.parts[1]
    assert {each.path: each.hash for each in together.parts[1]} == {
        each.path: each.hash for each in one.pieces
    }


def test_shards_come_together_and_ones_own_file_wins() -> None:
    """Each rank's file in the folder of a step: all of them are on every host."""
    found = (Saved("step-1", 1, 1, 1),)

    def shard(rank: int) -> Held:
        pieces = [Piece("step-1", dir=True), Piece(f"step-1/{rank}", hash=f"{rank}")]
        return Held(Look(1, "", found), [*pieces, Piece("step-1/log", hash=f"log {rank}")])

    together = put_together([shard(0), shard(1)])
    assert together is not None
    for rank, part in enumerate(together.parts):
        assert {each.path: each.hash for each in part} == {
            "step-1": "",
            "step-1/0": "0",
            "step-1/1": "1",
            "step-1/log": f"log {rank}",
        }
