"""Content by the hash of its bytes: how code gets from a client to the server, each file once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from litestar import Request, get, post, put
from litestar.params import JSONBody, PathParameter
from litestar.response import File

from stellwerk.core.model.errors import StellwerkError
from stellwerk.server.blob_models import Hashes, Kept, Missing
from stellwerk.server.framing import Frames
from stellwerk.server.services import Given
from stellwerk.store import Together

BATCH_BYTES = 64 * 2**20
BLOB_BYTES = 10 * 2**30
LIST_BYTES = 16 * 2**20
PIECE_BYTES = 2**20
"""So much is gathered before it is handed to the thread that hashes and writes."""

HashPath = Annotated[
    str,
    PathParameter(
        pattern="^[0-9a-f]{64}$", description="The SHA-256 of the content, in lower-case hex."
    ),
]


@post(
    "/blobs/missing",
    tags=["content"],
    summary="What is missing",
    status_code=200,
    request_max_body_size=LIST_BYTES,
)
async def list_missing(data: JSONBody[Hashes], services: Given) -> Missing:
    """Which of these hashes the server has no content for; send those, and only those."""
    async with services.gate.passing():
        return Missing(list(await asyncio.to_thread(services.store.blobs.missing, data.hashes)))


@put(
    "/blobs/{hash:str}",
    tags=["content"],
    summary="Send content",
    status_code=204,
    request_max_body_size=BLOB_BYTES,
)
async def put_blob(hash: HashPath, request: Request[Any, Any, Any], services: Given) -> None:
    """Takes raw bytes of up to 10 GiB; refused, and not kept, if their hash is another one."""
    with services.store.blobs.incoming() as blob:
        async for piece in _pieces(request):
            await asyncio.to_thread(blob.write, piece)
        async with services.gate.passing():
            await asyncio.to_thread(blob.keep, hash)


@post(
    "/blobs/batch",
    tags=["content"],
    summary="Send much content",
    status_code=200,
    request_max_body_size=BATCH_BYTES,
)
async def put_blobs(request: Request[Any, Any, Any], services: Given) -> Kept:
    """Takes up to 20,000 contents in one body of up to 64 MiB: for each a line `HASH LENGTH`, then
    so many raw bytes (up to 8 MiB). They are durable together when this is answered. If one has
    another hash, or the body is cut off, none of them is kept.
    """
    frames = Frames()
    with services.store.blobs.together() as batch:
        async for piece in _pieces(request):
            await asyncio.to_thread(_add, batch, frames, piece)
        frames.end()
        async with services.gate.passing():
            new = await asyncio.to_thread(batch.keep)
    return Kept(count=frames.count, new=new)


def _add(batch: Together, frames: Frames, piece: bytes) -> None:
    for blob in frames.feed(piece):
        batch.add(blob.data, blob.hash)


@get(
    "/blobs/{hash:str}",
    tags=["content"],
    summary="Fetch content",
    media_type="application/octet-stream",
)
async def get_blob(hash: HashPath, services: Given) -> File:
    """The raw bytes of a hash."""
    if services.store.blobs.missing([hash]):
        raise StellwerkError.of(
            "find/blob", f"the server has no content for {hash}", "send it with PUT first"
        )
    return File(services.store.blobs.path(hash), media_type="application/octet-stream")


async def _pieces(request: Request[Any, Any, Any]) -> AsyncIterator[bytes]:
    gathered = bytearray()
    async for chunk in request.stream():
        gathered += chunk
        if len(gathered) >= PIECE_BYTES:
            yield bytes(gathered)
            gathered.clear()
    if gathered:
        yield bytes(gathered)


HANDLERS = [list_missing, put_blob, put_blobs, get_blob]
