"""What launchers in a script find: options for `accelerate launch`, files of hosts for mpirun."""

import time
import zlib
from pathlib import Path
from typing import Any

import pytest

from stellwerk.runtime import network
from stellwerk.runtime.launchers import meeting_variables
from stellwerk.runtime.network import interface_towards
from tests.runtime.rig import Rig

NODES = {
    "MASTER_ADDR": "127.0.0.1",
    "MASTER_PORT": "29400",
    "PET_NNODES": "2",
    "PET_NODE_RANK": "1",
    "STELLWERK_NUM_PROCESSES": "4",
}
TOPOLOGY = (
    "--num_machines 2 --machine_rank 1 --num_processes 4 --main_process_ip 127.0.0.1 "
    "--main_process_port 29400 --deepspeed_multinode_launcher standard"
)


@pytest.fixture
def told(rig: Rig, tmp_path: Path) -> str:
    """A folder with an `accelerate` that prints what it was called with, and the folder's PATH."""
    program = tmp_path / "accelerate"
    program.write_text('#!/bin/sh\necho "[$*]"\nexit "${ENDS_WITH:-0}"\n')
    program.chmod(0o755)
    return f"{tmp_path}:/usr/bin:/bin"


@pytest.mark.parametrize(
    ("says", "found"),
    [
        ("accelerate launch train.py --lr 1", f"launch --multi_gpu {TOPOLOGY} train.py --lr 1"),
        ("accelerate launch --use_fsdp a.py", f"launch {TOPOLOGY} --use_fsdp a.py"),
        ("accelerate launch --config_file=c a.py", f"launch {TOPOLOGY} --config_file=c a.py"),
        ("bash -c 'accelerate launch --cpu a.py'", f"launch {TOPOLOGY} --cpu a.py"),
        ("accelerate env", "env"),
        ('accelerate launch "a b.py" || echo failed', f"launch --multi_gpu {TOPOLOGY} a b.py"),
    ],
)
def test_accelerate_launch_is_told_of_the_nodes(
    rig: Rig, told: str, tmp_path: Path, says: str, found: str
) -> None:
    """In front of the user's own options, which hold; other words of it are left alone."""
    env = {**NODES, "PATH": told, "HF_HOME": str(tmp_path / "none")}
    name = f"launch-{zlib.crc32(says.encode())}"
    rig.finish(name, says, env=env)
    assert rig.log(name) == f"[{found}]\n"


def test_a_configuration_says_what_kind_of_training_it_is(
    rig: Rig, told: str, tmp_path: Path
) -> None:
    """Then nothing else does."""
    (tmp_path / "hf" / "accelerate").mkdir(parents=True)
    (tmp_path / "hf" / "accelerate" / "default_config.yaml").touch()
    env = {**NODES, "PATH": told, "HF_HOME": str(tmp_path / "hf")}
    rig.finish("configured", "accelerate launch a.py", env=env)
    assert rig.log("configured") == f"[launch {TOPOLOGY} a.py]\n"


def test_a_launcher_gives_its_status(rig: Rig, told: str, tmp_path: Path) -> None:
    """The function around it hides nothing, and isn't there where nobody spoke of it."""
    env = {**NODES, "PATH": told, "ENDS_WITH": "3"}
    assert rig.finish("failed", "accelerate launch a.py", env=env)["code"] == 3
    rig.finish("unasked", "accelerate launch a.py", env={"PATH": told})
    assert rig.log("unasked") == "[launch a.py]\n"


def test_mpirun_finds_its_hosts(rig: Rig) -> None:
    """In the words of Open MPI, old and new, and of MPICH; a host that is there twice has more."""
    says = (
        'cat "$OMPI_MCA_orte_default_hostfile" "$HYDRA_HOST_FILE"\n'
        '[ "$PRTE_MCA_prte_default_hostfile" = "$OMPI_MCA_orte_default_hostfile" ]'
    )
    end = rig.finish("hosts", says, env={"STELLWERK_MPI_HOSTS": "10.0.0.1=2,10.0.0.2=2,10.0.0.1=2"})
    assert end["code"] == 0
    assert rig.log("hosts").splitlines() == [
        "10.0.0.1 slots=4",
        "10.0.0.2 slots=2",
        "10.0.0.1:4",
        "10.0.0.2:2",
    ]


