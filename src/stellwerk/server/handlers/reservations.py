"""Room promised for times to come: making, listing and giving up reservations."""

from litestar import delete, get, post
from litestar.params import FromPath, JSONBody

from stellwerk.core.model.reservations import ReservationList, ReservationNow, ReservationWish
from stellwerk.server import reservations
from stellwerk.server.handlers.workloads import actor_of
from stellwerk.server.seeing import AnyRequest, idempotency_key
from stellwerk.server.services import Given


@get("/reservations", tags=["queues"], summary="Reservations")
async def list_reservations(services: Given) -> ReservationList:
    """All of them, those that begin first come first."""
    return ReservationList(reservations.all_of(services))


@get("/reservations/{name:str}", tags=["queues"], summary="A reservation")
async def show_reservation(name: FromPath[str], services: Given) -> ReservationNow:
    """How it stands: its nodes, who runs in it, and who is stopped for it."""
    return reservations.one_of(services, name)


@post("/reservations", tags=["queues"], summary="Make a reservation", status_code=200)
async def make_reservation(
    request: AnyRequest, services: Given, data: JSONBody[ReservationWish]
) -> ReservationNow:
    """Promises a queue, a project or a person room for times to come, or says why it can't be."""
    key = idempotency_key(request)
    return await reservations.make(services, data, actor_of(request), key)


@delete(
    "/reservations/{name:str}", tags=["queues"], summary="Cancel a reservation", status_code=200
)
async def cancel_reservation(
    name: FromPath[str], request: AnyRequest, services: Given
) -> ReservationNow:
    """Gives it up; what runs in it goes on."""
    key = idempotency_key(request)
    return await reservations.cancel(services, name, actor_of(request), key)


HANDLERS = [list_reservations, show_reservation, make_reservation, cancel_reservation]
