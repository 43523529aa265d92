"""Answers of admission checks: who must agree before what has its quota may start."""

from typing import Annotated

import msgspec
from litestar import post
from litestar.params import FromPath, JSONBody
from msgspec import Meta

from stellwerk.core.model.admission import CheckWord
from stellwerk.core.model.commands import SetCheck
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.workload import ENDED, Workload
from stellwerk.server.handlers.workloads import EFFECT_S, actor_of
from stellwerk.server.models import Changed
from stellwerk.server.seeing import AnyRequest, idempotency_key
from stellwerk.server.services import Given

MOST_WAIT_MS = 365 * 86_400_000


class CheckBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a check says of a workload; after Retry it waits as long as is said, else as usual."""

    check: str
    state: CheckWord
    message: Annotated[str, Meta(max_length=1000)] = ""
    retry_after_ms: Annotated[int, Meta(ge=0, le=MOST_WAIT_MS)] = 0


@post("/workloads/{ref:str}/check", tags=["workloads"], summary="Answer a check", status_code=200)
async def set_check(
    ref: FromPath[str], data: JSONBody[CheckBody], request: AnyRequest, services: Given
) -> Changed:
    """Says for an admission check whether a workload that has its quota may start."""
    workload = await services.find(ref)
    _must_be_asked(workload, data.check)
    command = SetCheck(workload.id, data.check, data.state, data.message, data.retry_after_ms)
    await services.order(command, actor_of(request), idempotency_key(request))
    await services.settled(EFFECT_S)
    workload = await services.find(workload.id)
    return Changed(workload.id, workload.name, workload.phase)


def _must_be_asked(workload: Workload, check: str) -> None:
    """Whether the check is asked of it now, that is while it has quota for it."""
    asked = workload.claim is not None or workload.live_run is not None
    names = [one.name for one in workload.checks] if asked else []
    if check in names:
        return
    message = f"the check `{check}` isn't asked about {workload.name} now"
    if names:
        help = f"asked are {', '.join(names)}"
    elif workload.phase in ENDED:
        help = f"it is over: `stw show {workload.name}`"
    else:
        help = f"checks are asked when it has quota and room: `stw explain {workload.name}`"
    raise StellwerkError.of("phase/not-asked", message, help)


HANDLERS = [set_check]
