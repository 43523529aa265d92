"""What a setup makes: kept once, taken over whole, and never where it would be wrong."""

import json
import os
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.runtime import copying, namespaces, setups
from stellwerk.runtime.errands import ErrandError
from tests.runtime.rig import JSONObject, Rig, a_rig

MAKE_VENV = f"{sys.executable} -m venv --without-pip .venv && echo made"
LOOK = (
    ". .venv/bin/activate && python -c 'import sys; print(sys.prefix)' && echo $VIRTUAL_ENV; "
    "stat -c %Y .venv/pyvenv.cfg"
)
needs_namespaces = pytest.mark.skipif(
    namespaces.trouble() is not None, reason="this machine allows no namespaces"
)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A work directory with code in it, as it is before its setup."""
    found = tmp_path / "work"
    (found / "src").mkdir(parents=True)
    (found / "src" / "a.py").write_text("a = 1\n")
    setups.remember(str(found), str(tmp_path / "before"))
    return found


def keep(work: Path) -> Path:
    setups.keep(str(work), str(work.parent / "before"), str(work.parent / "kept"))
    return work.parent / "kept"


def fresh(work: Path) -> Path:
    """Another run's work directory with the same code."""
    found = work.parent / "fresh"
    (found / "src").mkdir(parents=True)
    (found / "src" / "a.py").write_text("a = 2\n")
    return found


def test_only_what_the_setup_made_is_kept(work: Path) -> None:
    """Files with modes and times, links, empty folders; the code isn't in it."""
    (work / "lib" / "empty").mkdir(parents=True)
    (work / "lib" / "run").write_text("#!/bin/sh\n")
    (work / "lib" / "run").chmod(0o750)
    os.utime(work / "lib" / "run", (5, 7))
    (work / "src" / "built.so").write_text("so")
    (work / "link").symlink_to("lib/run")
    kept = keep(work)
    assert sorted(path for path, _ in copying.walk(str(kept))) == [
        "lib", "lib/empty", "lib/run", "link", "src", "src/built.so",
    ]  # fmt: skip
    target = fresh(work)
    setups.take_over(str(kept), str(target))
    found = os.stat(target / "lib" / "run")
    assert (stat.S_IMODE(found.st_mode), found.st_mtime) == (0o750, 7)
    assert os.readlink(target / "link") == "lib/run"
    assert (target / "src" / "a.py").read_text() == "a = 2\n"
    assert (target / "src" / "built.so").read_text() == "so"


def test_a_setup_that_touches_the_code_is_not_kept(work: Path) -> None:
    """It says which file; the next run has its setup again."""
    (work / "src" / "a.py").write_text("a = 3\n")
    with pytest.raises(ErrandError, match=r"changed `src/a\.py`"):
        keep(work)
    (work / "src" / "a.py").unlink()
    with pytest.raises(ErrandError, match=r"removed `src/a\.py`"):
        keep(work)
    assert not (work.parent / "kept").exists()


def test_nothing_is_laid_over_newer_code(work: Path) -> None:
    """A file that has come into the code since is not replaced by what a setup once made."""
    (work / "gen").mkdir()
    (work / "gen" / "version.py").write_text("1")
    (work / "new").write_text("1")
    kept = keep(work)
    target = fresh(work)
    (target / "gen").mkdir()
    (target / "gen" / "version.py").write_text("2")
    with pytest.raises(ErrandError, match=r"`gen/version\.py`, which it made, comes with the code"):
        setups.take_over(str(kept), str(target))
    assert not (target / "new").exists()


def test_what_can_not_be_copied_is_not_kept(work: Path) -> None:
    """A pipe that a server of the setup left means that the setup did more than make files."""
    os.mkfifo(work / "pipe")
    with pytest.raises(ErrandError, match="socket, pipe or device"):
        keep(work)


def test_a_result_holds_for_this_boot_and_as_long_as_it_is_used(tmp_path: Path) -> None:
    """Then it is removed; one that a run is using isn't."""
    (tmp_path / "k.files").mkdir()
    gate = setups.SetupGate(str(tmp_path), "k")
    assert gate.enter() == setups.MINE
    other = setups.SetupGate(str(tmp_path), "k")
    assert other.enter() == setups.BUSY
    gate.succeeded("r")
    assert (gate.enter(), other.enter()) == (setups.KEPT, setups.KEPT)
    setups.remove_unused(str(tmp_path), unused_s=-1)
    assert (tmp_path / "k.files").exists()
    gate.leave()
    other.leave()
    setups.remove_unused(str(tmp_path), unused_s=1000)
    assert (tmp_path / "k.files").exists()
    mark = json.loads((tmp_path / "k.ok").read_text())
    (tmp_path / "k.ok").write_text(json.dumps({**mark, "boot_id": "another"}))
    assert gate.enter() == setups.MINE
    gate.leave()
    setups.remove_unused(str(tmp_path), unused_s=1000)
    assert sorted(os.listdir(tmp_path)) == ["k.lock"]


