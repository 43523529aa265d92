"""Submitting a workload's task once more: what is stored of it is submitted, nothing is read again.

Text, code, variables, flags and sealed secrets are those of the first time; only the owner can do
it, since the secrets are theirs. With `resume` the new workload starts with the last whole
checkpoints of the old one, in a folder of its own.
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
from stellwerk.core.model.gates import ARRAY_LABEL
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.quantity import show_bytes, show_duration
from stellwerk.core.model.workload import Workload
from stellwerk.core.place.decide import never_fits
from stellwerk.server.handlers.workloads import actor_of
from stellwerk.server.ids import Ids
from stellwerk.server.models import Submitted, Told
from stellwerk.server.resuming import Found, only_on, saved_of
from stellwerk.server.seeing import AnyRequest
from stellwerk.server.services import PROJECT, Given, Services
from stellwerk.store import NewCommand
from stellwerk.store.names import numbered

_ids = Ids()


class RerunBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A repeated `key` gives the same workload again instead of another one.

    `resume` goes on from the checkpoints of the old one; `time_limit_ms` takes the place of its
    time limit (0: none).
    """

    key: Annotated[str, Meta(max_length=200)] = ""
    resume: bool = False
    time_limit_ms: Annotated[int, Meta(ge=0, le=10 * 365 * 86_400_000)] | None = None


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
    wish = data or RerunBody()
    notices: list[Told] = []
    saved: Found | None = None
    if wish.resume:
        saved = await saved_of(services, workload)
        notices.append(Told("resume", _starts_with(saved, services.clock.now_ms()), ""))
    submit = await asyncio.to_thread(_submit_of, services, workload, saved)
    if wish.time_limit_ms is not None:
        policies = msgspec.structs.replace(submit.policies, time_limit_ms=wish.time_limit_ms)
        submit = msgspec.structs.replace(submit, policies=policies)
    [ack] = await services.take([NewCommand(actor, workload.project, wish.key, submit)])
    return Submitted(id=ack.id, name=ack.name, phase="Pending", notices=notices)


def _starts_with(saved: Found, now_ms: int) -> str:
    """`it starts with 2 checkpoints of digits, the newest is epoch-000040.pkl (step 40, 31 kB)`."""
    count, newest = len(saved.checkpoints), saved.checkpoints[-1]
    step = "" if newest.step is None else f"step {newest.step}, "
    age = show_duration(max(0, now_ms - newest.modified_ms) // 1000 * 1000)
    told = f"{newest.name} ({step}{show_bytes(newest.bytes)}), written {age} ago"
    if count == 1:
        return f"it starts with the checkpoint of {saved.workload.name}: {told}"
    return f"it starts with {count} checkpoints of {saved.workload.name}, the newest is {told}"


def _submit_of(services: Services, workload: Workload, saved: Found | None) -> Submit:
    shape = services.pages.shape(workload.shape)
    missing = services.store.blobs.missing([h for h in (workload.task, workload.snapshot) if h])
    if shape is None or missing:
        raise StellwerkError.of(
            "find/task",
            f"the task of {workload.name} isn't kept any more",
            "submit it from its file",
        )
    clusters = [cluster for cluster, _ in services.store.clusters()]
    if saved is not None and len(clusters) > 1:
        shape = only_on(shape, saved.cluster)
    refused = never_fits(shape, clusters)
    if refused:
        told = map(render, refused)
        raise StellwerkError(
            [Problem("place/never-fits", one.sentence, one.remedy) for one in told]
        )
    return Submit(
        id=_ids.give(services.clock.now_ms()),
        name=_name_of(services, workload.name),
        project=workload.project,
        shape=msgspec.structs.replace(shape, avoid=()),
        task=workload.task,
        snapshot=workload.snapshot,
        priority=workload.priority,
        queue=workload.queue,
        kind=workload.kind,
        labels={key: value for key, value in workload.labels.items() if key != ARRAY_LABEL},
        array=workload.array and msgspec.structs.replace(workload.array, id=WorkloadId("")),
        policies=workload.policies,
        resumes=saved.workload.id if saved is not None else WorkloadId(""),
    )


def _name_of(services: Services, name: str) -> str:
    """`fit` for `fit-2`, if there is one: the store then makes it `fit-3`, and not `fit-2-2`."""
    parts = numbered(name)
    if parts is None or services.store.workload(parts[0], PROJECT) is None:
        return name
    return parts[0]


HANDLERS = [rerun]
