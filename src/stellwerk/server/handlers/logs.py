"""The output of a workload as raw bytes, once or for as long as it grows."""

from collections.abc import AsyncIterator
from typing import Annotated

from litestar import get
from litestar.params import FromPath, QueryParameter
from litestar.response import Stream

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.workload import ENDED, Run, Workload
from stellwerk.drivers.base import LogStream
from stellwerk.server.following import Choice, LogReader
from stellwerk.server.models import LogOf
from stellwerk.server.services import Given, Services

STREAMS: dict[str, tuple[LogStream, ...]] = {
    "run": ("run",),
    "setup": ("setup",),
    "all": ("setup", "run"),
}

RunOf = Annotated[
    str,
    QueryParameter(
        pattern="^([1-9][0-9]{0,8}|all|)$",
        description="The number of a run, or `all` for one after the other; else the newest.",
    ),
]
Rank = Annotated[int, QueryParameter(ge=0, le=100_000, description="Which replica of the run.")]
StreamOf = Annotated[
    LogOf, QueryParameter(description="`setup`, `run`, or `all`: setup, then run.")
]
Offset = Annotated[
    int,
    QueryParameter(
        ge=0, description="Bytes to leave out, counted over everything that is asked for."
    ),
]
Limit = Annotated[int, QueryParameter(ge=0, description="At most so many bytes; 0 for all.")]
Follow = Annotated[
    bool, QueryParameter(description="Stay until the run has ended and all is sent.")
]


@get(
    "/workloads/{ref:str}/logs",
    tags=["workloads"],
    summary="Output",
    media_type="application/octet-stream",
)
async def read_logs(
    ref: FromPath[str],
    services: Given,
    run: RunOf = "",
    rank: Rank = 0,
    stream: StreamOf = "run",
    offset: Offset = 0,
    limit: Limit = 0,
    follow: Follow = False,
) -> Stream:
    """Raw bytes of the output. Following, the answer is chunked and lasts until the run (with
    `run=all`: the workload) has ended and all is sent; if it stops earlier, the server was stopped:
    ask again with `offset` at what you have.
    """
    workload = await services.find(ref)
    number = int(run) if run.isdecimal() else 0
    _refuse_unknown_rank(workload, number, rank, every=run == "all")
    choice = Choice(
        number=number,
        all_runs=run == "all",
        streams=STREAMS[stream],
        rank=rank,
        offset=offset,
        limit=limit,
        follow=follow,
    )
    await _refuse_what_is_gone(services, workload, choice)
    pieces = LogReader(services, workload, choice).pieces()
    headers = {
        "Stellwerk-Offset": str(offset),
        "Stellwerk-Phase": workload.phase,
        "Cache-Control": "no-store",
    }
    if not follow:
        pieces = await _primed(pieces)
    return Stream(pieces, media_type="application/octet-stream", headers=headers)


def _refuse_unknown_rank(workload: Workload, number: int, rank: int, *, every: bool) -> None:
    """Says that none of what is asked for has such a rank; of what never ran nothing is known."""
    asked = workload.runs if every else workload.runs[-1:]
    if number:
        asked = tuple(run for run in workload.runs if run.number == number)
    ranks = max((ranks_of(workload, run) for run in asked), default=rank + 1)
    if rank >= ranks:
        what = workload.name if every else f"run {asked[0].number} of {workload.name}"
        raise StellwerkError.of(
            "find/rank",
            f"{what} has no rank {rank}",
            f"it has ranks 0 to {ranks - 1}" if ranks > 1 else "it has rank 0 alone",
        )


async def _refuse_what_is_gone(services: Services, workload: Workload, choice: Choice) -> None:
    """Says that output isn't kept any more, rather than answering with none."""
    if workload.phase not in ENDED:
        return
    asked = workload.runs if choice.all_runs else workload.runs[-1:]
    if choice.number:
        asked = tuple(run for run in workload.runs if run.number == choice.number)
    for run in asked:
        if not await services.is_gone(run):
            return
    if asked:
        what = f"run {asked[0].number}" if len(asked) == 1 else "all runs"
        raise StellwerkError.of(
            "find/output",
            f"the output of {what} of {workload.name} isn't kept any more",
            "`stw gc --dry-run` says how long output is kept; `stw rerun` runs the task again",
        )


def ranks_of(workload: Workload, run: Run) -> int:
    """How many ranks a run of a workload has."""
    return workload.policies.ranks or sum(len(part.ranks) for part in run.allocation.nodes)


async def _primed(pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Reads the first piece before the answer begins, so that an error can still be told."""
    first = await anext(pieces, b"")

    async def joined() -> AsyncIterator[bytes]:
        yield first
        async for piece in pieces:
            yield piece

    return joined()


HANDLERS = [read_logs]
