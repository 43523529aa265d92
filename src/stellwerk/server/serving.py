"""Serves the application on sockets that are bound already, and ends when it is told to."""

import asyncio
import contextlib
import errno
import logging
import socket
from collections.abc import Iterator, Sequence
from typing import Any

import uvicorn
from litestar import Litestar

from stellwerk.server.peer import PeerProtocol

TICK_S = 1.0
LET_GO_S = 2
"""How long open answers have to end after everything that follows was woken."""

SETTLING_S = 0.005

OUT_OF = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)
SAY_AGAIN_S = 60.0

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

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Takes no more, lets open answers end, and cuts off those that don't.

        Without the tenth of a second that the library waits in any case.
        """
        for listening in (*self.servers, *(sockets or ())):
            listening.close()
        for connection in list(self.server_state.connections):
            connection.shutdown()
        loop = asyncio.get_running_loop()
        state, until = self.server_state, loop.time() + LET_GO_S
        while (  # noqa: ASYNC110  (the library has no event for it)
            state.connections or state.tasks
        ) and loop.time() < until:
            await asyncio.sleep(SETTLING_S)
        for task in list(state.tasks):
            task.cancel()

    async def serve_on(self, sockets: Sequence[socket.socket]) -> None:
        """Serves until it is told to stop, then lets open answers end."""
        asyncio.get_running_loop().set_exception_handler(LoopTrouble())
        await self.serve(sockets=list(sockets))
        for left in list(self.server_state.connections):
            if isinstance(left, PeerProtocol):
                left.transport.abort()


class LoopTrouble:
    """Says what the event loop complains of; that no connection can be accepted, once a minute.

    Without a free descriptor the loop would say so thousands of times a second.
    """

    def __init__(self) -> None:
        self._said_at = float("-inf")

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Takes what the loop has to say."""
        error = context.get("exception")
        if not isinstance(error, OSError) or error.errno not in OUT_OF or "socket" not in context:
            loop.default_exception_handler(context)
        elif loop.time() >= self._said_at + SAY_AGAIN_S:
            self._said_at = loop.time()
            logging.getLogger("stellwerk.server").error(
                "no more connections can be taken for now (%s); those that are open go on",
                error.strerror,
            )
