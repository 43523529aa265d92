"""Which checkpoints are whole, and how a new workload gets them."""

import contextlib
import errno
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.runtime import copying
from stellwerk.runtime.checkpoints import complete, resume, step_of
from stellwerk.runtime.errands import ErrandError
from stellwerk.runtime.removing import remove_tree


def write(folder: Path, *names: str, at_s: int = 1_000) -> None:
    """Files with something in them, each a second newer than the one before."""
    for later, name in enumerate(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        os.utime(path, (at_s + later, at_s + later))


def names(folder: Path) -> list[str]:
    """The names of the whole checkpoints."""
    return [one.name for one in complete(str(folder))]


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("checkpoint-500", 500),
        ("epoch-000040.pkl", 40),
        ("epoch=3-step=1200.ckpt", 1200),
        ("global_step77", 77),
        ("model_v2.pt", None),
        ("last.pt", None),
    ],
)
def test_a_step_is_read_from_a_name(name: str, step: int | None) -> None:
    """As trainers name what they save; another number is no step."""
    assert step_of(name) == step


def test_whole_ones_are_listed_the_newest_last(tmp_path: Path) -> None:
    """With their sizes; what is half written, hidden, empty or lies beside them is none."""
    write(tmp_path, "epoch-1.pt", "epoch-2.pt", "epoch-3.pt.tmp", "config.json", "tmp-checkpoint-4")
    (tmp_path / ".complete").write_text("x")
    (tmp_path / "epoch-9.pt").touch()
    found = complete(str(tmp_path))
    assert [(one.name, one.step, one.bytes) for one in found] == [
        ("epoch-1.pt", 1, 10),
        ("epoch-2.pt", 2, 10),
    ]
    assert complete(str(tmp_path / "nowhere")) == []


def test_a_folder_without_the_file_that_is_written_last_is_not_whole(tmp_path: Path) -> None:
    """Where its like have one."""
    write(tmp_path, "checkpoint-1/model", "checkpoint-1/trainer_state.json", "checkpoint-2/model")
    assert names(tmp_path) == ["checkpoint-1"]


def test_what_the_job_called_complete_decides_about_its_like(tmp_path: Path) -> None:
    """A torn line of the list says nothing."""
    write(tmp_path, "step-1.pt", "step-2.pt", "other.bin")
    (tmp_path / ".complete.jsonl").write_text('{"path": "step-1.pt"}\n{"path": "../x"}\n{"pa')
    assert names(tmp_path) == ["step-1.pt"]


def test_a_new_workload_gets_the_last_two_and_what_lies_beside(tmp_path: Path) -> None:
    """As copies of its own, with the old times; the old ones stay as they are."""
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    write(old, "checkpoint-1/w", "checkpoint-2/w", "checkpoint-10/w", "config.json")
    resume(str(old), str(new))
    assert sorted(os.listdir(new)) == ["checkpoint-10", "checkpoint-2", "config.json"]
    assert (new / "config.json").stat().st_mtime == (old / "config.json").stat().st_mtime
    with (new / "checkpoint-10" / "w").open("r+") as file:
        file.write("new")
    assert (old / "checkpoint-10" / "w").read_text() == "checkpoint-10/w"


def test_parts_of_one_checkpoint_are_never_taken_for_several(tmp_path: Path) -> None:
    """One file for each rank: all of them are needed."""
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    write(old, *(f"step-7-rank{n}.pt" for n in range(5)), *(f"rank{n}.pt" for n in range(5)))
    resume(str(old), str(new))
    assert sorted(os.listdir(new)) == sorted(os.listdir(old))


def test_links_stay_links_and_none_leads_back(tmp_path: Path) -> None:
    """What they lead to outside isn't copied, whatever it is; what they lead to inside is."""
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    write(tmp_path / "data", "large")
    write(old, *(f"checkpoint-{n}/w" for n in range(1, 6)))
    links = {
        "latest": "checkpoint-5",
        "latest.pt": str(old / "checkpoint-5" / "w"),
        "checkpoint-5/before": f"{old}/./checkpoint-4",
        "best": str(old / "checkpoint-1"),
        "best.pt": "checkpoint-2/w",
        "data": str(tmp_path / "data"),
        "old-data": str(tmp_path / "old-data"),
        "up": "..",
        "nowhere": "loop",
    }
    for name, end in links.items():
        (old / name).symlink_to(end)
    resume(str(old), str(new))
    assert {name: os.readlink(new / name) for name in links} == {
        **links,
        "latest.pt": str(new / "checkpoint-5" / "w"),
        "checkpoint-5/before": str(new / "checkpoint-4"),
        "best": str(new / "checkpoint-1"),
    }
    there = sorted(one.name for one in new.iterdir() if not one.is_symlink())
    assert there == ["checkpoint-1", "checkpoint-2", "checkpoint-4", "checkpoint-5"]


