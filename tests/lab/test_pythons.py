"""The agent and a job on every Python from 3.9 to 3.13 that this machine has."""

from pathlib import Path

import pytest

from tests.runtime.rig import INTERPRETERS, a_rig

SAVER = """
import os, signal, sys, time
def save(*_):
    open(os.environ["STELLWERK_CHECKPOINT_DIR"] + "/state", "w").close()
    sys.exit(85)
signal.signal(signal.SIGTERM, save)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("version", INTERPRETERS)
def test_an_agent_runs_saves_and_stops_a_job_on_it(version: str) -> None:
    """One that ends by itself, one that is given notice and asks to be put back."""
    python = INTERPRETERS[version]
    with a_rig(python=python) as rig:
        rig.start_agent()
        assert rig.client.ask("hello")["python"].startswith(f"{version}.")
        assert rig.finish("ends", f"{python} -c 'print(40 + 2)'")["code"] == 0
        assert rig.log("ends") == "42\n"
        program = Path(rig.folder, "saver.py")
        program.write_text(SAVER)
        rig.start("saves", f"{python} {program}", grace_ms=10_000)
        rig.wait_for_line("saves", "ready")
        rig.client.ask("stop", run="saves", why="preempt")
        end = rig.ended("saves")
        assert (end["code"], end["put_back"], end["checkpointed"]) == (85, True, True)