@pytest.fixture(scope="module")
def rig() -> Iterator[Rig]:
    with a_rig() as made:
        made.start_agent()
        yield made


def run(rig: Rig, name: str, setup: str = MAKE_VENV, **more: object) -> JSONObject:
    return rig.finish(name, LOOK, setup=setup, setup_key="venv", **more)


@needs_namespaces
def test_an_environment_is_made_once_and_works_in_every_run(rig: Rig) -> None:
    """It is at the path that is written into it, and its files are as old as they were."""
    first, second = run(rig, "first"), run(rig, "second")
    assert (first["code"], first["setup"]) == (0, "ok")
    assert (second["code"], second["setup"]) == (0, "cached")
    assert rig.log("first", "setup.log") == "made\n"
    assert rig.log("second", "setup.log") == ("setup: what it makes was kept from an earlier run\n")
    venv = f"{rig.home}/sky_workdir/.venv"
    assert rig.log("second").split()[:2] == [venv, venv]
    assert rig.log("second") == rig.log("first")


@needs_namespaces
def test_a_run_changes_nothing_for_the_others(rig: Rig) -> None:
    """Each has a copy: what one appends or removes the next one has as it was."""
    setup = "mkdir env; echo made > env/log; echo lib > env/lib"
    spoil = "echo spoilt >> env/log; rm env/lib; ls env"
    for name in ("spoils", "spoils-too"):
        assert rig.finish(name, spoil, setup=setup, setup_key="spoil")["code"] == 0
    rig.finish("clean", "cat env/log env/lib", setup=setup, setup_key="spoil")
    assert rig.log("clean") == "made\nlib\n"


@needs_namespaces
def test_a_setup_that_is_not_kept_says_why_and_runs_again(rig: Rig) -> None:
    """Its run is none the worse."""
    source = os.path.join(rig.folder, "source")
    os.mkdir(source)
    Path(source, "code").write_text("old")
    for name in ("edits-1", "edits-2"):
        work = os.path.join(rig.folder, name)
        shutil.copytree(source, work)
        end = rig.finish(name, "cat code", setup="echo new > code", setup_key="edit", cwd=work)
        assert (end["code"], end["setup"]) == (0, "ok")
        assert rig.log(name) == "new\n"
        assert "setup isn't kept: it changed `code`" in rig.log(name, "setup.log")


@needs_namespaces
def test_code_that_has_grown_into_the_way_gets_its_own_setup(rig: Rig) -> None:
    """The kept result stays for the others."""
    setup = "[ -e made ] || echo by setup > made"
    assert rig.finish("grown-1", "cat made", setup=setup, setup_key="grown")["setup"] == "ok"
    work = os.path.join(rig.folder, "grown")
    os.mkdir(work)
    Path(work, "made").write_text("by code\n")
    end = rig.finish("grown-2", "cat made", setup=setup, setup_key="grown", cwd=work)
    assert (end["code"], end["setup"]) == (0, "ok")
    assert rig.log("grown-2") == "by code\n"
    assert "comes with the code now" in rig.log("grown-2", "setup.log")
    end = rig.finish("grown-3", "cat made", setup=setup, setup_key="grown")
    assert (rig.log("grown-3"), end["setup"]) == ("by setup\n", "cached")


def test_without_namespaces_every_run_has_its_setup(own_rig: Rig) -> None:
    """An environment at another path than its own would be broken, so nothing is taken over."""
    own_rig.start_agent(env={namespaces.PRETEND_NONE: "1"})
    for name in ("plain-1", "plain-2"):
        end = run(own_rig, name)
        assert (end["code"], end["setup"]) == (0, "ok")
        assert own_rig.log(name).split()[0] == own_rig.path(name, "work/.venv")
        assert own_rig.log(name, "setup.log").startswith("setup isn't kept: this machine gives")
