"""The small parts of requests and answers: keys, names in a path, what a body says."""

import os
from collections.abc import Mapping, Sequence
from typing import TypeVar
from urllib.parse import quote

import msgspec

from stellwerk.client.refusals import ApiError
from stellwerk.client.wire import ProblemReport, Submission
from stellwerk.core.model.errors import Problem, StellwerkError

T = TypeVar("T")
Query = list[tuple[str, str]]


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


def list_query(
    *,
    all: bool = False,
    phase: str | Sequence[str] | None = None,
    labels: Mapping[str, str] | None = None,
    name: str | None = None,
    owner: str | None = None,
    queue: str | None = None,
    in_line: bool = False,
) -> Query:
    """The parameters of a list; `in_line` orders it as the workloads are served."""
    query = [("all", "1" if all else "0")]
    query += [("label", f"{key}={value}") for key, value in (labels or {}).items()]
    query += [("phase", one) for one in ([phase] if isinstance(phase, str) else phase or ())]
    texts = (("name", name), ("owner", owner), ("queue", queue), ("sort", "line" * in_line))
    return query + [(key, value) for key, value in texts if value]


def part(name: str) -> str:
    """A name as one part of a path: a slash or a dot in it must not become another path."""
    if not name or name in {".", ".."} or "/" in name:
        raise ApiError(
            ProblemReport(
                status=404, code="find/workload", exit=3, detail=f"nothing has the name `{name}`"
            )
        )
    return quote(name, safe="")
