"""The link to an agent keeps answers apart, tells pushes, and never leaves anybody waiting."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from stellwerk.drivers.agents import link as link_module
from stellwerk.drivers.agents.link import AgentGone, AgentLink, AgentRefused

Say = Callable[[bytes], None]
Serve = Callable[[dict[str, Any], Say], None]


async def with_agent(path: Path, serve: Serve, scene: Callable[[AgentLink, list[Any]], Any]) -> Any:
    """Runs a scene on a link to a made-up agent that answers each request by ``serve``."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            serve(json.loads(line), writer.write)
        writer.close()
        over.set()

    over = asyncio.Event()
    pushed: list[Any] = []
    server = await asyncio.start_unix_server(talk, str(path), limit=1 << 24)
    link = await AgentLink.connect(str(path), pushed.append)
    try:
        return await scene(link, pushed)
    finally:
        await link.close()
        await over.wait()
        await asyncio.sleep(0)
        server.close()


def run(path: Path, serve: Serve, scene: Callable[[AgentLink, list[Any]], Awaitable[Any]]) -> Any:
    return asyncio.run(with_agent(path / "socket", serve, scene))


def test_answers_find_their_questions(tmp_path: Path) -> None:
    """Answers in the reverse order, in pieces, between pushes: each gets to who asked."""
    held: list[dict[str, Any]] = []

    def serve(request: dict[str, Any], say: Say) -> None:
        held.append(request)
        if len(held) == 3:
            say(b'{"id":null,"event":"first"}\n')
            for each in reversed(held):
                line = json.dumps({"id": each["id"], "echo": each["word"]}).encode() + b"\n"
                say(line[:7])
                say(line[7:])

    async def scene(link: AgentLink, pushed: list[Any]) -> None:
        answers = await asyncio.gather(*(link.call("say", word=word) for word in "abc"))
        assert [answer["echo"] for answer in answers] == ["a", "b", "c"]
        assert pushed == [{"id": None, "event": "first"}]

    run(tmp_path, serve, scene)


def test_a_refusal_has_its_code(tmp_path: Path) -> None:
    """An error of the agent is raised with code, message and all that came with it."""

    def serve(request: dict[str, Any], say: Say) -> None:
        error = {"code": "fenced", "message": "too old", "epoch": 7}
        say(json.dumps({"id": request["id"], "error": error}).encode() + b"\n")

    async def scene(link: AgentLink, pushed: list[Any]) -> None:
        with pytest.raises(AgentRefused, match="too old") as caught:
            await link.call("start")
        assert (caught.value.code, caught.value.detail["epoch"]) == ("fenced", 7)

    run(tmp_path, serve, scene)


def test_a_line_of_megabytes_arrives_whole(tmp_path: Path) -> None:
    """Ten thousand runs make a long line; it is put together from its pieces."""
    many = [{"run": f"w-{number}-1", "state": "running"} for number in range(50_000)]

    def serve(request: dict[str, Any], say: Say) -> None:
        say(json.dumps({"id": request["id"], "runs": many}).encode() + b"\n")

    async def scene(link: AgentLink, pushed: list[Any]) -> None:
        assert (await link.call("list"))["runs"] == many

    run(tmp_path, serve, scene)


def test_a_line_without_end_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody's agent fills the memory of who listens; lines that end don't add up."""
    monkeypatch.setattr(link_module, "LONGEST_LINE", 10)
    hung_up: list[str] = []

    class Ends:
        def write(self, data: bytes) -> None:
            del data

        def abort(self) -> None:
            hung_up.append("abort")

    heard: list[Any] = []
    link = AgentLink(heard.append, lambda: None)
    link.opened(Ends())
    for _ in range(9):
        link.feed(b'{"a":1}\n')
    assert (len(heard), hung_up) == (9, [])
    link.feed(b"x" * 6)
    link.feed(b"x" * 6)
    assert hung_up == ["abort"]


def test_whoever_waits_learns_of_a_break(tmp_path: Path) -> None:
    """All open questions fail when the agent goes, and later ones at once."""

    def serve(request: dict[str, Any], say: Say) -> None:
        if request["op"] == "die":
            say(b"this is no JSON\n")

    async def scene(link: AgentLink, pushed: list[Any]) -> None:
        questions = [link.call("wait"), link.call("wait"), link.call("die")]
        answers = await asyncio.gather(*questions, return_exceptions=True)
        assert [type(answer) for answer in answers] == [AgentGone] * 3
        assert link.closed.is_set()
        with pytest.raises(AgentGone):
            await link.call("wait")

    run(tmp_path, serve, scene)


def test_no_answer_is_told_in_time(tmp_path: Path) -> None:
    """A silent agent leaves the outcome open; its late answer then does no harm."""
    late: list[Callable[[], None]] = []

    def serve(request: dict[str, Any], say: Say) -> None:
        line = json.dumps({"id": request["id"]}).encode() + b"\n"
        if request["op"] == "slow":
            late.append(lambda: say(line))
        else:
            for each in late:
                each()
            say(line)

    async def scene(link: AgentLink, pushed: list[Any]) -> None:
        with pytest.raises(AgentGone, match="`slow` within 20 ms"):
            await link.call("slow", timeout_ms=20)
        assert (await link.call("quick"))["id"] == 2
        assert pushed == []

    run(tmp_path, serve, scene)


def test_nobody_there_is_told(tmp_path: Path) -> None:
    """A missing socket and one that nobody serves any more are the same: nobody is there."""

    async def scene() -> None:
        with pytest.raises(AgentGone):
            await AgentLink.connect(str(tmp_path / "missing"), lambda _: None)
        (tmp_path / "file").write_text("")
        with pytest.raises(AgentGone):
            await AgentLink.connect(str(tmp_path / "file"), lambda _: None)

    asyncio.run(scene())
