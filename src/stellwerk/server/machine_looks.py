"""Looks at the machines of a cluster over SSH, and says what speaks against keeping it."""

import asyncio
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from stellwerk.drivers.base import DriverError
from stellwerk.server.machine_models import HostLook

if TYPE_CHECKING:
    from stellwerk.drivers.ssh.driver import SshDriver
    from stellwerk.drivers.ssh.machine import Machine

LOOK_S = 60.0
Identity = tuple[object, ...]
OFF = frozenset({"ssh/timeout", "ssh/no-route", "ssh/refused", "ssh/connection-lost"})
"""What a machine is like that is switched off; a room may have such ones."""


def is_fit(looks: Sequence[HostLook]) -> bool:
    """Whether a cluster can be kept: one machine answers, and the others are merely off."""
    return any(not look.code for look in looks) and all(
        not look.code or look.code in OFF for look in looks
    )


async def look_at_all(driver: "SshDriver", accept: Collection[str]) -> list[HostLook]:
    """How each machine is found; what is wrong with one is in its look."""
    try:
        async with asyncio.timeout(LOOK_S):
            await driver.open(accept, patience_s=LOOK_S)
            await driver.probe()
    except (DriverError, TimeoutError):
        pass  # each machine says what is wrong with it
    looks = [_look_of(machine) for machine in driver.machines.values()]
    return without_twins(looks, driver.machines.values(), {})


def _look_of(machine: "Machine") -> HostLook:
    host, trouble = machine.host, machine.trouble
    look = HostLook(
        host=str(host),
        node=host.node,
        folder=str(machine.found.get("home") or ""),
        python=str(machine.found.get("python") or ""),
        notes=machine.as_it_is().note if machine.is_connected else "",
    )
    if machine.is_connected:
        return look
    more: dict[str, Any] = getattr(trouble, "more", {})
    return msgspec.structs.replace(
        look,
        code=trouble.code if trouble is not None else "ssh/timeout",
        message=getattr(trouble, "plain", "") or (trouble.message if trouble else "no answer"),
        help=getattr(trouble, "remedy", ""),
        fingerprint=str(more.get("fingerprint", "")),
    )


def identity(machine: "Machine") -> Identity:
    """What two names of one machine have in common."""
    found = machine.found
    return found.get("machine_id"), found.get("boot_id"), found.get("home")


def without_twins(
    looks: list[HostLook], machines: Iterable["Machine"], known: Mapping[Identity, str]
) -> list[HostLook]:
    """Says of a machine that is there under two names, which would be counted twice.

    ``known`` are those of other clusters.
    """
    seen = dict(known)
    told = []
    for look, machine in zip(looks, machines, strict=True):
        is_new = machine.is_connected and not look.code
        first = seen.setdefault(identity(machine), look.host) if is_new else look.host
        if first != look.host:
            message = f"{look.host} is the same machine as {first}"
            remedy = "name each machine once"
            look = msgspec.structs.replace(  # noqa: PLW2901 - the same look, with what is wrong
                look, code="ssh/same-machine", message=message, help=remedy
            )
        told.append(look)
    return told
