"""What a driver must do that declares `exec`: run commands inside a run that aren't the run's own.

A driver that doesn't declare it must not look as if it could.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec

from stellwerk.core.model.ids import RunId
from stellwerk.drivers.base import Driver, ExecOrder, ExecSession, Executes
from stellwerk.runtime import frames
from stellwerk.testing.driver_session import LIMIT_MS, Place, Program, Session, refused

NOBODY = RunId("w-nobody-1")


class Talk:
    """What a command inside a run has said, and how it ended."""

    def __init__(self) -> None:
        self.output = b""
        self.errors = b""
        self.taken = 0
        self.end: dict[str, Any] = {}

    def hear(self, kind: bytes, content: bytes) -> None:
        """Takes one frame."""
        if kind == frames.OUTPUT:
            self.output += content
        elif kind == frames.ERRORS:
            self.errors += content
        elif kind == frames.TAKEN:
            self.taken += frames.read_taken(content)
        elif kind == frames.ENDED:
            self.end = msgspec.json.decode(content)


async def talk(
    driver: Driver, run: RunId, script: str = "", input: bytes = b"", *, argv: Sequence[str] = ()
) -> Talk:
    """Runs a script of `sh` (or a command) inside a run, to the end of the session."""
    return await hear(await begin(driver, run, list(argv) or ["sh", "-c", script], input))


async def begin(driver: Driver, run: RunId, argv: Sequence[str], input: bytes = b"") -> ExecSession:
    """Starts a command inside a run, with all of its input."""
    assert isinstance(driver, Executes)
    session = await driver.exec(ExecOrder(run))
    wish = {"argv": list(argv), "stdin": True}
    await session.send(frames.frame(frames.COMMAND, msgspec.json.encode(wish)))
    if input:
        await session.send(frames.frame(frames.INPUT, input))
    await session.send(frames.frame(frames.END_OF_INPUT))
    return session


async def hear(session: ExecSession) -> Talk:
    """Hears all that a command says, and hangs up."""
    heard, reader = Talk(), frames.FrameReader()
    async with asyncio.timeout(LIMIT_MS / 1000):
        while data := await session.receive():
            for kind, content in reader.frames(data):
                heard.hear(kind, content)
    await session.close()
    return heard


class ExecSuite:
    """The tests; part of `DriverSuite`."""

    def test_a_command_runs_inside_a_run(self, place: Place) -> None:
        """Its streams and its code come back; the run ends when it would have, and what still runs
        inside ends with it; then there is nothing to run a command in.
        """

        async def scene() -> None:
            session = await Session(place).open()
            assert session.driver.capabilities.exec is isinstance(session.driver, Executes)
            if session.driver.capabilities.exec:
                await _try_commands(session)
            await session.close()

        asyncio.run(scene())


async def _try_commands(session: Session) -> None:
    run = await session.start("w-1-1", Program(lasts_ms=60_000, prints="up\n"))
    await session.until_it_printed(run)
    await session.reaches(run, "Running")
    said = await talk(session.driver, run, "echo out; echo err >&2; cat; exit 7", b"in\n")
    assert (said.output, said.errors, said.end) == (b"out\nin\n", b"err\n", {"code": 7})
    missing = await talk(session.driver, run, argv=["no-such-program"])
    assert (missing.end["code"], missing.end["error"]["code"]) == (127, "not_found")
    stays = await begin(session.driver, run, ["sleep", "600"])
    await session.stop(run)
    assert (await session.ends(run)).how == "notice"
    assert (await hear(stays)).end.get("code", 125) == 125
    for late in (run, NOBODY):
        assert isinstance(session.driver, Executes)
        error = await refused(_opened(session.driver, late))
        assert error.code in {"runtime/ended", "runtime/unknown_run"}


async def _opened(driver: Executes, run: RunId) -> None:
    await driver.exec(ExecOrder(run))
