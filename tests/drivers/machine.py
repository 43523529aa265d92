"""A home of Stellwerk on this machine for a test, with the agent in it; ended when the test is."""

import asyncio
import contextlib
import json
import os
import shlex
import shutil
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from msgspec.structs import replace

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.ids import RunId
from stellwerk.drivers.base import Driver, StartOrder
from stellwerk.drivers.local.driver import LocalDriver
from stellwerk.testing.builders import an_order
from stellwerk.testing.driver_session import Program, Session
from tests.processes import wait_gone

STEP_S = 0.01


class Blobs:
    """Content by name, in one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def path(self, name: str, /) -> Path:
        if "?" in name:
            raise StellwerkError.of("store/bad-hash", f"`{name}` is not the hash of a blob")
        return self.folder / name

    def put(self, name: str, data: bytes) -> None:
        (self.folder / name).write_bytes(data)

    def manifest(self, *entries: dict[str, object]) -> str:
        self.put("manifest", json.dumps({"v": 1, "files": entries}).encode())
        return "manifest"


class Machine:
    """This machine as a place of the conformance suite."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.sockets = Path(tempfile.mkdtemp(prefix="stw-sockets-"))
        self.blobs = Blobs(folder / "blobs")

    @property
    def root(self) -> Path:
        return self.home / "runtime"

    def driver(self) -> Driver:
        return LocalDriver(home=self.home, socket_dir=self.sockets, blobs=self.blobs)

    def vanish(self, driver: Driver) -> None:
        assert isinstance(driver, LocalDriver)
        assert driver._talk.link is not None
        driver._talk.link.hang_up()

    def order(self, run: str, program: Program, *, generation: int, epoch: int) -> StartOrder:
        return order_of(run, program, generation=generation, epoch=epoch)

    def refused_order(self, run: str) -> StartOrder:
        return an_order(run, snapshot="missing")

    async def pass_time(self) -> None:
        await asyncio.sleep(STEP_S)

    def agent_pid(self) -> int:
        return int(json.loads((self.root / "agent.json").read_text())["pid"])

    def clear(self) -> None:
        """Ends all runs, then the agent, and any that was on its way to become one."""
        try:
            if (self.root / "agent.json").exists():
                asyncio.run(self._end_runs())
            while left := self.processes():
                for pid in left:
                    end_process(pid)
        finally:
            shutil.rmtree(self.sockets)

    def processes(self) -> list[int]:
        """Agents of this home and what they have forked."""
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                line = Path(f"/proc/{name}/cmdline").read_bytes()
                if os.fsencode(self.root) in line.split(b"\0"):
                    found.append(int(name))
        return found

    async def _end_runs(self) -> None:
        driver = LocalDriver(home=self.home, socket_dir=self.sockets, blobs=self.blobs)
        await driver.open()
        for run in sorted(driver._talk.live):
            await driver.kill(RunId(run))
        for run in os.listdir(self.root / "runs"):
            for _ in range(500):
                if (self.root / "runs" / run / "ended.json").exists():
                    break
                await asyncio.sleep(STEP_S)
        await driver.close()


def order_of(run: str, program: Program, *, generation: int, epoch: int) -> StartOrder:
    """An order that has bash do what a program says."""
    order = an_order(run, generation=generation, epoch=epoch, script=script_of(program))
    if program.setup_code is None:
        return order
    setup = f"printf %s {shlex.quote(program.setup_prints)}\nexit {program.setup_code}\n"
    return replace(order, setup=setup)


def script_of(program: Program) -> str:
    """A bash text that does what a program says."""
    lines = {"leaves": "", "saves": "trap 'exit 85' TERM", "ignores": "trap '' TERM"}
    wait = "& wait $!" if program.on_notice == "saves" else ""
    return "\n".join([
        lines[program.on_notice],
        f'printf %s {shlex.quote(program.metrics)} >> "$STELLWERK_METRICS_FILE"',
        f"printf %s {shlex.quote(program.prints)}",
        f"sleep {program.lasts_ms / 1000} {wait}" if program.lasts_ms else "",
        f"exit {program.code}",
    ])  # fmt: skip


def end_process(pid: int) -> None:
    """Ends an agent, ours or one that is nobody's child any more."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    wait_gone(pid)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)


def play(machine: Machine, scene: Callable[[Session], Awaitable[None]]) -> None:
    """Runs a scene with an open driver."""

    async def whole() -> None:
        session = await Session(machine).open()
        await scene(session)
        await session.close()

    asyncio.run(whole())


async def start(session: Session, order: StartOrder) -> RunId:
    await session.driver.start(order)
    return order.run


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1000):
        if condition():
            return
        time.sleep(0.01)
    raise AssertionError("it never came to be")
