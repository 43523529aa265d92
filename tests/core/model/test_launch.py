"""What the processes of each launcher find, and how many of them there are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.lower import lower
from stellwerk.core.model.launch import (
    FIRST_NODE_ALONE,
    common_environment,
    gpus_per_node,
    node_environment,
    processes_per_node,
    ranks_of_node,
    started_ranks,
)
from stellwerk.core.model.task import Task

LAUNCHERS = (None, "auto", "node", "torchrun", "accelerate", "processes", "jax", "mpi", "slurm")
OF_LAUNCHERS = ("MASTER", "PET_", "JAX_", "SLURM_", "RANK", "LOCAL_RANK", "WORLD", "ACCELERATE")


def a_task(
    launcher: str | None = None, *, nodes: int = 1, resources: str = "", processes: int = 0
) -> Task:
    """A task with a launcher, as somebody writes it."""
    labels = {"launcher": launcher, "processes-per-node": processes or None}
    written = "".join(f"stellwerk/{k}: '{v}', " for k, v in labels.items() if v)
    text = f"run: x\nnum_nodes: {nodes}\nresources: {{{resources} labels: {{{written}}}}}"
    task = read_tasks(text)
    assert isinstance(task, Task)
    return task


def common(task: Task, alternative: int = 0) -> dict[str, str]:
    """What all of its ranks find."""
    return common_environment(
        task,
        task_id="w-1",
        user="ada",
        cluster="hall",
        cloud="local",
        job_number=7,
        addresses=[f"10.0.0.{node + 1}" for node in range(task.num_nodes)],
        alternative=alternative,
    )


@pytest.mark.parametrize("launcher", [None, "auto", "node"])
def test_a_single_node_is_told_nothing_of_several(launcher: str | None) -> None:
    """A launcher nested in it would take the wrong number of machines."""
    task = a_task(launcher, resources="accelerators: 'A100:2',")
    found = common(task) | node_environment(task, 0)
    assert [name for name in found if name.startswith(OF_LAUNCHERS)] == []


def test_slurms_variables_are_there_for_whoever_asks() -> None:
    """Each process finds its place, and what Lightning and submitit look for."""
    task = a_task("slurm", nodes=2, processes=2)
    found = common(task) | node_environment(task, 1, 1)
    assert (found["SLURM_JOB_ID"], found["SLURM_NTASKS"], found["SLURM_NTASKS_PER_NODE"]) == (
        "7",
        "4",
        "2",
    )
    assert (found["SLURM_PROCID"], found["SLURM_LOCALID"], found["SLURM_NODEID"]) == ("3", "1", "1")
    assert found["SLURM_JOB_NODELIST"] == "10.0.0.1,10.0.0.2"


def test_a_named_launcher_finds_its_variables_on_a_single_node() -> None:
    """So that plain `torchrun train.py` takes all cards of it."""
    task = a_task("torchrun", resources="accelerators: 'A100:2',")
    found = common(task) | node_environment(task, 0)
    assert (found["PET_NNODES"], found["PET_NPROC_PER_NODE"], found["PET_NODE_RANK"]) == (
        "1", "2", "0",
    )  # fmt: skip
    assert "STELLWERK_NUM_PROCESSES" not in found
    assert common(a_task("accelerate", processes=3))["STELLWERK_NUM_PROCESSES"] == "3"


def test_auto_serves_all_launchers_that_a_script_may_start() -> None:
    """Without Slurm's variables, which several libraries would follow instead."""
    found = common(a_task(nodes=2, processes=3)) | node_environment(a_task(nodes=2), 1)
    assert found["PET_NPROC_PER_NODE"] == "3"
    assert found["STELLWERK_NUM_PROCESSES"] == "6"
    assert (found["JAX_NUM_PROCESSES"], found["JAX_PROCESS_ID"]) == ("2", "1")
    assert (found["NODE_RANK"], found["PET_NODE_RANK"]) == ("1", "1")
    assert not any(name.startswith(("SLURM_", "RANK", "WORLD")) for name in found)


def test_node_is_told_of_no_launcher() -> None:
    """Only where the nodes meet, and which of them it is."""
    task = a_task("node", nodes=2)
    found = common(task) | node_environment(task, 1)
    told = {name for name in found if name.startswith((*OF_LAUNCHERS, "NODE"))}
    assert told == {"MASTER_ADDR", "NODE_RANK"}


