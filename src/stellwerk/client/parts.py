"""The small parts of requests and answers: keys, names in a path, what a body says."""

import os
from typing import TypeVar
from urllib.parse import quote

import msgspec

from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import ProblemReport, Submission
from stellwerk.core.model.errors import Problem, StellwerkError

T = TypeVar("T")


def decode(body: bytes, kind: type[T]) -> T:
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.MsgspecError as error:
        problem = Problem(
            "server/answer",
            f"the server's answer isn't understood: {error}",
            "client and server may be of different versions: stw server stop, then try again",
        )
        raise StellwerkError([problem]) from error


def with_key(submission: Submission) -> Submission:
    if submission.key:
        return submission
    return msgspec.structs.replace(submission, key=new_key())


def new_key() -> str:
    return os.urandom(12).hex()


def part(name: str) -> str:
    """A name as one part of a path: a slash or a dot in it must not become another path."""
    if not name or name in {".", ".."} or "/" in name:
        raise ApiError(
            ProblemReport(
                status=404, code="find/workload", exit=3, detail=f"nothing has the name `{name}`"
            )
        )
    return quote(name, safe="")
