"""Programs of several nodes, as their frameworks' pages have them, started by each launcher."""

import shutil

import pytest

from tests.lab.environments import JAX, LIGHTNING, MPI, TRAINER, Environment
from tests.lab.researcher import Researcher, losses
from tests.lab.test_frameworks import disturb

RUN_S = 120
AS_ROOT = "OMPI_ALLOW_RUN_AS_ROOT: '1', OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: '1'"


def needs(one: Environment) -> str:
    """The programs of an environment; skips where it couldn't be made."""
    if one.missing:
        pytest.skip(one.missing)
    return str(one.python.parent)


def said(researcher: Researcher, task: str) -> list[str]:
    """The lines that the ranks of a program of two nodes say of themselves, in their order."""
    told = researcher.stw("run", task, timeout_s=RUN_S).stdout.splitlines()
    # Every line of a gang begins with the rank of the log that it stands in.
    lines = [line.partition(") ")[2] if line.startswith("(rank ") else line for line in told]
    return sorted(line for line in lines if line.startswith("rank "))


FOUR = [f"rank {rank} of 4 on node {rank // 2}: 6" for rank in range(4)]


def test_accelerate_launch_keeps_what_its_configuration_says(researcher: Researcher) -> None:
    """Machines and processes are those of the job, the precision that of the file."""
    folder = researcher.home / "accelerate"
    folder.mkdir()
    (folder / "default_config.yaml").write_text(
        "compute_environment: LOCAL_MACHINE\ndistributed_type: MULTI_GPU\nmixed_precision: bf16\n"
        "num_machines: 1\nmachine_rank: 0\nnum_processes: 8\nuse_cpu: true\n"
    )
    launch = f"PATH={needs(TRAINER)}:$PATH\naccelerate launch"
    task = researcher.gang("accelerated", launch, launcher="", each=2)
    assert said(researcher, task) == FOUR
    assert researcher.output("accelerated", 1).count("precision bf16\n") == 2


def test_a_plain_program_is_started_once_for_each_process(researcher: Researcher) -> None:
    """Each has a log of its own; the one that fails is the run's end, and named first."""
    task = researcher.gang(
        "allreduce",
        f"{needs(TRAINER)}/python",
        launcher="processes",
        each=2,
        envs="FAILING_RANK: '3'",
    )
    done = researcher.stw("run", task, code=7, timeout_s=RUN_S)
    assert "rank 3 ended with exit code 7" in done.stderr
    assert "| this one gives up" in done.stderr
    alone = researcher.stw("logs", "allreduce", "--rank", "2").stdout
    assert alone.splitlines()[0] == FOUR[2]


def test_lightning_starts_its_own_processes(researcher: Researcher) -> None:
    """By the variables of a node alone."""
    launch = f"{needs(LIGHTNING)}/python"
    assert said(researcher, researcher.gang("lightning", launch, launcher="node")) == FOUR


def test_jax_initializes_without_an_argument(researcher: Researcher) -> None:
    """`jax.distributed.initialize()` as it stands, and a sum over both nodes."""
    task = researcher.gang("psum", f"{needs(JAX)}/python", launcher="jax")
    assert said(researcher, task) == [f"rank {rank} of 2 on node {rank}: 1" for rank in range(2)]


def test_mpirun_without_an_argument_fills_both_nodes(researcher: Researcher) -> None:
    """The script is started once, on the first of them."""
    if shutil.which("mpirun") is None:
        pytest.skip("mpirun is not there: apt-get install openmpi-bin")
    launch = f"mpirun {needs(MPI)}/python"
    task = researcher.gang("mpi", launch, launcher="mpi", each=2, envs=AS_ROOT)
    assert said(researcher, task) == [f"rank {rank} of 4 on node 0: 6" for rank in range(4)]


def test_torchrun_without_an_argument_finds_the_other_node(researcher: Researcher) -> None:
    """Four ranks add up what they have. A notice reaches the workers of both nodes: they save at
    one step, are put back, and go on from there.
    """
    task = researcher.gang("ranks", f"{needs(TRAINER)}/torchrun", launcher="", each=2)
    disturb(researcher, task, "ranks", step=3, grace_ms=60_000)
    runs = researcher.json("show", "ranks")["runs"]
    assert [run["end"]["put_back"] for run in runs] == [True, False]
    first, second = (researcher.output("ranks", number) for number in (1, 2))
    assert first.splitlines()[:2] == ["4 ranks", "starting anew"]
    assert min(losses(second)) == max(losses(first)) + 1
