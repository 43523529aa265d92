"""How a session with a command inside a run is opened, and what becomes of one that can't be."""

import asyncio
import json
import os
import tempfile
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.agents.sessions import AgentSession
from stellwerk.drivers.base import DriverError, ExecOrder
from stellwerk.drivers.local.exec_session import open_session

ORDER = ExecOrder(RunId("w-1-1"), 2)
Agent = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def opened(answer: Agent, then: Callable[[AgentSession], Awaitable[None]]) -> None:
    """Opens a session with an agent that does as a test says."""
    with tempfile.TemporaryDirectory(prefix="stw-") as folder:
        path = os.path.join(folder, "agent")
        server = await asyncio.start_unix_server(answer, path)
        try:
            session = await open_session(path, ORDER)
            await then(session)
            await session.close()
        finally:
            server.close()


def saying(text: bytes) -> Agent:
    """An agent that answers the first line with a text, and hangs up."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readline()
        writer.write(text)
        await writer.drain()
        writer.close()

    return answer


async def nothing_more(session: AgentSession) -> None:
    assert await session.receive() == b""


def refusal_of(text: bytes) -> DriverError:
    with pytest.raises(DriverError) as refused:
        asyncio.run(opened(saying(text), nothing_more))
    return refused.value


def test_what_comes_after_the_answer_is_the_keepers() -> None:
    """Also where both come in one piece; what is sent arrives behind the request."""
    heard: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append(await reader.readline())
        writer.write(b'{"id":1,"ok":true}\nframes')
        heard.append(await reader.readexactly(5))
        writer.close()

    async def then(session: AgentSession) -> None:
        await session.send(b"hello")
        assert await session.receive() == b"frames"
        assert await session.receive() == b""

    asyncio.run(opened(answer, then))
    assert json.loads(heard[0]) == {"id": 1, "op": "exec", "run": "w-1-1", "rank": 2}
    assert heard[1] == b"hello"


@pytest.mark.parametrize(
    ("said", "code", "final"),
    [
        ({"code": "ended", "message": "over"}, "runtime/ended", True),
        ({"code": "unreachable", "message": "late"}, "runtime/unreachable", False),
        ({"code": "unknown_op", "message": "`exec` is no operation"}, "runtime/too_old", True),
    ],
)
def test_a_refusal_keeps_its_code(said: dict[str, str], code: str, final: bool) -> None:
    """An agent that doesn't know the operation is an older one."""
    error = refusal_of(json.dumps({"id": 1, "error": said}).encode() + b"\n")
    assert (error.code, error.final) == (code, final)


@pytest.mark.parametrize("text", [b"", b"no json\n", b'{"id":1,', b"x" * 600_000])
def test_an_agent_that_makes_no_sense_is_silent(text: bytes) -> None:
    """The command may be tried again; nobody waits for ever."""
    error = refusal_of(text)
    assert (error.code, error.final) == ("driver/agent-silent", False)


def test_no_agent_is_an_error_in_words(tmp_path: Path) -> None:
    """With the place where one was looked for."""
    with pytest.raises(DriverError, match="nobody answers at") as refused:
        asyncio.run(open_session(str(tmp_path / "none"), ORDER))
    assert not refused.value.final


async def talk_on(session: AgentSession) -> None:
    for _ in range(100):
        await session.send(b"x" * 65536)
        await asyncio.sleep(0)


def test_a_keeper_that_has_gone_takes_nothing() -> None:
    """Whoever sends on is told that it is over, and hears the end."""

    async def then(session: AgentSession) -> None:
        assert await session.receive() == b""
        with pytest.raises(DriverError) as over:
            await talk_on(session)
        assert over.value.code == "driver/exec-over"

    asyncio.run(opened(saying(b'{"id":1,"ok":true}\n'), then))
