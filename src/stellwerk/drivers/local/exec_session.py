"""Opens a session with a command inside a run: a connection of its own, which the agent hands on.

The agent answers with one line, or has the keeper of the command answer; whatever comes after that
line is the keeper's.
"""

import asyncio
import contextlib

import msgspec

from stellwerk.drivers.base import DriverError, ExecOrder

ANSWER_S = 15.0
"""The agent itself gives up on a wrapper after 10 s."""
READ_BYTES = 256 * 1024
_OPEN_ENDED = ("unreachable", "machine")


class LocalSession:
    """A connection to the keeper of one command."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

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

    async def close(self) -> None:
        """Hangs up at once."""
        self._writer.transport.abort()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()


async def open_session(socket: str, order: ExecOrder) -> LocalSession:
    """Asks the agent for a keeper and waits until that one speaks. Raises DriverError."""
    try:
        reader, writer = await asyncio.open_unix_connection(socket, limit=READ_BYTES)
    except OSError as error:
        raise _silent(f"nobody answers at {socket}: {error.strerror}") from error
    session = LocalSession(reader, writer)
    try:
        request = {"id": 1, "op": "exec", "run": order.run, "rank": order.rank}
        await session.send(msgspec.json.encode(request) + b"\n")
        async with asyncio.timeout(ANSWER_S):
            said = msgspec.json.decode(await reader.readline(), type=dict[str, object])
        _refuse_if_refused(said)
    except (OSError, ValueError, TimeoutError) as error:
        await session.close()
        raise _silent(f"the agent doesn't say whether it runs the command: {error}") from error
    except BaseException:
        await session.close()
        raise
    return session


def _refuse_if_refused(said: dict[str, object]) -> None:
    error = said.get("error")
    if not isinstance(error, dict):
        return
    code, message = str(error.get("code")), str(error.get("message"))
    if code == "unknown_op":
        code = "too_old"
        message = "the runtime that looks after this run is older and can't run commands in it"
    raise DriverError(f"runtime/{code}", message, final=code not in _OPEN_ENDED)


def _silent(message: str) -> DriverError:
    return DriverError("driver/agent-silent", message, final=False)
