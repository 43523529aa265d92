"""Removing what is kept too long, or saying what that would be."""

from typing import Annotated

import msgspec
from litestar import post
from litestar.params import JSONBody
from msgspec import Meta

from stellwerk.server.tidying.keeper import GivenKeeper
from stellwerk.server.tidying.rules import Kind
from stellwerk.server.tidying.tally import Swept


class SweepBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """`older_than_ms` stands for the age in the settings, for the kinds in `only` or else for runs.

    With `only`, other kinds aren't looked at.
    """

    dry_run: bool = False
    older_than_ms: Annotated[int, Meta(ge=0)] | None = None
    only: list[Kind] = []


@post("/gc", tags=["server"], summary="Remove what is kept too long", status_code=200)
async def collect_garbage(keeper: GivenKeeper, data: JSONBody[SweepBody | None] = None) -> Swept:
    """Removes what is older than the settings allow and referred to by nothing, kind by kind; the
    server does so by itself once a day. With `dry_run` it only says what that would be.
    """
    wish = data or SweepBody()
    return await keeper.sweep(
        dry_run=wish.dry_run, older_than_ms=wish.older_than_ms, only=wish.only
    )


HANDLERS = [collect_garbage]
