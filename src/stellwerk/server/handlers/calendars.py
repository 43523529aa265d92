"""When clusters may be used: calendars, exceptions, and what they come to."""

from litestar import delete, get, post
from litestar.params import FromPath, JSONBody

from stellwerk.core.model.calendars import CalendarList, CalendarNow, OverrideWish, SourceWish
from stellwerk.server import calendars
from stellwerk.server.handlers.workloads import actor_of
from stellwerk.server.seeing import AnyRequest, idempotency_key
from stellwerk.server.services import Given


@get("/calendars", tags=["fleet"], summary="Calendars")
async def list_calendars(services: Given) -> CalendarList:
    """All of them, by cluster."""
    return CalendarList(calendars.all_of(services))


@get("/calendars/{name:str}", tags=["fleet"], summary="The calendar of a cluster")
async def show_calendar(name: FromPath[str], services: Given) -> CalendarNow:
    """Its windows for two weeks, and what they follow from."""
    return calendars.one_of(services, name)


@post("/calendars/{name:str}", tags=["fleet"], summary="Import a calendar", status_code=200)
async def import_calendar(
    name: FromPath[str], request: AnyRequest, services: Given, data: JSONBody[SourceWish]
) -> CalendarNow:
    """Lets windows follow from rules, a text or an address too, or says all that is wrong."""
    return await calendars.add(services, name, data, actor_of(request), idempotency_key(request))


@post(
    "/calendars/{name:str}/override", tags=["fleet"], summary="Open or close once", status_code=200
)
async def override_calendar(
    name: FromPath[str], request: AnyRequest, services: Given, data: JSONBody[OverrideWish]
) -> CalendarNow:
    """Makes an exception."""
    return await calendars.override(
        services, name, data, actor_of(request), idempotency_key(request)
    )


@delete("/calendars/{name:str}", tags=["fleet"], summary="Remove a calendar", status_code=200)
async def remove_calendar(name: FromPath[str], request: AnyRequest, services: Given) -> CalendarNow:
    """Lets a cluster be used at any time."""
    return await calendars.remove(services, name, actor_of(request), idempotency_key(request))


HANDLERS = [list_calendars, show_calendar, import_calendar, override_calendar, remove_calendar]
