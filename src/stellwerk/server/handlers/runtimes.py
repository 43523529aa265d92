"""People's own runtimes call here: on a shared server each person's work runs as that person."""

import logging
from collections.abc import Awaitable, Callable
from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.params import FromPath, QueryParameter
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from stellwerk.config import machine_id
from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.agents.hands import Hand
from stellwerk.drivers.local.shared import SharedDriver
from stellwerk.server.callers import MEDIA_TYPE, Line
from stellwerk.server.patience import TAKES_ITS_TIME
from stellwerk.server.seeing import caller_of
from stellwerk.server.services import Given, Services

logger = logging.getLogger("stellwerk.server")

HomeOf = Annotated[
    str, QueryParameter(pattern="^/", max_length=4096, description="The folder of everything.")
]
MachineOf = Annotated[str, QueryParameter(description="The id of the caller's machine.")]
Serve = Callable[[Receive, Send], Awaitable[None]]


class Conversation(Response[bytes]):
    """An answer that goes on for as long as the connection, and reads the request all the while."""

    def __init__(self, serve: Serve) -> None:
        super().__init__(b"", media_type=MEDIA_TYPE, status_code=200)
        self._serve = serve

    def to_asgi_response(
        self, app: Any, request: Request[Any, Any, Any], **given: Any
    ) -> ASGIResponse:
        """The same as something that speaks ASGI."""
        serve = self._serve

        class Conversing(ASGIResponse):
            async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
                await serve(receive, send)

        return Conversing(media_type=MEDIA_TYPE, status_code=200)


@post(
    "/runtimes",
    tags=["people"],
    summary="Offer a runtime",
    status_code=200,
    media_type=MEDIA_TYPE,
    opt={TAKES_ITS_TIME: True},
)
async def offer_runtime(
    request: Request[Any, Any, Any], services: Given, home: HomeOf, machine: MachineOf
) -> Conversation:
    """The caller's own runtime on the server's machine, through which their work is started as
    them. Body and answer are streams that go on at the same time: the frames of
    `stellwerk.runtime.hand`, and `s` with a word under which the caller is to call again.
    """
    caller = caller_of(request)
    driver = _driver(services)
    if not caller.person or request.scope["state"].get("peer") is None:
        raise StellwerkError.of(
            "guest/own", f"this server starts the work of {caller.actor.name} itself", "stw run"
        )
    if machine != machine_id():
        raise StellwerkError.of(
            "guest/elsewhere",
            "this runtime is on another machine than the server",
            "add that machine as a cluster: stw cluster add",
        )

    async def serve(receive: Receive, send: Send) -> None:
        line = Line()
        hand = Hand(f"the runtime of {caller.person}", line, home)
        task = services.background(
            driver.host(caller.person, hand, lambda: services.callers.call_back(caller.uid, line))
        )
        logger.info("the runtime of %s is connected", caller.person)
        try:
            await line.carry(receive, send, services.stopping)
        finally:
            await hand.close()
            await task
            logger.info("the runtime of %s has gone", caller.person)

    return Conversation(serve)


@post(
    "/runtimes/sessions/{session:str}",
    tags=["people"],
    summary="Call again for a command",
    status_code=200,
    media_type=MEDIA_TYPE,
    opt={TAKES_ITS_TIME: True},
)
async def open_session(
    session: FromPath[str], request: Request[Any, Any, Any], services: Given
) -> Conversation:
    """A connection to the agent of the caller's runtime, for one command inside a run: bytes as
    they are, after one newline of the caller's.
    """
    waiting = services.callers.claim(session, caller_of(request).uid)
    if waiting is None:
        raise StellwerkError.of("find/session", "nobody waits for this call", "nothing to do")

    async def serve(receive: Receive, send: Send) -> None:
        line = Line(skip=1)
        if not waiting.done():
            waiting.set_result(line)
            await line.carry(receive, send, services.stopping)

    return Conversation(serve)


def _driver(services: Services) -> SharedDriver:
    if isinstance(services.hosts, SharedDriver) and services.people.shared:
        return services.hosts
    raise StellwerkError.of(
        "guest/not-shared",
        "this server isn't shared, so it starts everything as its own user",
        "its owner shares it with: stw server start --group GROUP",
    )


HANDLERS = [offer_runtime, open_session]
