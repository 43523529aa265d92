"""Objects of queueing: looking at them, deleting them, and how much of the quota is used."""

import asyncio
from functools import partial
from typing import Annotated

from litestar import get, post
from litestar.params import JSONBody, QueryParameter

from stellwerk.core.model.commands import DeleteQueueObjects
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.queueing_changes import changes_of
from stellwerk.core.queueing_objects import queueing_now
from stellwerk.server import queueing
from stellwerk.server import queueing_models as models
from stellwerk.server.handlers.workloads import EFFECT_S, actor_of
from stellwerk.server.lines import line_of
from stellwerk.server.outlook import first_in_line
from stellwerk.server.seeing import AnyRequest, idempotency_key, seeing
from stellwerk.server.services import SETTLE_S, Given
from stellwerk.server.waiting_models import Line

BODY_BYTES = 16 * 2**20
LINE = 100
"""Of so many of those that wait everything is told."""

WorkloadsOf = Annotated[
    list[str] | None,
    QueryParameter(name="workload", description="Only these: ids; may be repeated."),
]

KindOf = Annotated[str, QueryParameter(name="kind", description="Only of this kind.")]
NameOf = Annotated[str, QueryParameter(name="name", description="Only of this name.")]
NamespaceOf = Annotated[
    str, QueryParameter(name="namespace", description="Only in this namespace.")
]
QueueOf = Annotated[
    str, QueryParameter(name="name", description="A ClusterQueue or Cohort: the way to it alone.")
]


@get("/queueing/objects", tags=["queues"], summary="Objects of queueing")
async def list_objects(
    services: Given, kind: KindOf = "", name: NameOf = "", namespace: NamespaceOf = ""
) -> models.Objects:
    """Objects as they were written, with who applied them and when."""
    await services.settled(SETTLE_S)
    now = queueing_now(services.engine.state)
    counts: dict[str, int] = {}
    for key in now.kept:
        counts[key.kind] = counts.get(key.kind, 0) + 1
    if kind and name:
        key = queueing.key_of(models.ObjectRef(kind, name, namespace))
        if problems := queueing.missing(now.kept, [key]):
            raise StellwerkError(problems)
    found = [
        one
        for key, one in sorted(now.kept.items())
        if (not kind or key.kind == kind)
        and (not name or key.name == name)
        and (not namespace or key.namespace in {"", namespace})
    ]
    items = await asyncio.to_thread(lambda: [queueing.object_view(one) for one in found])
    return models.Objects(items, dict(sorted(counts.items())), services.store.seq())


@post(
    "/queueing/objects/delete",
    tags=["queues"],
    summary="Delete objects of queueing",
    status_code=200,
    request_max_body_size=BODY_BYTES,
)
async def delete_objects(
    data: JSONBody[models.DeleteBody], request: AnyRequest, services: Given
) -> models.DeletedObjects:
    """Forgets objects, all or none. One that other objects or live work need is refused, with who
    that is, unless by `force`: what runs then goes on, and what waits is blocked.
    """
    async with services.applying:
        await services.settled(SETTLE_S)
        now = queueing_now(services.engine.state)
        keys = tuple(dict.fromkeys(queueing.key_of(one) for one in data.objects))
        if problems := queueing.missing(now.kept, keys):
            raise StellwerkError(problems)
        uses = await asyncio.to_thread(queueing.uses_of, now, keys)
        if uses and not data.force and not data.dry_run:
            raise StellwerkError(queueing.in_use_problems(uses))
        changes = changes_of(now.kept, (), keys)
        follows = None
        if data.dry_run:
            look = partial(queueing.consequences_of, services.engine.view(), now, (), keys)
            follows = await asyncio.to_thread(look)
        if keys and not data.dry_run:
            header = idempotency_key(request)
            command = DeleteQueueObjects(keys, force=data.force)
            await services.order(command, actor_of(request), header)
            await services.settled(EFFECT_S)
    views = [queueing.change_view(one, whole=data.dry_run) for one in changes]
    return models.DeletedObjects(data.dry_run, views, uses, services.store.seq(), follows)


@get("/queueing/queues", tags=["queues"], summary="ClusterQueues")
async def list_queues(services: Given) -> models.QueueRows:
    """Each ClusterQueue with how many wait, hold quota and run, and what of it is used."""
    await services.settled(SETTLE_S)
    now = queueing_now(services.engine.state)
    rows = await asyncio.to_thread(queueing.queue_rows, now)
    return models.QueueRows(rows, services.store.seq())


@get("/queueing/quota", tags=["queues"], summary="Quota")
async def show_quota(services: Given, name: QueueOf = "") -> models.Quota:
    """The quota trees from their roots down: what each cohort and queue has, lends, may borrow,
    uses, and could use more now.
    """
    await services.settled(SETTLE_S)
    now = queueing_now(services.engine.state)
    rows = await asyncio.to_thread(queueing.quota_rows, now.objects, now.live, name)
    return models.Quota(rows, services.store.seq())


@get("/queueing/line", tags=["queues"], summary="Who waits, and for what")
async def show_line(request: AnyRequest, services: Given, workload: WorkloadsOf = None) -> Line:
    """Of the first in line (or those that are named) every reason that holds, in its tier, with the
    numbers of now, and who holds most of what each lacks.
    """
    await services.settled(SETTLE_S)
    eyes, view = seeing(request), services.engine.view()
    ids = list(dict.fromkeys(first_in_line(view)[:LINE] if workload is None else workload[:LINE]))
    items = await asyncio.to_thread(line_of, services, view, ids, eyes)
    return Line(items, view.seq)


HANDLERS = [show_line, list_objects, delete_objects, list_queues, show_quota]