def test_hosts_that_are_none_keep_nobody_up(rig: Rig) -> None:
    """A task may set any variable."""
    end = rig.finish("odd", "echo ran", env={"STELLWERK_MPI_HOSTS": "=,x,=3,a=-1,b=c\n"})
    assert (end["code"], rig.log("odd")) == (0, "ran\n")


def test_a_name_server_that_is_silent_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """The run starts, and the libraries choose."""

    def look(_host: str, flags: int) -> str | None:
        if flags:
            return None
        time.sleep(20)
        return "eth7"

    monkeypatch.setattr(network, "NAME_LIMIT_S", 0.05)
    monkeypatch.setattr(network, "_look", look)
    began = time.monotonic()
    assert interface_towards("slow.example") is None
    assert time.monotonic() - began < 10


def test_an_address_with_colons_is_set_apart() -> None:
    """As JAX wants it; what the order has itself stays."""
    env = {"MASTER_ADDR": "fd00::1", "JAX_NUM_PROCESSES": "2"}
    assert meeting_variables(env, "7")["JAX_COORDINATOR_ADDRESS"] == "[fd00::1]:7"
    env["JAX_COORDINATOR_ADDRESS"] = "mine:1"
    assert meeting_variables(env, "7") == {"MASTER_PORT": "7"}


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.7"])
def test_the_loopback_leads_to_this_machine(host: str) -> None:
    """Under each of its names."""
    assert interface_towards(host) == "lo"


@pytest.mark.parametrize("host", ["no.such.host.invalid", "", "a" * 300, "256.1.1.1"])
def test_what_leads_nowhere_has_no_interface(host: str) -> None:
    """Whatever it is, the run starts."""
    assert interface_towards(host) in {None, "lo"}


HOSTS = [{"node": "pc1", "ranks": [0]}, {"node": "pc2", "ranks": [1]}]


def a_part(rig: Rig, run: str, host: int, script: str) -> None:
    """One machine's part of a run of MPI, let go at once."""
    env = {"STELLWERK_MPI_HOSTS": "10.0.0.1=1,10.0.0.2=1"}
    ranks = [{"rank": host, "env": {"SKYPILOT_NODE_RANK": str(host)}}]
    rig.start(run, script, env=env, ranks=ranks, gang={"hosts": HOSTS, "host": host})
    rig.client.ask("go", run=run, generation=1, env={})
    rig.wait("its first process", lambda: rig.report(run)["state"] == "running")


def far(rig: Rig, run: str) -> dict[str, Any]:
    """What a part says of itself as one of a gang."""
    said: dict[str, Any] = rig.report(run)["status"]["gang"]
    return said


def test_what_mpirun_starts_elsewhere_is_carried_there_and_back(rig: Rig) -> None:
    """The agent in the place of ssh ends as what it asked for, and knows the machines of the job;
    the part there has no script of its own, and ends well when it is told that all is over.
    """
    says = (
        '"$OMPI_MCA_plm_rsh_agent" -x 10.0.0.9 true; echo "status $?"\n'
        "\"$HYDRA_LAUNCHER_EXEC\" -x 10.0.0.2 echo \"'a  b'\" '$SKYPILOT_NODE_RANK; exit 3'\n"
    )
    a_part(rig, "second", 1, "echo never")
    a_part(rig, "head", 0, says)
    (ident, wanted), *_ = rig.wait("a launch", lambda: list(far(rig, "head")["launches"].items()))
    host, command = wanted
    assert (host, far(rig, "second")["stands_in"]) == (1, True)
    for _ in range(2):
        rig.client.ask("launch", run="second", generation=1, launch=ident, command=command)
    code = rig.wait("its end", lambda: far(rig, "second")["launched"].get(ident))
    rig.client.ask("launched", run="head", generation=1, launch=ident, code=code)
    assert rig.ended("head")["code"] == 3
    assert rig.log("head") == "stellwerk: this job has no machine `10.0.0.9`\nstatus 68\n"
    rig.client.ask("over", run="second", generation=1)
    end = rig.ended("second")
    assert (end["how"], end["code"], rig.log("second", "rank-1.log")) == ("exited", 0, "a  b 1\n")
    assert not Path("/var/tmp/stellwerk-second").exists()
