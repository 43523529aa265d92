"""Real frameworks under the stop protocol: saved, put back, resumed, and the same numbers after."""

import os
import subprocess
import time
from pathlib import Path

import pytest

from tests.lab.environments import LIGHTNING, TRAINER
from tests.lab.researcher import PROGRAMS, Researcher, losses

RUN_S = 180


class Undisturbed:
    """A program that runs through without Stellwerk and without haste, beside the other."""

    def __init__(self, name: str, folder: Path, *launch: str) -> None:
        folder.mkdir()
        pace = {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "STEP_S": "0.001"}
        self._process = subprocess.Popen(
            [*(launch or [str(TRAINER.python)]), str(PROGRAMS / f"{name}.py")],
            env={**os.environ, **pace, "STELLWERK_CHECKPOINT_DIR": str(folder)},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def losses(self) -> dict[int, float]:
        """The loss of each step, when it is through."""
        said, _ = self._process.communicate(timeout=RUN_S)
        assert self._process.returncode == 0, said
        return losses(said)


def until_step(researcher: Researcher, name: str, step: int) -> None:
    """Waits until a program's first run has come so far."""
    deadline = time.monotonic() + RUN_S
    while max(losses(researcher.output(name, 1)), default=0) < step:
        assert time.monotonic() < deadline, researcher.output(name, 1)
        time.sleep(1)


def disturb(researcher: Researcher, task: str, name: str, *, step: int, grace_ms: int) -> None:
    """Submits a program, gives its run notice when it has come so far, and waits for the end."""
    researcher.stw("run", task, "-d")
    until_step(researcher, name, step)
    run = researcher.json("show", name)["runs"][0]["id"]
    researcher.give_notice(run, grace_ms)
    ended(researcher, name, "Succeeded")


def ended(researcher: Researcher, name: str, phase: str) -> None:
    """Waits for the end of a program."""
    researcher.stw("wait", name, code=None, timeout_s=RUN_S)
    assert researcher.phases()[name] == phase, researcher.output(name, 1)


def same(one: dict[int, float], other: dict[int, float]) -> bool:
    """Whether two runs over the same steps had the same losses."""
    return one.keys() == other.keys() and all(
        abs(one[step] - other[step]) <= 1e-3 * max(1.0, abs(one[step])) for step in one
    )


def test_the_trainer_saves_when_asked_and_resumes(researcher: Researcher, tmp_path: Path) -> None:
    """Its own just-in-time checkpoint: exit 0 after a notice is put back, not taken as done; the
    next run goes on from there, at the right step and with the very losses of one undisturbed.
    """
    alone = Undisturbed("trainer", tmp_path / "alone")
    task = researcher.program("trainer")
    disturb(researcher, task, "trainer", step=5, grace_ms=60_000)
    runs = researcher.json("show", "trainer")["runs"]
    assert [run["end"]["how"] for run in runs] == ["notice", "exited"]
    assert [run["end"]["code"] for run in runs] == [0, 0]
    assert [run["end"]["put_back"] for run in runs] == [True, False]
    first, second = (losses(researcher.output("trainer", number)) for number in (1, 2))
    saved = min(second) - 1
    assert 5 <= saved < 60
    said = researcher.output("trainer", 2)
    assert f"resuming from checkpoint-{saved}\n" in said
    assert "the Trainer came back at step 60 of 60\n" in said
    assert max(first) - saved <= 1
    assert same({**first, **second}, alone.losses())


def test_a_loop_that_takes_no_notice_goes_on_from_its_last_checkpoint(
    researcher: Researcher, tmp_path: Path
) -> None:
    """It is killed when its grace is over, and loses no more than what it had not saved."""
    alone = Undisturbed("deaf", tmp_path / "alone")
    task = researcher.program("deaf")
    disturb(researcher, task, "deaf", step=12, grace_ms=1_000)
    runs = researcher.json("show", "deaf")["runs"]
    assert [run["end"]["put_back"] for run in runs] == [True, False]
    assert runs[0]["end"]["code"] != 0
    first, second = (losses(researcher.output("deaf", number)) for number in (1, 2))
    assert (min(second) - 1) % 5 == 0
    assert 0 <= max(first) - (min(second) - 1) <= 5
    assert same({**first, **second}, alone.losses())


def test_ranks_under_torchrun_save_together(researcher: Researcher, tmp_path: Path) -> None:
    """The launcher isn't told, its workers are; they save at one step and are put back."""
    launch = "{bin}/torchrun --nproc-per-node 2 --rdzv-backend c10d --rdzv-endpoint localhost:0"
    words = launch.format(bin=TRAINER.python.parent).split()
    alone = Undisturbed("ranks", tmp_path / "alone", *words)
    task = researcher.program("ranks", launch=launch)
    disturb(researcher, task, "ranks", step=5, grace_ms=60_000)
    runs = researcher.json("show", "ranks")["runs"]
    assert [run["end"]["put_back"] for run in runs] == [True, False]
    first, second = (losses(researcher.output("ranks", number)) for number in (1, 2))
    assert min(second) == max(first) + 1
    assert f"saved at step {max(first)}\n" in researcher.output("ranks", 1)
    assert same({**first, **second}, alone.losses())


def test_the_trainers_callback_saves_and_tells(researcher: Researcher) -> None:
    """Found by the job without being installed; what it saved is known as complete."""
    task = researcher.program("called_back")
    disturb(researcher, task, "called_back", step=5, grace_ms=60_000)
    runs = researcher.json("show", "called_back")["runs"]
    assert [run["end"]["put_back"] for run in runs] == [True, False]
    first, second = (losses(researcher.output("called_back", number)) for number in (1, 2))
    assert min(second) == max(first) + 1
    assert max(second) == 60
    assert f"resuming from checkpoint-{max(first)}\n" in researcher.output("called_back", 2)
    shown = researcher.json("show", "called_back")
    folder = researcher.state / "checkpoints" / shown["id"]
    assert f"checkpoint-{max(first)}" in (folder / ".complete.jsonl").read_text()
    assert shown["metrics"]["loss"]["step"] == 60


@pytest.mark.skipif(bool(LIGHTNING.missing), reason=LIGHTNING.missing)
def test_lightnings_requeue_for_slurm_puts_the_job_back(researcher: Researcher) -> None:
    """By its own signal, its own checkpoint and its own `scontrol requeue`; nothing is lost."""
    labels = "labels: {stellwerk/launcher: slurm, stellwerk/notice: USR1}"
    task = researcher.task(
        f"{LIGHTNING.python} {PROGRAMS}/requeued.py",
        name="requeued",
        more=f"resources: {{cpus: 1, {labels}}}\nenvs: {{OMP_NUM_THREADS: '1'}}\n",
    )
    disturb(researcher, task, "requeued", step=5, grace_ms=60_000)
    runs = researcher.json("show", "requeued")["runs"]
    assert [run["end"]["checkpointed"] for run in runs] == [True, False]
    assert runs[0]["end"]["code"] == 85
    first, second = (losses(researcher.output("requeued", number)) for number in (1, 2))
    assert 5 < min(second) <= max(first) + 1
    assert "Lightning came back at step 60 of 60\n" in researcher.output("requeued", 2)


def test_cancel_lets_the_trainer_save_and_is_final(researcher: Researcher) -> None:
    """After `stw cancel` it saves as well, but isn't put back: the end is Cancelled."""
    task = researcher.program("trainer")
    researcher.stw("run", task, "-d")
    until_step(researcher, "trainer", 3)
    researcher.stw("cancel", "trainer")
    ended(researcher, "trainer", "Cancelled")
    shown = researcher.json("show", "trainer")
    assert len(shown["runs"]) == 1
    assert list((researcher.state / "checkpoints" / shown["id"]).glob("checkpoint-*"))
