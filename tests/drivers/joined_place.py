"""A machine that dials in, as a place to try the driver of such machines on."""

import os
import socket
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

from stellwerk.drivers.base import Driver, StartOrder
from stellwerk.drivers.ssh.hosts import Host
from stellwerk.drivers.ssh.joined import JoinedDriver
from stellwerk.runtime.bundle import build
from stellwerk.server.join_tokens import JoinTokens
from stellwerk.server.joining import Address, Doorman
from stellwerk.testing.builders import an_order
from stellwerk.testing.driver_session import Program
from tests.drivers.far_place import FarPlace, now_ms, this_build
from tests.drivers.machine import order_of

CLUSTER, NODE = "room", "pc1"


class Listening(JoinedDriver):
    """Such a driver with the door at which its machine dials in."""

    tokens: JoinTokens
    listen: Address
    doorman: Doorman | None = None

    def joined(self, cluster: str) -> JoinedDriver | None:
        """The one there is."""
        return self if cluster == self.cluster else None

    async def keep_member(self, cluster: str, node: str) -> None:
        """It is known already."""

    async def open(self, accept: Collection[str] = (), *, patience_s: float = 2.0) -> None:
        if self.doorman is None:
            self.doorman = Doorman(self, self.tokens, now_ms)
            await self.doorman.listen(self.listen)
        self._has_told = True
        await super().open(accept, patience_s=patience_s)

    async def close(self) -> None:
        await super().close()
        if self.doorman is not None:
            self.doorman.close()


class JoinedPlace(FarPlace):
    """One machine that dials a port of this one."""

    def __init__(self, folder: Path, cert: str = "", key: str = "") -> None:
        super().__init__(folder, [])
        self.folder = folder
        self.home = folder / self.key
        self.tokens = JoinTokens(folder)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.listen = Address(f"127.0.0.1:{self.port}", cert, key)
        self.url = f"{'https' if cert else 'http'}://localhost:{self.port}"
        self.newest: Listening | None = None
        self.joiner: subprocess.Popen[bytes] | None = None

    def driver(self) -> Driver:
        driver = Listening(
            cluster=CLUSTER,
            hosts=[Host(NODE, node=NODE)],
            build=this_build(),
            key=self.key,
            blobs=self.blobs,
            now_ms=now_ms,
        )
        driver.tokens, driver.listen = self.tokens, self.listen
        if self.newest is not None and self.newest.doorman is not None:
            self.newest.doorman.close()
        self.newest = driver
        return driver

    def join(self, token: str, *options: str) -> subprocess.Popen[bytes]:
        """Starts what dials in."""
        runtime = str(build(self.folder / "runtime"))
        argv = [sys.executable, "-I", "-S", runtime, "join", self.url, "--name", NODE]
        with open(self.folder / "join.log", "ab") as log:
            self.joiner = subprocess.Popen(
                [*argv, "--folder", str(self.home), *options],
                env={**os.environ, "STELLWERK_JOIN_TOKEN": token},
                stdin=subprocess.DEVNULL,
                stderr=log,
            )
        return self.joiner

    def order(self, run: str, program: Program, *, generation: int, epoch: int) -> StartOrder:
        return order_of(run, program, generation=generation, epoch=epoch)

    def refused_order(self, run: str) -> StartOrder:
        return an_order(run, snapshot="missing")

    def clear(self) -> None:
        """Ends what dials in, and all that it has started."""
        if self.joiner is not None:
            self.joiner.kill()
            self.joiner.wait()
        super().clear()
