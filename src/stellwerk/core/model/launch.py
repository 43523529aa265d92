"""What a job sees of where it runs, and how often its script is started: once a node, or a process.

Facts: SkyPilot's contract for a task; ``torchrun`` reads ``PET_<ARGUMENT>`` as defaults; JAX takes
a count and a rank from a scheduler's variables only, of which Slurm's need nothing else to be
there. A single-node job gets none of the multi-node ones unless it names its launcher, since they
would break launchers nested in it. Slurm's go to ``slurm``, and a few to ``jax``: Lightning and
others take them for Slurm. ``MASTER_PORT`` isn't decided here: the runtime beside rank 0 takes a
free one.
"""

import math
from collections.abc import Sequence

import msgspec

from stellwerk.core.model.task import Task

ONCE_A_PROCESS = ("processes", "jax", "slurm")
"""Launchers that start the script once for each process; the others do it once for each node."""

FIRST_NODE_ALONE = ("mpi",)
"""Launchers that start it once in all, and leave the rest to a program in it."""

WITH_VARIABLES = ("torchrun", "accelerate", *ONCE_A_PROCESS)
"""Launchers whose variables are there on a single node too."""


def gpus_per_node(task: Task, alternative: int = 0) -> int:
    """Gives how many devices a node's job may count on; a part of one counts as one."""
    asked = math.ceil(task.resources[alternative].gpus)
    alone = task.gpu_memory_bytes and not any(one.gpus for one in task.resources)
    return 1 if alone else asked


def processes_per_node(task: Task, alternative: int = 0) -> int:
    """Gives how many processes a node is to have.

    What the task says; else one for each device; where the script itself is started so often, and
    without devices, one for each whole CPU that was asked for. JAX sees all devices from one.
    """
    if task.processes_per_node:
        return task.processes_per_node
    if task.launcher == "jax":
        return 1
    if gpus := gpus_per_node(task, alternative):
        return gpus
    if task.launcher not in {"processes", "slurm", "mpi"}:
        return 1
    cpus = task.resources[alternative].cpus
    return max(1, cpus.value // 1000) if cpus else 1


def has_one_count(task: Task) -> bool:
    """Whether it is known before it is placed how many ranks a task has."""
    counts = {processes_per_node(task, i) for i in range(len(task.resources))}
    return task.launcher not in ONCE_A_PROCESS or len(counts) == 1


def started_ranks(task: Task) -> int:
    """Gives how often the script is started in all; 0 = once on each node."""
    if task.launcher in FIRST_NODE_ALONE:
        return 1
    if task.launcher in ONCE_A_PROCESS:
        return task.num_nodes * processes_per_node(task)
    return 0


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
    return found | _of_launcher(task, addresses, job_number, alternative)


def _of_launcher(
    task: Task, addresses: Sequence[str], job_number: int, alternative: int
) -> dict[str, str]:
    """Gives what the task's launcher wants to find, beside what differs from rank to rank."""
    count = processes_per_node(task, alternative)
    if task.launcher in FIRST_NODE_ALONE:
        hosts = {"STELLWERK_MPI_HOSTS": ",".join(f"{host}={count}" for host in addresses)}
        # The runtime finds the way between machines by it, and mpirun is given that way.
        return {**hosts, "MASTER_ADDR": addresses[0]} if len(set(addresses)) > 1 else hosts
    if len(addresses) == 1 and task.launcher not in WITH_VARIABLES:
        return {}
    found = {"MASTER_ADDR": addresses[0]}
    if task.launcher == "node":
        return found
    if not gpus_per_node(task, alternative) and "ACCELERATE_USE_CPU" not in task.envs:
        # Without it Accelerate takes several processes without a device for one each.
        found["ACCELERATE_USE_CPU"] = "true"
    total = str(len(addresses) * count)
    if task.launcher in ONCE_A_PROCESS:
        found |= {"WORLD_SIZE": total, "LOCAL_WORLD_SIZE": str(count)}
    else:
        found |= {"PET_NNODES": str(len(addresses)), "PET_MASTER_ADDR": addresses[0]}
        if gpus_per_node(task, alternative) or task.processes_per_node:
            found["PET_NPROC_PER_NODE"] = str(count)
        if task.launcher != "torchrun":
            found["STELLWERK_NUM_PROCESSES"] = total
    if task.launcher == "jax":
        found |= {
            "JAX_NUM_PROCESSES": total,
            "SLURM_JOB_ID": str(job_number),
            "SLURM_NTASKS": total,
            "SLURM_STEP_NODELIST": ",".join(addresses),
        }
    elif task.launcher == "slurm":
        found |= _of_slurm(addresses, job_number, count)
    elif task.launcher in {None, "auto"}:
        found["JAX_NUM_PROCESSES"] = str(len(addresses))
    return found


def _of_slurm(addresses: Sequence[str], job_number: int, count: int) -> dict[str, str]:
    """What ``srun`` gives to all processes, as far as programs that save and requeue read it."""
    nodes = ",".join(addresses)
    return {
        "SLURM_JOB_ID": str(job_number),
        "SLURM_JOBID": str(job_number),
        "SLURM_NTASKS": str(len(addresses) * count),
        "SLURM_NPROCS": str(len(addresses) * count),
        "SLURM_NTASKS_PER_NODE": str(count),
        "SLURM_NNODES": str(len(addresses)),
        "SLURM_JOB_NUM_NODES": str(len(addresses)),
        "SLURM_JOB_NODELIST": nodes,
        "SLURM_NODELIST": nodes,
        "SLURM_STEP_NODELIST": nodes,
    }


def ranks_of_node(task: Task, node_rank: int, alternative: int = 0) -> range:
    """Gives the ranks that are started on the node of a rank; that of a launcher which starts its
    script once in all stands for what it starts there.
    """
    count = processes_per_node(task, alternative) if task.launcher in ONCE_A_PROCESS else 1
    return range(node_rank * count, (node_rank + 1) * count)


def node_environment(
    task: Task, node_rank: int, local_rank: int = 0, alternative: int = 0
) -> dict[str, str]:
    """Gives what differs from node to node, and from process to process where those are started."""
    found = {"SKYPILOT_NODE_RANK": str(node_rank)}
    if task.num_nodes == 1 and task.launcher not in WITH_VARIABLES:
        return found
    if task.launcher in FIRST_NODE_ALONE:
        return found
    found["NODE_RANK"] = str(node_rank)
    if task.launcher in ONCE_A_PROCESS:
        return found | _of_process(task, node_rank, local_rank, alternative)
    if task.launcher != "node":
        found["PET_NODE_RANK"] = str(node_rank)
    if task.launcher in {None, "auto"}:
        found["JAX_PROCESS_ID"] = str(node_rank)
    return found


def _of_process(task: Task, node_rank: int, local_rank: int, alternative: int) -> dict[str, str]:
    count = processes_per_node(task, alternative)
    rank = str(node_rank * count + local_rank)
    found = {"RANK": rank, "LOCAL_RANK": str(local_rank), "GROUP_RANK": str(node_rank)}
    if task.launcher == "processes":
        return found
    found |= {"SLURM_PROCID": rank, "SLURM_LOCALID": str(local_rank)}
    if task.launcher == "slurm":
        return found | {"SLURM_NODEID": str(node_rank)}
    found["JAX_PROCESS_ID"] = rank
    gpus = gpus_per_node(task, alternative)
    first, last = (gpus * which // count for which in (local_rank, local_rank + 1))
    if first < last:
        found["JAX_LOCAL_DEVICE_IDS"] = ",".join(map(str, range(first, last)))
    return found
