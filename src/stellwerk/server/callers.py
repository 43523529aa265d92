"""Connections that people's own runtimes make: bytes both ways inside of one request.

A runtime calls once and stays; what is said are the frames of `stellwerk.runtime.hand`. For a
command inside a run it is asked to call again, under a word that only it was told.
"""

import asyncio
import contextlib
import secrets
from typing import Protocol

from litestar.types import Receive, Send

from stellwerk.drivers.agents.sessions import READ_BYTES, AgentSession, silent
from stellwerk.runtime import frames

CALL_AGAIN = b"s"
"""To whoever keeps a runtime's connection: call again, for a session of this name."""
CALL_AGAIN_S = 15.0
MOST_UNDER_WAY = 1 << 20
LONGEST_LINE = 1 << 20
MEDIA_TYPE = "application/vnd.stellwerk.runtime"


class Hosts(Protocol):
    """What works with people's runtimes: the driver of this machine."""

    @property
    def people(self) -> tuple[str, ...]:
        """As whom something can be started now."""
        ...


class Line:
    """One connection as streams of bytes; ``carry`` it between the two sides of a request.

    ``skip`` bytes of the caller's are only there because a request has to begin with something.
    """

    def __init__(self, skip: int = 0) -> None:
        self._skip = skip
        self._came: asyncio.Queue[bytes] = asyncio.Queue(64)
        self._rest = b""
        self._to_send = bytearray()
        self._changed = asyncio.Event()
        self._sent = asyncio.Event()
        self.over = asyncio.Event()

    async def carry(self, receive: Receive, send: Send, stopping: asyncio.Event) -> None:
        """Passes bytes on until either side, or the server, ends."""
        headers = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        tasks = [
            asyncio.create_task(self._hear(receive)),
            asyncio.create_task(self._speak(send)),
            asyncio.create_task(stopping.wait()),
            asyncio.create_task(self.over.wait()),
        ]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            self.over.set()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self._sent.set()
            with contextlib.suppress(asyncio.QueueFull):
                self._came.put_nowait(b"")
        with contextlib.suppress(OSError):
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _hear(self, receive: Receive) -> None:
        while True:
            message = await receive()
            if message["type"] != "http.request":
                return
            body = message["body"][self._skip :]
            self._skip -= len(message["body"]) - len(body)
            if body:
                await self._came.put(body)
            if not message.get("more_body", False):
                return

    async def _speak(self, send: Send) -> None:
        while True:
            await self._changed.wait()
            self._changed.clear()
            while self._to_send:
                data = bytes(self._to_send)
                self._to_send.clear()
                await send({"type": "http.response.body", "body": data, "more_body": True})
            self._sent.set()

    async def read(self, n: int, /) -> bytes:
        """At most so many bytes; b"" at the end."""
        if not self._rest:
            if self.over.is_set() and self._came.empty():
                return b""
            self._rest = await self._came.get()
        data, self._rest = self._rest[:n], self._rest[n:]
        return data

    async def readline(self) -> bytes:
        """One line; all that is left where none ends. Raises ValueError for one without end."""
        line = b""
        while not line.endswith(b"\n"):
            if len(line) > LONGEST_LINE:
                raise ValueError("a line has no end")
            piece = await self.read(READ_BYTES)
            if not piece:
                break
            end = piece.find(b"\n") + 1 or len(piece)
            line += piece[:end]
            self._rest = piece[end:] + self._rest
        return line

    def write(self, data: bytes, /) -> None:
        """Takes bytes to send."""
        if self.over.is_set():
            raise ConnectionResetError("the connection is over")
        self._to_send += data
        self._sent.clear()
        self._changed.set()

    async def drain(self) -> None:
        """Waits while too much is under way."""
        while len(self._to_send) > MOST_UNDER_WAY and not self.over.is_set():
            await self._sent.wait()
        if self.over.is_set():
            raise ConnectionResetError("the connection is over")

    async def hang_up(self) -> None:
        """Ends it."""
        self.over.set()


class Callers:
    """Who was asked to call again, and for what."""

    def __init__(self) -> None:
        self._expected: dict[str, tuple[int, asyncio.Future[Line]]] = {}

    async def call_back(self, uid: int, line: Line) -> AgentSession:
        """Asks the process at the end of a line for another connection. Raises DriverError."""
        word = secrets.token_urlsafe(24)
        called: asyncio.Future[Line] = asyncio.get_running_loop().create_future()
        self._expected[word] = (uid, called)
        try:
            line.write(frames.frame(CALL_AGAIN, word.encode()))
            async with asyncio.timeout(CALL_AGAIN_S):
                found = await called
        except (OSError, TimeoutError) as error:
            raise silent("the runtime doesn't call for the command to be run") from error
        finally:
            self._expected.pop(word, None)
        return AgentSession(found, found, found.hang_up)

    def claim(self, word: str, uid: int) -> asyncio.Future[Line] | None:
        """Who waits for this call; only the user who was asked may make it."""
        wanted, called = self._expected.get(word, (-1, None))
        return called if called is not None and wanted == uid and not called.done() else None
