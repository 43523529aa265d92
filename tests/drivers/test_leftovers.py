"""What runs left on a machine is found by name, measured and removed; what is needed stays."""

import fcntl
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from stellwerk.runtime import leftovers

OLD = 1_000_000


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A runtime's folder with two runs; one has a work directory, the other mounts."""
    for name in ("runs/w-1-1", "runs/w-2-1", "work/w-1-1.1", "mounts/w-2-1.1/0"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "work/w-1-1.1/data").write_bytes(b"x" * 100_000)
    (tmp_path / "runs/w-2-1/run.log").write_bytes(b"y" * 10_000)
    return tmp_path


def age(path: Path, at_ms: int = OLD) -> Path:
    """Makes something old."""
    os.utime(path, (at_ms / 1000, at_ms / 1000))
    return path


def test_runs_are_measured_with_all_that_belongs_to_them(root: Path) -> None:
    """Their folder, work directories of all generations and mounts; nothing that isn't a run."""
    (root / "runs/.hidden").mkdir()
    (root / "runs/file").touch()
    (root / "runs/link").symlink_to(root / "work")
    found = {one.name: one.bytes for one in leftovers.runs_left(root)}
    assert set(found) == {"w-1-1", "w-2-1"}
    assert 100_000 <= found["w-1-1"] < 130_000
    assert 10_000 <= found["w-2-1"] < 40_000
    assert leftovers.runs_left(root / "nowhere") == ()


def test_links_are_not_followed(tmp_path: Path) -> None:
    """A job's link to its data set costs nothing, and what it leads to is never removed."""
    data = tmp_path / "data"
    data.mkdir()
    (data / "set").write_bytes(b"z" * 200_000)
    outputs = tmp_path / "outputs"
    (outputs / "w-1").mkdir(parents=True)
    (outputs / "w-1" / "data").symlink_to(data)
    (outputs / "w-2").symlink_to(data)
    [found] = leftovers.folders_left(outputs)
    assert found.name == "w-1"
    assert found.bytes < 50_000
    for name in ("w-1", "w-2", "../data", "w-9"):
        leftovers.remove_folder(outputs, name)
    assert not (outputs / "w-1").exists()
    assert (data / "set").exists()


def test_folders_that_cannot_be_written_to_are_removed_too(tmp_path: Path) -> None:
    """As some build tools make them."""
    deep = tmp_path / "w-1" / "a" / "b"
    deep.mkdir(parents=True)
    (deep / "c").touch()
    for folder in (deep, deep.parent):
        folder.chmod(0o500)
    leftovers.remove_folder(tmp_path, "w-1")
    assert not (tmp_path / "w-1").exists()


def test_strays_belong_to_no_run_and_are_old(root: Path) -> None:
    """Work directories whose run is gone, and half-made ones; not of live runs, not young ones."""
    for name in ("work/w-3-1.1", "work/w-4-1.2.unfinished", "mounts/w-3-1.1", "work/w-5-1.1"):
        (root / name).mkdir()
        age(root / name)
    (root / "work/w-6-1.1").mkdir()
    age(root / "work/w-1-1.1")
    found = leftovers.strays(root, {"w-5-1"}, OLD + 1)
    names = [one.name for one in found]
    assert names == ["work/w-3-1.1", "work/w-4-1.2.unfinished", "mounts/w-3-1.1"]
    assert leftovers.strays(root, {"w-5-1"}, OLD) == ()
    leftovers.remove_strays(root, names)
    assert sorted(path.name for path in (root / "work").iterdir()) == [
        "w-1-1.1",
        "w-5-1.1",
        "w-6-1.1",
    ]


def test_builds_of_the_runtime_that_nobody_uses_are_strays(root: Path) -> None:
    """The newest stays, and so does what any process was started from or has on its path."""
    unused, run, on_path, newest = (root / f"runtime-{name}.pyz" for name in "abcd")
    for at, build in enumerate((unused, run, on_path, newest)):
        build.write_text("import sys; sys.stdin.read()")
        age(build, OLD + at)
    started = [
        subprocess.Popen([sys.executable, str(run)], stdin=subprocess.PIPE),
        subprocess.Popen(["sleep", "60"], env={**os.environ, "PYTHONPATH": f"{on_path}:x"}),
    ]
    try:
        assert [one.name for one in leftovers.strays(root, (), OLD * 2)] == ["runtime-a.pyz"]
    finally:
        for process in started:
            process.kill()
            process.communicate()
    leftovers.remove_strays(root, ["runtime-a.pyz", "runtime-z.pyz"])
    assert not unused.exists()


def test_images_that_no_run_had_are_strays(root: Path) -> None:
    """One that a run folder names stays, and so do all while a run is getting one."""
    for name in ("aa", "bb"):
        (root / "images" / name / "etc").mkdir(parents=True)
        age(root / "images" / name)
    (root / "images" / "key.lock").touch()
    run = root / "runs" / "w-1-1"
    (run / "spec.json").write_text('{"image": "busybox"}')
    assert leftovers.strays(root, (), OLD + 1) == ()
    (run / "image.json").write_text(json.dumps({"files": str(root / "images" / "aa"), "env": {}}))
    assert [one.name for one in leftovers.strays(root, (), OLD + 1)] == ["images/bb"]
    with (root / "images" / "key.lock").open("rb") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        leftovers.remove_strays(root, ["images/bb"])
        assert (root / "images" / "bb").exists()
    leftovers.remove_strays(root, ["images/bb", "images/aa"])
    assert sorted(path.name for path in (root / "images").iterdir()) == ["aa", "key.lock"]
    assert list((root / "trash").iterdir()) == []
    (run / "image.json").unlink()
    (run / "ended.json").write_text("{}")
    assert [one.name for one in leftovers.strays(root, (), OLD + 1)] == ["images/aa"]


def test_a_process_is_known_from_its_first_moment(root: Path) -> None:
    """Between its start and its first step a process has no environment to read: asked again."""
    for _ in range(40):
        started = subprocess.Popen(["sleep", "60"], env={"PYTHONPATH": str(root / "runtime-x.pyz")})
        try:
            assert "runtime-x.pyz" in leftovers._used_by_processes(root)
        finally:
            started.kill()
            started.wait()
