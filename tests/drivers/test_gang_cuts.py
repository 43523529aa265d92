"""Who is cut off from the other machines of a gang, and who only from the control plane."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any

from stellwerk.core.model.reports import MachineCutOff, Report
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.ssh.gang_cuts import may_be_cut_off, mind_cut
from stellwerk.drivers.ssh.gang_state import Gang
from stellwerk.runtime.hand_reaching import answers, reach_out
from tests.drivers.gang_world import HOSTS, NODES, RUN, a_part

SILENT = 1


class Neighbour:
    """A machine that says whether it reaches another one; None = it can't say."""

    def __init__(self, *says: bool | None) -> None:
        self.says = list(says)
        self.asked: list[dict[str, Any]] = []
        self.found = {"address": "10.0.0.7"}
        self.host = SimpleNamespace(port=0)

    async def handy(self) -> "Neighbour":
        return self

    async def ask(self, op: str, **fields: Any) -> tuple[dict[str, Any], bytes]:
        self.asked.append({"op": op, **fields})
        said = self.says.pop(0)
        if said is None:
            raise DriverError("runtime/unknown_op", "it is older", final=True)
        return {"reached": said}, b""


def told_of(*says: tuple[bool | None, ...], comes_back: bool = False) -> list[Report]:
    """What is told while host 1 is silent and the others say so, one time after the other."""
    hosts = a_part(0).hosts
    gang = Gang(1, hosts)
    for host in range(len(HOSTS)):
        gang.parts[host] = a_part(host)._replace(cut_off_ms=1, addresses=("10.0.0.8",))
    others = iter(says)
    machines: Any = {
        name: Neighbour() if host == SILENT else Neighbour(*next(others))
        for host, name in enumerate(NODES)
    }
    up = [name for host, name in enumerate(NODES) if host != SILENT]
    told: list[Report] = []

    async def wait() -> None:
        assert may_be_cut_off(gang, SILENT)
        work = asyncio.ensure_future(mind_cut("room", RUN, gang, SILENT, machines, up, told.append))
        while not work.done():
            await asyncio.sleep(0)
            assert not may_be_cut_off(gang, SILENT) or work.done()
            if comes_back and not machines[NODES[0]].says:
                up.append(NODES[SILENT])
        await work

    asyncio.run(wait())
    asked = machines[NODES[0]].asked[0]
    assert asked["addresses"] == ["10.0.0.7", "10.0.0.8"]
    return told


def test_the_others_are_told_when_none_of_them_reaches_it() -> None:
    """Once all that can say it say so; while one reaches it, they are asked again."""
    [told] = told_of((True, False), (False, False))
    assert isinstance(told, MachineCutOff)
    assert (told.reason.params["node"], told.reason.params["after_ms"]) == (NODES[SILENT], 1)


def test_nobody_is_told_of_who_is_back_or_of_whom_nobody_can_say_anything() -> None:
    """An older runtime doesn't know the question."""
    assert told_of((None, False), (False, None), comes_back=True) == []


def test_a_refusal_is_an_answer_and_one_s_own_address_none() -> None:
    """A machine is there if it says anything; one that shares an address isn't taken for it."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert answers([("127.0.0.1", port)])
    assert answers([("127.0.0.1", port)])
    assert not answers([("no address", port), ("255.255.255.255", port)])
    here: Any = None
    assert reach_out(here, {"addresses": [], "ports": [port]}, b"")[0] == {"reached": False}
