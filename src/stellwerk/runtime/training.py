"""What a training program may use to save in time and to go on: for the Trainer, Accelerate, Orbax.

    from stellwerk.runtime.training import latest, trainer_callback

    trainer = Trainer(..., callbacks=[trainer_callback()])
    trainer.train(resume_from_checkpoint=latest())

Nothing is imported before it is needed, and outside of a job nothing is ever told to stop. All
processes of a job stop at one step, whichever of them has seen the notice first.
"""

from __future__ import annotations

import os
import re
import sys
from importlib import import_module
from typing import Any, Optional

from .helper import checkpoint_complete, done, metric, should_stop, stay

PUT_ME_BACK = 85
_STEP = re.compile(r"(\d+)$")
_HALF_WRITTEN = re.compile(r"^(?:tmp|temp)[-_.]|[-_.](?:tmp|temp|part|partial|incomplete)$")


def checkpoint_dir() -> str:
    """Where checkpoints belong; outside of a job a folder here."""
    return os.environ.get("STELLWERK_CHECKPOINT_DIR") or os.path.abspath("checkpoints")


def latest(directory: Optional[str] = None) -> Optional[str]:
    """The checkpoint with the highest number at the end of its name; None without any.

    Where some say by a `trainer_state.json` that they are whole, only those count.
    """
    folder = directory or checkpoint_dir()
    try:
        names = [name for name in os.listdir(folder) if _STEP.search(name)]
    except FileNotFoundError:
        return None
    paths = [os.path.join(folder, name) for name in names if not _HALF_WRITTEN.search(name)]
    whole = [path for path in paths if os.path.exists(os.path.join(path, "trainer_state.json"))]
    return max(whole or paths, key=_number, default=None)


def all_should_stop(device: Any = None) -> bool:
    """Whether any process of this job was told to stop: the same answer in all, at the same call.

    With torch.distributed it costs one number to all; `device` is where NCCL finds it.
    """
    told = should_stop()
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if torch is None or distributed is None or not distributed.is_available():
        return told
    if not distributed.is_initialized() or distributed.get_world_size() == 1:
        return told
    flag = torch.tensor([int(told)], device=device)
    distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
    return bool(flag.item())


def trainer_callback() -> Any:
    """A callback for the Hugging Face Trainer: it saves at the step of a notice, and returns.

    What it logs is told as metrics, and each checkpoint that it has written as complete.
    """
    stay()
    base: Any = import_module("transformers").TrainerCallback

    class Stellwerk(base):  # type: ignore[misc]
        """Saves when the job is to stop."""

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
            if all_should_stop(args.device):
                control.should_save = control.should_training_stop = True
            return control

        def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.is_world_process_zero:
                name = f"checkpoint-{state.global_step}"
                checkpoint_complete(os.path.join(args.output_dir, name))

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            if state.is_world_process_zero:
                for name, value in (logs or {}).items():
                    if isinstance(value, (int, float)):
                        metric(state.global_step, name, value)

        def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step >= state.max_steps and state.is_world_process_zero:
                done()

    return Stellwerk()


class AccelerateSaver:
    """Saves and loads what an Accelerator has prepared.

    saver = AccelerateSaver(accelerator)
    for step in range(saver.resume() + 1, steps + 1):
        ...
        saver.after(step)  # saves, and ends the program, when the job is to stop
    done()
    """

    def __init__(self, accelerator: Any, directory: Optional[str] = None) -> None:
        stay()
        self._accelerator = accelerator
        self._directory = directory or checkpoint_dir()

    def resume(self) -> int:
        """Loads the last checkpoint; the step that it was saved after, 0 without any."""
        found = latest(self._directory)
        if found is None:
            return 0
        self._accelerator.load_state(found)
        return _number(found)

    def save(self, step: int) -> None:
        """Saves after a step."""
        path = os.path.join(self._directory, f"step-{step}")
        self._accelerator.save_state(path)
        self._accelerator.wait_for_everyone()
        if self._accelerator.is_main_process:
            checkpoint_complete(path)

    def after(self, step: int) -> None:
        """Saves and raises SystemExit where the job is to stop; else nothing is done."""
        if all_should_stop(self._accelerator.device):
            self.save(step)
            raise SystemExit(PUT_ME_BACK)


class OrbaxSaver:
    """Saves with a CheckpointManager of Orbax, which belongs to a folder of `checkpoint_dir()`.

        manager = ocp.CheckpointManager(f"{checkpoint_dir()}/orbax", ...)
        saver = OrbaxSaver(manager)
        first = manager.latest_step()
        ...
        saver.after(step, args=ocp.args.StandardSave(state))

    A checkpoint that Orbax was still writing has no name yet, and never counts.
    """

    def __init__(self, manager: Any) -> None:
        stay()
        self._manager = manager

    def after(self, step: int, **saved: Any) -> None:
        """Saves and raises SystemExit where the job is to stop; `saved` is as for its `save`."""
        if not _any_jax_process(should_stop()):
            return
        if self._manager.latest_step() != step:
            self._manager.save(step, force=True, **saved)
        self._manager.wait_until_finished()
        raise SystemExit(PUT_ME_BACK)


def _any_jax_process(told: bool) -> bool:
    """Whether any process of jax.distributed was told: asked of all at the same call."""
    jax = sys.modules.get("jax")
    if jax is None or jax.process_count() == 1:
        return told
    everybody = import_module("jax.experimental.multihost_utils").process_allgather
    return bool(everybody(import_module("numpy").array([told])).any())


def _number(path: str) -> int:
    found = _STEP.search(os.path.basename(path))
    return int(found[1]) if found else 0
