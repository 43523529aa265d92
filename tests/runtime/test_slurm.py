"""A job made for Slurm: it names its machines, asks to be put back, and is ended for that."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from stellwerk.runtime.files import RunFiles
from stellwerk.runtime.slurm import asked_back, path_with_stand_in
from stellwerk.runtime.stopping import End
from tests.runtime.rig import Rig

SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_NODELIST": "10.0.0.1,10.0.0.2"}
SAVES = """\
[ -e "$STELLWERK_CHECKPOINT_DIR/saved" ] && { echo "goes on"; exit 0; }
touch "$STELLWERK_CHECKPOINT_DIR/saved"
scontrol show hostnames
scontrol requeue 8 2>&1
scontrol hold 2>&1
scontrol requeue $SLURM_JOB_ID && echo "asked"
while :; do sleep 0.05; done
"""


def test_a_job_that_asks_is_ended_and_put_back(rig: Rig) -> None:
    """Without a notice, and though it goes on; what it may not ask is said."""
    end = rig.finish("saves", SAVES, env=SLURM)
    assert (end["how"], end["code"], end["checkpointed"], end["put_back"]) == (
        "exited",
        85,
        True,
        True,
    )
    said = rig.log("saves").splitlines()
    assert said[:2] == ["10.0.0.1", "10.0.0.2"]
    assert "only this job (7) can be put back" in said[2]
    assert "only `requeue` and `show hostnames`" in said[3]
    assert said[4] == "asked"


def test_submitits_own_requeue_puts_the_job_back(rig: Rig) -> None:
    """The real one, which finds its job and its place by Slurm's variables."""
    asks = "from submitit.slurm.slurm import SlurmJobEnvironment as E; e = E(); e._requeue(1)"
    program = f"{asks}; print(e.job_id, e.global_rank, e.num_tasks, e.hostnames)"
    env = {**SLURM, "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
    end = rig.finish("asks", f'{sys.executable} -c "{program}"\nsleep 9', env=env)
    assert (end["code"], end["put_back"]) == (85, True)
    assert "7 1 2 ['10.0.0.1', '10.0.0.2']" in rig.log("asks")


def test_other_jobs_have_no_stand_in(tmp_path: Path) -> None:
    """Where Slurm's own is on the PATH it stays the one."""
    assert path_with_stand_in({"SLURM_JOB_ID": "1", "PATH": "/bin"}, RunFiles(str(tmp_path))) == {}


def test_without_a_wrapper_it_says_so(tmp_path: Path) -> None:
    """Nothing waits for a pipe that nobody reads."""
    env = {**os.environ, **SLURM}
    env |= path_with_stand_in(env, RunFiles(str(tmp_path)))
    env["STELLWERK_STOP_FILE"] = str(tmp_path / "stop")
    done = subprocess.run(
        ["scontrol", "requeue", "7"], env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "nobody looks after this job" in done.stderr


@pytest.mark.parametrize(
    ("how", "then", "put_back"),
    [
        ("exited", "exited", True),
        ("notice", "notice", True),
        ("time_limit", "exited", True),
        ("cancelled", "cancelled", False),
    ],
)
def test_what_asking_means(how: str, then: str, put_back: bool) -> None:
    """Also when its time is over; whoever cancels it has the last word."""
    end = asked_back(End(how, 137, None, checkpointed=False, put_back=False))
    assert (end.how, end.put_back) == (then, put_back)
