"""Models and data sets in the caches of machines: where they are, copying, removing."""

from litestar import get, post
from litestar.params import FromPath, JSONBody

from stellwerk.core.model.data_there import (
    DataCopies,
    DataList,
    DataRemoved,
    RemoveWish,
    StageWish,
)
from stellwerk.server import data_there
from stellwerk.server.data_copies import Copies
from stellwerk.server.seeing import AnyRequest, seeing
from stellwerk.server.services import Given, Services


def _copies(services: Services) -> Copies:
    if not isinstance(services.copies, Copies):
        services.copies = Copies(services)
    return services.copies


def _is_seen(request: AnyRequest) -> data_there.IsSeen:
    eyes = seeing(request)
    return lambda owner: eyes.how(owner) != "nothing"


@get("/data", tags=["fleet"], summary="Models and data sets on machines")
async def list_data(request: AnyRequest, services: Given) -> DataList:
    """What caches of the Hugging Face hub have, by machine, and copies of late."""
    return DataList(data_there.listed(services, _is_seen(request)), _copies(services).rows())


@post("/clusters/{name:str}/data/stage", tags=["fleet"], summary="Copy data there", status_code=200)
async def stage_data(name: FromPath[str], services: Given, data: JSONBody[StageWish]) -> DataCopies:
    """Copies a commit from another machine to those of a cluster that lack it. Answers at once;
    `GET /v1/data` tells how far they are.
    """
    return DataCopies(await _copies(services).stage(name, data))


@post(
    "/clusters/{name:str}/data/remove", tags=["fleet"], summary="Remove data there", status_code=200
)
async def remove_data(
    name: FromPath[str], request: AnyRequest, services: Given, data: JSONBody[RemoveWish]
) -> list[DataRemoved]:
    """Removes a commit from a machine's cache; refused while a live workload uses it."""
    return await _copies(services).remove(name, data, _is_seen(request))


HANDLERS = [list_data, stage_data, remove_data]
