"""Placements and declared fleets: applying, looking, explaining, deleting."""

import asyncio
from contextlib import nullcontext
from functools import partial
from typing import Annotated

from litestar import get, post
from litestar.params import FromPath, JSONBody, QueryParameter
from msgspec.structs import replace

from stellwerk.core.model.commands import DeletePlacement
from stellwerk.core.queueing_objects import queueing_now
from stellwerk.server import applying
from stellwerk.server import standing_models as models
from stellwerk.server.handlers.workloads import EFFECT_S, actor_of
from stellwerk.server.own_rows import own_rows
from stellwerk.server.placement_differences import difference as compare
from stellwerk.server.placements import PlacementPages
from stellwerk.server.queueing import consequences_of
from stellwerk.server.seeing import AnyRequest, idempotency_key
from stellwerk.server.services import PROJECT, SETTLE_S, Given, Services
from stellwerk.store import NewCommand

FLEET_BYTES = 300 * 2**20
DECIDED_S = 5.0
"""How long an answer waits for the decisions that follow from it."""

LimitOf = Annotated[
    int, QueryParameter(name="limit", ge=1, le=1000, description="At most so many.")
]
OwnToo = Annotated[
    bool, QueryParameter(description="Those too that follow from wishes of work that lives.")
]
FirstOf = Annotated[str, QueryParameter(name="first", description="The id of a decision.")]
SecondOf = Annotated[str, QueryParameter(name="second", description="The id of another one.")]


@post(
    "/apply",
    tags=["fleet"],
    summary="Apply a file",
    status_code=200,
    request_max_body_size=FLEET_BYTES,
)
async def apply(
    data: JSONBody[models.ApplyBody], request: AnyRequest, services: Given
) -> models.Applied:
    """Takes over placements, and what is declared of clusters, in the place of what the file of
    this name said before, and objects of queueing, each in the place of the one of its name. What
    can't be understood or decided is refused with every problem at once, and nothing of the file
    counts. A dry run tells what would become of it.
    """
    return await _apply(data, request, services)


@post(
    "/fleet/apply",
    tags=["fleet"],
    summary="Apply a file, by the older address",
    status_code=200,
    request_max_body_size=FLEET_BYTES,
)
async def apply_fleet(
    data: JSONBody[models.ApplyBody], request: AnyRequest, services: Given
) -> models.Applied:
    """The same as `POST /v1/apply`."""
    return await _apply(data, request, services)


async def _apply(data: models.ApplyBody, request: AnyRequest, services: Services) -> models.Applied:
    store, engine = services.store, services.engine
    async with nullcontext() if data.dry_run else services.applying:
        await services.settled(SETTLE_S)
        queueing = queueing_now(engine.state)
        one = await asyncio.to_thread(applying.read, data, services.clock.now_ms(), queueing)
        was = await asyncio.to_thread(applying.before, store, one.name)
        applying.refuse_nothing(one, was, data.file)
        if data.dry_run:
            now = await asyncio.to_thread(applying.would_be, engine.placements, one)
            tell = partial(applying.answer, store, one, was, now, queueing, dry_run=True)
            told = await asyncio.to_thread(tell)
            look = partial(consequences_of, engine.view(), queueing, one.objects)
            return replace(told, consequences=await asyncio.to_thread(look))
        commands = await asyncio.to_thread(applying.commands_of, store, data, one, was)
        key = idempotency_key(request)
        await services.take(
            [
                NewCommand(actor_of(request), PROJECT, f"{key}{'+' * at}" if key else "", command)
                for at, command in enumerate(commands)
            ]
        )
        await services.settled(EFFECT_S)
    await engine.decided(DECIDED_S)
    standing = await asyncio.to_thread(store.placements)
    now = applying.decided_of(standing)
    tell = partial(applying.answer, store, one, was, now, queueing, dry_run=False)
    return await asyncio.to_thread(tell)


