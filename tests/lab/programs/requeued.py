"""Trains with Lightning as it is written for Slurm: it saves and asks `scontrol` to be put back."""

import os
import time

import pytorch_lightning as pl
import torch

STEPS = 60
STEP_S = float(os.environ.get("STEP_S") or 0.15)


class Line(pl.LightningModule):  # type: ignore[misc]
    """One number that is learned."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch: list[torch.Tensor], _index: int) -> torch.Tensor:
        """One step, slowly."""
        loss: torch.Tensor = ((self.layer(batch[0]) - 3 * batch[0]) ** 2).mean()
        print(f"step {self.global_step + 1} loss {loss.item():.6f}", flush=True)
        time.sleep(STEP_S)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Any."""
        return torch.optim.SGD(self.parameters(), lr=0.01)


def main() -> None:
    torch.manual_seed(3)
    data = torch.utils.data.TensorDataset(torch.arange(1.0, 5.0).reshape(4, 1))
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=1,
        max_steps=STEPS,
        default_root_dir=os.environ["STELLWERK_CHECKPOINT_DIR"],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Line(), torch.utils.data.DataLoader(data, batch_size=2))
    print(f"Lightning came back at step {trainer.global_step} of {STEPS}", flush=True)


if __name__ == "__main__":
    main()
