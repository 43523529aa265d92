"""Each launcher over two machines of a room, with real frameworks on CPUs."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.environments import JAX, LIGHTNING, MPI, MPICH, OPEN_MPI_5, RAY, TRAINER, Environment
from tests.lab.gangs import FOUR, Lab, a_lab, needs, two_machines
from tests.lab.room import Room, missing

pytestmark = pytest.mark.skipif(bool(missing()), reason=missing())


@pytest.fixture(scope="module")
def room() -> Iterator[Room]:
    with two_machines() as room:
        yield room


@pytest.fixture
def lab(room: Room) -> Iterator[Lab]:
    with a_lab(room) as lab:
        yield lab


def test_torchrun_without_an_argument_trains_over_both(lab: Lab) -> None:
    """Four ranks on two machines add up what they have."""
    lab.gang(f"{needs(TRAINER)}/torchrun allreduce.py", each=2)
    lab.over()
    assert [line for line in lab.lines() if line.startswith("rank ")] == FOUR


def test_processes_of_their_own_meet(lab: Lab) -> None:
    """The script is started once a process; the one that fails is the end of all, named first."""
    lab.gang(
        f"{needs(TRAINER)}/python allreduce.py", launcher="processes", each=2, FAILING_RANK="3"
    )
    shown = lab.over(phase="Failed")
    end = shown["runs"][0]["end"]
    assert end["code"] == 7
    assert "this one gives up" in end["last_lines"][-1]
    assert "rank 3 ended with exit code 7" in end["message"]


def test_accelerate_launch_fills_both_machines(lab: Lab) -> None:
    """It reads no variables, and is told by options."""
    lab.gang(f"PATH={needs(TRAINER)}:$PATH\naccelerate launch accelerated.py", each=2)
    lab.over()
    assert [line for line in lab.lines() if line.startswith("rank ")] == FOUR


def test_what_accelerate_is_told_of_sharding_reaches_every_rank(lab: Lab) -> None:
    """Its options for FSDP stay, and torch shards one model over the processes of both machines."""
    options = "--use_fsdp --fsdp_version 2 --fsdp_auto_wrap_policy NO_WRAP"
    lab.gang(f"PATH={needs(TRAINER)}:$PATH\naccelerate launch {options} sharded.py", each=2)
    lab.over()
    shards = sorted(line for line in lab.lines() if line.startswith("shard "))
    assert [line.split(":")[0] for line in shards] == [f"shard {rank}" for rank in range(4)]
    assert sum(int(line.split()[2]) for line in shards) == 81
    assert all(line.endswith("of 81, version 2, NO_WRAP") for line in shards)


def test_lightning_starts_its_processes_on_both(lab: Lab) -> None:
    """By the variables of a node alone, as on one machine."""
    lab.gang(f"{needs(LIGHTNING)}/python lightning.py", launcher="node")
    lab.over()
    assert [line for line in lab.lines() if line.startswith("rank ")] == FOUR


def test_jax_initializes_over_both(lab: Lab) -> None:
    """`jax.distributed.initialize()` as it stands, and a sum."""
    lab.gang(f"{needs(JAX)}/python psum.py", launcher="jax")
    lab.over()
    ours = [line for line in lab.lines() if line.startswith("rank ")]
    assert ours == [f"rank {rank} of 2 on node {rank}: 1" for rank in range(2)]


@pytest.mark.parametrize("one", [MPI, OPEN_MPI_5, MPICH], ids=lambda one: one.name)
def test_mpirun_fills_both_machines_without_ssh_between_them(lab: Lab, one: Environment) -> None:
    """Debian's Open MPI, a newer one and MPICH: each finds the agent in the place of ssh."""
    if one is MPI and shutil.which("mpirun") is None:
        pytest.skip("mpirun is not there: apt-get install openmpi-bin")
    script = f"PATH={needs(one)}:$PATH\nmpirun python mpi.py"
    # Both have one kernel, by whose number UCX takes them for one machine.
    lab.gang(script, launcher="mpi", each=2, UCX_TLS="tcp")
    lab.over()
    said = lab.stw("logs", "job").splitlines()
    assert sorted(line for line in said if line.startswith("rank ")) == FOUR


def test_ray_is_one_cluster_on_both_machines_and_ends_with_the_job(lab: Lab, room: Room) -> None:
    """Its daemons leave their script's session, and are ended all the same."""
    lab.gang(f"PATH={needs(RAY)}:$PATH\nbash raying.sh || cat start.log", launcher="node")
    lab.over()
    assert "ray ran on nodes 0 1" in lab.lines()
    for computer in room.computers:
        commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in computer.processes()]
        assert not any(b"raylet" in line or b"gcs_server" in line for line in commands)
