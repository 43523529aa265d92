"""Trains a small network with Accelerate; stopped at any step it goes on from there elsewhere."""

import os

import torch
from accelerate import Accelerator

from stellwerk.runtime.helper import done
from stellwerk.runtime.training import AccelerateSaver

STEPS = int(os.environ.get("STEPS", "200"))
SAVE_EVERY = 500


def batch(step: int, rank: int, size: int = 256) -> tuple[torch.Tensor, torch.Tensor]:
    """Points of a surface: the same for a step and a rank, however often the job was moved."""
    made = torch.Generator().manual_seed(step * 1009 + rank)
    points = torch.rand(size, 2, generator=made) * 6 - 3
    return points, (points[:, :1].sin() * points[:, 1:].cos())


def main() -> None:
    accelerator = Accelerator()
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 64), torch.nn.Tanh(), torch.nn.Linear(64, 1))
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters(), lr=1e-3))
    saver = AccelerateSaver(accelerator)
    for step in range(saver.resume() + 1, STEPS + 1):
        points, wanted = batch(step, accelerator.process_index)
        loss = (model(points.to(accelerator.device)) - wanted.to(accelerator.device)).pow(2).mean()
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if step % 100 == 0:
            accelerator.print(f"step {step}  loss {loss.item():.5f}", flush=True)
        if step % SAVE_EVERY == 0:
            saver.save(step)
        saver.after(step)
    done()
    accelerator.end_training()


if __name__ == "__main__":
    main()
