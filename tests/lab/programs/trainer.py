"""Trains a tiny language model with the Hugging Face Trainer, as a researcher would write it.

Nothing is downloaded: the model is made from a configuration, the data from a seed. The only thing
that it does for being stopped is to ask the Trainer to save when it gets a SIGTERM.
"""

import os
import time
from pathlib import Path
from typing import Any

import torch
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    set_seed,
)

STEPS = 60
STEP_S = float(os.environ.get("STEP_S") or 0.15)


def texts() -> list[dict[str, torch.Tensor]]:
    """Always the same random tokens."""
    tokens = torch.randint(0, 64, (96, 16), generator=torch.Generator().manual_seed(7))
    return [{"input_ids": row, "labels": row} for row in tokens]


class Tell(TrainerCallback):  # type: ignore[misc]
    """Prints every loss, slowly."""

    def on_log(self, *about: Any, logs: dict[str, float] | None = None, **_: Any) -> None:
        if logs and "loss" in logs:
            print(f"step {about[1].global_step} loss {logs['loss']}", flush=True)
            time.sleep(STEP_S)


def newest_complete(folder: Path) -> str | None:
    """The checkpoint to go on from: one that the Trainer was still writing doesn't count."""
    found = [one for one in folder.glob("checkpoint-*") if not list(one.glob("*incomplete*"))]
    return str(max(found, key=lambda one: int(one.name.partition("-")[2]))) if found else None


def main() -> None:
    folder = Path(os.environ["STELLWERK_CHECKPOINT_DIR"])
    set_seed(1)
    config = LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
    )
    arguments = TrainingArguments(
        output_dir=str(folder),
        max_steps=STEPS,
        per_device_train_batch_size=4,
        learning_rate=5e-3,
        logging_steps=1,
        logging_strategy="steps",
        save_strategy="no",
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        enable_jit_checkpoint=True,
        seed=1,
    )
    trainer = Trainer(
        model=LlamaForCausalLM(config),
        args=arguments,
        train_dataset=texts(),
        callbacks=[Tell()],
    )
    found = newest_complete(folder)
    print(f"resuming from {Path(found).name}" if found else "starting anew", flush=True)
    trainer.train(resume_from_checkpoint=found)
    print(f"the Trainer came back at step {trainer.state.global_step} of {STEPS}", flush=True)


if __name__ == "__main__":
    main()
