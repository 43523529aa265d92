"""Submitting a workload's task once more: what is stored of it is submitted, nothing is read again.

Text, code, variables, flags and sealed secrets are those of the first time; only the owner can do
it, since the secrets are theirs.
"""

import asyncio
from typing import Annotated

import msgspec
from litestar import post
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from stellwerk.core.model.catalogue import render
from stellwerk.core.model.commands import Submit
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.workload import Workload
from stellwerk.core.place.decide import never_fits
from stellwerk.server.handlers.workloads import AnyRequest, actor_of
from stellwerk.server.ids import Ids
from stellwerk.server.models import Submitted
from stellwerk.server.services import Given, Services
from stellwerk.store import NewCommand

_ids = Ids()


class RerunBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A repeated `key` gives the same workload again instead of another one."""

    key: Annotated[str, Meta(max_length=200)] = ""


@post("/workloads/{ref:str}/rerun", tags=["workloads"], summary="Run again", status_code=201)
async def rerun(
    ref: FromPath[str],
    request: AnyRequest,
    services: Given,
    data: JSONBody[RerunBody | None] = None,
) -> Submitted:
    """Submits the task of a workload once more, as a new workload beside it."""
    async with services.gate.passing():
        return await _rerun(await services.find(ref), actor_of(request), services, data)


async def _rerun(
    workload: Workload, actor: str, services: Services, data: RerunBody | None
) -> Submitted:
    if actor != workload.owner:
        raise StellwerkError.of(
            "auth/not-yours",
            f"{workload.name} belongs to {workload.owner}, with the secrets that it needs",
            "submit the task file yourself",
        )
    submit = await asyncio.to_thread(_submit_of, services, workload)
    key = data.key if data else ""
    [ack] = await services.take([NewCommand(actor, workload.project, key, submit)])
    return Submitted(id=ack.id, name=ack.name, phase="Pending", notices=[])


def _submit_of(services: Services, workload: Workload) -> Submit:
    shape = services.pages.shape(workload.shape)
    missing = services.store.blobs.missing([h for h in (workload.task, workload.snapshot) if h])
    if shape is None or missing:
        raise StellwerkError.of(
            "find/task",
            f"the task of {workload.name} isn't kept any more",
            "submit it from its file",
        )
    refused = never_fits(shape, [cluster for cluster, _ in services.store.clusters()])
    if refused:
        told = map(render, refused)
        raise StellwerkError(
            [Problem("place/never-fits", one.sentence, one.remedy) for one in told]
        )
    return Submit(
        id=_ids.give(services.clock.now_ms()),
        name=workload.name,
        project=workload.project,
        shape=msgspec.structs.replace(shape, avoid=()),
        task=workload.task,
        snapshot=workload.snapshot,
        priority=workload.priority,
        queue=workload.queue,
        kind=workload.kind,
        labels=workload.labels,
        policies=workload.policies,
    )


HANDLERS = [rerun]
