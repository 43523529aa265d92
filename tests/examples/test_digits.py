"""Shows that the digits example loses nothing when it is stopped, and ends as if it never was."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

EXAMPLE = Path(__file__).resolve().parents[2] / "examples/digits"
SKYPILOT_KEYS = {"name", "workdir", "num_nodes", "resources", "envs", "setup", "run"}


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("digits_train", EXAMPLE / "train.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def train(script: ModuleType, tmp_path: Path) -> Callable[..., int]:
    """Trains in a folder of the given name, where `stop` is the stop file."""

    def run(folder: str, epochs: int) -> int:
        env = environment(tmp_path / folder, epochs)
        status: int = script.train(env, script.StopRequest(env["STELLWERK_STOP_FILE"]))
        return status

    return run


def environment(folder: Path, epochs: int) -> dict[str, str]:
    folder.mkdir(exist_ok=True)
    return {
        "EPOCHS": str(epochs),
        "CHECKPOINT_EVERY": "2",
        "STELLWERK_CHECKPOINT_DIR": f"{folder}/checkpoints",
        "STELLWERK_OUTPUT_DIR": f"{folder}/outputs",
        "STELLWERK_METRICS_FILE": f"{folder}/metrics.jsonl",
        "STELLWERK_STOP_FILE": f"{folder}/stop",
        "STELLWERK_DONE_FILE": f"{folder}/done",
    }


def results(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "outputs/metrics.json").read_text("utf-8"))
    return found


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "checkpoints").iterdir())


def test_a_stopped_training_ends_with_the_same_numbers(
    train: Callable[..., int], tmp_path: Path
) -> None:
    """Stopped after epochs 1 and 2 and resumed, it ends with the loss of an unbroken training."""
    assert train("whole", 5) == 0
    stop = tmp_path / "broken/stop"
    stop.parent.mkdir()
    stop.touch()
    assert train("broken", 5) == 85
    assert checkpoints(stop.parent) == ["epoch-000001.pkl"]
    assert train("broken", 5) == 85
    assert not (stop.parent / "done").exists()
    stop.unlink()
    assert train("broken", 5) == 0
    assert results(tmp_path / "broken") == results(tmp_path / "whole")
    assert (stop.parent / "done").exists()


def test_a_damaged_checkpoint_is_passed_over(train: Callable[..., int], tmp_path: Path) -> None:
    """With its newest checkpoint cut short it goes on from the one before, to the same end."""
    assert train("whole", 4) == 0
    assert train("damaged", 4) == 0
    newest = tmp_path / "damaged/checkpoints/epoch-000004.pkl"
    newest.write_bytes(newest.read_bytes()[:1000])
    assert train("damaged", 4) == 0
    assert results(tmp_path / "damaged") == results(tmp_path / "whole")


def test_a_finished_training_ends_at_once(train: Callable[..., int], tmp_path: Path) -> None:
    """Started again when all is done, it trains nothing and says the same again."""
    assert train("whole", 2) == 0
    before = results(tmp_path / "whole"), (tmp_path / "whole/metrics.jsonl").read_text("utf-8")
    assert train("whole", 2) == 0
    after = results(tmp_path / "whole"), (tmp_path / "whole/metrics.jsonl").read_text("utf-8")
    assert before == after


def test_it_reports_its_metrics(train: Callable[..., int], tmp_path: Path) -> None:
    """Each epoch leaves a line with step, name and value for each metric; the loss falls."""
    assert train("whole", 3) == 0
    lines = (tmp_path / "whole/metrics.jsonl").read_text("utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    losses = [record["value"] for record in records if record["name"] == "loss"]
    assert [record["step"] for record in records] == [1, 1, 2, 2, 3, 3]
    assert losses == sorted(losses, reverse=True)


def test_it_learns(train: Callable[..., int], tmp_path: Path) -> None:
    """With the epochs of the task file it reads more than 95 % of the unseen scans."""
    task = yaml.safe_load((EXAMPLE / "task.yaml").read_text("utf-8"))
    assert train("whole", task["envs"]["EPOCHS"]) == 0
    assert results(tmp_path / "whole")["accuracy"] > 0.95


def test_sigterm_writes_a_checkpoint_and_asks_to_be_put_back(tmp_path: Path) -> None:
    """The whole program, signalled in the middle, exits with 85 and leaves what it did last."""
    env = environment(tmp_path / "long", 1_000_000)
    env.pop("STELLWERK_STOP_FILE")
    command = [sys.executable, str(EXAMPLE / "train.py")]
    with subprocess.Popen(
        command, env={**os.environ, **env}, stdout=subprocess.PIPE, text=True
    ) as job:
        try:
            wait_for(tmp_path / "long/metrics.jsonl", job)
            job.send_signal(signal.SIGTERM)
            output, _ = job.communicate(timeout=30)
        finally:
            job.kill()
    assert job.returncode == 85
    last = output.rstrip().rpartition("after epoch ")[2].partition(",")[0]
    assert checkpoints(tmp_path / "long")[-1] == f"epoch-{int(last):06}.pkl"


def wait_for(path: Path, job: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + 40
    while not path.exists():
        assert job.poll() is None, "the job ended too early"
        assert time.monotonic() < limit, f"{path.name} didn't appear"
        time.sleep(0.02)


def test_the_task_file_is_plain_skypilot() -> None:
    """It uses no key that `sky` would refuse, and asks for what any machine has."""
    task = yaml.safe_load((EXAMPLE / "task.yaml").read_text("utf-8"))
    assert task.keys() <= SKYPILOT_KEYS
    assert task["name"] == "digits"
    assert task["resources"] == {"cpus": "1+", "memory": "1+"}
