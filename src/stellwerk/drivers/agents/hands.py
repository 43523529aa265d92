"""The hand of a machine, over whatever carries bytes: requests, content, and the agent's lines.

A hand is used until its connection breaks and never repaired. See `stellwerk.runtime.hand`.
"""

import asyncio
import contextlib
import errno
import itertools
from typing import Any, Protocol

from stellwerk.drivers.agents.link import AgentGone, AgentLink, AgentRefused, JSONObject
from stellwerk.drivers.base import DriverError
from stellwerk.runtime import frames, messages

ANSWER_S = 60.0
SOON_S = 3.0
"""For what is only told along with something else, which mustn't wait for who is silent."""
READ_BYTES = 256 * 1024
FINAL = frozenset({"bad_request", "outside", "not_found", "gone", "content_damaged"})


async def hello_of(link: AgentLink, whose: str) -> JSONObject:
    """What an agent says of itself first; hangs up and raises DriverError where it says nothing."""
    try:
        return await link.call("hello")
    except (AgentGone, AgentRefused) as error:
        link.hang_up()
        message = f"the agent {whose} is no use: {error}"
        raise DriverError("driver/agent-silent", message, final=False) from error


class Streams(Protocol):
    """Bytes from and to a hand; all of it raises OSError when nobody is there any more."""

    async def read(self, n: int, /) -> bytes:
        """At most so many bytes; b"" at the end."""
        ...

    def write(self, data: bytes, /) -> None:
        """Takes bytes to send."""
        ...

    async def drain(self) -> None:
        """Waits while too much is under way."""
        ...

    async def hang_up(self) -> None:
        """Ends it at once."""
        ...


class Hand:
    """The hand at the end of a connection; ``closed`` is set when that is over.

    ``place`` is what a person calls where it is, and ``home`` the folder of everything there.
    """

    def __init__(self, place: str, streams: Streams, home: str) -> None:
        self.place = place
        self.home = home
        self.closed = asyncio.Event()
        self._streams = streams
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[JSONObject, bytes]]] = {}
        self._link: AgentLink | None = None
        self._tasks = [
            asyncio.create_task(self._listen(), name=f"hand on {place}"),
            asyncio.create_task(self._ping(), name=f"ping to {place}"),
        ]

    async def ask(
        self, op: str, data: bytes = b"", timeout_s: float = ANSWER_S, **fields: Any
    ) -> tuple[JSONObject, bytes]:
        """Asks for something. Raises DriverError, final where it will never be otherwise."""
        number = next(self._ids)
        answer: asyncio.Future[tuple[JSONObject, bytes]] = (
            asyncio.get_running_loop().create_future()
        )
        self._waiting[number] = answer
        try:
            await self._say(
                messages.message(messages.ASK, {"id": number, "op": op, **fields}, data)
            )
            async with asyncio.timeout(timeout_s):
                head, more = await answer
        except TimeoutError as error:
            raise self.lost(f"it hasn't answered `{op}` within {timeout_s:g} s") from error
        finally:
            self._waiting.pop(number, None)
        if told := head.get("error"):
            raise refusal_of(self.place, dict(told))
        return head, more

    def join(self, link: AgentLink) -> None:
        """Lets a link speak with the agent, after `agent` was asked for."""
        self._link = link
        link.opened(_Wire(self, link))

    async def _say(self, frame: bytes) -> None:
        if self.closed.is_set():
            raise self.lost("it is closed")
        try:
            self._streams.write(frame)
            await self._streams.drain()
        except OSError as error:
            raise self.lost(str(error)) from error

    def write_now(self, frame: bytes) -> None:
        """Sends a frame without waiting."""
        if not self.closed.is_set():
            with contextlib.suppress(OSError):  # who listens finds out
                self._streams.write(frame)

    def lost(self, why: str) -> DriverError:
        """Says that the connection is over."""
        message = f"the connection to {self.place} broke: {why}"
        return DriverError("driver/connection-lost", message, final=False)

    async def _listen(self) -> None:
        reader = frames.FrameReader()
        try:
            while block := await self._streams.read(READ_BYTES):
                for kind, content in reader.frames(block):
                    self._hear(kind, content)
        except (OSError, ValueError):
            pass  # it is over all the same
        finally:
            self._end()

    def _hear(self, kind: bytes, content: bytes) -> None:
        if kind == messages.AGENT and self._link is not None:
            self._link.feed(content)
        elif kind == messages.HANG_UP:
            self.let_go(self._link)
        elif kind == messages.ANSWER:
            head, data = messages.read_message(content)
            answer = self._waiting.get(int(head.get("id", 0)))
            if answer is not None and not answer.done():
                answer.set_result((head, data))

    def let_go(self, link: AgentLink | None) -> None:
        """Ends a link to the agent, if it is the one that is joined."""
        if link is not None and self._link is link:
            self._link = None
            link.broke()

    async def _ping(self) -> None:
        while True:
            await asyncio.sleep(messages.PING_EVERY_S)
            self.write_now(frames.frame(messages.PING))

    def _end(self) -> None:
        if self.closed.is_set():
            return
        self.closed.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(self.lost("it was cut"))
        self.let_go(self._link)

    async def close(self) -> None:
        """Hangs up; what runs there goes on."""
        self._end()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._streams.hang_up()


class _Wire:
    """Carries an agent's lines inside of the hand's frames."""

    def __init__(self, hand: Hand, link: AgentLink) -> None:
        self._hand = hand
        self._link = link

    def write(self, data: bytes) -> None:
        """Sends bytes to the agent."""
        for start in range(0, len(data), messages.PIECE):
            piece = data[start : start + messages.PIECE]
            self._hand.write_now(frames.frame(messages.AGENT, piece))

    def abort(self) -> None:
        """Hangs up on the agent, not on its machine."""
        self._hand.write_now(frames.frame(messages.HANG_UP))
        asyncio.get_running_loop().call_soon(self._hand.let_go, self._link)


def refusal_of(place: str, told: dict[str, Any]) -> DriverError:
    """What a hand refuses, as an error of a driver."""
    code, message = str(told.get("code")), str(told.get("message"))
    if told.get("errno") in {errno.ENOSPC, errno.EDQUOT}:
        full = f"the disk of {place} is full, or a quota is used up: {message}"
        return DriverError("snapshot/disk-full", full, final=True)
    if code == "content_missing":
        return DriverError("snapshot/missing", f"on {place}: {message}", final=True)
    return DriverError(f"runtime/{code}", f"on {place}: {message}", final=code in FINAL)
