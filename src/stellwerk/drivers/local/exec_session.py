"""Opens a session with a command inside a run on this machine: a connection of its own."""

import asyncio
import contextlib

from stellwerk.drivers.agents.sessions import READ_BYTES, AgentSession, silent
from stellwerk.drivers.base import ExecOrder


async def open_session(socket: str, order: ExecOrder) -> AgentSession:
    """Asks the agent for a keeper and waits until that one speaks. Raises DriverError."""
    try:
        reader, writer = await asyncio.open_unix_connection(socket, limit=READ_BYTES)
    except OSError as error:
        raise silent(f"nobody answers at {socket}: {error.strerror}") from error

    async def hang_up() -> None:
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()

    session = AgentSession(reader, writer, hang_up)
    await session.begin(order)
    return session
