"""A guest that is no command but a connection: to a port that something of the job listens at.

It is a process of its own below the keeper, like a command, with the connection in place of a
program: its standard input goes there, what comes from there is its standard output.
"""

from __future__ import annotations

import os
import select
import socket

_ADDRESSES = ("127.0.0.1", "::1")
_CONNECT_S = 5.0
_READ = 64 * 1024
_BROKEN = 1


def connect(port: int) -> socket.socket:
    """A connection to a port on this machine's own addresses. Raises OSError of the first."""
    refusals: list[OSError] = []
    for address in _ADDRESSES:
        try:
            return socket.create_connection((address, port), _CONNECT_S)
        except OSError as refusal:
            refusals.append(refusal)
    raise refusals[0]


def carry(connection: socket.socket) -> int:
    """Until the other side has said everything: an exit status."""
    connection.setblocking(True)
    poll = select.poll()
    poll.register(0, select.POLLIN)
    poll.register(connection, select.POLLIN)
    try:
        while True:
            ready = {descriptor for descriptor, _ in poll.poll()}
            if 0 in ready:
                data = os.read(0, _READ)
                if data:
                    connection.sendall(data)
                else:
                    poll.unregister(0)
                    connection.shutdown(socket.SHUT_WR)
            if connection.fileno() in ready:
                data = connection.recv(_READ)
                if not data:
                    return 0
                _write_all(data)
    except OSError:
        return _BROKEN


def _write_all(data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(1, rest) :]
