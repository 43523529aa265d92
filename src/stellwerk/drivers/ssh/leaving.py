"""Leaves machines for good: the agents there end, and if wanted everything that lies there goes."""

import asyncio
from collections.abc import Iterable
from typing import NamedTuple

from stellwerk.drivers.base import DriverError
from stellwerk.drivers.ssh.machine import Machine

LEAVE_S = 600.0
"""A tree of millions of files takes its time."""


class Left(NamedTuple):
    """What became of a machine; ``agent`` is ``ended``, ``goes on`` or ``unknown``."""

    host: str
    agent: str
    purged: bool = False
    message: str = ""


async def leave_all(machines: Iterable[Machine], *, purge: bool) -> list[Left]:
    """Leaves all of them at once; one that can't be reached is told of."""
    return list(await asyncio.gather(*(_leave(machine, purge=purge) for machine in machines)))


async def _leave(machine: Machine, *, purge: bool) -> Left:
    host = str(machine.host)
    if not machine.is_connected:
        return Left(host, "unknown", message=_kept(host, "it can't be reached", purge=purge))
    try:
        await machine.talk.close()
        hand = await machine.handy()
        said, _ = await hand.ask("leave", purge=purge, timeout_s=LEAVE_S)
    except DriverError as error:
        return Left(host, "unknown", message=_kept(host, error.message, purge=purge))
    agent, purged = str(said.get("agent")), said.get("purged") is True
    message = ""
    if agent != "ended":
        message = f"runs go on on {host} that were given up here; nothing of it was touched"
    elif purge and not purged:
        message = f"on {host} something keeps {', '.join(said.get('left') or ())} in {hand.home}"
    return Left(host, agent, purged, message)


def _kept(host: str, why: str, *, purge: bool) -> str:
    stays = " and all that lies there stays" if purge else ""
    return f"{host}: {why}, so its agent may go on (an idle one ends by itself){stays}"
