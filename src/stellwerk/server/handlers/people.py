"""Sharing a cluster, and what people and projects have used."""

from typing import Annotated, Literal

import msgspec
from litestar import get, post
from litestar.params import FromPath, JSONBody, QueryParameter

from stellwerk.core.model.errors import StellwerkError
from stellwerk.server.belongings import EVERYBODY
from stellwerk.server.seeing import AnyRequest, seeing
from stellwerk.server.services import Given
from stellwerk.server.usage import Used, used

ByOf = Annotated[
    Literal["person", "project"], QueryParameter(name="by", description="Whose use is added up.")
]
SinceOf = Annotated[
    int, QueryParameter(name="since_ms", ge=0, description="Only what was used from then on.")
]
MonthsOf = Annotated[
    bool, QueryParameter(name="months", description="Each month (UTC) for itself.")
]


class ShareWish(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Who may use a cluster beside its owner: exactly these; `*` is everybody."""

    users: list[str] = []


class SharedCluster(msgspec.Struct, frozen=True):
    """Whose a cluster is, and who else may use it."""

    cluster: str
    owner: str
    shared: list[str]


@post("/clusters/{name:str}/share", tags=["people"], summary="Share a cluster", status_code=200)
async def share_cluster(
    name: FromPath[str], services: Given, data: JSONBody[ShareWish]
) -> SharedCluster:
    """Lets others use a cluster that a person has added; their work runs by its login there."""
    found = next((one for one, _ in services.store.clusters() if one.name == name), None)
    if found is None:
        raise StellwerkError.of(
            "find/cluster", f"there is no cluster `{name[:80]}`", "`stw clusters` lists them"
        )
    if found.driver == "local":
        raise StellwerkError.of(
            "phase/own-machine",
            f"{name} is the server's own machine, where everybody's work runs by their own runtime",
            "stw agent start",
        )
    wrong = [user for user in data.users if user != EVERYBODY and not user.isprintable()]
    if wrong:
        raise StellwerkError.of("request/invalid", f"{wrong[0]!r} is no user", "name users")
    shared = services.belongings.share(name, tuple(data.users))
    services.engine.look_again(name)
    return SharedCluster(name, services.owner_of(name), list(shared))


@get("/usage", tags=["people"], summary="What was used")
async def usage(
    request: AnyRequest,
    services: Given,
    by: ByOf = "person",
    since_ms: SinceOf = 0,
    months: MonthsOf = False,
) -> Used:
    """Hours of GPUs, processors and memory that runs held, with how many there were and how long
    they waited; of runs that go on, what they held until now. Where others' work isn't seen, it is
    one's own use.
    """
    eyes = seeing(request)
    whose = eyes.caller.actor.name if eyes.is_own_only else ""
    await services.settled(0.2)
    return await used(services, by, since_ms, months=months, owner=whose)


HANDLERS = [share_cluster, usage]
