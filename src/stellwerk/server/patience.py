"""Gives up on a request whose body stops coming, so that nobody holds a handler for ever."""

import asyncio

from litestar.types import ASGIApp, Receive, Scope, Send
from litestar.types.asgi_types import HTTPReceiveMessage, WebSocketReceiveMessage

from stellwerk.core.model.errors import StellwerkError

BODY_S = 60.0
"""How long a body may pause."""

TAKES_ITS_TIME = "takes_its_time"
"""An option of handlers whose body is a conversation and may pause for as long as it likes."""


def with_patience(app: ASGIApp) -> ASGIApp:
    """A middleware: a body that stops coming is given up; what follows it may take its time."""

    async def patient(scope: Scope, receive: Receive, send: Send) -> None:
        whole = bool(getattr(scope.get("route_handler"), "opt", {}).get(TAKES_ITS_TIME))

        async def receive_soon() -> HTTPReceiveMessage | WebSocketReceiveMessage:
            nonlocal whole
            if whole:
                return await receive()
            try:
                message = await asyncio.wait_for(receive(), BODY_S)
            except TimeoutError:
                raise StellwerkError.of(
                    "request/timeout",
                    f"nothing more of the body came for {BODY_S:g} s",
                    "send it again",
                ) from None
            whole = not message.get("more_body", False)
            return message

        await app(scope, receive_soon, send)

    return patient
