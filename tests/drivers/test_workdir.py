"""Work directories are what the manifest says, whole or not there, and nothing lands outside."""

import contextlib
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.drivers.agents.snapshots import Part
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.local.workdir import make_work_directory
from stellwerk.runtime.trees import remove_generations
from tests.drivers.machine import Blobs


@pytest.fixture
def blobs(tmp_path: Path) -> Blobs:
    return Blobs(tmp_path / "blobs")


def test_everything_of_a_manifest_is_there(tmp_path: Path, blobs: Blobs) -> None:
    """Files with their modes, links as they are, empty directories."""
    blobs.put("h1", b"print(1)\n")
    blobs.put("h2", b"#!/bin/sh\n")
    snapshot = blobs.manifest(
        {"path": "train.py", "mode": 0o640, "size": 9, "hash": "h1"},
        {"path": "bin/go.sh", "mode": 0o755, "size": 10, "hash": "h2"},
        {"path": "latest", "link": "bin/go.sh"},
        {"path": "data", "link": "/somewhere/else"},
        {"path": "out/empty", "dir": True, "mode": 0o750},
    )
    work = tmp_path / "works" / "w-1-1.1"
    assert make_work_directory(str(work), [Part("", snapshot)], blobs)
    assert (work / "train.py").read_bytes() == b"print(1)\n"
    assert (work / "train.py").stat().st_mode & 0o777 == 0o640
    assert (work / "bin/go.sh").stat().st_mode & 0o777 == 0o755
    assert os.readlink(work / "latest") == "bin/go.sh"
    assert os.readlink(work / "data") == "/somewhere/else"
    assert (work / "out/empty").stat().st_mode & 0o777 == 0o750
    assert os.listdir(work.parent) == [work.name]


def test_a_directory_that_is_there_is_left_alone(tmp_path: Path, blobs: Blobs) -> None:
    """A repeated start finds the work directory in use and changes nothing in it."""
    work = tmp_path / "work"
    assert make_work_directory(str(work), [Part("", blobs.manifest())], blobs)
    (work / "written-by-the-job").write_text("x")
    assert not make_work_directory(str(work), [Part("", blobs.manifest())], blobs)
    assert os.listdir(work) == ["written-by-the-job"]


def test_a_tree_deeper_than_calls_can_be(tmp_path: Path, blobs: Blobs) -> None:
    """It is made, and removed again, like any other; one that no path can name is refused."""
    blobs.put("h1", b"1")
    work = tmp_path / "w.1"
    deep = blobs.manifest({"path": "d/" * 1_500 + "f", "size": 1, "hash": "h1"})
    assert make_work_directory(str(work), [Part("", deep)], blobs)
    assert (work / ("d/" * 1_500 + "f")).read_bytes() == b"1"
    remove_generations(str(tmp_path), "w")
    too_long = blobs.manifest({"path": "d/" * 2_100 + "f", "size": 1, "hash": "h1"})
    with pytest.raises(DriverError) as caught:
        make_work_directory(str(work), [Part("", too_long)], blobs)
    assert caught.value.final
    assert "File name too long" in caught.value.message
    assert os.listdir(tmp_path) == ["blobs"]


def test_what_a_killed_attempt_left_is_made_anew(tmp_path: Path, blobs: Blobs) -> None:
    """Half a directory of a server that was killed is no work directory."""
    left = tmp_path / "run" / "work.unfinished"
    left.mkdir(parents=True)
    (left / "half").write_text("x")
    work = tmp_path / "run" / "work"
    make_work_directory(str(work), [Part("", blobs.manifest())], blobs)
    assert os.listdir(work) == []
    assert os.listdir(work.parent) == ["work"]


def test_only_the_directories_of_a_run_are_removed(tmp_path: Path) -> None:
    """All generations of it, and no other run whose name begins like it."""
    for name in ("w-1-1.1", "w-1-1.2", "w-1-11.1", "w-1-1", "w-1.1"):
        (tmp_path / "works" / name / "deep").mkdir(parents=True)
    remove_generations(str(tmp_path / "works"), "w-1-1")
    assert sorted(os.listdir(tmp_path / "works")) == ["w-1-1", "w-1-11.1", "w-1.1"]
    remove_generations(str(tmp_path / "no-such-folder"), "w-1-1")


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../x", "a/../../x", "", ".", "a//b", "a/./b", "a\0b", "a/"]
)
def test_paths_that_lead_elsewhere_are_refused(tmp_path: Path, blobs: Blobs, path: str) -> None:
    """Nothing is written for a manifest that names a place outside the work directory."""
    blobs.put("h", b"x")
    snapshot = blobs.manifest({"path": path, "mode": 0o644, "size": 1, "hash": "h"})
    with pytest.raises(DriverError) as caught:
        make_work_directory(str(tmp_path / "run" / "work"), [Part("", snapshot)], blobs)
    assert (caught.value.code, caught.value.final) == ("snapshot/outside", True)
    assert not (tmp_path / "run" / "work").exists()


