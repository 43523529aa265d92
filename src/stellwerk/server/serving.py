"""Serves the application on sockets that are bound already, and ends when it is told to."""

import asyncio
import contextlib
import logging
import socket
from collections.abc import Iterator, Sequence

import uvicorn
from litestar import Litestar

from stellwerk.server.peer import PeerProtocol

TICK_S = 1.0
LET_GO_S = 2
"""How long open answers have to end after everything that follows was woken."""

KEEP_ALIVE_S = 75
BACKLOG = 2048


class HttpServer(uvicorn.Server):
    """Leaves signals to the process and needn't look ten times a second whether it should end."""

    def __init__(self, app: Litestar, stopping: asyncio.Event) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=PeerProtocol,
                ws="none",
                lifespan="off",
                loop="asyncio",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                backlog=BACKLOG,
                timeout_keep_alive=KEEP_ALIVE_S,
                timeout_graceful_shutdown=LET_GO_S,
            )
        )
        self.listening = asyncio.Event()
        self._stopping = stopping

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """The process has its own way with signals."""
        yield

    async def main_loop(self) -> None:
        """Until it is told to stop; the tick keeps the `Date` of answers right."""
        self.listening.set()
        counter = 0
        while not (await self.on_tick(counter) or self._stopping.is_set()):
            counter += 10
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), TICK_S)
        # A reader that takes nothing is cut off; that is the end, not an error of each of them.
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)

    async def serve_on(self, sockets: Sequence[socket.socket]) -> None:
        """Serves until it is told to stop, then lets open answers end."""
        await self.serve(sockets=list(sockets))
        for left in list(self.server_state.connections):
            if isinstance(left, PeerProtocol):
                left.transport.abort()
