"""What a job sees of where it runs: SkyPilot's variables for setup and run, and the launchers' own.

Facts: SkyPilot's contract for a task, ``torchrun`` reading ``PET_<ARGUMENT>`` as defaults. A
single-node job gets none of the multi-node ones, since they would break launchers nested in it.
``MASTER_PORT`` isn't decided here: the runtime beside rank 0 takes a port that is free there.
"""

import math
from collections.abc import Sequence

import msgspec

from stellwerk.core.model.task import Task


def gpus_per_node(task: Task, alternative: int = 0) -> int:
    """Gives how many devices a node's job may count on; a part of one counts as one."""
    return math.ceil(task.resources[alternative].gpus)


def setup_environment(
    task: Task, *, addresses: Sequence[str], rank: int, alternative: int = 0
) -> dict[str, str]:
    """Gives what ``setup`` sees on the node of ``rank``."""
    return {
        "SKYPILOT_SETUP_NODE_RANK": str(rank),
        "SKYPILOT_SETUP_NODE_IPS": "\n".join(addresses),
        "SKYPILOT_SETUP_NUM_GPUS_PER_NODE": str(gpus_per_node(task, alternative)),
        "SKYPILOT_NUM_NODES": str(len(addresses)),
    }


def common_environment(
    task: Task,
    *,
    task_id: str,
    user: str,
    cluster: str,
    cloud: str,
    job_number: int,
    addresses: Sequence[str],
    alternative: int = 0,
) -> dict[str, str]:
    """Gives what ``run`` sees on every node. ``addresses`` are the nodes', rank 0 first."""
    info = {"cluster_name": cluster, "cloud": cloud, "region": cluster, "zone": None}
    found = {
        "SKYPILOT_NUM_NODES": str(len(addresses)),
        "SKYPILOT_NODE_IPS": "\n".join(addresses),
        "SKYPILOT_NUM_GPUS_PER_NODE": str(gpus_per_node(task, alternative)),
        "SKYPILOT_TASK_ID": task_id,
        "SKYPILOT_TASK_IDS": task_id,
        "SKYPILOT_CLUSTER_INFO": msgspec.json.encode(info).decode(),
        "SKYPILOT_USER": user,
        "SKYPILOT_INTERNAL_JOB_ID": str(job_number),
        "SKYPILOT_MANAGED_JOB_ID": task_id,
        "SKYPILOT_JOB_RANK": "0",
    }
    if len(addresses) > 1:
        found |= {
            "PET_NNODES": str(len(addresses)),
            "PET_MASTER_ADDR": addresses[0],
            "MASTER_ADDR": addresses[0],
        }
        if gpus_per_node(task, alternative):
            found["PET_NPROC_PER_NODE"] = str(gpus_per_node(task, alternative))
    return found


def node_environment(task: Task, rank: int) -> dict[str, str]:
    """Gives what differs from node to node."""
    found = {"SKYPILOT_NODE_RANK": str(rank)}
    if task.num_nodes > 1:
        found |= {"PET_NODE_RANK": str(rank), "NODE_RANK": str(rank)}
    return found
