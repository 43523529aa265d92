"""Runs one task of Ray's on each of two nodes, and says where they were."""

import os
import sys
import time

import ray


@ray.remote(num_cpus=1)  # type: ignore[untyped-decorator, unused-ignore]
def where() -> str:
    """The node of the job, and long enough there that both are used."""
    time.sleep(1)
    return os.environ["SKYPILOT_NODE_RANK"]


def main() -> None:
    ray.init(address=sys.argv[1], log_to_driver=False)
    while len([one for one in ray.nodes() if one["Alive"]]) < 2:
        time.sleep(0.1)
    ran = sorted(ray.get([where.remote() for _ in range(2)]))
    print("ray ran on nodes", *ran, flush=True)


if __name__ == "__main__":
    main()
