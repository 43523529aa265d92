"""Brings content to a machine, only what is missing there, and has directories made of it."""

import asyncio
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

import msgspec

from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.agents.layout import Layout
from stellwerk.drivers.agents.snapshots import BlobReader, Entry, refusal
from stellwerk.runtime.messages import PIECE

NAMES_AT_ONCE = 2_000
SMALL_BYTES = 64 * 1024
UNDER_WAY = 8
"""So many pieces may be on their way before the first has arrived."""
TREE_S = 600.0


class Hand(Protocol):
    """As much of a hand as it takes to bring it something."""

    closed: asyncio.Event

    async def ask(
        self, op: str, data: bytes = b"", timeout_s: float = ..., **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Asks for something. Raises DriverError."""
        ...


async def lay_out(hand: Hand, layout: Layout, blobs: BlobReader) -> list[str]:
    """Makes all directories of a layout; gives those that weren't there. Raises DriverError."""
    made: list[str] = []
    try:
        for tree in layout.trees:
            sizes = {entry.hash: entry.size for entry in tree.entries if entry.hash}
            await bring(hand, sizes, blobs)
            entries = await _bring_list(hand, tree.entries)
            answer, _ = await hand.ask("tree", place=tree.place, entries=entries, timeout_s=TREE_S)
            if answer.get("made"):
                made.append(tree.place)
    except BaseException:
        if made and not hand.closed.is_set():
            await hand.ask("remove", places=made)
        raise
    return made


async def bring(hand: Hand, sizes: dict[str, int], blobs: BlobReader) -> int:
    """Sends what isn't there; gives the bytes that were sent."""
    names = list(sizes)
    absent: list[str] = []
    for start in range(0, len(names), NAMES_AT_ONCE):
        answer, _ = await hand.ask("missing", names=names[start : start + NAMES_AT_ONCE])
        absent += answer["missing"]
    large = [name for name in absent if sizes[name] > SMALL_BYTES]
    small = [name for name in absent if sizes[name] <= SMALL_BYTES]
    for batch in _batches(small, sizes):
        contents = await asyncio.to_thread(_read_all, batch, blobs)
        items = [[name, len(content)] for name, content in zip(batch, contents, strict=True)]
        await hand.ask("put", b"".join(contents), items=items)
    for name in large:
        await _bring_large(hand, name, sizes[name], blobs)
    return sum(sizes[name] for name in absent)


def _batches(names: Sequence[str], sizes: dict[str, int]) -> Iterator[list[str]]:
    batch: list[str] = []
    held = 0
    for name in names:
        if batch and (held + sizes[name] > PIECE or len(batch) >= NAMES_AT_ONCE):
            yield batch
            batch, held = [], 0
        batch.append(name)
        held += sizes[name]
    if batch:
        yield batch


def _read_all(names: Iterable[str], blobs: BlobReader) -> list[bytes]:
    return [_read(name, blobs, 0, -1) for name in names]


def _read(name: str, blobs: BlobReader, offset: int, limit: int) -> bytes:
    try:
        with open(blobs.path(name), "rb") as file:
            file.seek(offset)
            return file.read(limit)
    except StellwerkError as error:
        raise refusal("snapshot/damaged", error.problems[0].message) from error
    except FileNotFoundError as error:
        raise refusal("snapshot/missing", f"{name[:12]} isn't in the blob store") from error
    except OSError as error:
        message = f"content {name[:12]} can't be read: {error.strerror}"
        raise refusal("snapshot/missing", message) from error


async def _bring_large(hand: Hand, name: str, size: int, blobs: BlobReader) -> None:
    """Keeps several pieces under way, so that a long way costs no time."""
    under_way: list[asyncio.Task[object]] = []
    try:
        for offset in range(0, size, PIECE):
            data = await asyncio.to_thread(_read, name, blobs, offset, PIECE)
            if not data:
                message = f"content {name[:12]} is shorter than {size} bytes"
                raise refusal("snapshot/missing", message)
            asking = hand.ask("put", data, name=name, offset=offset, size=size)
            under_way.append(asyncio.create_task(asking))
            if len(under_way) >= UNDER_WAY:
                await under_way.pop(0)
        while under_way:
            await under_way.pop(0)
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _bring_list(hand: Hand, entries: Sequence[Entry]) -> str:
    """Sends what a directory holds, as content of its own; gives the name of that."""
    content = msgspec.json.encode([msgspec.structs.asdict(entry) for entry in entries])
    name = hashlib.sha256(content).hexdigest()
    for offset in range(0, max(1, len(content)), PIECE):
        piece = content[offset : offset + PIECE]
        await hand.ask("put", piece, name=name, offset=offset, size=len(content))
    return name
