"""Content by the hash of its bytes: how code gets from a client to the server, each file once."""

import asyncio
from collections.abc import AsyncIterator
from typing import Annotated, Any

from litestar import Request, get, post, put
from litestar.params import JSONBody, PathParameter
from litestar.response import File

from stellwerk.core.model.errors import StellwerkError
from stellwerk.server.models import Hashes, Missing
from stellwerk.server.services import Given

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


HANDLERS = [list_missing, put_blob, get_blob]
