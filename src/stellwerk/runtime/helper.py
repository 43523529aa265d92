"""What a job may use to talk with the runtime; also works, and does nothing, outside one.

    from stellwerk.runtime.helper import checkpoint_complete, done, metric, should_stop

    for step in range(first_step, steps):
        metric(step, "loss", train(step))
        if should_stop():
            save(path)
            checkpoint_complete(path)
            raise SystemExit(85)  # saved; put me back
    done()

The file stands alone and may be copied into a project.
"""

from __future__ import annotations

import importlib
import json
import math
import os
import signal
import threading
import time
from typing import Any, Union


def should_stop() -> bool:
    """Whether the job was told to save and stop. Costs one look at a file.

    Asked for the first time it has SIGTERM, which comes with a notice and would end the program in
    the middle of a step, do nothing; unless the program has a handler of its own for it.
    """
    path = os.environ.get("STELLWERK_STOP_FILE")
    if path is None:
        return False
    stay()
    return os.path.exists(path)


def stay() -> None:
    """Have SIGTERM do nothing in this process of a job, where it would end it; those that it forks
    it still ends."""
    if "STELLWERK_STOP_FILE" not in os.environ:
        return
    if threading.current_thread() is not threading.main_thread():
        return  # handlers are the main thread's
    if signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL:
        return
    itself = os.getpid()

    def end_others(number: int, _frame: Any) -> None:
        if os.getpid() != itself:
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)

    signal.signal(signal.SIGTERM, end_others)


def done() -> None:
    """Say that the work is finished, even though the job may have been told to stop."""
    path = os.environ.get("STELLWERK_DONE_FILE")
    if path is not None:
        with open(path, "a", encoding="ascii"):
            return


def checkpoint_complete(path: Union[str, os.PathLike[str]]) -> None:
    """Say that everything of a checkpoint (a file or a directory) has been written."""
    directory = os.environ.get("STELLWERK_CHECKPOINT_DIR")
    if directory is not None:
        os.makedirs(directory, exist_ok=True)
        where = os.path.relpath(os.path.abspath(path), directory)
        _append(os.path.join(directory, ".complete.jsonl"), {"path": where})


def metric(step: int, name: str, value: float) -> None:
    """Report a number: a loss, an accuracy. One that isn't finite becomes text (`nan`, `inf`)."""
    path = os.environ.get("STELLWERK_METRICS_FILE")
    if path is not None:
        number = float(value)
        shown: Union[float, str] = number if math.isfinite(number) else str(number)
        _append(path, {"step": int(step), "name": str(name), "value": shown})


def limit_gpu_memory() -> Union[float, None]:
    """Have PyTorch refuse to take more of a shared GPU than the job asked for; call it first.

    Gives the part of a card that it is, or None where the job has whole cards (or none).
    """
    part = os.environ.get("STELLWERK_GPU_MEMORY_FRACTION")
    if not part:
        return None
    torch = importlib.import_module("torch")
    for device in range(torch.cuda.device_count()):
        torch.cuda.set_per_process_memory_fraction(float(part), device)
    return float(part)


def _append(path: str, entry: dict[str, object]) -> None:
    entry["at_ms"] = time.time_ns() // 1_000_000
    line = json.dumps(entry).encode("ascii") + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        os.write(descriptor, line)
    finally:
        os.close(descriptor)
