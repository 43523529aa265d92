"""Submitting work, looking at it, and steering it."""

import asyncio
from collections import Counter
from typing import Annotated, cast, get_args

import msgspec
from litestar import get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from stellwerk.core.model import commands as cmd
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.gates import ARRAY_LABEL
from stellwerk.core.model.workload import ENDED, WAITING, Phase, Workload
from stellwerk.server.arrays import array_name, array_of
from stellwerk.server.bulk import change_many
from stellwerk.server.bulk_models import ChangedMany, ChangeMany
from stellwerk.server.checkpoint_showing import with_checkpoint
from stellwerk.server.models import (
    Batch,
    CancelBody,
    Changed,
    PriorityBody,
    Row,
    Rows,
    Show,
    Sort,
    SubmitItem,
    Submitted,
    SubmittedMany,
    Until,
)
from stellwerk.server.seeing import AnyRequest, caller_of, check_priority, idempotency_key, seeing
from stellwerk.server.services import PROJECT, Given, Services
from stellwerk.server.submit import GivenSubmits
from stellwerk.store import WorkloadFilter

BATCH_BYTES = 64 * 2**20
ITEM_BYTES = 16 * 2**20
LIST_SETTLE_S = 0.2
EFFECT_S = 2.0
"""How long a command's answer waits for its effect, so that it can tell the phase after it."""

PHASES: tuple[str, ...] = get_args(Phase)

All = Annotated[bool, QueryParameter(name="all", description="Ended ones too.")]
PhaseOf = Annotated[
    list[str] | None,
    QueryParameter(name="phase", description="Only these phases; may be given several times."),
]
LabelOf = Annotated[
    list[str] | None,
    QueryParameter(
        name="label", description="Only with this label (`key=value`); all given must hold."
    ),
]
NameOf = Annotated[
    str, QueryParameter(name="name", description="A name; `*` and `?` stand for any.")
]
OwnerOf = Annotated[str, QueryParameter(name="owner", description="A user's name.")]
LimitOf = Annotated[
    int, QueryParameter(name="limit", ge=1, le=100_000, description="At most so many.")
]
AfterOf = Annotated[
    str,
    QueryParameter(
        name="after",
        pattern=r"^((-?\d{1,9},)?\d{1,18})?$",
        description="`next` of the page before.",
    ),
]
QueueOf = Annotated[str, QueryParameter(name="queue", description="The queue it waits in.")]
SortOf = Annotated[
    Sort,
    QueryParameter(
        name="sort",
        description="`newest` first, or as they stand in `line`: by priority, then age.",
    ),
]
TotalOf = Annotated[
    bool, QueryParameter(name="total", description="Say how many there are on all pages.")
]
ElementsOf = Annotated[
    bool,
    QueryParameter(name="elements", description="Elements of arrays too (GET /v1/arrays)."),
]
TimeoutOf = Annotated[
    int,
    QueryParameter(name="timeout_ms", ge=0, le=3_600_000, description="How long to wait at most."),
]
UntilOf = Annotated[Until, QueryParameter(name="until", description="What to wait for.")]


@post(
    "/workloads",
    tags=["workloads"],
    summary="Submit",
    status_code=201,
    request_max_body_size=ITEM_BYTES,
)
async def submit(
    data: JSONBody[SubmitItem], request: AnyRequest, services: Given, submits: GivenSubmits
) -> Submitted:
    """Checks a task and takes it down durably. What can't be understood, can't be done here or can
    never fit is refused with every problem at once. Labels say what to do with an unusual one.
    The key of an earlier submission gives that one again, if the task is the same.
    """
    found = await submits.submit([data], caller_of(request))
    phase = "Held" if data.held else "Pending"
    if found.repeated:
        phase = (await services.find(found.ids[0])).phase
    many = data.array or data.sweep or len(found.ids) > 1
    return Submitted(
        id=found.ids[0],
        name=array_name(found.names[0]) if many else found.names[0],
        phase=phase,
        notices=found.notices,
        repeated=found.repeated > 0,
        submitted_ms=found.submitted_ms,
        count=len(found.ids),
    )


@post(
    "/workloads/batch",
    tags=["workloads"],
    summary="Submit many",
    status_code=201,
    request_max_body_size=BATCH_BYTES,
)
async def submit_batch(
    data: JSONBody[Batch], request: AnyRequest, submits: GivenSubmits
) -> SubmittedMany:
    """Takes down up to 100,000 tasks in one transaction: all of them, or none."""
    return await submits.submit(_items(data), caller_of(request))


def _items(batch: Batch) -> list[SubmitItem]:
    if (batch.item is None) == (not batch.items):
        raise StellwerkError.of(
            "request/invalid", "a batch needs either `items` or one `item`", "give one of them"
        )
    items = batch.items if batch.item is None else [batch.item] * batch.count
    if not batch.key:
        return items
    return [msgspec.structs.replace(item, key=f"{batch.key}#{n}") for n, item in enumerate(items)]


