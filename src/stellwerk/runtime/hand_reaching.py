"""Says for the control plane whether this machine reaches another one that is silent to it.

Whoever answers in any way is there, also with a refusal: no port need be open for it.
"""

from __future__ import annotations

import errno
import select
import socket
import time

from .files import JSONObject
from .hand_files import Here
from .network import own_addresses

TRY_S = 3.0
_MOST = 16
_UNDER_WAY = (0, errno.EINPROGRESS, errno.ECONNREFUSED)
_ANSWERS = (0, errno.ECONNREFUSED, errno.ECONNRESET)


def reach_out(_here: Here, head: JSONObject, _data: bytes) -> tuple[JSONObject, bytes]:
    """Tries `addresses` at `ports`, all at once."""
    mine = own_addresses()
    addresses = [str(one) for one in head.get("addresses") or () if one not in mine][:_MOST]
    ports = [int(one) for one in head.get("ports") or ()][:4]
    return {"reached": answers([(address, port) for address in addresses for port in ports])}, b""


def answers(places: list[tuple[str, int]]) -> bool:
    """Whether anybody answers at one of some places."""
    waiting: list[socket.socket] = []
    try:
        for address, port in places:
            attempt = _begin(address, port)
            if attempt is not None:
                waiting.append(attempt)
        until_s = time.monotonic() + TRY_S
        while waiting and time.monotonic() < until_s:
            _, ready, _ = select.select([], waiting, [], max(0.0, until_s - time.monotonic()))
            for attempt in ready:
                waiting.remove(attempt)
                trouble = attempt.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
                attempt.close()
                if trouble in _ANSWERS:
                    return True
        return False
    finally:
        for attempt in waiting:
            attempt.close()


def _begin(address: str, port: int) -> socket.socket | None:
    try:
        family, kind, _, _, place = socket.getaddrinfo(
            address, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
        )[0]
        attempt = socket.socket(family, kind)
    except OSError:
        return None
    attempt.setblocking(False)
    if attempt.connect_ex(place) in _UNDER_WAY:
        return attempt
    attempt.close()  # no way there; whoever is asked about it later would say that all is well
    return None
