"""Puts the handlers together into one application with its errors, guard and schema."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from litestar import Litestar, Request, Response, Router, get
from litestar.datastructures import State
from litestar.di import Provide
from litestar.exceptions import HTTPException
from litestar.types import ControllerRouterHandler, Message, Scope

from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.base import DriverError
from stellwerk.server import problems
from stellwerk.server.handlers import (
    again,
    arrays,
    blobs,
    bulk,
    calendars,
    checks,
    control,
    data,
    events,
    execs,
    explain,
    fair,
    files,
    fleet,
    forecast,
    gc,
    logs,
    machines,
    moving,
    people,
    placements,
    plan,
    queueing,
    reservations,
    runtimes,
    supposing,
    workloads,
)
from stellwerk.server.machines import Machines
from stellwerk.server.outlook import Outlook
from stellwerk.server.patience import with_patience
from stellwerk.server.peer import Access, authorize
from stellwerk.server.permissions import Rule
from stellwerk.server.policy import Thing
from stellwerk.server.schema import openapi_json
from stellwerk.server.services import Services
from stellwerk.server.submit import Submits
from stellwerk.server.things import thing_of
from stellwerk.server.tidying.keeper import Keeper

BODY_BYTES = 4 * 2**20
"""What a request's body may have where the address says nothing else."""

HANDLERS: tuple[ControllerRouterHandler, ...] = (
    *control.HANDLERS,
    *workloads.HANDLERS,
    *checks.HANDLERS,
    *explain.HANDLERS,
    *arrays.HANDLERS,
    *again.HANDLERS,
    *bulk.HANDLERS,
    *moving.HANDLERS,
    *plan.HANDLERS,
    *logs.HANDLERS,
    *execs.HANDLERS,
    *files.HANDLERS,
    *fleet.HANDLERS,
    *machines.HANDLERS,
    *placements.HANDLERS,
    *queueing.HANDLERS,
    *events.HANDLERS,
    *blobs.HANDLERS,
    *gc.HANDLERS,
    *forecast.HANDLERS,
    *runtimes.HANDLERS,
    *people.HANDLERS,
    *supposing.HANDLERS,
    *fair.HANDLERS,
    *reservations.HANDLERS,
    *calendars.HANDLERS,
    *data.HANDLERS,
)


@dataclass
class Parts:
    """What the application works on. To put it together takes far longer than to change these."""

    services: Services
    submits: Submits
    keeper: Keeper
    machines: Machines
    outlook: Outlook

    @classmethod
    def of(
        cls,
        services: Services,
        submits: Submits,
        keeper: Keeper | None = None,
        over_ssh: Machines | None = None,
    ) -> Self:
        """All of them, made where they aren't given."""
        home = Path(services.identity.home)
        return cls(
            services,
            submits,
            keeper or Keeper(services),
            over_ssh or Machines(home, services.store.blobs, services.clock.now_ms),
            Outlook(services),
        )


def make_app(parts: Parts, access: Access) -> Litestar:
    """The application over some parts, for whoever `access` lets in."""

    async def say_seq(message: Message, scope: Scope) -> None:
        if message["type"] == "http.response.start":
            seq = scope["state"].get("seq", parts.services.feed.seq)
            message["headers"] = [*message["headers"], (b"stellwerk-seq", b"%d" % seq)]

    async def find_thing(rule: Rule, params: Mapping[str, object]) -> Thing:
        return await thing_of(parts.services, rule, params)

    async def note_seq(request: Request[Any, Any, Any]) -> None:
        request.scope["state"]["seq"] = parts.services.feed.seq

    @get("/openapi.json", include_in_schema=False)
    async def openapi() -> Response[bytes]:
        document = openapi_json(parts.services.identity.version, HANDLERS)
        return Response(document, media_type="application/json")

    return Litestar(
        route_handlers=[
            Router("/v1", route_handlers=[*HANDLERS, openapi]),
            *fair.AT_THE_TOP,
        ],
        dependencies=_dependencies(parts),
        state=State({"access": access, "find_thing": find_thing}),
        guards=[authorize],
        middleware=[with_patience],
        before_request=note_seq,
        before_send=[say_seq],
        exception_handlers={
            StellwerkError: problems.on_stellwerk_error,
            DriverError: problems.on_driver_error,
            HTTPException: problems.on_http_exception,
            Exception: problems.on_unexpected,
        },
        request_max_body_size=BODY_BYTES,
        openapi_config=None,
        logging_config=None,
        debug=False,
    )


def _dependencies(parts: Parts) -> dict[str, Provide]:
    """What handlers may ask for by name."""

    def given() -> Services:
        return parts.services

    def given_submits() -> Submits:
        return parts.submits

    def given_keeper() -> Keeper:
        return parts.keeper

    def given_machines() -> Machines:
        return parts.machines

    def given_outlook() -> Outlook:
        return parts.outlook

    return {
        "services": Provide(given, sync_to_thread=False),
        "submits": Provide(given_submits, sync_to_thread=False),
        "keeper": Provide(given_keeper, sync_to_thread=False),
        "machines": Provide(given_machines, sync_to_thread=False),
        "outlook": Provide(given_outlook, sync_to_thread=False),
    }
