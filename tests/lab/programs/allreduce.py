"""Adds up the ranks of all processes with torch, as somebody writes it who knows of no launcher."""

import os
import sys

import torch
import torch.distributed as dist


def main() -> None:
    dist.init_process_group("gloo")
    rank = dist.get_rank()
    told = torch.tensor([float(rank)])
    dist.all_reduce(told)
    node = os.environ["SKYPILOT_NODE_RANK"]
    print(
        f"rank {rank} of {dist.get_world_size()} on node {node}: {told.item():.0f}\n",
        end="",
        flush=True,
    )
    if os.environ.get("FAILING_RANK") == str(rank):
        print("this one gives up\n", end="", flush=True)
        sys.exit(7)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
