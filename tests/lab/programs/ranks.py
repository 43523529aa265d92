"""Ranks under torchrun that agree on the step at which they save, and ask to be put back."""

import os
import signal
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist

STEPS = 40
STEP_S = float(os.environ.get("STEP_S") or 0.15)
PUT_ME_BACK = 85
asked = [0]


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: asked.__setitem__(0, 1))
    dist.init_process_group("gloo")
    rank, file = dist.get_rank(), Path(os.environ["STELLWERK_CHECKPOINT_DIR"]) / "state.pt"
    torch.manual_seed(5)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    first = 1
    if file.exists():
        state = torch.load(file)
        model.load_state_dict(state["model"])
        first = state["step"] + 1
    if rank == 0:
        print(f"{dist.get_world_size()} ranks", flush=True)
        print(f"resuming after step {first - 1}" if first > 1 else "starting anew", flush=True)
    for step in range(first, STEPS + 1):
        seed = step * dist.get_world_size() + rank
        inputs = torch.randn(16, 8, generator=torch.Generator().manual_seed(seed))
        loss = ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        told = torch.tensor([loss.item(), float(asked[0])])
        dist.all_reduce(told)
        if rank == 0:
            print(f"step {step} loss {told[0].item() / dist.get_world_size():.6f}", flush=True)
        if told[1] > 0:
            if rank == 0:
                torch.save({"model": model.state_dict(), "step": step}, f"{file}.new")
                os.replace(f"{file}.new", file)
                print(f"saved at step {step}", flush=True)
            dist.barrier()
            sys.exit(PUT_ME_BACK)
        time.sleep(STEP_S)
    if rank == 0:
        print(f"done at step {STEPS}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