def test_processes_count_through_the_nodes() -> None:
    """Rank 3 of two nodes with two each is the second on the second node."""
    task = a_task("processes", nodes=2, resources="accelerators: 'A100:2',")
    found = common(task) | node_environment(task, 1, 1)
    names = ("RANK", "LOCAL_RANK", "GROUP_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")
    assert [found[name] for name in names] == ["3", "1", "1", "4", "2", "10.0.0.1"]
    assert found["SKYPILOT_NODE_RANK"] == "1"
    assert not any(name.startswith(("PET_", "SLURM_")) for name in found)


def test_jax_takes_a_job_for_one_of_slurm() -> None:
    """The five variables that its detection asks for, and which devices are each process's."""
    task = a_task("jax", nodes=2, resources="accelerators: 'A100:4',")
    found = common(task) | node_environment(task, 1)
    assert {name: value for name, value in found.items() if name.startswith("SLURM_")} == {
        "SLURM_JOB_ID": "7",
        "SLURM_STEP_NODELIST": "10.0.0.1,10.0.0.2",
        "SLURM_NTASKS": "2",
        "SLURM_PROCID": "1",
        "SLURM_LOCALID": "0",
    }
    assert found["JAX_LOCAL_DEVICE_IDS"] == "0,1,2,3"
    two_each = a_task("jax", resources="accelerators: 'A100:4',", processes=2)
    assert node_environment(two_each, 0, 1)["JAX_LOCAL_DEVICE_IDS"] == "2,3"
    assert "JAX_LOCAL_DEVICE_IDS" not in node_environment(a_task("jax", processes=2), 0, 1)


def test_mpi_starts_once_and_names_all_hosts() -> None:
    """What fills the nodes is mpirun in the script of the first; each has a rank for its part."""
    task = a_task("mpi", nodes=2, resources="cpus: 4,")
    assert common(task)["STELLWERK_MPI_HOSTS"] == "10.0.0.1=4,10.0.0.2=4"
    assert [list(ranks_of_node(task, node)) for node in range(2)] == [[0], [1]]
    assert lower(task).policies.ranks == 1


@pytest.mark.parametrize(
    ("resources", "launcher", "processes"),
    [
        ("accelerators: 'A100:4', cpus: 32,", "processes", 4),
        ("accelerators: 'A100:0.5',", "processes", 1),
        ("cpus: 4+,", "processes", 4),
        ("cpus: 1.5,", "processes", 1),
        ("cpus: 0.5,", "processes", 1),
        ("", "processes", 1),
        ("cpus: 4,", "torchrun", 1),
        ("accelerators: 'A100:4',", "jax", 1),
    ],
)
def test_how_many_processes_a_node_has(resources: str, launcher: str, processes: int) -> None:
    """By its cards; without, by its CPUs where the script itself is started so often."""
    assert processes_per_node(a_task(launcher, resources=resources)) == processes
    assert processes_per_node(a_task(launcher, resources=resources, processes=9)) == 9


def test_accelerate_is_told_where_there_is_no_device() -> None:
    """Several of its processes without one would not find each other; the task's word holds."""
    assert common(a_task(nodes=2))["ACCELERATE_USE_CPU"] == "true"
    assert "ACCELERATE_USE_CPU" not in common(a_task(nodes=2, resources="accelerators: A100,"))
    told = read_tasks("run: x\nnum_nodes: 2\nenvs: {ACCELERATE_USE_CPU: 'no'}")
    assert isinstance(told, Task)
    assert "ACCELERATE_USE_CPU" not in common(told)


def test_a_share_of_memory_alone_is_one_device() -> None:
    """Also where no accelerator is named beside it, so nothing is told to do without."""
    task = read_tasks("run: x\nnum_nodes: 2\nresources: {labels: {stellwerk/gpu-memory: 18GB}}")
    assert isinstance(task, Task)
    assert gpus_per_node(task) == 1
    assert "ACCELERATE_USE_CPU" not in common(task)


@given(st.sampled_from(LAUNCHERS), st.integers(1, 5), st.integers(0, 5), st.integers(0, 4))
def test_ranks_are_counted_without_gaps(
    launcher: str | None, nodes: int, processes: int, gpus: int
) -> None:
    """Over the nodes in order, each once, as many as are said to be started."""
    resources = f"accelerators: 'A100:{gpus}'," if gpus else ""
    task = a_task(launcher, nodes=nodes, processes=processes, resources=resources)
    ranks = [rank for node in range(nodes) for rank in ranks_of_node(task, node)]
    once = task.launcher in FIRST_NODE_ALONE
    assert ranks == list(range(nodes if once else started_ranks(task) or nodes))
    assert lower(task).policies.ranks in ({1} if once else {0, len(ranks)})
