"""A plain training loop in torch that saves now and then and takes no notice of being stopped."""

import os
import signal
import time
from pathlib import Path

import torch

STEPS = 40
SAVE_EVERY = 5
STEP_S = float(os.environ.get("STEP_S") or 0.1)


def main() -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    file = Path(os.environ["STELLWERK_CHECKPOINT_DIR"]) / "state.pt"
    torch.manual_seed(3)
    model = torch.nn.Linear(8, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    first = 1
    if file.exists():
        state = torch.load(file)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"] + 1
    print(f"resuming after step {first - 1}" if first > 1 else "starting anew", flush=True)
    for step in range(first, STEPS + 1):
        inputs = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
        loss = ((model(inputs) - inputs.sum(1, keepdim=True)) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.6f}", flush=True)
        if step % SAVE_EVERY == 0:
            whole = {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "step": step,
            }
            torch.save(whole, f"{file}.new")
            os.replace(f"{file}.new", file)
        time.sleep(STEP_S)
    print(f"done at step {STEPS}", flush=True)


if __name__ == "__main__":
    main()
