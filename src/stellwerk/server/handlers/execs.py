"""Runs a command inside a run for a caller: the request's body and the answer are one conversation.

Both are streams of the frames of `stellwerk.runtime.frames`, at the same time over one connection;
the server passes bytes on and reads none of them. Where either side ends, so does the other.
"""

import asyncio
import contextlib
import logging
from typing import Annotated, Any

from litestar import Request, Response, post
from litestar.params import FromPath, QueryParameter
from litestar.response.base import ASGIResponse
from litestar.types import Receive, Scope, Send

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.workload import ENDED, WAITING, Run, Workload
from stellwerk.drivers.base import DriverError, ExecOrder, ExecSession, Executes
from stellwerk.server.handlers.logs import ranks_of
from stellwerk.server.patience import TAKES_ITS_TIME
from stellwerk.server.services import Given, Services

logger = logging.getLogger("stellwerk.server")

MEDIA_TYPE = "application/vnd.stellwerk.exec"

RunNumber = Annotated[
    int, QueryParameter(ge=0, le=10**9, description="The number of a run; 0 for the newest.")
]
Rank = Annotated[
    int, QueryParameter(ge=0, le=100_000, description="Beside which replica of the run.")
]


class Conversation(Response[bytes]):
    """An answer that goes on for as long as the session, and reads the request all the while."""

    def __init__(self, services: Services, session: ExecSession) -> None:
        super().__init__(b"", media_type=MEDIA_TYPE, status_code=200)
        self._services = services
        self._session = session

    def to_asgi_response(
        self, app: Any, request: Request[Any, Any, Any], **given: Any
    ) -> ASGIResponse:
        """The same as something that speaks ASGI."""
        session, stopping = self._session, self._services.stopping

        class Conversing(ASGIResponse):
            async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
                await converse(session, stopping, receive, send)

        return Conversing(media_type=MEDIA_TYPE, status_code=200)


async def converse(
    session: ExecSession, stopping: asyncio.Event, receive: Receive, send: Send
) -> None:
    """Passes on what both sides say until one has nothing more to say, or the server stops."""
    headers = [(b"content-type", MEDIA_TYPE.encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    told = asyncio.create_task(_tell(session, send))
    heard = asyncio.create_task(_hear(session, receive))
    stopped = asyncio.create_task(stopping.wait())
    try:
        await asyncio.wait({told, heard, stopped}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (told, heard, stopped):
            task.cancel()
        await asyncio.gather(told, heard, stopped, return_exceptions=True)
        await session.close()
    with contextlib.suppress(OSError):
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _tell(session: ExecSession, send: Send) -> None:
    while data := await session.receive():
        await send({"type": "http.response.body", "body": data, "more_body": True})


async def _hear(session: ExecSession, receive: Receive) -> None:
    while True:
        message = await receive()
        if message["type"] != "http.request":
            return
        if message["body"]:
            try:
                await session.send(message["body"])
            except DriverError:
                # The command is over; the caller is told by the other direction.
                return
        if not message.get("more_body", False):
            return


@post(
    "/workloads/{ref:str}/exec",
    tags=["workloads"],
    summary="Run a command inside",
    status_code=200,
    media_type=MEDIA_TYPE,
    opt={TAKES_ITS_TIME: True},
)
async def exec_in_run(
    ref: FromPath[str],
    request: Request[Any, Any, Any],
    services: Given,
    run: RunNumber = 0,
    rank: Rank = 0,
) -> Conversation:
    """Body and answer are streams of frames that go on at the same time: what to run, its input and
    output, and how it ended (`docs/runtime.md`). The command ends when the caller hangs up, and
    with the run; neither does it keep the run from ending.
    """
    workload = await services.find(ref)
    chosen = _live_run(workload, run)
    driver: object = services.engine.driver(chosen.allocation.cluster)
    if not isinstance(driver, Executes):
        raise StellwerkError.of(
            "exec/not-here",
            f"no commands can be run inside of what runs on {chosen.allocation.cluster}",
            f"`stw logs {workload.name}` shows what it prints",
        )
    try:
        session = await driver.exec(ExecOrder(chosen.id, rank))
    except DriverError as error:
        raise _in_words(error, workload, chosen, rank) from error
    # Not what is run: a command line may hold what belongs into no log.
    logger.info("%s runs a command inside of %s", request.scope["state"]["actor"], chosen.id)
    return Conversation(services, session)


def _live_run(workload: Workload, number: int) -> Run:
    """The run that is meant, if it runs now; otherwise what to do instead."""
    name, runs = workload.name, workload.runs
    chosen = runs[-1] if runs else None
    if number:
        chosen = next((one for one in runs if one.number == number), None)
    if workload.phase in ENDED:
        raise StellwerkError.of(
            "exec/ended",
            f"{name} is over ({workload.phase}); commands run only inside of what runs",
            f"`stw logs {name}` shows what it printed; `stw rerun {name}` runs it again",
        )
    if workload.phase == "Held":
        help = f"`stw release {name}` lets it start; then: stw wait --for running {name}"
        raise StellwerkError.of("exec/waiting", f"{name} is held and doesn't run", help)
    if not runs or workload.phase in WAITING:
        help = f"`stw explain {name}` says why; `stw wait --for running {name}` waits for it"
        raise StellwerkError.of("exec/waiting", f"{name} waits and doesn't run yet", help)
    if chosen is None:
        raise StellwerkError.of(
            "find/run", f"{name} has no run {number}", f"its newest is run {runs[-1].number}"
        )
    if chosen.phase == "Ended":
        raise _run_is_over(workload, chosen)
    if chosen.phase in {"Starting", "SettingUp"}:
        raise _not_yet(workload)
    return chosen


def _not_yet(workload: Workload) -> StellwerkError:
    return StellwerkError.of(
        "exec/setting-up",
        f"{workload.name} is still being set up",
        f"`stw wait --for running {workload.name}` waits for it; `stw logs -f {workload.name}` "
        "shows how far it is",
    )


def _run_is_over(workload: Workload, run: Run) -> StellwerkError:
    return StellwerkError.of(
        "exec/ended",
        f"run {run.number} of {workload.name} is over",
        f"`stw show {workload.name}` tells what became of it",
    )


def _in_words(error: DriverError, workload: Workload, run: Run, rank: int) -> Exception:
    """What the runtime refuses, as somebody who named a workload understands it."""
    match error.code:
        case "runtime/not_running":
            return _not_yet(workload)
        case "runtime/ended" | "runtime/unknown_run":
            return _run_is_over(workload, run)
        case "runtime/no_rank":
            ranks = ranks_of(workload, run)
            return StellwerkError.of(
                "find/rank",
                f"run {run.number} of {workload.name} has no rank {rank}",
                f"it has ranks 0 to {ranks - 1}" if ranks > 1 else "it has rank 0 alone",
            )
        case "runtime/too_old":
            return StellwerkError.of(
                "exec/too-old",
                f"{workload.name} was started by an older runtime, which runs no commands beside "
                "it",
                "once nothing runs, `stw server stop` and `stw server start` replace the runtime; "
                "what starts after that can do it",
            )
    return error


HANDLERS = [exec_in_run]
