"""Says whether a host of a gang is cut off from the others, and not from the control plane alone.

A host that is silent may compute on with its neighbours: then nobody needs to hear of it. So those
are asked whether they reach it, once it was silent for as long as its job is to wait.
"""

import asyncio
from collections.abc import Callable, Container, Mapping

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.reports import MachineCutOff, Report
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.ssh.gang_state import Gang
from stellwerk.drivers.ssh.machine import Machine

SSH_PORT = 22


def may_be_cut_off(gang: Gang, host: int) -> bool:
    """Whether a silent host has a part that goes on, and its job asks for the others to be told."""
    part = gang.parts.get(host)
    if part is None or part.end is not None or not part.released or host in gang.cuts:
        return False
    return part.cut_off_ms > 0


async def mind_cut(
    cluster: str,
    run: RunId,
    gang: Gang,
    host: int,
    machines: Mapping[str, Machine],
    up: Container[str],
    tell: Callable[[Report], None],
) -> None:
    """Tells that a host is cut off, once it was silent for long and no other reaches it."""
    gang.cuts.add(host)
    try:
        cut = await _cut_off(gang, host, machines, up)
    finally:
        gang.cuts.discard(host)
    if cut:
        part = gang.parts[host]
        reason = Reason("machine_cut_off", {"node": part.node, "after_ms": part.cut_off_ms})
        tell(MachineCutOff(cluster, run, gang.generation, reason))


async def _cut_off(
    gang: Gang, host: int, machines: Mapping[str, Machine], up: Container[str]
) -> bool:
    """Waits, again and again while others reach it; False once it is heard of, or has ended."""
    node, wait_s = gang.hosts[host].node, gang.parts[host].cut_off_ms / 1000
    while True:
        await asyncio.sleep(wait_s)
        others = [
            machines[each.node]
            for index, each in enumerate(gang.hosts)
            if index != host and each.node in up and each.node in machines
        ]
        found = await asyncio.gather(*(_reaches(one, gang, host, machines) for one in others))
        if node in up or gang.parts[host].end is not None:
            return False
        if found and all(one is False for one in found):
            return True


async def _reaches(
    machine: Machine, gang: Gang, host: int, machines: Mapping[str, Machine]
) -> bool | None:
    """Whether a machine reaches a host; None where it can't say."""
    silent = machines.get(gang.hosts[host].node)
    known = str(silent.found.get("address") or "") if silent is not None else ""
    head = gang.parts.get(0)
    port = int(head.port) if head is not None and head.port.isdecimal() else 0
    ports = [SSH_PORT if silent is None else silent.host.port or SSH_PORT, port]
    addresses = list(dict.fromkeys(filter(None, (known, *gang.parts[host].addresses))))
    try:
        hand = await machine.handy()
        answer, _ = await hand.ask("reach_out", addresses=addresses, ports=ports)
    except DriverError:
        return None
    return bool(answer["reached"])
