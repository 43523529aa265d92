"""Files of a job that lie on a machine elsewhere: listing a folder, reading a file."""

from typing import Annotated

from litestar import Response, get
from litestar.params import FromPath, QueryParameter

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.workload import Workload
from stellwerk.drivers.base import Area, BringsFiles, DriverError
from stellwerk.server.machine_models import FarFile, FarFiles
from stellwerk.server.services import Given, Services
from stellwerk.server.views import node_names

MOST = 8 * 2**20
AreaOf = Annotated[Area, QueryParameter(description="Which of a job's folders.")]
PathOf = Annotated[str, QueryParameter(description="A path inside of it.")]
NodeOf = Annotated[
    int, QueryParameter(ge=0, description="On which of its machines, by number: 0 has rank 0.")
]
Offset = Annotated[int, QueryParameter(ge=0, description="Where to begin.")]
Limit = Annotated[int, QueryParameter(ge=1, le=MOST, description="At most so many bytes.")]


@get("/workloads/{ref:str}/files", tags=["workloads"], summary="Files of a job")
async def list_files(
    ref: FromPath[str],
    services: Given,
    area: AreaOf = "work",
    path: PathOf = "",
    node: NodeOf = 0,
) -> FarFiles:
    """What lies at a path of the newest run. `is_here` says that its files lie on the server's own
    machine, where whoever may read them reads them.
    """
    workload = await services.find(ref)
    rank = _first_rank(workload, node)
    found = _driver(services, workload)
    if found is None:
        return FarFiles(is_here=True)
    try:
        listing = await found.list_files(workload.runs[-1].id, area, path, rank)
    except DriverError as error:
        raise _refusal(workload, area, error) from error
    files = [FarFile(one.name, one.kind, one.size, one.modified_ms) for one in listing.files]
    return FarFiles(root=listing.root, is_folder=listing.is_folder, files=files)


@get(
    "/workloads/{ref:str}/content",
    tags=["workloads"],
    summary="A file of a job",
    media_type="application/octet-stream",
)
async def read_file(
    ref: FromPath[str],
    path: PathOf,
    services: Given,
    area: AreaOf = "work",
    offset: Offset = 0,
    limit: Limit = MOST,
    node: NodeOf = 0,
) -> Response[bytes]:
    """Bytes of a file that lies on a machine elsewhere, perhaps fewer than were asked for; none at
    its end.
    """
    workload = await services.find(ref)
    rank = _first_rank(workload, node)
    found = _driver(services, workload)
    if found is None:
        raise StellwerkError.of(
            "find/file", f"the files of {workload.name} lie on the server's own machine", ""
        )
    try:
        chunk = await found.read_file(workload.runs[-1].id, area, path, offset, limit, rank)
    except DriverError as error:
        raise _refusal(workload, area, error) from error
    return Response(chunk.data, media_type="application/octet-stream")


def _first_rank(workload: Workload, number: int) -> int:
    """The first rank on a machine of the newest run."""
    if not number or not workload.runs:
        return 0
    allocation = workload.runs[-1].allocation
    names = node_names(allocation)
    if number >= len(names):
        there = ", ".join(f"{index} is {name}" for index, name in enumerate(names))
        message = f"{workload.name} has no node {number}"
        raise StellwerkError.of("find/node", message, there)
    on_it = [part for part in allocation.nodes if part.node == names[number]]
    return min(rank for part in on_it for rank in part.ranks)


def _driver(services: Services, workload: Workload) -> BringsFiles | None:
    if not workload.runs:
        return None
    driver: object = services.engine.driver(workload.runs[-1].allocation.cluster)
    return driver if isinstance(driver, BringsFiles) else None


def _refusal(workload: Workload, area: str, error: DriverError) -> Exception:
    """What isn't there is told as such, and a machine that is silent as a machine."""
    if not error.final:
        return error
    inside = "" if area == "work" else f" {area}:"
    remedy = f"`stw ls {workload.name}{inside}` lists what is there"
    return StellwerkError.of("find/file", error.message, remedy)


HANDLERS = [list_files, read_file]
