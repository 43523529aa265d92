"""One client on the agent's socket: lines of JSON in, lines of JSON out, never waiting for it."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Callable

from .files import JSONObject, to_json
from .loop import Loop

_LONGEST_LINE = 32 * 1024 * 1024
_MOST_UNREAD = 64 * 1024 * 1024


class Connection:
    """Reads requests as they come and keeps what the client hasn't read yet.

    A client that doesn't read, or sends a line without an end, is cut off: it connects again and
    asks for the whole list.
    """

    def __init__(
        self,
        client: socket.socket,
        loop: Loop,
        on_request: Callable[[Connection, JSONObject], None],
        on_closed: Callable[[Connection], None],
    ) -> None:
        self._client = client
        self._loop = loop
        self._on_request = on_request
        self._on_closed = on_closed
        self._incoming = bytearray()
        self._outgoing = bytearray()
        self.is_open = True
        self.watches = False
        client.setblocking(False)
        loop.on_readable(client.fileno(), self._read)

    def send(self, line: JSONObject) -> None:
        """Send one line, now or as soon as the client reads."""
        if not self.is_open:
            return
        was_empty = not self._outgoing
        self._outgoing += to_json(line) + b"\n"
        if len(self._outgoing) > _MOST_UNREAD:
            self.close()
        elif was_empty:
            self._write()

    def close(self) -> None:
        """Hang up."""
        if self.is_open:
            self.is_open = False
            self._loop.forget(self._client.fileno())
            self._client.close()
            self._on_closed(self)

    def give_away(self) -> socket.socket:
        """The socket itself, for somebody else to go on with; here it is over."""
        given = socket.socket(fileno=os.dup(self._client.fileno()))
        self.close()
        return given

    def _write(self) -> None:
        try:
            sent = self._client.send(self._outgoing)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.close()
            return
        del self._outgoing[:sent]
        self._loop.on_writable(self._client.fileno(), self._write if self._outgoing else None)

    def _read(self) -> None:
        try:
            block = self._client.recv(262_144)
        except BlockingIOError:
            return
        except OSError:
            block = b""
        if not block:
            self.close()
            return
        start = len(self._incoming)
        self._incoming += block
        if b"\n" not in block:
            if start + len(block) > _LONGEST_LINE:
                self._refuse("too_long", f"a request has at most {_LONGEST_LINE} bytes")
                self.close()
            return
        *lines, rest = bytes(self._incoming).split(b"\n")
        self._incoming = bytearray(rest)
        for line in lines:
            if line.strip() and self.is_open:
                self._handle(line)

    def _handle(self, line: bytes) -> None:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            self._refuse("not_json", f"a request is one line of JSON: {error}")
            return
        if not isinstance(request, dict):
            self._refuse("not_json", "a request is a JSON object")
            return
        self._on_request(self, request)

    def _refuse(self, code: str, message: str) -> None:
        self.send({"id": None, "error": {"code": code, "message": message}})
