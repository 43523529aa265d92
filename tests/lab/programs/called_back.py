"""Trains with the Hugging Face Trainer, and leaves saving in time to the callback for it."""

import os
import time
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainingArguments

from stellwerk.runtime.training import checkpoint_dir, latest, trainer_callback

STEPS = 60
STEP_S = float(os.environ.get("STEP_S") or 0.15)


class Line(torch.nn.Module):  # type: ignore[misc]
    """One number that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> dict[str, torch.Tensor]:
        """The loss, as the Trainer asks for it."""
        return {"loss": ((self.weight * x - labels) ** 2).mean()}


class Tell(TrainerCallback):  # type: ignore[misc]
    """Prints every loss, slowly."""

    def on_log(self, *about: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if logs and "loss" in logs:
            print(f"step {about[1].global_step} loss {logs['loss']}", flush=True)
            time.sleep(STEP_S)


def main() -> None:
    data = [{"x": torch.tensor([float(n)]), "labels": torch.tensor([3.0 * n])} for n in range(9)]
    arguments = TrainingArguments(
        output_dir=checkpoint_dir(),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        learning_rate=5e-2,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        seed=1,
    )
    callbacks = [Tell(), trainer_callback()]
    trainer = Trainer(model=Line(), args=arguments, train_dataset=data, callbacks=callbacks)
    found = latest()
    print(f"resuming from {Path(found).name}" if found else "starting anew", flush=True)
    trainer.train(resume_from_checkpoint=found)


if __name__ == "__main__":
    main()
