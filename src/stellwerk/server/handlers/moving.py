"""Moving a run to another place: refused in words where it can't go on there now."""

import asyncio

import msgspec
from litestar import post
from litestar.params import FromPath, JSONBody

from stellwerk.core.model.catalogue import render
from stellwerk.core.model.commands import Move
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.workload import Workload
from stellwerk.core.moving import bound, why_not
from stellwerk.core.preview import outcome
from stellwerk.core.view import View
from stellwerk.server.handlers.workloads import actor_of
from stellwerk.server.models import Changed
from stellwerk.server.one_cluster import head_of, shape_of
from stellwerk.server.seeing import AnyRequest, idempotency_key
from stellwerk.server.services import Given, Services

SETTLE_S = 0.5
TOLD_REASONS = 3


class MoveBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Where to: a cluster, or one node of it."""

    cluster: str
    node: str = ""


@post("/workloads/{ref:str}/move", tags=["workloads"], summary="Move", status_code=200)
async def move(
    ref: FromPath[str], data: JSONBody[MoveBody], request: AnyRequest, services: Given
) -> Changed:
    """Has what runs save and go on at another place; its run there is a new one. Refused where it
    would have to wait there: nothing is stopped then.
    """
    workload = await services.find(ref)
    await services.settled(SETTLE_S)
    view = services.engine.view()
    order = Move(workload.id, data.cluster, data.node)
    await asyncio.to_thread(_refuse, services, view, workload, order)
    await services.order(order, actor_of(request), idempotency_key(request))
    await services.settled(SETTLE_S)
    workload = await services.find(workload.id)
    return Changed(workload.id, workload.name, workload.phase)


def _refuse(services: Services, view: View, workload: Workload, order: Move) -> None:
    """Raises where it can't be moved, or would wait there."""
    cluster = next(
        (one.cluster for one in view.clusters if one.cluster.name == order.cluster), None
    )
    to = f"{order.cluster}/{order.node}" if order.node else order.cluster
    why = why_not(workload, cluster, order)
    if why or cluster is None:
        help = f"`stw show {workload.name}` tells where it is, `stw clusters` where else it can be"
        raise StellwerkError.of("phase/not-movable", f"{workload.name} can't be moved: {why}", help)
    shape = shape_of(services.store, workload)
    wanted = bound(shape, cluster, order.node)
    if wanted is None:
        asked = ", ".join(one.infra or "any" for one in shape.alternatives)
        why = "it is on several nodes" if shape.num_nodes > 1 else f"it asks for infra {asked}"
        message = f"{workload.name} can't run at {to}: {why}"
        raise StellwerkError.of("phase/not-there", message, "name a cluster that it may run on")
    run = workload.live_run
    found = outcome(view, wanted, head_of(workload), run.id if run else None, workload.queue)
    place = found.allocation
    nodes = {part.node for part in place.nodes} if place is not None else set()
    is_there = place is not None and place.cluster == cluster.name
    if is_there and (not order.node or nodes == {order.node}):
        return
    told = [render(reason).sentence for reason in found.reasons[:TOLD_REASONS]]
    message = f"{workload.name} would have to wait at {to}: {'; '.join(told) or 'others hold it'}"
    help = f"nothing was stopped; `stw explain {workload.name} --cluster {cluster.name}`"
    raise StellwerkError.of("phase/no-room", message, help)


HANDLERS = [move]
