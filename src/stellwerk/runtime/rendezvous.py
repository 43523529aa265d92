"""Chooses the port at which the ranks of one machine meet, free at the moment they start.

Nothing is held: between this look and the first rank's own use somebody else may take the port.
Every run begins to look at a place of its own, below the ports that the kernel hands out by itself,
so that two runs which start at once don't find the same one.
"""

from __future__ import annotations

import errno
import socket
import zlib
from typing import Optional

_LOWEST = 10_000
_USUAL_HIGHEST = 32_767
_KERNELS_RANGE = "/proc/sys/net/ipv4/ip_local_port_range"


def choose_port(run: str) -> Optional[int]:
    """A port that nobody listens at, on any address; None where every single one is taken."""
    highest = _highest()
    count = highest - _LOWEST + 1
    first = zlib.crc32(run.encode()) % count
    for step in range(count):
        port = _LOWEST + (first + step) % count
        if _is_free(port):
            return port
    return None


def _highest() -> int:
    """The last port below those that the kernel gives to outgoing connections."""
    try:
        with open(_KERNELS_RANGE, encoding="ascii") as file:
            lowest_of_the_kernel = int(file.read().split()[0])
    except (OSError, ValueError, IndexError):
        return _USUAL_HIGHEST
    if lowest_of_the_kernel <= _LOWEST + 1_000:
        return _USUAL_HIGHEST
    return min(65_535, lowest_of_the_kernel - 1)


def _is_free(port: int) -> bool:
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):  # noqa: S104
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address, port))
        except OSError as error:
            if family == socket.AF_INET6 and error.errno != errno.EADDRINUSE:
                # A machine without IPv6 has nobody who listens there.
                continue
            return False
    return True
