"""Arrays as a whole: what they are, and how many of their elements are in each phase."""

import asyncio

import msgspec
from litestar import get
from litestar.params import FromPath

from stellwerk.core.model.gates import ARRAY_LABEL
from stellwerk.core.model.workload import ENDED
from stellwerk.server.handlers.workloads import LIST_SETTLE_S, All
from stellwerk.server.seeing import AnyRequest, nothing, seeing
from stellwerk.server.services import PROJECT, SETTLE_S, Given, Services
from stellwerk.server.views import wants_of
from stellwerk.store.views import ArrayRow


class ArrayView(msgspec.Struct, frozen=True):
    """An array: `count` elements, of which at most `limit` are under way at a time (0: all may).

    `phases` says how many elements are in each phase.
    """

    id: str
    name: str
    project: str
    owner: str
    count: int
    limit: int
    phases: dict[str, int]
    over: bool
    queue: str
    priority: int
    submitted_ms: int
    wants: str


class Arrays(msgspec.Struct, frozen=True):
    """All arrays, the newest first."""

    items: list[ArrayView]
    seq: int


@get("/arrays", tags=["arrays"], summary="List arrays")
async def list_arrays(request: AnyRequest, services: Given, all_of: All = False) -> Arrays:
    """Arrays, newest first; without `all` only those of which some element isn't over."""
    await services.settled(LIST_SETTLE_S)
    found = await asyncio.to_thread(_views, services, "")
    eyes = seeing(request)
    seen = [one for one in found if eyes.how(one.owner) != "nothing"]
    return Arrays([one for one in seen if all_of or not one.over], services.store.seq())


@get("/arrays/{name:str}", tags=["arrays"], summary="Show an array")
async def show_array(name: FromPath[str], request: AnyRequest, services: Given) -> ArrayView:
    """One array by its name."""
    found = await asyncio.to_thread(_views, services, name)
    if not found and await services.settled(SETTLE_S):
        found = await asyncio.to_thread(_views, services, name)
    eyes = seeing(request)
    if found and eyes.how(found[0].owner) != "nothing":
        return found[0]
    raise nothing(name) if eyes.is_own_only else services.unknown(name)


def _views(services: Services, name: str) -> list[ArrayView]:
    rows = services.store.arrays(ARRAY_LABEL, PROJECT, name)
    return [view for row in rows if (view := _view(services, row)) is not None]


def _view(services: Services, row: ArrayRow) -> ArrayView | None:
    first, part = row.first, row.first.array
    if part is None:
        return None
    shape = services.pages.shape(first.shape)
    return ArrayView(
        id=part.id,
        name=row.name,
        project=first.project,
        owner=first.owner,
        count=part.count,
        limit=part.limit,
        phases=row.phases,
        over=all(phase in ENDED for phase in row.phases),
        queue=first.queue,
        priority=first.priority,
        submitted_ms=first.submitted_ms,
        wants=wants_of(shape) if shape else "",
    )


HANDLERS = [list_arrays, show_array]
