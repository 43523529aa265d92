"""Copies a commit of a model or data set from one machine's hub cache into another's, and resumes.

It goes through here: what one machine's hand reads another's writes. Only what lacks is read, holes
in files stay holes, and the machine that it comes to checks each file by the hash that names it.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, NamedTuple, Protocol

from stellwerk.drivers.agents.checkpoint_places import TOO_OLD, Place
from stellwerk.drivers.base import DriverError
from stellwerk.runtime import hub_hand, hub_passing, hub_removing
from stellwerk.runtime.files import Places
from stellwerk.runtime.hand_files import FileTrouble, Here
from stellwerk.runtime.messages import PIECE

UNDER_WAY = 8
"""So many pieces may be on their way: reading and writing go on at once."""
LONG_S = 3_600.0
"""To look through, check or remove all of a large one."""
BLOBS_AT_ONCE = 500
LARGE_BYTES = 4 * 2**20
LOOK_EVERY_S = 0.5
DAY_S = 24 * 3_600.0
NO_WAY = (f"runtime/{hub_passing.NO_WAY}", "data/runtime-too-old")


class Asks(Protocol):
    """A machine whose cache can be read and written."""

    async def ask(
        self, op: str, data: bytes = b"", timeout_s: float = ..., **fields: Any
    ) -> dict[str, Any]:
        """Asks its hand; the answer has the bytes behind it as `data`. Raises DriverError."""
        ...


class FarHub:
    """A machine at the end of a connection."""

    def __init__(self, name: str, place: Place) -> None:
        self.name = name
        self._place = place

    async def ask(
        self, op: str, data: bytes = b"", timeout_s: float = 120.0, **fields: Any
    ) -> dict[str, Any]:
        """Asks its hand."""
        more: dict[str, Any] = {"data": data} if data else {}
        try:
            head, behind = await self._place.ask(op, timeout_s, **fields, **more)
        except DriverError as error:
            if error.code == TOO_OLD:
                message = f"{self.name} has an older runtime: connect anew, or `stw join` there"
                raise DriverError("data/runtime-too-old", message, final=True) from error
            raise
        return {**head, "data": behind}


class OwnHub:
    """The server's own machine, as the server's user."""

    def __init__(self, name: str, home: str) -> None:
        self.name = name
        self._here = _Own(home)
        self._in_turn = asyncio.Lock()

    async def ask(
        self, op: str, data: bytes = b"", timeout_s: float = 0.0, **fields: Any
    ) -> dict[str, Any]:
        """Does itself what a hand would do."""
        del timeout_s
        operation = _OPERATIONS[op]
        try:
            async with self._in_turn if op == "hub_write" else contextlib.nullcontext():
                # pieces are written in the order in which they come
                head, behind = await asyncio.to_thread(operation, self._here, fields, data)
        except FileTrouble as trouble:
            raise DriverError(f"runtime/{trouble.code}", trouble.message, final=True) from trouble
        except OSError as error:
            message = f"{error.filename or 'its cache'}: {error.strerror}"
            full = error.errno in {28, 122}
            code = "snapshot/disk-full" if full else "runtime/machine"
            raise DriverError(code, message, final=full) from error
        return {**head, "data": behind}


_OPERATIONS = {**hub_hand.OPERATIONS, **hub_removing.OPERATIONS, **hub_passing.OPERATIONS}


class _Own(Here):
    def __init__(self, home: str) -> None:
        self.home = home
        self.places = Places(f"{home}/runtime")


class Way:
    """How one machine gets content from another without us between them, for one copy.

    ``is_open`` is false where there is none, and as soon as there turned out to be none.
    """

    def __init__(self, certificate: str, key: str, word: str, addresses: Sequence[str]) -> None:
        self.certificate = certificate
        self.key = key
        self.word = word
        self.addresses = list(addresses)
        self.port = 0
        self.is_open = False


class Wanted(NamedTuple):
    """A commit, and how a machine has it: files are path, blob and size."""

    name: str
    commit: str
    whole: str
    files: Sequence[tuple[str, str, int]]
    refs: Sequence[str]
    tree_bytes: int
    lacks: str = ""
    lacking: int = 0

    @property
    def blobs(self) -> dict[str, int]:
        """Its contents, each once."""
        return {blob: size for _, blob, size in self.files}


async def look(source: Asks, name: str, commit: str) -> Wanted:
    """What a machine has of a commit. Raises DriverError where it has nothing."""
    files: list[tuple[str, str, int]] = []
    while True:
        told = await source.ask("hub_list", name=name, commit=commit, start=len(files),
                                timeout_s=LONG_S)  # fmt: skip
        files += [(str(path), str(blob), int(size)) for path, blob, size in told["files"]]
        if not told["files"] or len(files) >= told["count"]:
            return Wanted(
                name, commit, str(told["whole"]), files, told["refs"], int(told["tree_bytes"]),
                next(iter(told["lacks"]), ""), int(told["lacking"]),
            )  # fmt: skip


async def copy(
    source: Asks,
    target: Asks,
    wanted: Wanted,
    keep_free: int | None,
    moved: Callable[[int, int], None],
    way: Way | None = None,
) -> int:
    """Has the target take over all that it lacks; gives the bytes that were moved.

    ``moved`` hears how much of it is there, of how much. Large files go the ``way`` from machine to
    machine, if there is one. Raises DriverError; what has come by then is gone on from.
    """
    name = wanted.name
    blobs = wanted.blobs
    there = await _lacks(target, name, blobs)
    total, done = sum(blobs.values()), sum(there.values())
    moved(done, total)
    async with _writing(target, name, total - done, keep_free), _lent(source, name, way):
        there = await _lacks(target, name, blobs)
        done = begun = sum(there.values())
        for blob, size in blobs.items():
            if there[blob] < size or not size:
                before = done

                def tell(so_far: int, before: int = before) -> None:
                    moved(before + so_far, total)

                if not await _took(target, name, blob, there[blob], size, tell, way):
                    await _copy_one(source, target, name, blob, there[blob], size, tell)
                await target.ask("hub_keep", name=name, blob=blob, size=size, timeout_s=LONG_S)
                done += size - there[blob]
        await _name_files(target, wanted)
        await _seal(source, target, wanted)
    moved(total, total)
    return done - begun


async def _lacks(target: Asks, name: str, blobs: dict[str, int]) -> dict[str, int]:
    listed, found = list(blobs.items()), {}
    for start in range(0, len(listed), BLOBS_AT_ONCE):
        some = [list(one) for one in listed[start : start + BLOBS_AT_ONCE]]
        told = await target.ask("hub_lacks", name=name, blobs=some)
        found.update({str(blob): int(size) for blob, size in told["blobs"]})
    return found


@contextlib.asynccontextmanager
async def _writing(
    target: Asks, name: str, coming: int, keep_free: int | None
) -> AsyncIterator[None]:
    await target.ask("hub_begin", name=name, bytes=coming, keep_free=keep_free)
    try:
        yield
    finally:
        with contextlib.suppress(DriverError):  # with its connection the lock is free anyway
            await target.ask("hub_end", name=name)


@contextlib.asynccontextmanager
async def _lent(source: Asks, name: str, way: Way | None) -> AsyncIterator[None]:
    """Lets the source give what it has to who knows the word, meanwhile."""
    if way is not None:
        with contextlib.suppress(DriverError):  # then it goes through here
            told = await source.ask(
                "hub_lend", name=name, certificate=way.certificate, key=way.key, word=way.word
            )
            way.port, way.is_open = int(told["port"]), True
            way.addresses += [one for one in told["addresses"] if one not in way.addresses]
    try:
        yield
    finally:
        if way is not None and way.port:
            with contextlib.suppress(DriverError):  # with its connection it is over anyway
                await source.ask("hub_unlend", word=way.word)


async def _took(
    target: Asks,
    name: str,
    blob: str,
    offset: int,
    size: int,
    moved: Callable[[int], None],
    way: Way | None,
) -> bool:
    """Whether the target got the rest of a large file by itself."""
    if way is None or not way.is_open or size - offset < LARGE_BYTES:
        return False
    taking = asyncio.ensure_future(
        target.ask(
            "hub_take", name=name, blob=blob, offset=offset, size=size, port=way.port,
            addresses=way.addresses, certificate=way.certificate, word=way.word, timeout_s=DAY_S,
        )
    )  # fmt: skip
    try:
        while not (await asyncio.wait([taking], timeout=LOOK_EVERY_S))[0]:
            there = await _lacks(target, name, {blob: size})
            moved(max(0, there[blob] - offset))
        await taking
    except DriverError as error:
        if error.code not in NO_WAY:
            raise
        way.is_open = False
        return False
    finally:
        await _drop([taking])
    moved(size - offset)
    return True


async def _copy_one(
    source: Asks,
    target: Asks,
    name: str,
    blob: str,
    offset: int,
    size: int,
    moved: Callable[[int], None],
) -> None:
    """Reads ahead while it writes; pieces are written in their order."""
    began = asked = offset
    reading: list[tuple[int, asyncio.Task[dict[str, Any]]]] = []
    writing: list[asyncio.Task[dict[str, Any]]] = []
    try:
        while offset < size:
            while asked < size and len(reading) < UNDER_WAY:
                asking = source.ask("hub_read", name=name, blob=blob, offset=asked, limit=PIECE)
                reading.append((asked, asyncio.ensure_future(asking)))
                asked += PIECE
            at, first = reading.pop(0)
            told = await first
            zeros, data = int(told.get("zeros") or 0), told["data"]
            if told["size"] != size or (not zeros and len(data) != min(PIECE, size - at)):
                message = f"content {blob[:12]} of {name} was changed while it was copied"
                raise DriverError("data/changed", message, final=False)
            more = {"zeros": zeros} if zeros else {}
            put = target.ask("hub_write", data, name=name, blob=blob, offset=offset, **more)
            writing.append(asyncio.ensure_future(put))
            offset += zeros or len(data)
            if (reading[0][0] if reading else asked) != offset:  # a hole went beyond what was asked
                await _drop([task for _, task in reading])
                reading, asked = [], offset
            while len(writing) >= UNDER_WAY:
                await writing.pop(0)
            moved(offset - began)
        while writing:
            await writing.pop(0)
    finally:
        await _drop([task for _, task in reading] + writing)


async def _drop(tasks: Sequence[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def _name_files(target: Asks, wanted: Wanted) -> None:
    for start in range(0, len(wanted.files), BLOBS_AT_ONCE):
        some = [list(one) for one in wanted.files[start : start + BLOBS_AT_ONCE]]
        await target.ask("hub_link", name=wanted.name, commit=wanted.commit, files=some,
                         timeout_s=LONG_S)  # fmt: skip


async def _seal(source: Asks, target: Asks, wanted: Wanted) -> None:
    """The list of its files comes last: with it the target tells that it has all of them."""
    fields: dict[str, Any] = {"name": wanted.name, "commit": wanted.commit}
    offset, size = 0, wanted.tree_bytes
    while offset < size:
        told = await source.ask("hub_read", name=wanted.name, tree=wanted.commit, offset=offset,
                                limit=PIECE)  # fmt: skip
        if not told["data"]:
            raise DriverError("data/changed", "the list of its files has changed", final=False)
        await target.ask("hub_seal", told["data"], offset=offset, size=size, **fields)
        offset += len(told["data"])
    await target.ask("hub_seal", refs=list(wanted.refs), **fields)
