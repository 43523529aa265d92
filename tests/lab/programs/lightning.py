"""Trains with Lightning, which starts the processes of its node and finds the other nodes."""

import os

import pytorch_lightning as pl
import torch


class Sum(pl.LightningModule):  # type: ignore[misc]
    """Adds up the ranks of all processes once."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch: torch.Tensor, _index: int) -> torch.Tensor:
        """One step like any other."""
        loss: torch.Tensor = self.layer(batch).mean()
        return loss

    def on_train_end(self) -> None:
        """Says who this was."""
        total = self.all_gather(torch.tensor([float(self.global_rank)])).sum().item()
        node = os.environ["SKYPILOT_NODE_RANK"]
        count = self.trainer.world_size
        print(
            f"rank {self.global_rank} of {count} on node {node}: {total:.0f}\n", end="", flush=True
        )

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Any."""
        return torch.optim.SGD(self.parameters(), lr=0.1)


def main() -> None:
    data = torch.utils.data.DataLoader(torch.ones(16, 4), batch_size=2)
    trainer = pl.Trainer(
        accelerator="cpu",
        devices=2,
        num_nodes=2,
        strategy="ddp",
        max_steps=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(Sum(), data)


if __name__ == "__main__":
    main()
