"""Speaks HTTP/1.1 over a Unix socket, with nothing but the standard library.

A request is answered whole; a stream is read as it comes and says whether it was cut off.
"""

import contextlib
import http.client
import os
import socket
import threading
from collections.abc import Iterator
from types import TracebackType
from typing import NamedTuple, Self

from stellwerk.core.model.errors import Problem, StellwerkError

READ_BYTES = 65_536


class UnreachableError(StellwerkError):
    """The server can't be reached, or the connection was cut; another try may help."""

    exit_code = 6


class CutOffError(Exception):
    """A stream ended before its end was said."""


class Answer(NamedTuple):
    """A whole answer."""

    status: int
    headers: http.client.HTTPMessage
    body: bytes


class _UnixConnection(http.client.HTTPConnection):
    def __init__(self, path: str, timeout_s: float | None) -> None:
        super().__init__("stellwerk", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self.sock.settimeout(self.timeout)
            self.sock.connect(self._path)
        except BaseException:
            self.close()
            raise


def refuse_foreign_socket(path: str) -> None:
    """Refuses a default socket whose folder somebody else made: they would read what we send."""
    folder = os.path.dirname(path)
    try:
        owner = os.stat(folder).st_uid
    except FileNotFoundError:
        return
    if owner != os.getuid():
        raise unreachable_because(
            "server/foreign-socket",
            f"{folder} belongs to user {owner}, not to you",
            "remove it, or name another socket with STELLWERK_SOCKET",
        )


def answers(path: str) -> bool:
    """Whether somebody listens at this socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        try:
            probe.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            return False
        except OSError as error:
            raise unreachable(path, error) from error
    return True


def unreachable_because(code: str, message: str, help: str) -> UnreachableError:
    """The common case of one problem without a place."""
    return UnreachableError([Problem(code, message, help)])


def unreachable(path: str, error: Exception) -> UnreachableError:
    """Says in words why the server can't be reached."""
    if isinstance(error, FileNotFoundError | ConnectionRefusedError):
        what, remedy = "the server isn't running", "start it: stw server start"
    elif isinstance(error, PermissionError):
        what, remedy = "you may not open the server's socket", "ask its owner for access"
    elif isinstance(error, TimeoutError):
        what, remedy = "the server did not answer in time", "see what it does: stw server logs"
    elif "too long" in str(error):
        what = "the path of the socket is too long (at most 107 bytes)"
        remedy = "name a shorter one with STELLWERK_SOCKET"
    else:
        what = f"the connection to the server broke ({str(error) or type(error).__name__})"
        remedy = "try again; see stw server status"
    return UnreachableError([Problem("server/unreachable", what, remedy, path)])


class Stream:
    """An answer that is still coming. Iterating gives bytes as they arrive."""

    def __init__(self, connection: _UnixConnection, response: http.client.HTTPResponse) -> None:
        self._connection = connection
        self._response = response
        self._socket = connection.sock  # http.client lets go of it when the answer ends with it
        self.status = response.status
        self.headers = response.headers

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Lets go of the connection."""
        self._response.close()
        self._connection.close()

    def interrupt(self) -> None:
        """Cuts the stream off, also from another thread that isn't the one that reads it."""
        if self._socket is not None:
            with contextlib.suppress(OSError):  # it has ended by itself
                self._socket.shutdown(socket.SHUT_RDWR)

    def __iter__(self) -> Iterator[bytes]:
        while data := self._read():
            yield data

    def _read(self) -> bytes:
        try:
            return self._response.read1(READ_BYTES)
        except (http.client.HTTPException, OSError, ValueError) as error:
            # A chunk's length that is missing is a ValueError deep inside http.client.
            raise CutOffError(str(error)) from error


class Saying:
    """The body of a request that goes on; one thread at a time may say something."""

    def __init__(self, connection: _UnixConnection) -> None:
        self._connection = connection
        self._lock = threading.Lock()

    def say(self, data: bytes) -> None:
        """Sends a piece; raises OSError when nobody listens any more."""
        with self._lock:
            self._connection.send(b"%x\r\n%b\r\n" % (len(data), data))

    def end(self) -> None:
        """Says that this was all."""
        with contextlib.suppress(OSError), self._lock:  # nobody waits for it any more
            self._connection.send(b"0\r\n\r\n")


class Transport:
    """One kept connection for requests, and one more for each stream. Safe between threads."""

    def __init__(self, path: str, timeout_s: float = 60.0) -> None:
        self.path = path
        self._timeout_s = timeout_s
        self._kept: _UnixConnection | None = None
        self._lock = threading.Lock()

    def close(self) -> None:
        """Lets go of the kept connection."""
        with self._lock:
            self._drop()

    def request(
        self,
        method: str,
        target: str,
        body: bytes | None = None,
        headers: dict[str, str] | None = None,
        *,
        timeout_s: float | None = None,
    ) -> Answer:
        """Sends one request and reads its whole answer; raises UnreachableError."""
        headers = headers or {}
        with self._lock:
            was_kept = self._kept is not None
            try:
                return self._exchange(method, target, body, headers, timeout_s)
            except (http.client.HTTPException, OSError) as error:
                self._drop()
                if not was_kept or isinstance(error, TimeoutError):
                    raise unreachable(self.path, error) from error
            # The server closed a connection that had been idle, or is another one by now.
            try:
                return self._exchange(method, target, body, headers, timeout_s)
            except (http.client.HTTPException, OSError) as error:
                self._drop()
                raise unreachable(self.path, error) from error

    def stream(self, target: str, headers: dict[str, str] | None = None) -> Stream:
        """Opens an answer that comes over time; it has no time limit. Raises UnreachableError."""
        connection = _UnixConnection(self.path, None)
        try:
            connection.request("GET", target, headers=headers or {})
            return Stream(connection, connection.getresponse())
        except (http.client.HTTPException, OSError) as error:
            connection.close()
            raise unreachable(self.path, error) from error

    def converse(self, target: str, content_type: str, first: bytes) -> tuple[Stream, "Saying"]:
        """Posts a body that goes on while its answer comes. Raises UnreachableError."""
        connection = _UnixConnection(self.path, None)
        try:
            connection.putrequest("POST", target)
            connection.putheader("Content-Type", content_type)
            connection.putheader("Transfer-Encoding", "chunked")
            connection.endheaders()
            saying = Saying(connection)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                saying.say(first)  # where nobody reads it, the answer says why
            return Stream(connection, connection.getresponse()), saying
        except (http.client.HTTPException, OSError) as error:
            connection.close()
            raise unreachable(self.path, error) from error

    def _exchange(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: dict[str, str],
        timeout_s: float | None,
    ) -> Answer:
        if self._kept is None:
            self._kept = _UnixConnection(self.path, self._timeout_s)
        connection = self._kept
        if connection.sock is None:
            connection.connect()
        connection.sock.settimeout(self._timeout_s if timeout_s is None else timeout_s)
        # A server that ends may answer before it has read all: then its answer is what counts.
        with contextlib.suppress(BrokenPipeError):
            connection.request(method, target, body=body, headers=headers)
        response = connection.getresponse()
        data = response.read()
        if response.will_close:
            self._drop()
        return Answer(response.status, response.headers, data)

    def _drop(self) -> None:
        if self._kept is not None:
            self._kept.close()
            self._kept = None
