"""Why a workload is where it is, or why it waits: what was decided, and what holds now."""

import asyncio
from typing import Annotated

import msgspec
from litestar import get
from litestar.params import FromPath, QueryParameter

from stellwerk.core.model.workload import Run, Workload
from stellwerk.core.place.near import switches_told
from stellwerk.core.view import View
from stellwerk.server.handlers import explain_more
from stellwerk.server.holders import holders_of, passed_until_ms
from stellwerk.server.lines import standing_of
from stellwerk.server.models import Explain
from stellwerk.server.seeing import AnyRequest, seeing
from stellwerk.server.services import Given, Services

RunOf = Annotated[
    int, QueryParameter(name="run", ge=0, description="The decision of this run; else the newest.")
]


@get(
    "/workloads/{ref:str}/explain",
    tags=["workloads"],
    summary="Explain",
)
async def explain_workload(
    ref: FromPath[str], request: AnyRequest, services: Given, run: RunOf = 0
) -> Explain:
    """Why here, why not there, why not yet: the stored decision with each candidate's verdict."""
    workload = await services.find(ref)
    view = services.engine.view() if workload.phase == "Pending" else None
    found = await asyncio.to_thread(_explained, services, workload, run, view)
    spread = [one for one in workload.runs if len(one.allocation.nodes) > 1]
    if spread and view is None:
        number = run or spread[-1].number
        there = nearness(next((one for one in spread if one.number == number), None), services)
        found = msgspec.structs.replace(found, nearness=there)
    return seeing(request).explain(found, workload.owner)


def nearness(run: Run | None, services: Services) -> str:
    """How near to each other the machines of a run are, as far as that is told."""
    if run is None:
        return ""
    parts = services.engine.view().clusters
    found = next((one.cluster for one in parts if one.cluster.name == run.allocation.cluster), None)
    return switches_told(found, run.allocation) if found is not None else ""


def _explained(services: Services, workload: Workload, run: int, view: View | None) -> Explain:
    found = services.pages.explain(workload, run, view)
    if view is None or run:
        return found
    lacked = found.current or found.decision
    holders, more = holders_of(services.store, services.engine.lengths, view, workload, lacked)
    until_ms = passed_until_ms(view, workload, lacked)
    return msgspec.structs.replace(
        found,
        holders=holders,
        more_holders=more,
        passed_until_ms=until_ms,
        standing=standing_of(services.store, view, workload.id),
    )


HANDLERS = [explain_workload, *explain_more.HANDLERS]
