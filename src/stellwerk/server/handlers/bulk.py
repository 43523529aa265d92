"""One request that changes the course of many workloads."""

from litestar import post
from litestar.params import JSONBody

from stellwerk.server.bulk import change_many
from stellwerk.server.bulk_models import ChangedMany, ChangeMany
from stellwerk.server.handlers.workloads import phases_of
from stellwerk.server.seeing import AnyRequest, idempotency_key, seeing
from stellwerk.server.services import Given

BODY_BYTES = 16 * 2**20


@post(
    "/workloads/change",
    tags=["workloads"],
    summary="Change many",
    status_code=200,
    request_max_body_size=BODY_BYTES,
)
async def change_workloads(
    data: JSONBody[ChangeMany], request: AnyRequest, services: Given
) -> ChangedMany:
    """Cancels, holds, releases or gives a priority to all that are named, or that filters leave.
    The commands are durable together when this is answered; the answer waits for their effect, up
    to a minute. What can't be done to a name is told beside what was done to the others.
    """
    key = idempotency_key(request)
    phases = phases_of(data.phases)
    return await change_many(services, data, phases, seeing(request), key)


HANDLERS = [change_workloads]