@get("/workloads", tags=["workloads"], summary="List")
async def list_workloads(
    request: AnyRequest,
    services: Given,
    all_of: All = False,
    phase: PhaseOf = None,
    label: LabelOf = None,
    name: NameOf = "",
    owner: OwnerOf = "",
    limit: LimitOf = 1000,
    after: AfterOf = "",
    queue: QueueOf = "",
    sort: SortOf = "newest",
    total: TotalOf = False,
    elements: ElementsOf = True,
) -> Rows:
    """Workloads, newest first; without `all` only those that aren't over."""
    priority, _, order = after.rpartition(",")
    eyes = seeing(request)
    whose = eyes.owner_to_list(owner)
    if whose is None:
        return Rows([], services.store.seq(), None, 0 if total else None)
    wanted = WorkloadFilter(
        live=not all_of,
        phases=phases_of(phase or []),
        labels=_labels(label or []),
        name=name,
        owner=whose,
        queue=queue,
        sort=sort,
        limit=limit,
        after=int(order or 0),
        after_priority=int(priority or 0),
        without_label="" if elements else ARRAY_LABEL,
    )
    await services.settled(LIST_SETTLE_S)
    view = services.engine.view()
    return eyes.rows(await asyncio.to_thread(services.pages.rows, wanted, count=total, view=view))


def phases_of(given: list[str]) -> tuple[Phase, ...]:
    """Phases by their names, however they are spelled; raises for what is none."""
    known = {phase.lower(): phase for phase in PHASES}
    wrong = [phase for phase in given if phase.lower() not in known]
    if wrong:
        raise StellwerkError(
            [
                Problem(
                    "request/invalid", f"`{phase}` is no phase", f"phases are {', '.join(PHASES)}"
                )
                for phase in wrong
            ]
        )
    return tuple(cast(Phase, known[phase.lower()]) for phase in given)


def _labels(given: list[str]) -> dict[str, str]:
    wrong = [label for label in given if not label.partition("=")[0] or "=" not in label]
    if wrong:
        raise StellwerkError(
            [
                Problem("request/invalid", f"`{label}` is no label to filter by", "write key=value")
                for label in wrong
            ]
        )
    return {key: value for key, _, value in (label.partition("=") for label in given)}


@get("/workloads/{ref:str}", tags=["workloads"], summary="Show")
async def show_workload(ref: FromPath[str], request: AnyRequest, services: Given) -> Show:
    """Everything about one workload, by its name, its id, or the unique beginning of its id."""
    workload = await services.find(ref)
    folders, told = await services.folders(workload), await services.telemetry(workload)
    view = services.engine.view() if workload.phase == "Pending" else None
    page = await asyncio.to_thread(services.pages.show, workload, folders, told, view)
    page = await with_checkpoint(page, services.checkpoint_home)
    return seeing(request).show(page)


@get("/workloads/{ref:str}/wait", tags=["workloads"], summary="Wait")
async def wait_for(
    ref: FromPath[str],
    request: AnyRequest,
    services: Given,
    until: UntilOf = "ended",
    timeout_ms: TimeoutOf = 60_000,
) -> Row:
    """Answers as soon as the workload is where it is waited for, or the time is over: look at the
    phase.
    """
    workload = await services.find(ref)
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_ms / 1000
    with services.feed.watch(workload.id) as changed:
        while True:
            changed.clear()
            workload = await services.find(workload.id)
            left = deadline - loop.time()
            if _reached(workload, until) or left <= 0 or services.stopping.is_set():
                return seeing(request).headline(services.pages.row(workload))
            try:
                await asyncio.wait_for(changed.wait(), left)
            except TimeoutError:
                pass  # the next look is the last one


def _reached(workload: Workload, until: Until) -> bool:
    return workload.phase in ENDED or (
        until == "running" and workload.phase in {"Running", "Stopping"}
    )


@post("/workloads/{ref:str}/cancel", tags=["workloads"], summary="Cancel", status_code=200)
async def cancel(
    ref: FromPath[str],
    request: AnyRequest,
    services: Given,
    data: JSONBody[CancelBody | None] = None,
) -> Changed:
    """Ends a waiting workload at once, a running one by notice and grace. One that is over already
    stays as it is.
    """
    now = data.now if data else False
    whole = ChangeMany("cancel", names=[ref], now=now)
    if (changed := await _whole_array(services, request, whole)) is not None:
        return changed
    workload = await services.find(ref)
    if workload.phase in ENDED:
        return Changed(workload.id, workload.name, workload.phase, workload.ended_ms)
    return await _order(services, request, workload, cmd.Cancel(workload.id, now))


