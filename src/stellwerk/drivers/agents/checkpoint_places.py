"""A machine on which jobs keep checkpoints: asked what it has, read from, and given a copy.

One at the end of a connection is asked through its hand; the server's own does the same itself.
"""

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from stellwerk.drivers.agents.bringing import Hand, bring
from stellwerk.drivers.agents.checkpoint_store import Content
from stellwerk.drivers.base import DriverError, Saved
from stellwerk.runtime import hand_carrying
from stellwerk.runtime.carrying import Piece, put_in_place, read_list
from stellwerk.runtime.files import Places
from stellwerk.runtime.hand_files import Answer, FileTrouble, Here
from stellwerk.runtime.messages import PIECE

LOOK_S = 120.0
TOO_OLD = "runtime/unknown_op"
"""What a runtime of before says: its checkpoints stay where they are."""
ALL_OF_IT_S = 3_600.0
"""To read or write all of a checkpoint there."""
UNDER_WAY = 4


class Look(NamedTuple):
    """What a machine has of a workload: the newest run that began there, and what is whole."""

    generation: int
    state: str
    found: tuple[Saved, ...]


class Held(NamedTuple):
    """What it holds to be copied."""

    look: Look
    pieces: list[Piece]


class Place:
    """Such a machine; who is one says how it is asked and whether it can be.

    ``is_home``: it keeps its checkpoints on the disk of the server, which needs no copy.
    """

    is_home = False

    @property
    def is_up(self) -> bool:
        """Whether it can be asked now."""
        raise DriverError("driver/closed", "nobody has said how it is asked", final=False)

    async def ask(
        self, op: str, timeout_s: float = LOOK_S, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Asks what a hand would be asked. Raises DriverError."""
        del op, timeout_s, fields
        raise DriverError("driver/closed", "nobody has said how it is asked", final=False)

    async def put(self, workload: str, pieces: Sequence[Piece], content: Content) -> None:
        """Makes a workload's directory there of what is at home. Raises DriverError."""
        del workload, pieces, content
        raise DriverError("driver/closed", "nobody has said how it is asked", final=False)

    async def look(self, op: str, workload: str, *, over: bool, timeout_s: float = LOOK_S) -> Look:
        """What is whole there now; ``over`` if no job writes it any more."""
        head, _ = await self.ask(op, timeout_s, workload=workload, over=over)
        return _look(head)

    async def hold(self, workload: str, *, over: bool) -> Held:
        """Has it hold that, and reads what all it is."""
        head, _ = await self.ask("hold", ALL_OF_IT_S, workload=workload, over=over)
        content = b""
        while len(content) < int(head["size"]):
            _, data = await self.ask(
                "held", workload=workload, path="", offset=len(content), limit=PIECE
            )
            if not data:
                raise DriverError("checkpoint/gone", "its list is shorter than told", final=False)
            content += data
        return Held(_look(head), read_list(content) if content else [])

    async def shares(self, folder: Path) -> bool:
        """Whether a folder of the server's is the same one there, so that no cable is needed."""
        word = secrets.token_hex(16)
        mark = folder / f".seen-{word}"
        answer = mark.with_name(f"{mark.name}.there")

        def write() -> None:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            mark.write_text(word, encoding="ascii")

        try:
            await asyncio.to_thread(write)
            head, _ = await self.ask("shares", folder=str(folder), word=word)
            return head.get("same") is True and await asyncio.to_thread(answer.exists)
        except DriverError as error:
            if error.code == TOO_OLD:
                return False
            raise
        finally:
            for path in (mark, answer):
                await asyncio.to_thread(path.unlink, True)

    async def lend(self, workload: str, folder: Path, pace_bytes_s: int = 0) -> None:
        """Has it put what it holds into a folder that it shares. Raises DriverError."""
        await self.ask(
            "lend", ALL_OF_IT_S, workload=workload, folder=str(folder), pace=pace_bytes_s
        )

    async def let_go(self, workload: str) -> None:
        """It need not be held any longer."""
        await self.ask("let_go", workload=workload)


def _look(head: dict[str, Any]) -> Look:
    found = tuple(Saved(*one) for one in head["found"])
    return Look(int(head["generation"]), str(head["state"]), found)


class FarPlace(Place):
    """A machine at the end of a connection, which ``reach`` makes anew if need be."""

    def __init__(
        self, reach: Callable[[], Coroutine[Any, Any, Hand]], up: Callable[[], bool]
    ) -> None:
        self._reach = reach
        self._up = up
        self._shared: tuple[Hand, Path, bool] | None = None

    @property
    def is_up(self) -> bool:
        return self._up()

    async def ask(
        self, op: str, timeout_s: float = LOOK_S, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        hand = await self._reach()
        return await hand.ask(op, timeout_s=timeout_s, **fields)

    async def shares(self, folder: Path) -> bool:
        hand = await self._reach()
        known = self._shared
        if known is None or known[0] is not hand or known[1] != folder:
            known = self._shared = (hand, folder, await super().shares(folder))
        return known[2]

    async def put(self, workload: str, pieces: Sequence[Piece], content: Content) -> None:
        hand = await self._reach()
        is_shared = await self.shares(content.root)
        where: dict[str, Any] = {"folder": str(content.root)} if is_shared else {}
        if not is_shared:
            await bring(hand, {piece.hash: piece.size for piece in pieces if piece.hash}, content)
        listed = msgspec.json.encode({"entries": [piece._asdict() for piece in pieces]})
        name = hashlib.sha256(listed).hexdigest()
        for offset in range(0, len(listed), PIECE):
            data = listed[offset : offset + PIECE]
            await hand.ask("put", data, name=name, offset=offset, size=len(listed))
        await hand.ask(
            "put_in_place", timeout_s=ALL_OF_IT_S, workload=workload, entries=name, **where
        )


class OwnPlace(Place):
    """The server's own machine, as the server's user."""

    is_home = True

    def __init__(self, home: Path) -> None:
        self._home = home
        self._here = _Own(str(home))

    @property
    def is_up(self) -> bool:
        return True

    async def ask(
        self, op: str, timeout_s: float = LOOK_S, **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        del timeout_s
        operation: Callable[[Here, dict[str, Any], bytes], Answer] = _OPERATIONS[op]
        answer: Answer = await _done(lambda: operation(self._here, fields, b""))
        return answer

    async def put(self, workload: str, pieces: Sequence[Piece], content: Content) -> None:
        directory = str(self._home / "checkpoints" / workload)
        aside = str(self._home / hand_carrying.FOLDER / workload)

        def do() -> None:
            put_in_place(directory, aside, pieces, lambda name: str(content.path(name)))

        await _done(do)


class _Own(Here):
    """Where things lie here, without a folder for content."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.places = Places(f"{home}/runtime")


_OPERATIONS = {
    "settled": hand_carrying.settled,
    "hold": hand_carrying.hold,
    "held": hand_carrying.held,
    "shares": hand_carrying.shares,
    "lend": hand_carrying.lend,
    "let_go": hand_carrying.let_go,
}


async def _done(work: Callable[[], Any]) -> Any:
    try:
        return await asyncio.to_thread(work)
    except FileTrouble as trouble:
        raise DriverError(f"runtime/{trouble.code}", trouble.message, final=False) from trouble
    except OSError as error:
        message = f"{error.filename or 'its checkpoints'}: {error.strerror}"
        raise DriverError("runtime/machine", message, final=False) from error


class Asks(Protocol):
    """As much of a place as it takes to read a file from it."""

    async def ask(
        self, op: str, timeout_s: float = ..., **fields: Any
    ) -> tuple[dict[str, Any], bytes]:
        """Asks what a hand would be asked. Raises DriverError."""
        ...


async def fetch(
    place: Asks, workload: str, piece: Piece, content: Content, pace_bytes_s: int = 0
) -> None:
    """Brings the content of one file home, from where it was left off. Raises DriverError."""
    offset = await asyncio.to_thread(content.begun, piece.hash)
    if offset > piece.size:
        offset = 0
    under_way: list[asyncio.Task[tuple[dict[str, Any], bytes]]] = []
    asked = offset
    try:
        while offset < piece.size:
            while asked < piece.size and len(under_way) < UNDER_WAY:
                asking = place.ask(
                    "held", workload=workload, path=piece.path, offset=asked, limit=PIECE
                )
                under_way.append(asyncio.ensure_future(asking))
                asked += PIECE
            _, data = await under_way.pop(0)
            if len(data) != min(PIECE, piece.size - offset):
                message = f"{piece.path} is shorter than {piece.size} bytes"
                raise DriverError("checkpoint/changed", message, final=False)
            await asyncio.to_thread(content.grow, piece.hash, offset, data)
            offset += len(data)
            if pace_bytes_s:
                await asyncio.sleep(len(data) / pace_bytes_s)
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)
    if not await asyncio.to_thread(content.finish, piece.hash, piece.size):
        message = f"{piece.path} was written while it was copied"
        raise DriverError("checkpoint/changed", message, final=False)
