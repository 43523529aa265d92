"""What of a job's checkpoints may be copied away while it runs, and how a copy is put in place."""

import hashlib
import os
import time
from pathlib import Path

import pytest

from stellwerk.runtime.carrying import (
    HELD,
    LIST,
    QUIET_S,
    hold,
    put_in_place,
    read_list,
    to_carry,
)
from stellwerk.runtime.trees import ContentMissing

LONG_AGO_S = 10 * QUIET_S


def write(path: Path, text: str = "weights", age_s: float = 0.0) -> None:
    """A file as a program writes it in place, a while ago."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    if age_s:
        at_s = time.time() - age_s
        os.utime(path, (at_s, at_s))


def carried(folder: Path, *, over: bool = False, later_s: float = 0.0) -> list[str]:
    """The names that may be copied now, or later."""
    return to_carry(str(folder), over=over, now_s=time.time() + later_s).names


def test_what_is_still_written_stays(tmp_path: Path) -> None:
    """A file written in place counts once it is quiet, once there is a later one, or at the end."""
    write(tmp_path / "step-1.pt")
    assert carried(tmp_path) == []
    assert carried(tmp_path, over=True) == ["step-1.pt"]
    assert carried(tmp_path, later_s=QUIET_S + 1) == ["step-1.pt"]
    write(tmp_path / "step-2.pt")
    assert carried(tmp_path) == ["step-1.pt"]


def test_what_is_announced_goes_at_once(tmp_path: Path) -> None:
    """Said by the job, closed by the framework's last file, or renamed into place."""
    write(tmp_path / "said-1.pt")
    write(tmp_path / ".complete.jsonl", '{"path": "said-1.pt"}\n')
    write(tmp_path / "checkpoint-1" / "trainer_state.json")
    write(tmp_path / "tmp-model-1", age_s=1)
    os.rename(tmp_path / "tmp-model-1", tmp_path / "model-1.ckpt")
    assert set(carried(tmp_path)) == {
        ".complete.jsonl",
        "said-1.pt",
        "checkpoint-1",
        "model-1.ckpt",
    }
    write(tmp_path / "checkpoint-2" / "weights")
    assert "checkpoint-2" not in carried(tmp_path, over=True)


def test_a_folder_that_grows_after_it_was_renamed_isnt_over(tmp_path: Path) -> None:
    """Its name is in place, and somebody writes into it all the same."""
    write(tmp_path / "tmp-x" / "weights", age_s=5)
    os.rename(tmp_path / "tmp-x", tmp_path / "epoch-1")
    assert carried(tmp_path) == ["epoch-1"]
    ahead_s = time.time() + 5
    os.utime(tmp_path / "epoch-1" / "weights", (ahead_s, ahead_s))
    assert carried(tmp_path) == []


def test_the_state_tells_a_change(tmp_path: Path) -> None:
    """Another one with each checkpoint; none of nothing."""
    assert to_carry(str(tmp_path), over=True).state == ""
    write(tmp_path / "step-1.pt", age_s=9)
    first = to_carry(str(tmp_path), over=True)
    assert first.state == to_carry(str(tmp_path), over=True).state != ""
    write(tmp_path / "step-2.pt")
    assert to_carry(str(tmp_path), over=True).state != first.state


def content_of(held: Path, store: Path) -> None:
    """Keeps the files that are held by their hashes."""
    store.mkdir()
    for path in (held / HELD).rglob("*"):
        if path.is_file() and not path.is_symlink():
            data = path.read_bytes()
            (store / hashlib.sha256(data).hexdigest()).write_bytes(data)


def test_what_is_held_outlives_its_removal_and_is_the_same_elsewhere(tmp_path: Path) -> None:
    """With times, modes and links; an older directory is replaced by it as a whole."""
    source, held, store = tmp_path / "w", tmp_path / "held", tmp_path / "store"
    for step in (1, 2, 3):
        write(source / f"checkpoint-{step}" / "weights", f"w{step}", age_s=100 - step)
    (source / "best").symlink_to(source / "checkpoint-1")
    (source / "away").symlink_to("/etc")
    assert [one.step for one in hold(str(source), str(held), over=True).found] == [1, 2, 3]
    when_ns = (source / "checkpoint-3" / "weights").stat().st_mtime_ns
    for path in source.rglob("weights"):
        path.unlink()
    content_of(held, store)
    pieces = read_list((held / LIST).read_bytes())
    other = tmp_path / "other" / "w"
    write(other / "step-0.pt", "older")
    put_in_place(str(other), str(tmp_path / "aside"), pieces, lambda name: str(store / name))
    assert sorted(path.name for path in other.iterdir()) == [
        "best",
        "checkpoint-1",
        "checkpoint-2",
        "checkpoint-3",
    ]
    assert (other / "best" / "weights").read_text() == "w1"
    assert (other / "checkpoint-3" / "weights").stat().st_mtime_ns == when_ns
    assert to_carry(str(other), over=True).found[-1].step == 3
    assert not (tmp_path / "aside").exists()


def test_content_that_is_missing_leaves_the_old_one(tmp_path: Path) -> None:
    """Half of a checkpoint is none."""
    source, held = tmp_path / "w", tmp_path / "held"
    write(source / "step-1.pt", age_s=LONG_AGO_S)
    hold(str(source), str(held), over=False)
    pieces = read_list((held / LIST).read_bytes())
    other = tmp_path / "other" / "w"
    write(other / "step-0.pt", "older")
    with pytest.raises(ContentMissing):
        put_in_place(str(other), str(tmp_path / "a"), pieces, lambda name: str(tmp_path / name))
    assert [path.name for path in other.iterdir()] == ["step-0.pt"]
    with pytest.raises(ValueError, match="no list"):
        read_list(b'{"entries": [{"what": 1}]}')
