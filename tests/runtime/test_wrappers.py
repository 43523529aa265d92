"""Wrappers that a job or somebody else kills, stops or robs of their folder."""

import os
from pathlib import Path

import pytest

from tests.processes import is_alive
from tests.runtime.rig import KILL, PYTHON, Rig, processes_of


@pytest.mark.parametrize("with_agent", [True, False])
def test_killed_wrapper(own_rig: Rig, *, with_agent: bool) -> None:
    """Its shell dies with it, the agent of now or later ends the rest and says what happened."""
    rig = own_rig
    rig.start_agent()
    rig.start("w", f'setsid sleep 60 & {PYTHON} -c "import time;print(1);time.sleep(60)"')
    rig.wait_for_line("w", "1")
    if not with_agent:
        rig.kill_agent()
    os.kill(rig.wrapper("w"), KILL)
    if not with_agent:
        rig.wait("death", lambda: not is_alive(rig.wrapper("w")))
        rig.start_agent()
    end = rig.ended("w")
    assert (end["how"], end["put_back"]) == ("wrapper_died", True)
    assert processes_of("w") == []


def test_killed_wrapper_of_a_job_that_hides(own_rig: Rig) -> None:
    """Processes without a marker, a session or a log of the run end too, before it is over."""
    rig = own_rig
    rig.start_agent()
    hidden = f"env -i setsid {PYTHON} -c 'import time;print(7);time.sleep(60)'"
    out = Path(rig.folder, "out")
    out.touch()
    rig.start("hide", f"{hidden} > {out} 2>&1 & echo $!; sleep 60")
    rig.wait("the hidden process", lambda: out.read_text() and rig.log("hide"))
    pid = int(rig.log("hide"))
    assert is_alive(pid)
    os.kill(rig.wrapper("hide"), KILL)
    assert rig.ended("hide")["how"] == "wrapper_died"
    assert not is_alive(pid)


def test_stopped_wrapper_obeys(own_rig: Rig) -> None:
    """A job that stops its wrapper with SIGSTOP gets out of no order."""
    rig = own_rig
    rig.start_agent()
    rig.start("sly", "kill -STOP $PPID; echo sly; sleep 60")
    rig.wait_for_line("sly", "sly")
    rig.client.ask("stop", run="sly", why="cancel", grace_ms=100)
    assert rig.ended("sly")["how"] == "cancelled"


def test_job_that_deletes_the_run_directory_and_goes_on(own_rig: Rig) -> None:
    """It is still watched and takes orders; when its agent dies, the next one ends it."""
    rig = own_rig
    rig.start_agent()
    runs = ("gone", "lost")
    for run in runs:
        # Its wrapper may write a file there in the middle of it.
        folder = rig.path(run)
        rig.start(run, f"while [ -e {folder} ]; do rm -rf {folder}; done; sleep 60")
    rig.wait("both removals", lambda: not any(os.path.exists(rig.path(run)) for run in runs))
    assert len(processes_of("gone")) >= 1
    rig.client.ask("stop", run="gone", why="cancel", grace_ms=100)
    assert rig.ended("gone")["how"] == "cancelled"
    rig.kill_agent()
    assert len(processes_of("lost")) >= 1
    rig.start_agent()
    assert "lost" not in [run["run"] for run in rig.client.ask("list")["runs"]]
    rig.wait("its end", lambda: not processes_of("lost"))
