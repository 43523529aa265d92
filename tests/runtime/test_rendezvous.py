"""The port at which ranks meet: free when chosen, and nobody's who said another one."""

import socket

from stellwerk.runtime.rendezvous import choose_port
from tests.runtime.rig import Rig

TWO = [{"rank": 0, "env": {}}, {"rank": 1, "env": {}}]


def test_a_port_that_is_in_use_is_passed_over() -> None:
    """The same run looks first at the same place; where somebody listens there, at the next."""
    first = choose_port("r-1")
    assert first is not None
    with socket.create_server(("127.0.0.1", first)):
        second = choose_port("r-1")
    assert second not in {None, first}
    assert choose_port("r-1") == first


def test_runs_look_at_different_places() -> None:
    """Two runs that start at once don't agree by accident, as a fixed port would have them."""
    assert len({choose_port(f"r-{number}") for number in range(20)}) > 15


def test_all_ranks_are_told_the_same_port(rig: Rig) -> None:
    """Under the names that the order speaks of; a port that the task names stays."""
    says = 'echo "$MASTER_PORT ${PET_MASTER_PORT-none} ${JAX_COORDINATOR_ADDRESS-none}"'
    here = {"MASTER_ADDR": "127.0.0.1"}
    every = {**here, "PET_NNODES": "2", "JAX_NUM_PROCESSES": "2"}
    rig.finish("chosen", says, ranks=TWO, env=every)
    port, of_torchrun, of_jax = rig.log("chosen").split()
    assert port.isdigit()
    assert (of_torchrun, of_jax) == (port, f"127.0.0.1:{port}")
    assert rig.log("chosen", "rank-1.log").split() == [port, of_torchrun, of_jax]
    rig.finish("plain", says, ranks=TWO, env=here)
    assert rig.log("plain").split()[1:] == ["none", "none"]
    rig.finish("named", says, ranks=TWO, env={**every, "MASTER_PORT": "7"})
    assert rig.log("named") == "7 7 127.0.0.1:7\n"
    rig.finish("alone", says)
    assert rig.log("alone") == " none none\n"


def test_ranks_are_told_the_interface_that_leads_there(rig: Rig) -> None:
    """Where nobody else has said which; what isn't known is left to the libraries."""
    says = 'echo "${GLOO_SOCKET_IFNAME-none} ${NCCL_SOCKET_IFNAME-none}"'
    rig.finish("here", says, env={"MASTER_ADDR": "127.0.0.1"})
    assert rig.log("here") == "lo lo\n"
    rig.finish("said", says, env={"MASTER_ADDR": "127.0.0.1", "NCCL_SOCKET_IFNAME": "ib0"})
    assert rig.log("said") == "lo ib0\n"
    rig.finish("nowhere", says, env={"MASTER_ADDR": "no.such.host.invalid"})
    assert rig.log("nowhere") == "none none\n"
