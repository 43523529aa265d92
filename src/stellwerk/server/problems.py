"""Turns what went wrong in a handler into problem+json, by the table in `rules`.

Nobody ever sees a traceback: what wasn't foreseen becomes `internal` with an id that stands in the
server's log beside the traceback.
"""

import logging
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException

from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.drivers.base import DriverError
from stellwerk.server.rules import MEDIA_TYPE, document

logger = logging.getLogger("stellwerk.server")

AnyRequest = Request[Any, Any, Any]
_HUNG_UP = "client disconnected prematurely"


def answer(problems: Sequence[Problem]) -> Response[bytes]:
    """The whole HTTP answer for some problems."""
    told = document(problems)
    headers = {"WWW-Authenticate": "Bearer"} if told.status == 401 else None
    return Response(
        msgspec.json.encode(told), media_type=MEDIA_TYPE, status_code=told.status, headers=headers
    )


def on_stellwerk_error(_request: AnyRequest, error: StellwerkError) -> Response[bytes]:
    """What we refuse on purpose."""
    return answer(error.problems)


def on_driver_error(_request: AnyRequest, error: DriverError) -> Response[bytes]:
    """A cluster that can't be reached, or refuses."""
    help = "`stw clusters` shows what answers; try again"
    if error.code.startswith("ssh/"):
        # Its message has the code and the remedy in it, for notes; here they have their places.
        message, remedy = getattr(error, "plain", error.message), getattr(error, "remedy", "")
        return answer([Problem(error.code, message, remedy or help)])
    code = error.code if error.code.startswith("driver/") else f"driver/{error.code}"
    return answer([Problem(code, error.message, help)])


def on_http_exception(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """What the HTTP layer refuses: bodies, parameters, paths and methods."""
    if error.detail == _HUNG_UP:
        logger.info("%s %s: the caller hung up", request.method, request.scope["path"])
        return answer([Problem("request/incomplete", "the body ended too early", "send it again")])
    if error.status_code >= 500:
        return on_unexpected(request, error)
    return answer(_http_problems(request, error))


def on_unexpected(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Anything else is our mistake: the log gets the traceback, the caller its id."""
    if isinstance(error, RecursionError) and "deserializing" in str(error):
        return answer([Problem("request/invalid", "the body is nested too deeply", "flatten it")])
    incident = secrets.token_hex(4)
    logger.error(
        "incident=%s %s %s failed", incident, request.method, request.scope["path"], exc_info=error
    )
    return answer(
        [
            Problem(
                "internal",
                f"the server made a mistake (incident {incident})",
                f"the server's log tells more; look for incident={incident}",
            )
        ]
    )


def _http_problems(request: AnyRequest, error: HTTPException) -> list[Problem]:
    if error.status_code == 404:
        return [
            Problem(
                "request/path",
                f"there is nothing at {request.scope['path']}",
                "GET /v1/openapi.json lists all addresses",
            )
        ]
    if error.status_code == 405:
        return [
            Problem(
                "request/method",
                f"{request.scope['path']} does not know {request.method}",
                "GET /v1/openapi.json lists all addresses with their methods",
            )
        ]
    if error.status_code == 413:
        return [
            Problem(
                "request/too-large",
                "the body is larger than this address takes",
                "send less at once",
            )
        ]
    if isinstance(error, ValidationException) and isinstance(error.extra, list) and error.extra:
        return [_field_problem(item) for item in error.extra]
    return [Problem("request/invalid", _sentence(error.detail), "see GET /v1/openapi.json")]


def _field_problem(item: Any) -> Problem:
    """One entry of the HTTP layer's list of wrong fields."""
    if not isinstance(item, dict):
        return Problem("request/invalid", _sentence(str(item)), "see GET /v1/openapi.json")
    key = str(item.get("key", ""))
    where = f"{item.get('source', 'body')} `{key}`: " if key else ""
    return Problem(
        "request/invalid",
        where + _sentence(str(item.get("message", "is not valid"))),
        "see GET /v1/openapi.json",
        path=key,
    )


def _sentence(text: str) -> str:
    """The first line, short enough for a terminal, without anything a terminal would obey."""
    lines = text.splitlines() or [""]
    return "".join(c if c.isprintable() else "?" for c in lines[0][:300])
