"""The way to the machine where the ranks of a gang meet: found where it answers, and named."""

import socket
from concurrent.futures import ThreadPoolExecutor

from stellwerk.runtime.launchers import at_another_address
from stellwerk.runtime.loop import Loop
from stellwerk.runtime.network import own_addresses
from stellwerk.runtime.way import Door, look

RUN = "w-1-1"


def looked(run: str, addresses: list[str], port: int, loop: Loop) -> dict[str, str]:
    """What somebody finds while a loop turns."""
    with ThreadPoolExecutor(1) as pool:
        search = pool.submit(look, run, addresses, port)
        while not search.done():
            loop.after("look again", 20, lambda: None)
            loop.turn()
        return search.result()


def test_the_run_itself_must_answer() -> None:
    """What is no address, or where somebody else answers, is told as that."""
    loop = Loop()
    door = Door(RUN, loop)
    told = door.as_json()
    assert told is not None
    assert all(not address.startswith("127.") for address in told["addresses"])
    assert looked(RUN, ["nonsense", "127.0.0.1"], told["port"], loop)["127.0.0.1"] == ""
    assert looked(RUN, ["nonsense"], told["port"], loop)["nonsense"] not in {"", "no answer"}
    others = looked("w-2-1", ["127.0.0.1"], told["port"], loop)
    assert others == {"127.0.0.1": "somebody else answers there"}
    door.close()
    closed = looked(RUN, ["127.0.0.1"], told["port"], loop)
    assert closed == {"127.0.0.1": "Connection refused"}


def test_another_address_replaces_the_known_one_wherever_it_is_named() -> None:
    """But what names another machine stays."""
    env = {
        "MASTER_ADDR": "10.0.0.1",
        "PET_MASTER_ADDR": "10.0.0.1",
        "SKYPILOT_NODE_IPS": "10.0.0.1\n10.0.0.2",
        "SLURM_STEP_NODELIST": "10.0.0.9,10.0.0.1",
    }
    assert at_another_address(env, "192.168.0.1") == {
        "MASTER_ADDR": "192.168.0.1",
        "PET_MASTER_ADDR": "192.168.0.1",
        "SKYPILOT_NODE_IPS": "192.168.0.1\n10.0.0.2",
    }


def test_own_addresses_are_those_that_others_may_use() -> None:
    """No loopback; each can be bound here."""
    for address in own_addresses():
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((address, 0))
