"""What a hand finds and removes for its caller, and what it never touches."""

import os
import time
from pathlib import Path

import pytest

from stellwerk.runtime.hand_files import FileTrouble, Here
from stellwerk.runtime.hand_leaving import leave
from stellwerk.runtime.hand_tidying import left, strays, sweep

DAY_S = 86_400
NAMES = {"old": "a" * 64, "asked": "b" * 64}


@pytest.fixture
def here(tmp_path: Path) -> Here:
    """A run, results of two workloads, a work directory of nobody's, old and new content."""
    here = Here(str(tmp_path / "home"))
    for name in ("runtime/runs/w-1-1", "runtime/work/w-9-1.1", "outputs/w-1", "outputs/w-2"):
        (tmp_path / "home" / name).mkdir(parents=True)
    (tmp_path / "home/outputs/w-2/model").write_bytes(b"x" * 50_000)
    for name in NAMES.values():
        Path(here.content, name).write_bytes(b"content")
    long_ago = time.time() - 20 * DAY_S
    for path in (Path(here.content, NAMES["old"]), tmp_path / "home/runtime/work/w-9-1.1"):
        os.utime(path, (long_ago, long_ago))
    return here


def names(answer: tuple[dict[str, object], bytes]) -> dict[str, int]:
    found = answer[0]["left"]
    assert isinstance(found, list)
    return dict(found)


def test_what_is_left_is_told_by_kind(here: Here) -> None:
    """With its size; a kind that there isn't is refused."""
    assert set(names(left(here, {"kind": "runs"}, b""))) == {"w-1-1"}
    found = names(left(here, {"kind": "outputs"}, b""))
    assert found["w-2"] > found["w-1"]
    assert [left(here, {"run": run}, b"")[0] for run in ("w-1-1", "w-2-1")] == [
        {"is": True},
        {"is": False},
    ]
    with pytest.raises(FileTrouble):
        left(here, {"kind": "../.."}, b"")


def test_only_what_was_named_goes(here: Here) -> None:
    """Of strays those that are old, and no name leads out; content just asked for stays."""
    before_ms = int((time.time() - DAY_S) * 1000)
    old = f"content/{NAMES['old']}"
    found = names(strays(here, {"live": [], "before_ms": before_ms}, b""))
    assert set(found) == {"work/w-9-1.1", old}
    assert set(names(strays(here, {"live": ["w-9-1"], "before_ms": before_ms}, b""))) == {old}
    os.utime(Path(here.content, NAMES["asked"]))
    both = [f"content/{name}" for name in NAMES.values()]
    sweep(here, {"strays": [*both, "work/w-9-1.1", "../outputs/w-1", "a/b/c"]}, b"")
    assert os.listdir(here.content) == [NAMES["asked"]]
    home = Path(here.home)
    assert not (home / "runtime/work/w-9-1.1").exists()
    sweep(here, {"kind": "outputs", "workload": "w-2"}, b"")
    assert os.listdir(home / "outputs") == ["w-1"]


def test_who_leaves_for_good_takes_only_what_is_its_own(here: Here) -> None:
    """Without a wish to purge nothing goes; a file of somebody else's keeps the folder."""
    assert leave(here, {}, b"")[0] == {"agent": "ended", "purged": False}
    (Path(here.home) / "thesis.tex").write_text("mine")
    told, _ = leave(here, {"purge": True}, b"")
    assert told["purged"] is True
    assert os.listdir(here.home) == ["thesis.tex"]