@pytest.mark.parametrize("link_first", [True, False])
def test_nothing_is_written_through_a_link(tmp_path: Path, blobs: Blobs, link_first: bool) -> None:
    """A link to a directory outside and a file below it: refused, and the outside stays empty."""
    outside = tmp_path / "outside"
    outside.mkdir()
    blobs.put("h", b"x")
    entries: list[dict[str, object]] = [
        {"path": "a", "link": str(outside)},
        {"path": "a/b", "mode": 0o644, "size": 1, "hash": "h"},
    ]
    snapshot = blobs.manifest(*(entries if link_first else reversed(entries)))
    with pytest.raises(DriverError) as caught:
        make_work_directory(str(tmp_path / "run" / "work"), [Part("", snapshot)], blobs)
    assert (caught.value.code, caught.value.final) == ("snapshot/in-the-way", True)
    assert os.listdir(outside) == []
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("manifest", "code"),
    [
        (None, "snapshot/missing"),
        (b"\xff\xfe", "snapshot/damaged"),
        (b'{"v":1,"files":[{"size":1}]}', "snapshot/damaged"),
        (b'{"v":9,"files":[]}', "snapshot/version"),
        (b'{"v":1,"files":[{"path":"a","size":1,"hash":"gone"}]}', "snapshot/missing"),
        (b'{"v":1,"files":[{"path":"a","size":3,"hash":"short"}]}', "snapshot/missing"),
        (b'{"v":1,"files":[{"path":"a","size":3,"hash":"what?"}]}', "snapshot/damaged"),
    ],
)
def test_a_snapshot_that_is_not_whole_is_refused(
    tmp_path: Path, blobs: Blobs, manifest: bytes | None, code: str
) -> None:
    """A missing or damaged manifest, or content that isn't what it says: a final refusal each."""
    blobs.put("short", b"xx")
    if manifest is not None:
        blobs.put("m", manifest)
    with pytest.raises(DriverError) as caught:
        make_work_directory(str(tmp_path / "run" / "work"), [Part("", "m")], blobs)
    assert (caught.value.code, caught.value.final) == (code, True)
    assert not (tmp_path / "run" / "work").exists()


def test_a_place_that_cannot_be_written_is_a_refusal(tmp_path: Path, blobs: Blobs) -> None:
    """A file where the run's directory should be: said in words, with the path."""
    (tmp_path / "run").write_text("in the way")
    with pytest.raises(DriverError, match=r"work directory .*run/work can't be made"):
        make_work_directory(str(tmp_path / "run" / "work"), [Part("", blobs.manifest())], blobs)


SEGMENT = st.sampled_from(["a", "b", "..", ".", "", "ä", "x y", "\n", "-"])
PATHS = st.lists(SEGMENT, min_size=1, max_size=4).map("/".join)
ENTRY = st.one_of(
    st.builds(lambda path: {"path": path, "mode": 420, "size": 1, "hash": "h"}, PATHS),
    st.builds(lambda path, link: {"path": path, "link": link}, PATHS, PATHS.filter(bool)),
    st.builds(lambda path: {"path": path, "dir": True}, PATHS),
)


@given(entries=st.lists(ENTRY, max_size=5))
def test_any_manifest_is_made_whole_or_refused(
    tmp_path_factory: pytest.TempPathFactory, entries: list[dict[str, object]]
) -> None:
    """Whatever a manifest says: all its entries are there or nothing is, and never outside."""
    base = tmp_path_factory.mktemp("any")
    blobs = Blobs(base / "blobs")
    blobs.put("h", b"x")
    work = base / "in" / "run" / "work"
    with contextlib.suppress(DriverError):
        make_work_directory(str(work), [Part("", blobs.manifest(*entries))], blobs)
        assert work.exists()
    if work.exists():
        assert all(os.path.lexists(work / str(entry["path"])) for entry in entries)
    found = sorted(str(path.relative_to(base)) for path in base.glob("*/*"))
    assert found in (["blobs/h", "blobs/manifest"], ["blobs/h", "blobs/manifest", "in/run"])