@get("/placements", tags=["fleet"], summary="All placements")
async def list_placements(services: Given, own: OwnToo = False) -> models.PlacementRows:
    """Each placement with the clusters that it has chosen."""
    await services.settled(SETTLE_S)
    rows = await asyncio.to_thread(PlacementPages(services.store).rows)
    return replace(rows, items=[*rows.items, *own_rows(services.engine.view())]) if own else rows


@get(
    "/placements/{namespace:str}/{name:str}",
    tags=["fleet"],
    summary="One placement",
)
async def show_placement(
    namespace: FromPath[str], name: FromPath[str], services: Given
) -> models.PlacementShow:
    """Everything about a placement; `object` can be applied again."""
    await services.settled(SETTLE_S)
    pages = PlacementPages(services.store)
    return await asyncio.to_thread(pages.show, f"{namespace}/{name}")


@post(
    "/placements/{namespace:str}/{name:str}/delete",
    tags=["fleet"],
    summary="Delete a placement",
    status_code=200,
)
async def delete_placement(
    namespace: FromPath[str], name: FromPath[str], request: AnyRequest, services: Given
) -> models.Deleted:
    """Forgets a placement; work that names it waits until there is one again."""
    key = f"{namespace}/{name}"
    await services.settled(SETTLE_S)
    pages = PlacementPages(services.store)
    await asyncio.to_thread(pages.find, key)
    header = idempotency_key(request)
    await services.order(DeletePlacement(key), actor_of(request), header)
    await services.settled(EFFECT_S)
    return models.Deleted(key)


@post(
    "/placements/{namespace:str}/{name:str}/explain",
    tags=["fleet"],
    summary="Explain a placement",
    status_code=200,
)
async def explain_placement(
    namespace: FromPath[str],
    name: FromPath[str],
    data: JSONBody[models.ExplainBody],
    services: Given,
) -> models.PlacementExplained:
    """Why these clusters and not others, as it was decided; with `changes`, what would be chosen
    now if things were so.
    """
    key = f"{namespace}/{name}"
    pages = PlacementPages(services.store)
    if not data.changes:
        return await asyncio.to_thread(pages.explain, key, data)

    def ask() -> models.PlacementExplained:
        namespaces = {one.placement.namespace for one in services.store.placements()}
        fleet = services.engine.placements.fleet(sorted(namespaces))
        own = services.engine.placements.own(key)
        return pages.what_if(key, data, fleet, services.clock.now_ms(), own)

    return await asyncio.to_thread(ask)


@get(
    "/placements/{namespace:str}/{name:str}/history",
    tags=["fleet"],
    summary="Decisions of a placement",
)
async def placement_history(
    namespace: FromPath[str], name: FromPath[str], services: Given, limit: LimitOf = 50
) -> models.History:
    """What was decided for a placement, newest first."""
    pages = PlacementPages(services.store)
    return await asyncio.to_thread(pages.history, f"{namespace}/{name}", limit)


@get(
    "/placed/{decision:str}/replay",
    tags=["fleet"],
    summary="Replay a decision",
)
async def replay(decision: FromPath[str], services: Given) -> models.Replayed:
    """Computes a decision about a placement again from what was stored of it."""
    return await asyncio.to_thread(PlacementPages(services.store).replay, decision)


@get(
    "/placed/difference",
    tags=["fleet"],
    summary="Compare decisions",
)
async def difference(first: FirstOf, second: SecondOf, services: Given) -> models.Difference:
    """Why one decision about a placement isn't another: inputs, verdicts and scores."""
    pages = PlacementPages(services.store)

    def ask() -> models.Difference:
        return compare(pages.load("", first), pages.load("", second))

    return await asyncio.to_thread(ask)


HANDLERS = [
    apply,
    apply_fleet,
    list_placements,
    show_placement,
    delete_placement,
    explain_placement,
    placement_history,
    replay,
    difference,
]
