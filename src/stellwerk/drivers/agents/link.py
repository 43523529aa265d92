"""One connection to a runtime's agent: requests with ids, answers in any order, and what it pushes.

A connection is used until it breaks and never repaired: who holds it makes a new one, since after a
break the whole list has to be asked for again anyway. Lines may have any length.
"""

import asyncio
import itertools
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

JSONObject = dict[str, Any]
OnPush = Callable[[JSONObject], None]
ANSWER_MS = 10_000
CONNECT_MS = 2_000
LONGEST_LINE = 64 * 2**20
"""An agent of somebody's could else fill the memory of the server that everybody uses."""


class AgentRefused(Exception):
    """The agent has answered that it will not: what was asked for did not happen."""

    def __init__(self, code: str, message: str, detail: JSONObject) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.detail = detail


class AgentGone(Exception):
    """There was no answer: what was asked for may have happened or not."""


class Wire(Protocol):
    """What carries bytes to an agent."""

    def write(self, data: bytes) -> None:
        """Sends bytes, now or as soon as it can."""
        ...

    def abort(self) -> None:
        """Ends it at once; `AgentLink.broke` follows."""
        ...


class AgentLink:
    """A connection; make one with `connect`, or give it a wire of another kind with `opened`.

    ``on_push`` is given what the agent says unasked, and ``on_break`` is called once at the end.
    """

    def __init__(self, on_push: OnPush, on_break: Callable[[], None]) -> None:
        self.closed = asyncio.Event()
        self._on_push = on_push
        self._on_break = on_break
        self._transport: Wire | None = None
        self._parts: list[bytes] = []
        self._held = 0
        self._waiting: dict[int, asyncio.Future[JSONObject]] = {}
        self._ids = itertools.count(1)

    @classmethod
    async def connect(
        cls, path: str, on_push: OnPush, on_break: Callable[[], None] = lambda: None
    ) -> "AgentLink":
        """Connects to the socket at a path; raises AgentGone if nobody listens there."""
        link = cls(on_push, on_break)
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(CONNECT_MS / 1000):
                await loop.create_unix_connection(lambda: _Lines(link), path)
        except (OSError, TimeoutError) as error:
            raise AgentGone(f"nobody answers at {path}: {error}") from error
        return link

    async def call(self, op: str, timeout_ms: int = ANSWER_MS, **fields: Any) -> JSONObject:
        """Asks for something and waits for the answer; raises AgentRefused or AgentGone."""
        if self._transport is None or self.closed.is_set():
            raise AgentGone("the connection to the agent is closed")
        number = next(self._ids)
        answer: asyncio.Future[JSONObject] = asyncio.get_running_loop().create_future()
        self._waiting[number] = answer
        self._transport.write(msgspec.json.encode({"id": number, "op": op, **fields}) + b"\n")
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await answer
        except TimeoutError as error:
            raise AgentGone(f"no answer to `{op}` within {timeout_ms} ms") from error
        finally:
            self._waiting.pop(number, None)

    def hang_up(self) -> None:
        """Ends the connection; `closed` is set as soon as it is over."""
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Ends the connection and waits until it is over."""
        self.hang_up()
        await self.closed.wait()

    def opened(self, transport: Wire) -> None:
        """The connection stands."""
        self._transport = transport

    def broke(self) -> None:
        """The connection is over: whoever waits gets no answer any more."""
        self.closed.set()
        for answer in self._waiting.values():
            if not answer.done():
                answer.set_exception(AgentGone("the agent hung up before it answered"))
        self._on_break()

    def feed(self, data: bytes) -> None:
        """Bytes came: whole lines are heard, the rest waits for more."""
        first, *others = data.split(b"\n")
        self._parts.append(first)
        self._held += len(first)
        for part in others:
            line = b"".join(self._parts)
            self._parts, self._held = [part], len(part)
            if line:
                self.line(line)
        if self._held > LONGEST_LINE:
            self._parts, self._held = [], 0
            self.hang_up()

    def line(self, line: bytes) -> None:
        """A line came: an answer, or something that was asked to be told."""
        try:
            said = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError:
            self.hang_up()
            return
        number = said.get("id")
        if number is None:
            self._on_push(said)
            return
        answer = self._waiting.get(number)
        if answer is None or answer.done():
            return
        error = said.get("error")
        if error is None:
            answer.set_result(said)
        else:
            refusal = AgentRefused(str(error.get("code")), str(error.get("message")), dict(error))
            answer.set_exception(refusal)


class _Lines(asyncio.Protocol):
    """Passes on what comes."""

    def __init__(self, link: AgentLink) -> None:
        self._link = link

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._link.opened(transport)

    def data_received(self, data: bytes) -> None:
        self._link.feed(data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._link.broke()
