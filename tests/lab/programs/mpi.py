"""Adds up the ranks of all processes with MPI."""

import os

from mpi4py import MPI


def main() -> None:
    world = MPI.COMM_WORLD
    total = world.allreduce(world.rank)
    node = os.environ["SKYPILOT_NODE_RANK"]
    print(f"rank {world.rank} of {world.size} on node {node}: {total}\n", end="", flush=True)


if __name__ == "__main__":
    main()