@post("/workloads/{ref:str}/hold", tags=["workloads"], summary="Hold", status_code=200)
async def hold(ref: FromPath[str], request: AnyRequest, services: Given) -> Changed:
    """Keeps a waiting workload from starting; one that is held already stays so."""
    whole = ChangeMany("hold", names=[ref])
    if (changed := await _whole_array(services, request, whole)) is not None:
        return changed
    workload = await services.find(ref)
    if workload.phase == "Held":
        return Changed(workload.id, workload.name, workload.phase)
    _must_be(workload, "Pending", "only what waits can be held; `stw cancel` ends it")
    return await _order(services, request, workload, cmd.Hold(workload.id))


@post("/workloads/{ref:str}/release", tags=["workloads"], summary="Release", status_code=200)
async def release(ref: FromPath[str], request: AnyRequest, services: Given) -> Changed:
    """Lets a held workload start again."""
    whole = ChangeMany("release", names=[ref])
    if (changed := await _whole_array(services, request, whole)) is not None:
        return changed
    workload = await services.find(ref)
    _must_be(workload, "Held", "nothing keeps it")
    return await _order(services, request, workload, cmd.Release(workload.id))


@post(
    "/workloads/{ref:str}/priority", tags=["workloads"], summary="Set the priority", status_code=200
)
async def set_priority(
    ref: FromPath[str], data: JSONBody[PriorityBody], request: AnyRequest, services: Given
) -> Changed:
    """Changes the priority of a workload that waits or is held."""
    check_priority(request, data.priority)
    whole = ChangeMany("priority", names=[ref], priority=data.priority)
    if (changed := await _whole_array(services, request, whole)) is not None:
        return changed
    workload = await services.find(ref)
    if workload.phase not in WAITING:
        _must_be(workload, "Pending", "the priority counts only while it waits")
    return await _order(services, request, workload, cmd.SetPriority(workload.id, data.priority))


@post("/workloads/{ref:str}/lost", tags=["workloads"], summary="Declare lost", status_code=200)
async def declare_lost(ref: FromPath[str], request: AnyRequest, services: Given) -> Changed:
    """Says that a run whose machine can't be reached is over, so that it may be run again."""
    workload = await services.find(ref)
    run = workload.live_run
    if run is None:
        raise StellwerkError.of(
            "phase/no-run", f"{workload.name} has no run that could be lost", "nothing to do"
        )
    if run.reachable:
        raise StellwerkError.of(
            "phase/reachable",
            f"the run of {workload.name} can be reached, so it isn't lost",
            "`stw cancel` ends it",
        )
    return await _order(services, request, workload, cmd.DeclareLost(workload.id))


def _must_be(workload: Workload, phase: Phase, help: str) -> None:
    if workload.phase != phase:
        if workload.phase in ENDED:
            help = f"it is over; `stw rerun {workload.name}` runs it again"
        raise StellwerkError.of(
            f"phase/not-{phase.lower()}", f"{workload.name} is {workload.phase}", help
        )


async def _whole_array(
    services: Services, request: AnyRequest, change: ChangeMany
) -> Changed | None:
    """Does to all elements what is asked of an array's name; None where it isn't one."""
    [name] = change.names
    if services.store.workload(name, PROJECT) is not None:
        return None
    array = array_of(services, name)
    if array is None:
        return None
    key = idempotency_key(request)
    found = await change_many(services, change, (), seeing(request), key)
    return _changed_whole(array.id, array.name, found)


def _changed_whole(id: str, name: str, found: ChangedMany) -> Changed:
    """What most of those came to that were changed; where all were over, the worst end."""
    now = Counter(one.phase for one in found.items if one.over_since_ms is None)
    if now or not found.items:
        return Changed(id, name, max(now, key=now.__getitem__, default="Succeeded"))
    worst = next((one for one in ("Failed", "Cancelled") if one in found.phases), "Succeeded")
    return Changed(id, name, worst, max(one.over_since_ms or 0 for one in found.items))


async def _order(
    services: Services, request: AnyRequest, workload: Workload, command: cmd.Command
) -> Changed:
    """Takes a command down, and waits a moment for what becomes of it."""
    key = idempotency_key(request)
    await services.order(command, actor_of(request), key)
    await services.settled(EFFECT_S)  # it is durable; the effect comes when the engine gets to it
    workload = await services.find(workload.id)
    return Changed(workload.id, workload.name, workload.phase)


def actor_of(request: AnyRequest) -> str:
    """Who calls, as the guard has found out."""
    return str(request.scope["state"]["actor"])


HANDLERS = [
    submit,
    submit_batch,
    list_workloads,
    show_workload,
    wait_for,
    cancel,
    hold,
    release,
    set_priority,
    declare_lost,
]
