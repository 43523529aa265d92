"""The journal as it grows: a page of it, or a stream that can be resumed where it broke off.

A client pulls at its own pace, and a slow one costs nothing but its place. One that doesn't take
anything for a minute is let go with a comment; with `Last-Event-ID` it comes back to where it was.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get
from litestar.params import QueryParameter
from litestar.response import Stream

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.ids import WorkloadId
from stellwerk.server.feed import Told
from stellwerk.server.models import Events, EventView
from stellwerk.server.seeing import Seeing, find_seen, seeing, whose
from stellwerk.server.services import PROJECT, Given, Services
from stellwerk.store.journal import subject

Mine = Callable[[str], bool]
"""Whether a caller is told the records about a workload."""

KEEP_ALIVE_S = 15.0
TOO_SLOW_S = 60.0

After = Annotated[int, QueryParameter(ge=0, description="Only records after this sequence number.")]
Limit = Annotated[int, QueryParameter(ge=1, le=10_000, description="At most so many records.")]
Follow = Annotated[bool, QueryParameter(description="Stream on as server-sent events.")]
About = Annotated[str, QueryParameter(description="Only records about this workload (name or id).")]


@get("/events", tags=["events"], summary="Events")
async def list_events(
    request: Request[Any, Any, Any],
    services: Given,
    after: After = 0,
    limit: Limit = 1000,
    follow: Follow = False,
    workload: About = "",
) -> Response[Events] | Stream:
    """Records in order, with `follow` as server-sent events (`id` is the sequence number)."""
    eyes = seeing(request)
    about = (await find_seen(eyes, services, workload)).id if workload else ""
    mine = _told_to(eyes, services)
    accepts = request.headers.get("accept", "")
    if follow or accepts.startswith("text/event-stream"):
        start = _resumed(request, after)
        return Stream(
            _stream(services, start, about, mine),
            media_type="text/event-stream",
            headers={"Cache-Control": "no-store"},
        )
    page = await asyncio.to_thread(_page, services, after, limit, about, mine)
    return Response(page)


def _told_to(eyes: Seeing, services: Services) -> Mine:
    """Which workloads' records a caller is told: a submission says what is run."""
    if eyes.sees_all:
        return lambda _workload: True

    def owner_of(workload: str) -> str:
        row = services.store.workload(workload, PROJECT)
        return row.workload.owner if row is not None else ""

    owner = whose(owner_of)
    return lambda workload: not workload or eyes.how(owner(workload)) == "all"


def _page(services: Services, after: int, limit: int, workload: str, mine: Mine) -> Events:
    seq = services.store.seq()
    records = services.store.records_page(after, limit, WorkloadId(workload) if workload else None)
    items = [
        msgspec.convert(msgspec.to_builtins(record), EventView)
        for record in records
        if mine(subject(record.event) or "")
    ]
    return Events(items=items, seq=seq, next=records[-1].seq if records else after)


def _resumed(request: Request[Any, Any, Any], after: int) -> int:
    last = request.headers.get("last-event-id", "")
    if not last:
        return after
    if not last.isdecimal() or len(last) > 18:
        raise StellwerkError.of(
            "request/invalid", "Last-Event-ID is no sequence number", "send the last `id` you saw"
        )
    return int(last)


async def _stream(
    services: Services, after: int, workload: str, mine: Mine
) -> AsyncIterator[bytes]:
    loop = asyncio.get_running_loop()
    yield b": stellwerk\nretry: 1000\n\n"
    with services.feed.follow() as grown:
        while not services.stopping.is_set():
            grown.clear()
            page = services.feed.after(after)
            if not page:
                try:
                    await asyncio.wait_for(grown.wait(), KEEP_ALIVE_S)
                except TimeoutError:
                    yield b": still here\n\n"
                continue
            after = page[-1].seq
            asked = (one for one in page if workload in {"", one.workload})
            text = b"".join(_event(one) for one in asked if mine(one.workload))
            if not text:
                continue
            offered = loop.time()
            yield text
            if loop.time() - offered > TOO_SLOW_S:
                yield f": too slow; come back with Last-Event-ID {after}\n\n".encode()
                return


def _event(one: Told) -> bytes:
    return b"id: %d\nevent: %s\ndata: %s\n\n" % (one.seq, one.type.encode(), one.data)


HANDLERS = [list_events]
