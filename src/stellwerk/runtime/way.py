"""Finds the address by which the machines of a gang reach the one where its ranks meet.

The address by which the control plane knows a machine may lead nowhere from its neighbours: it came
through a jump host, a VPN or another interface, or a firewall is in between. So the head listens
while all prepare, and says at which addresses; the others try them, in that order. Whoever answers
must name the run, since one address may be that of another machine elsewhere.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Sequence
from typing import Optional

from .files import JSONObject
from .loop import Loop
from .network import own_addresses
from .rendezvous import choose_port

TRY_S = 2.0
_SAYS = "stellwerk "
_MOST = 16


class Door:
    """Where the head answers while the others look for it."""

    def __init__(self, run: str, loop: Loop) -> None:
        self._loop = loop
        self._answer = f"{_SAYS}{run}\n".encode()
        self._socket: Optional[socket.socket] = None
        self.port = choose_port(f"{run}/way")
        if self.port is not None:
            self._open(self.port)

    def _open(self, port: int) -> None:
        try:
            door = socket.socket(socket.AF_INET6 if socket.has_ipv6 else socket.AF_INET)
            if door.family == socket.AF_INET6:
                door.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
            door.bind(("", port))
            door.listen(64)
        except OSError:
            self.port = None  # nobody can look, and the address that is known counts
            return
        door.setblocking(False)
        self._socket = door
        self._loop.on_readable(door.fileno(), self._greet)

    def _greet(self) -> None:
        if self._socket is None:
            return
        try:
            caller, _ = self._socket.accept()
            with caller:
                caller.send(self._answer)
        except OSError:
            return  # the caller has gone again

    def as_json(self) -> Optional[JSONObject]:
        """Where it is; None where it couldn't be opened."""
        if self.port is None:
            return None
        return {"port": self.port, "addresses": own_addresses()[:_MOST]}

    def close(self) -> None:
        """Answer nobody any more."""
        if self._socket is not None:
            self._loop.forget(self._socket.fileno())
            self._socket.close()
            self._socket = None


def look(run: str, addresses: Sequence[str], port: int) -> dict[str, str]:
    """Tries all addresses at once; gives what is wrong with each, "" where the run has answered.

    When it has answered at the first, the others aren't waited for.
    """
    tries: dict[socket.socket, str] = {}
    found: dict[str, str] = {}
    for address in addresses[:_MOST]:
        try:
            family, kind, _, _, place = socket.getaddrinfo(
                address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )[0]
            attempt = socket.socket(family, kind)
            attempt.setblocking(False)
            attempt.connect_ex(place)
        except OSError as error:
            found[address] = error.strerror or "it is no address"
        else:
            tries[attempt] = address
    until = time.monotonic() + TRY_S
    while tries and time.monotonic() < until and found.get(addresses[0]) != "":
        ready = select.select(list(tries), [], [], max(0.0, until - time.monotonic()))[0]
        for attempt in ready:
            found[tries.pop(attempt)] = _heard(attempt, run)
            attempt.close()
    for attempt, address in tries.items():
        found[address] = "no answer"
        attempt.close()
    return found


def _heard(attempt: socket.socket, run: str) -> str:
    trouble = attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    if trouble:
        return os.strerror(trouble)
    try:
        said = attempt.recv(256).decode("utf-8", "replace")
    except OSError as error:
        return error.strerror or "it broke"
    return "" if said == f"{_SAYS}{run}\n" else "somebody else answers there"


class Search:
    """Looks for the head in a child, since that may take a moment."""

    def __init__(
        self, run: str, addresses: Sequence[str], port: int, loop: Loop, done: Callable[[], None]
    ) -> None:
        self.found: Optional[dict[str, str]] = None
        self._loop = loop
        self._done = done
        heard, told = os.pipe()
        self._heard = heard
        if os.fork() == 0:
            try:
                signal.set_wakeup_fd(-1)
                os.write(told, json.dumps(look(run, addresses, port)).encode()[:60_000])
            finally:
                os._exit(0)
        os.close(told)
        loop.on_readable(heard, self._take)

    def _take(self) -> None:
        data = os.read(self._heard, 65_536)
        self._loop.forget(self._heard)
        os.close(self._heard)
        try:
            said = json.loads(data)
        except ValueError:
            said = {}
        self.found = {str(address): str(wrong) for address, wrong in said.items()}
        self._done()
