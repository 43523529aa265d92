"""Hosts as a place to try the SSH driver on."""

import asyncio
import contextlib
import hashlib
import itertools
import os
import signal
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path

from stellwerk.drivers.base import Driver, StartOrder
from stellwerk.drivers.ssh.dial import Dialer
from stellwerk.drivers.ssh.driver import SshDriver
from stellwerk.drivers.ssh.hand import Build
from stellwerk.drivers.ssh.hosts import Host
from stellwerk.runtime.bundle import packed
from stellwerk.testing.builders import an_order
from stellwerk.testing.driver_session import Program, Session
from tests.drivers.machine import Blobs, order_of
from tests.processes import wait_gone

_NUMBERS = itertools.count(1)
STEP_S = 0.01


@cache
def this_build() -> Build:
    """The runtime as it is now."""
    content = packed()
    return Build(content, hashlib.sha256(content).hexdigest())


def now_ms() -> int:
    """The time."""
    return time.time_ns() // 1_000_000


class FarPlace:
    """What one Stellwerk has on some hosts; each place is a Stellwerk of its own."""

    def __init__(self, folder: Path, hosts: Sequence[Host]) -> None:
        self.key = f"k{os.getpid()}-{next(_NUMBERS)}"
        self.hosts = list(hosts)
        self.blobs = Blobs(folder / "blobs")
        self.own_known_hosts = folder / "known_hosts"

    def driver(self) -> Driver:
        return self.ssh_driver()

    def ssh_driver(self) -> SshDriver:
        """A new driver to the hosts."""
        return SshDriver(
            cluster="room",
            hosts=self.hosts,
            dialer=Dialer(self.own_known_hosts),
            build=this_build(),
            key=self.key,
            blobs=self.blobs,
            now_ms=now_ms,
        )

    def vanish(self, driver: Driver) -> None:
        assert isinstance(driver, SshDriver)
        for machine in driver.machines.values():
            assert machine.hand is not None
            machine.hand.connection.abort()

    def order(self, run: str, program: Program, *, generation: int, epoch: int) -> StartOrder:
        return order_of(run, program, generation=generation, epoch=epoch)

    def refused_order(self, run: str) -> StartOrder:
        return an_order(run, snapshot="missing")

    async def pass_time(self) -> None:
        await asyncio.sleep(STEP_S)

    def clear(self) -> None:
        """Ends everything of this Stellwerk, wherever it runs."""
        while left := self.processes():
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            for pid in left:
                wait_gone(pid)

    def processes(self) -> list[int]:
        """Hands, agents and wrappers of this Stellwerk."""
        mark = f"/{self.key}".encode()
        found = []
        for name in filter(str.isdigit, os.listdir("/proc")):
            try:
                line = Path(f"/proc/{name}/cmdline").read_bytes()
            except OSError:
                continue
            if mark + b"/" in line or mark + b"\0" in line:
                found.append(int(name))
        return found


def play(place: FarPlace, scene: Callable[[Session], Awaitable[None]]) -> None:
    """Runs a scene with an open driver."""

    async def whole() -> None:
        session = await Session(place).open()
        await scene(session)
        await session.close()

    asyncio.run(whole())
