"""Joins standard input and output to the agent's socket, until either side ends.

What speaks through it is the caller and whoever the agent hands the connection to.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading

_BLOCK = 256 * 1024


def relay(path: str) -> int:
    """Pass bytes both ways; the exit status. The end of the input is a hang-up."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    threading.Thread(target=_listen, args=(connection,), daemon=True).start()
    with contextlib.suppress(OSError):  # nobody listens any more
        while block := connection.recv(_BLOCK):
            write_all(1, block)
    return 0


def _listen(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # nobody listens any more
        while block := os.read(0, _BLOCK):
            connection.sendall(block)
    os._exit(0)


def write_all(descriptor: int, data: bytes) -> None:
    """Write all of it, however long that takes."""
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
