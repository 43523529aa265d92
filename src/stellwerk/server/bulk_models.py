"""The bodies of one request that changes the course of many workloads."""

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from stellwerk.server.models import Changed

Verb = Literal["cancel", "hold", "release", "priority"]
MOST_NAMES = 100_000


class ChangeMany(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which workloads, and what becomes of them.

    Either `names` (ids, beginnings of ids, and patterns with `*` and `?` too), or everything that
    isn't over and to which the verb applies: narrowed by `labels`, `phases` and `owner`, or `all`.
    `now` belongs to cancel, `priority` to priority. With `dry_run` nothing changes. The answer
    lists the first `show` of them.
    """

    verb: Verb
    names: Annotated[list[str], Meta(max_length=MOST_NAMES)] = []
    all: bool = False
    labels: dict[str, str] = {}
    phases: list[str] = []
    owner: str = ""
    now: bool = False
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] | None = None
    dry_run: bool = False
    show: Annotated[int, Meta(ge=0, le=1_000_000)] = 20


class RefusedOne(msgspec.Struct, frozen=True):
    """A name to which it couldn't be done, and why; `exit` is for a command line."""

    name: str
    code: str
    message: str
    help: str
    exit: int


class ChangedMany(msgspec.Struct, frozen=True):
    """What came of it: `count` workloads, in these `phases` now, the first of them in `items`.

    `repeated`: the key of this request was known, so it was done before and not again.
    """

    verb: Verb
    count: int
    phases: dict[str, int]
    items: list[Changed]
    refused: list[RefusedOne]
    dry_run: bool
    repeated: bool
    seq: int
