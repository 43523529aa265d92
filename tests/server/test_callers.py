"""Connections of people's runtimes: bytes both ways, their end, and being called again."""

import asyncio
from typing import Any

import pytest

from stellwerk.drivers.base import DriverError, ExecOrder
from stellwerk.runtime import frames
from stellwerk.server import callers
from stellwerk.server.callers import CALL_AGAIN, Callers, Line


class Request:
    """Both sides of a request, as the framework gives them."""

    def __init__(self, *bodies: bytes) -> None:
        self.to_come = [*bodies]
        self.sent = b""
        self.ended = False
        self.more = asyncio.Event()
        self.got_last = asyncio.Event()

    async def receive(self) -> Any:
        if self.to_come:
            return {"type": "http.request", "body": self.to_come.pop(0), "more_body": True}
        await self.more.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent += message.get("body", b"")
        if self.sent.endswith(b"y"):
            self.got_last.set()
        self.ended = message["type"] == "http.response.body" and not message["more_body"]


def test_bytes_go_both_ways_until_somebody_hangs_up() -> None:
    """Lines and pieces come as they are sent, cut anywhere; afterwards nothing is taken."""

    async def scene() -> None:
        request, line = Request(b"\n", b'{"a', b'":1}\nre', b"st"), Line(skip=1)
        carrying = asyncio.create_task(line.carry(request.receive, request.send, asyncio.Event()))
        assert await line.readline() == b'{"a":1}\n'
        assert [await line.read(1), await line.read(9), await line.read(9)] == [b"r", b"e", b"st"]
        line.write(b"x" * callers.MOST_UNDER_WAY * 2)
        await line.drain()
        line.write(b"y")
        await line.drain()
        await request.got_last.wait()
        request.more.set()
        await carrying
        assert (await line.read(9), await line.readline(), request.ended) == (b"", b"", True)
        with pytest.raises(ConnectionResetError):
            line.write(b"z")
        with pytest.raises(ConnectionResetError):
            await line.drain()

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_only_who_was_asked_may_call_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The word goes down the line; another user who has it is nobody; silence is told."""

    async def scene() -> None:
        waiting, line = Callers(), Line()
        session = asyncio.create_task(waiting.call_back(7001, line))
        await asyncio.sleep(0)
        [(kind, word)] = frames.FrameReader().frames(bytes(line._to_send))
        assert kind == CALL_AGAIN
        assert waiting.claim(word.decode(), 7002) is None
        called = waiting.claim(word.decode(), 7001)
        assert called is not None
        second = Line()
        called.set_result(second)
        found = await session
        assert waiting.claim(word.decode(), 7001) is None
        beginning = asyncio.create_task(found.begin(ExecOrder("w-1-1")))  # type: ignore[arg-type]
        second._came.put_nowait(b'{"id": 1, "ok": true}\n')
        await beginning
        assert b'"op":"exec"' in bytes(second._to_send)
        await found.close()
        assert second.over.is_set()
        monkeypatch.setattr(callers, "CALL_AGAIN_S", 0.01)
        with pytest.raises(DriverError) as caught:
            await waiting.call_back(7001, line)
        assert not caught.value.final

    asyncio.run(asyncio.wait_for(scene(), 10))


def test_a_line_without_end_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever calls can't fill the server's memory with what should be one answer."""
    monkeypatch.setattr(callers, "LONGEST_LINE", 10)

    async def scene() -> None:
        request, line = Request(*[b"xxxx"] * 9), Line()
        carrying = asyncio.create_task(line.carry(request.receive, request.send, asyncio.Event()))
        with pytest.raises(ValueError, match="no end"):
            await line.readline()
        request.more.set()
        await carrying

    asyncio.run(asyncio.wait_for(scene(), 10))
