"""What training programs use to save in time, tried with stand-ins for what isn't here."""

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from stellwerk.runtime import training


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job's folder; its stop file is `stop` in it."""
    for name, file in (
        ("STOP_FILE", "stop"),
        ("DONE_FILE", "done"),
        ("METRICS_FILE", "metrics"),
        ("CHECKPOINT_DIR", "saved"),
    ):
        monkeypatch.setenv(f"STELLWERK_{name}", str(tmp_path / file))
    return tmp_path


def complete(job: Path) -> list[str]:
    """The checkpoints that were said to be complete."""
    lines = (job / "saved" / ".complete.jsonl").read_text().splitlines()
    return [json.loads(line)["path"] for line in lines]


def test_the_latest_is_the_one_with_the_highest_number(job: Path) -> None:
    """Half written ones don't count, nor those without the last file where others have it."""
    assert training.latest() is None
    for name in ("checkpoint-9", "checkpoint-10", "tmp-checkpoint-11", "logs"):
        (job / "saved" / name).mkdir(parents=True)
    assert training.latest() == str(job / "saved" / "checkpoint-10")
    (job / "saved" / "checkpoint-9" / "trainer_state.json").touch()
    assert training.latest() == str(job / "saved" / "checkpoint-9")


def test_outside_of_a_job_nothing_is_to_stop(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Checkpoints belong into a folder here then."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("STELLWERK_CHECKPOINT_DIR", raising=False)
    assert not training.all_should_stop()
    assert training.checkpoint_dir() == str(tmp_path / "checkpoints")


def test_all_processes_hear_of_a_notice_together(
    job: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The one that has seen no stop file yet is told by the others."""

    class Flag(list[int]):
        def item(self) -> int:
            return self[0]

    def all_reduce(flag: Flag, op: str) -> None:
        assert op == "max"
        flag[0] = 1

    torch = ModuleType("torch")
    torch.tensor = lambda values, device: Flag(values)  # type: ignore[attr-defined]
    torch.distributed = SimpleNamespace(  # type: ignore[attr-defined]
        is_available=lambda: True,
        is_initialized=lambda: True,
        get_world_size=lambda: 2,
        all_reduce=all_reduce,
        ReduceOp=SimpleNamespace(MAX="max"),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    assert training.all_should_stop("cpu")


def test_the_trainers_callback(job: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for a save and the end, tells what was saved and logged, and when all is done."""
    transformers = ModuleType("transformers")
    transformers.TrainerCallback = object  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "transformers", transformers)
    callback = training.trainer_callback()
    args = SimpleNamespace(device=None, output_dir=str(job / "saved"))
    state = SimpleNamespace(is_world_process_zero=True, global_step=3, max_steps=9)
    control = SimpleNamespace(should_save=False, should_training_stop=False)
    assert not callback.on_step_end(args, state, control).should_save
    (job / "stop").touch()
    assert callback.on_step_end(args, state, control) is control
    assert control.should_save
    assert control.should_training_stop
    callback.on_save(args, state, control)
    assert complete(job) == ["checkpoint-3"]
    callback.on_log(args, state, control, logs={"loss": 0.5, "name": "x"})
    assert json.loads((job / "metrics").read_text())["value"] == 0.5
    callback.on_train_end(args, state, control)
    assert not (job / "done").exists()
    state.global_step = 9
    callback.on_train_end(args, state, control)
    assert (job / "done").exists()


class Accelerator:
    """As much of Accelerate's as saving takes."""

    device = None
    is_main_process = True

    def save_state(self, path: str) -> None:
        Path(path).mkdir(parents=True)

    def load_state(self, path: str) -> None:
        self.loaded = path

    def wait_for_everyone(self) -> None:
        pass


def test_accelerate_saves_and_goes_on(job: Path) -> None:
    """At the step after which the job is to stop, with the status that says put me back."""
    accelerator = Accelerator()
    saver = training.AccelerateSaver(accelerator)
    assert saver.resume() == 0
    saver.after(4)
    (job / "stop").touch()
    with pytest.raises(SystemExit) as end:
        saver.after(5)
    assert end.value.code == 85
    assert complete(job) == ["step-5"]
    assert training.AccelerateSaver(accelerator).resume() == 5
    assert accelerator.loaded.endswith("saved/step-5")


def test_orbax_saves_once_and_waits(job: Path) -> None:
    """A step that it has saved just now isn't saved again."""
    told: list[Any] = []

    class Manager:
        step = 6

        def latest_step(self) -> int:
            return self.step

        def save(self, step: int, *, force: bool, args: str) -> None:
            told.append((step, force, args))

        def wait_until_finished(self) -> None:
            told.append("waited")

    saver = training.OrbaxSaver(Manager())
    saver.after(6, args="state")
    (job / "stop").touch()
    for step in (6, 7):
        with pytest.raises(SystemExit):
            saver.after(step, args="state")
    assert told == ["waited", (7, True, "state"), "waited"]
