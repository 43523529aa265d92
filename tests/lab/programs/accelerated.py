"""Adds up the ranks of all processes with Accelerate, which finds by itself what there is."""

import os

import torch
from accelerate import Accelerator


def main() -> None:
    accelerator = Accelerator()
    rank, count = accelerator.process_index, accelerator.num_processes
    total = accelerator.reduce(torch.tensor([float(rank)]), reduction="sum").item()
    node = os.environ["SKYPILOT_NODE_RANK"]
    print(f"rank {rank} of {count} on node {node}: {total:.0f}\n", end="", flush=True)
    print(f"precision {accelerator.mixed_precision}\n", end="", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    main()
