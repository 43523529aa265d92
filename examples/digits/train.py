"""Trains a small network on scikit-learn's handwritten digits, and loses nothing when stopped.

After every few epochs it writes a checkpoint; when it is asked to stop (SIGTERM, or the stop file)
it writes one more and exits with 85, which means "put me back". Started again, it goes on from the
newest whole checkpoint and ends with the very numbers of a run that was never stopped.

Everything it needs to know stands in the environment, and every variable has a default:

    EPOCHS                     how long to train (40)
    CHECKPOINT_EVERY           epochs between two checkpoints (5)
    STELLWERK_CHECKPOINT_DIR   where checkpoints live (./checkpoints)
    STELLWERK_OUTPUT_DIR       where the results go (./outputs)
    STELLWERK_METRICS_FILE     gets a JSON line per epoch and metric
    STELLWERK_STOP_FILE        appears when the job should stop
    STELLWERK_DONE_FILE        is created when the training is finished
"""

import contextlib
import json
import os
import pickle
import signal
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier

PUT_ME_BACK = 85
CHECKPOINTS_KEPT = 2
SEED = 7


class StopRequest:
    """Remembers that somebody asked the job to stop."""

    def __init__(self, stop_file: str | None) -> None:
        self._stop_file = stop_file
        self._signalled = False

    def on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._signalled = True

    def __bool__(self) -> bool:
        return self._signalled or bool(self._stop_file and os.path.exists(self._stop_file))


@contextlib.contextmanager
def written_by_rename(path: Path) -> Iterator[Path]:
    """Gives a path to write to, and moves it into place when all of it is on the disk."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.partial")
    yield partial
    with partial.open("rb") as file:
        os.fsync(file.fileno())
    partial.replace(path)


def save_checkpoint(folder: Path, epoch: int, model: MLPClassifier) -> None:
    with written_by_rename(folder / f"epoch-{epoch:06}.pkl") as path:
        path.write_bytes(pickle.dumps({"epoch": epoch, "model": model}))
    for old in sorted(folder.glob("epoch-*.pkl"))[:-CHECKPOINTS_KEPT]:
        old.unlink()


def load_checkpoint(folder: Path) -> tuple[int, MLPClassifier]:
    """Gives the newest checkpoint that can be read, or a fresh network at epoch 0."""
    for path in sorted(folder.glob("epoch-*.pkl"), reverse=True):
        try:
            state = pickle.loads(path.read_bytes())  # noqa: S301  our own checkpoint
        except (pickle.UnpicklingError, EOFError) as error:
            print(f"{path.name} is damaged ({error}); trying the one before")
            continue
        print(f"resuming after epoch {state['epoch']}")
        return state["epoch"], state["model"]
    network = MLPClassifier(hidden_layer_sizes=(64,), learning_rate_init=0.002, random_state=SEED)
    return 0, network


def report(metrics_file: str | None, step: int, values: Mapping[str, float]) -> None:
    if metrics_file:
        records = [{"step": step, "name": name, "value": value} for name, value in values.items()]
        with Path(metrics_file).open("a", encoding="utf-8") as file:
            file.writelines(json.dumps(record) + "\n" for record in records)


def write_results(folder: Path, model: MLPClassifier, results: dict[str, Any]) -> None:
    with written_by_rename(folder / "model.pkl") as path:
        path.write_bytes(pickle.dumps(model))
    with written_by_rename(folder / "metrics.json") as path:
        path.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")


def train(env: Mapping[str, str], stop: StopRequest) -> int:
    """Trains up to EPOCHS or until asked to stop; gives the exit status."""
    epochs = int(env.get("EPOCHS", "40"))
    checkpoint_every = int(env.get("CHECKPOINT_EVERY", "5"))
    checkpoints = Path(env.get("STELLWERK_CHECKPOINT_DIR", "checkpoints"))
    metrics_file = env.get("STELLWERK_METRICS_FILE")

    scans, digits = load_digits(return_X_y=True)
    seen, unseen, seen_digits, unseen_digits = train_test_split(
        scans / 16.0, digits, test_size=0.25, random_state=SEED, stratify=digits
    )
    epoch, model = load_checkpoint(checkpoints)
    while epoch < epochs:
        model.partial_fit(seen, seen_digits, classes=np.arange(10))
        epoch += 1
        accuracy = float(model.score(unseen, unseen_digits))
        print(f"epoch {epoch:3}/{epochs}  loss {model.loss_:.4f}  accuracy {accuracy:.4f}")
        report(metrics_file, epoch, {"loss": float(model.loss_), "accuracy": accuracy})
        stopping = bool(stop) and epoch < epochs
        if stopping or epoch % checkpoint_every == 0 or epoch == epochs:
            save_checkpoint(checkpoints, epoch, model)
        if stopping:
            print(f"asked to stop: checkpoint written after epoch {epoch}, put me back")
            return PUT_ME_BACK

    accuracy = float(model.score(unseen, unseen_digits))
    outputs = Path(env.get("STELLWERK_OUTPUT_DIR", "outputs"))
    results = {"epochs": epoch, "accuracy": accuracy, "loss": float(model.loss_)}
    write_results(outputs, model, results)
    if done_file := env.get("STELLWERK_DONE_FILE"):
        Path(done_file).touch()
    print(f"accuracy {accuracy:.4f} on {len(unseen)} scans that it never saw in training")
    return 0


def main() -> int:
    stop = StopRequest(os.environ.get("STELLWERK_STOP_FILE"))
    signal.signal(signal.SIGTERM, stop.on_signal)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    return train(os.environ, stop)


if __name__ == "__main__":
    sys.exit(main())
