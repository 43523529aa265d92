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
    """Under both names; a port that the task names stays."""
    says = 'echo "$MASTER_PORT $PET_MASTER_PORT"'
    rig.finish("chosen", says, ranks=TWO, env={"MASTER_ADDR": "127.0.0.1"})
    told = rig.log("chosen").split()
    assert told[0] == told[1]
    assert told[0].isdigit()
    assert rig.log("chosen", "rank-1.log").split() == told
    rig.finish("named", says, ranks=TWO, env={"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "7"})
    assert rig.log("named") == "7 \n"
    rig.finish("alone", says)
    assert rig.log("alone") == " \n"
