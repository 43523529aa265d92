"""Sessions with a command inside a run, over a connection that an agent hands on to a keeper.

The agent answers with one line, or has the keeper of the command answer; whatever comes after that
line is the keeper's.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

import msgspec

from stellwerk.drivers.base import DriverError, ExecOrder

ANSWER_S = 15.0
"""The agent itself gives up on a wrapper after 10 s."""
READ_BYTES = 256 * 1024
OPEN_ENDED = ("unreachable", "machine")
"""Refusals after which the same order may well be carried out."""


class Reader(Protocol):
    """Where bytes come from, as of asyncio's streams."""

    async def read(self, n: int, /) -> bytes:
        """At most so many bytes; b"" at the end."""
        ...

    async def readline(self) -> bytes:
        """One line; all that is left where none ends."""
        ...


class Writer(Protocol):
    """Where bytes go, as of asyncio's streams."""

    def write(self, data: bytes, /) -> None:
        """Takes bytes to send."""
        ...

    async def drain(self) -> None:
        """Waits while too much is under way."""
        ...


class AgentSession:
    """A connection to the keeper of one command; ``hang_up`` ends it at once."""

    def __init__(
        self, reader: Reader, writer: Writer, hang_up: Callable[[], Awaitable[None]]
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._hang_up = hang_up

    async def begin(self, order: ExecOrder) -> None:
        """Asks for the keeper and waits until it speaks; hangs up and raises DriverError if not."""
        try:
            request = {"id": 1, "op": "exec", "run": order.run, "rank": order.rank}
            await self.send(msgspec.json.encode(request) + b"\n")
            async with asyncio.timeout(ANSWER_S):
                line = await self._reader.readline()
            _refuse_if_refused(msgspec.json.decode(line, type=dict[str, object]))
        except (OSError, ValueError, TimeoutError) as error:
            await self.close()
            raise silent(f"the agent doesn't say whether it runs the command: {error}") from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Hangs up at once."""
        await self._hang_up()

    async def send(self, data: bytes) -> None:
        """Passes frames on to the keeper."""
        try:
            self._writer.write(data)
            await self._writer.drain()
        except OSError as error:
            message = "the command's keeper has hung up"
            raise DriverError("driver/exec-over", message, final=True) from error

    async def receive(self) -> bytes:
        """What the keeper says; b"" when it has said everything, or was killed."""
        try:
            return await self._reader.read(READ_BYTES)
        except OSError:
            return b""


def _refuse_if_refused(said: dict[str, object]) -> None:
    error = said.get("error")
    if not isinstance(error, dict):
        return
    code, message = str(error.get("code")), str(error.get("message"))
    if code == "unknown_op":
        code = "too_old"
        message = "the runtime that looks after this run is older and can't run commands in it"
    raise DriverError(f"runtime/{code}", message, final=code not in OPEN_ENDED)


def silent(message: str) -> DriverError:
    """Says that nobody answers now."""
    return DriverError("driver/agent-silent", message, final=False)
