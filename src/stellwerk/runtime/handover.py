"""Hands a caller's connection over to the keeper of a guest, so that no byte of it passes here.

The wrapper is asked for a keeper with a token; the keeper comes to a socket of that name, and is
given the connection itself. Until then the caller has sent nothing but the request.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Callable
from typing import Any, NamedTuple

from . import system
from .connection import Connection
from .files import JSONObject, to_json
from .loop import Loop
from .roster import Entry

_LOOK_MS = 100
_PATIENCE_MS = 10_000


class HandOver(NamedTuple):
    """One caller who waits for the keeper of a guest."""

    token: str
    connection: Connection
    number: Any
    entry: Entry
    listener: socket.socket
    since_ms: int


class HandOvers:
    """All that wait; at their end nothing of them is left but the keeper's own connection."""

    def __init__(self, sessions: str, loop: Loop) -> None:
        self._sessions = sessions
        self._loop = loop

    def sweep(self) -> None:
        """Remove what an agent that was killed has left."""
        for name in os.listdir(self._sessions):
            os.unlink(os.path.join(self._sessions, name))

    def begin(
        self, connection: Connection, number: Any, entry: Entry, ask: Callable[[str], None]
    ) -> None:
        """Have the wrapper asked for a keeper; the caller is answered when that one is there.

        Raises what `ask` raises.
        """
        token = os.urandom(8).hex()
        waiting = HandOver(
            token, connection, number, entry, self._listen(token), system.monotonic_ms()
        )
        try:
            ask(token)
        except BaseException:
            self._end(waiting)
            raise
        self._loop.on_readable(waiting.listener.fileno(), lambda: self._keeper_is_here(waiting))
        self._loop.after(f"guest {token}", _LOOK_MS, lambda: self._look(waiting))

    def _listen(self, token: str) -> socket.socket:
        folder = os.open(self._sessions, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        listener = socket.socket(socket.AF_UNIX)
        try:
            # The path itself may be longer than a socket's may be.
            listener.bind(f"/proc/self/fd/{folder}/{token}")
            listener.listen(1)
        except OSError:
            listener.close()
            raise
        finally:
            os.close(folder)
        listener.setblocking(False)
        return listener

    def _keeper_is_here(self, waiting: HandOver) -> None:
        try:
            keeper, _address = waiting.listener.accept()
        except OSError:
            return  # it is looked at again until patience ends
        with keeper:
            if system.peer_uid(keeper) not in {os.getuid(), 0}:
                return
            self._end(waiting)
            if not waiting.connection.is_open:
                return
            with contextlib.suppress(OSError), waiting.connection.give_away() as client:
                socket.send_fds(keeper, [to_json({"id": waiting.number})], [client.fileno()])

    def _look(self, waiting: HandOver) -> None:
        """Give up once the caller has gone, the run has ended, or the wrapper doesn't answer."""
        late = system.monotonic_ms() - waiting.since_ms > _PATIENCE_MS
        if waiting.connection.is_open and not waiting.entry.has_ended() and not late:
            self._loop.after(f"guest {waiting.token}", _LOOK_MS, lambda: self._look(waiting))
            return
        self._end(waiting)
        run = waiting.entry.run
        error: JSONObject = {"code": "ended", "message": f"run `{run}` has ended"}
        if not waiting.entry.has_ended():
            error = {"code": "unreachable", "message": f"the wrapper of `{run}` doesn't answer"}
        waiting.connection.send({"id": waiting.number, "error": error})

    def _end(self, waiting: HandOver) -> None:
        self._loop.cancel(f"guest {waiting.token}")
        self._loop.forget(waiting.listener.fileno())
        waiting.listener.close()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._sessions, waiting.token))