def test_what_has_no_content_is_left_out(tmp_path: Path) -> None:
    """A socket that a program forgot keeps nobody from going on."""
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    write(old, "epoch-1/w")
    for place in (old / "pipe", old / "epoch-1" / "pipe", old / ".complete.jsonl"):
        os.mkfifo(place)
    resume(str(old), str(new))
    assert [str(one.relative_to(new)) for one in sorted(new.rglob("*"))] == ["epoch-1", "epoch-1/w"]


def test_no_line_of_the_list_makes_the_others_unread(tmp_path: Path) -> None:
    """However odd it is."""
    write(tmp_path, "step-1.pt", "step-2.pt")
    odd = ["[" * 100_000, "1" * 5_000, '"x"', '{"path": 1}', '{"path": "\\ud800"}', "\0", ""]
    (tmp_path / ".complete.jsonl").write_text("\n".join([*odd, '{"path": "step-1.pt"}']))
    assert names(tmp_path) == ["step-1.pt"]


def test_a_copy_on_its_way_is_no_checkpoint(tmp_path: Path) -> None:
    """Some of it may be in its place already, and the newest not yet."""
    write(tmp_path, "step-1.pt", ".resuming/step-2.pt")
    assert names(tmp_path) == []


@pytest.mark.parametrize("gone", ["checkpoint-1", "checkpoint-1/a", "checkpoint-1/below"])
def test_what_vanishes_while_it_is_looked_at_is_left_out(tmp_path: Path, gone: str) -> None:
    """A checkpoint, a file or a folder of it: whoever tidies up there is no fault of the search."""
    write(tmp_path, "checkpoint-1/a", "checkpoint-1/below/b", "checkpoint-1/c", "checkpoint-2/a")
    real_islink, real_scandir = os.path.islink, os.scandir

    def islink(path: str) -> bool:
        if path.endswith(gone):
            remove_tree(path)
        return real_islink(path)

    def scandir(path: str | int) -> Any:
        with real_scandir(path) as listing:
            entries = list(listing)
        if isinstance(path, str) and path.rstrip("/").endswith("checkpoint-1"):
            remove_tree(str(tmp_path / gone))
        return contextlib.nullcontext(entries)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os.path, "islink", islink)
        patch.setattr(os, "scandir", scandir)
        found = names(tmp_path)
    whole = ["checkpoint-2"] if gone == "checkpoint-1" else ["checkpoint-1", "checkpoint-2"]
    assert sorted(found) == whole


def test_nothing_is_copied_over_what_is_there(tmp_path: Path) -> None:
    """A later run of the workload has its own checkpoints already."""
    old, new = tmp_path / "old", tmp_path / "new"
    write(old, "epoch-1.pt")
    write(new, "epoch-5.pt")
    resume(str(old), str(new))
    assert os.listdir(new) == ["epoch-5.pt"]


def test_a_copy_for_which_there_is_no_room_gives_it_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise nothing else on the machine could be written any more, not even that it failed."""
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    write(old, "checkpoint-1/a", "checkpoint-1/b")

    def copy_one(source: str, target: str, _status: os.stat_result) -> None:
        Path(target).mkdir() if os.path.isdir(source) else Path(target).write_text("a part")
        if source.endswith("b"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), target)

    monkeypatch.setattr(copying, "copy_one", copy_one)
    with pytest.raises(OSError, match="No space"):
        resume(str(old), str(new))
    assert os.listdir(new) == []


def test_without_checkpoints_the_run_is_told_so(tmp_path: Path) -> None:
    """It doesn't begin anew as if nothing had been asked."""
    with pytest.raises(ErrandError, match="no checkpoints to go on from"):
        resume(str(tmp_path / "gone"), str(tmp_path))


class Crash(Exception):
    """The machine stops here."""


@given(st.integers(0, 12))
def test_a_crash_anywhere_loses_nothing_and_copies_nothing_twice(
    tmp_path_factory: pytest.TempPathFactory, steps: int
) -> None:
    """Whatever step was the last one, the next try ends with the same files."""
    old, new = (tmp_path_factory.mktemp(name) for name in ("old", "new"))
    write(old, "checkpoint-1/a", "checkpoint-1/b", "checkpoint-2/a", "checkpoint-2/b", "config")
    left = [steps]

    def step() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Crash

    with pytest.MonkeyPatch.context() as patch:
        real_copy, real_rename = copying.copy_one, os.rename

        def copy_one(source: str, target: str, status: os.stat_result) -> None:
            step()
            real_copy(source, target, status)

        def rename(source: str, target: str) -> None:
            step()
            real_rename(source, target)

        patch.setattr(copying, "copy_one", copy_one)
        patch.setattr(os, "rename", rename)
        try:
            resume(str(old), str(new))
        except Crash:
            patch.undo()
            resume(str(old), str(new))
    found = {str(path.relative_to(new)) for path in new.rglob("*")}
    assert found == {str(path.relative_to(old)) for path in old.rglob("*")}
    moved = {path.stat().st_ino for path in new.rglob("*")}
    resume(str(old), str(new))
    assert {path.stat().st_ino for path in new.rglob("*")} == moved
