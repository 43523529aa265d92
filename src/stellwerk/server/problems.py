"""Turns what went wrong into problem+json: one table maps a code to HTTP status and exit code.

Codes are interface. The longest prefix in the table decides, so a new `spec/…` code needs no entry.
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

logger = logging.getLogger("stellwerk.server")

MEDIA_TYPE = "application/problem+json"
AnyRequest = Request[Any, Any, Any]


class Rule(msgspec.Struct, frozen=True):
    """What a code means for HTTP and for a shell; `exit` is what the command line ends with."""

    status: int
    exit: int
    title: str


TABLE: dict[str, Rule] = {
    "request/": Rule(400, 2, "The request can't be understood"),
    "request/path": Rule(404, 2, "There is nothing at this address"),
    "request/method": Rule(405, 2, "This address knows no such method"),
    "request/timeout": Rule(408, 6, "The request came too slowly"),
    "request/too-large": Rule(413, 2, "The request is too large"),
    "spec/": Rule(422, 2, "The task can't be accepted"),
    "submit/": Rule(422, 2, "The task can't be accepted"),
    "secret/": Rule(422, 2, "The task can't be accepted"),
    "unsupported/": Rule(422, 2, "The task can't be run yet"),
    "place/": Rule(422, 2, "The task can never run here"),
    "find/": Rule(404, 3, "There is no such thing"),
    "find/ambiguous": Rule(409, 3, "The name fits more than one"),
    "auth/": Rule(403, 4, "Not allowed"),
    "auth/token": Rule(401, 4, "Not allowed without the token"),
    "phase/": Rule(409, 1, "It can't be done to it now"),
    "changed/": Rule(409, 5, "The world has changed"),
    "config/": Rule(500, 2, "The settings aren't right"),
    "blob/missing": Rule(422, 2, "Content is missing"),
    "store/": Rule(503, 6, "The state can't be read or written now"),
    "store/ambiguous": Rule(409, 3, "The name fits more than one"),
    "store/bad-hash": Rule(422, 2, "That is no hash"),
    "store/blob-damaged": Rule(422, 1, "The content isn't what its name says"),
    "store/no-blob": Rule(404, 3, "There is no such content"),
    "driver/": Rule(503, 6, "The cluster doesn't answer"),
    "server/": Rule(503, 6, "The server can't answer now"),
    "server/listen": Rule(500, 2, "The address can't be listened on"),
    "server/token": Rule(500, 4, "The token isn't safe"),
    "server/running": Rule(409, 5, "A server runs already"),
    "internal": Rule(500, 1, "The server made a mistake"),
}


class ProblemDocument(msgspec.Struct, frozen=True):
    """The body of every answer that isn't a success (RFC 9457), with all problems at once."""

    type: str
    title: str
    status: int
    code: str
    exit: int
    detail: str
    problems: list[dict[str, Any]]


def rule_of(code: str) -> Rule:
    """The rule with the longest prefix of the code; an unknown code counts as our own mistake."""
    prefixes = [prefix for prefix in TABLE if code.startswith(prefix)]
    return TABLE[max(prefixes, key=len, default="internal")]


def document(problems: Sequence[Problem]) -> ProblemDocument:
    """The first problem gives code, status and exit; all of them are told."""
    first = problems[0]
    rule = rule_of(first.code)
    return ProblemDocument(
        type=f"urn:stellwerk:problem:{first.code}",
        title=rule.title,
        status=rule.status,
        code=first.code,
        exit=rule.exit,
        detail="\n".join(problem.message for problem in problems),
        problems=[_full(problem) for problem in problems],
    )


def _full(problem: Problem) -> dict[str, Any]:
    return {name: getattr(problem, name) for name in Problem.__struct_fields__}


def answer(problems: Sequence[Problem]) -> Response[bytes]:
    """The whole HTTP answer for some problems."""
    told = document(problems)
    headers = {"WWW-Authenticate": "Bearer"} if told.status == 401 else None
    return Response(
        msgspec.json.encode(told), media_type=MEDIA_TYPE, status_code=told.status, headers=headers
    )


def refusal(problem: Problem) -> tuple[int, bytes]:
    """Status and body for one problem, where there is no request yet to answer."""
    told = document([problem])
    return told.status, msgspec.json.encode(told)


def on_stellwerk_error(_request: AnyRequest, error: StellwerkError) -> Response[bytes]:
    """What we refuse on purpose."""
    return answer(error.problems)


def on_driver_error(_request: AnyRequest, error: DriverError) -> Response[bytes]:
    """A cluster that can't be reached, or refuses."""
    return answer(
        [
            Problem(
                f"driver/{error.code}",
                error.message,
                "`stw clusters` shows what answers; try again",
            )
        ]
    )


def on_http_exception(request: AnyRequest, error: HTTPException) -> Response[bytes]:
    """What the HTTP layer refuses: bodies, parameters, paths and methods."""
    if error.status_code >= 500:
        return on_unexpected(request, error)
    return answer(_http_problems(request, error))


def on_unexpected(request: AnyRequest, error: Exception) -> Response[bytes]:
    """Anything else is our mistake: the log gets the traceback, the caller its id."""
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
