"""The one table of what a problem's code means for HTTP and for a shell, and how it is told.

Codes are interface. The longest prefix in the table decides, so a new `spec/…` code needs no entry.
"""

from collections.abc import Sequence
from typing import Any

import msgspec

from stellwerk.core.model.errors import Problem

MEDIA_TYPE = "application/problem+json"


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
    "mount/": Rule(422, 2, "The task can't be accepted"),
    "mount/not-written": Rule(503, 6, "A bucket can't be written now"),
    "secret/": Rule(422, 2, "The task can't be accepted"),
    "unsupported/": Rule(422, 2, "The task can't be run yet"),
    "place/": Rule(422, 2, "The task can never run here"),
    "fleet/": Rule(422, 2, "The fleet file can't be accepted"),
    "data/": Rule(422, 2, "The fleet file can't be accepted"),
    "data/busy": Rule(409, 1, "It is being written"),
    "data/half": Rule(409, 1, "Only half of it is there"),
    "data/in-use": Rule(409, 1, "It is in use"),
    "data/no-room": Rule(409, 1, "There is no room for it"),
    "data/no-way": Rule(409, 1, "That machine's cache can't be reached"),
    "data/not-there": Rule(404, 3, "It isn't there"),
    "data/nowhere": Rule(404, 3, "No machine has it"),
    "data/runtime-too-old": Rule(409, 1, "That machine's runtime is too old"),
    "data/source-away": Rule(503, 6, "The machine that has it doesn't answer"),
    "data/target-away": Rule(503, 6, "The machine doesn't answer"),
    "placement/": Rule(422, 2, "The placement can't be accepted"),
    "queue/": Rule(422, 2, "The queues can't be accepted"),
    "queue/in-use": Rule(409, 1, "It is in use"),
    "apply/": Rule(422, 2, "The file can't be accepted"),
    "calendar/": Rule(422, 2, "The calendar can't be accepted"),
    "if/": Rule(422, 2, "The change can't be understood"),
    "find/": Rule(404, 3, "There is no such thing"),
    "find/ambiguous": Rule(409, 3, "The name fits more than one"),
    "auth/": Rule(403, 4, "Not allowed"),
    "auth/token": Rule(401, 4, "Not allowed without the token"),
    "phase/": Rule(409, 1, "It can't be done to it now"),
    "key/": Rule(409, 2, "The key belongs to another request"),
    "guest/": Rule(409, 1, "This runtime has nothing to do here"),
    "exec/": Rule(409, 1, "Nothing can be run inside of it now"),
    "resume/": Rule(409, 1, "It can't be gone on from"),
    "resume/unreachable": Rule(503, 6, "Its checkpoints can't be looked at now"),
    "changed/": Rule(409, 5, "The world has changed"),
    "plan/": Rule(409, 5, "The plan isn't true any more"),
    "config/": Rule(500, 2, "The settings aren't right"),
    "blob/missing": Rule(422, 2, "Content is missing"),
    "store/": Rule(503, 6, "The state can't be read or written now"),
    "store/ambiguous": Rule(409, 3, "The name fits more than one"),
    "store/bad-hash": Rule(422, 2, "That is no hash"),
    "store/blob-damaged": Rule(422, 1, "The content isn't what its name says"),
    "store/no-blob": Rule(404, 3, "There is no such content"),
    "ssh/": Rule(503, 6, "The machine can't be worked with now"),
    "ssh/host": Rule(422, 2, "That can't be a cluster over SSH"),
    "ssh/host-key": Rule(403, 4, "The host key isn't trusted"),
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


def refusal(problem: Problem) -> tuple[int, bytes]:
    """Status and body for one problem, where there is no request yet to answer."""
    told = document([problem])
    return told.status, msgspec.json.encode(told)
