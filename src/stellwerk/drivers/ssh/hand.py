"""One connection to a machine and the hand at its end: requests, content, and the agent's lines.

A hand is used until its connection breaks and never repaired. Commands inside runs have channels of
their own on the same connection.
"""

import asyncio
import contextlib
import hashlib
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

import asyncssh
import msgspec

from stellwerk.drivers.agents.hands import Hand as AnyHand
from stellwerk.drivers.agents.link import JSONObject
from stellwerk.drivers.ssh.boot import Boot
from stellwerk.drivers.ssh.hosts import Host
from stellwerk.drivers.ssh.troubles import SshTrouble, of_boot, of_channel, of_connecting, of_shell
from stellwerk.runtime.bundle import packed

BOOT_S = 30.0
NOISE_BYTES = 1 << 20
ANSWER_S = 60.0
ERRORS_KEPT = 2_000
END_S = 2.0
Process = asyncssh.SSHClientProcess[bytes]


@runtime_checkable
class BeganByItself(Protocol):
    """A connection that needs nothing to be started at its other end."""

    async def opened(self, mode: str) -> tuple[Any, JSONObject]:
        """A process of the runtime in a mode, and what is known of its machine."""
        ...


class Build(NamedTuple):
    """The runtime's file: its content and the hash of that."""

    content: bytes
    digest: str


def own_build() -> Build:
    """The runtime's file as this Stellwerk has it."""
    content = packed()
    return Build(content, hashlib.sha256(content).hexdigest())


def own_key(machine: str, home: Path) -> str:
    """What keeps the Stellwerk whose state is in a folder of a machine apart from others."""
    return hashlib.sha256(f"{machine}:{home}".encode()).hexdigest()[:12]


class Opener:
    """Has commands of the runtime run over a connection; ``key`` keeps Stellwerks apart."""

    def __init__(self, host: Host, build: Build, key: str) -> None:
        self._host = host
        self._build = build
        self._key = key

    async def open(
        self, connection: asyncssh.SSHClientConnection, mode: str, folder: str
    ) -> tuple[Process, JSONObject]:
        """Runs the runtime in a mode; gives its process and what was found on the way to it.

        Raises SshTrouble. A machine that has dialled in has begun it by itself.
        """
        if isinstance(connection, BeganByItself):
            process: Process = (streams := await connection.opened(mode))[0]
            return process, streams[1]
        mark = secrets.token_hex(16)
        boot = Boot(
            mark,
            self._build.digest,
            len(self._build.content),
            self._key,
            folder,
            self._host.python,
        )
        try:
            process = await connection.create_process(boot.command(mode), encoding=None)
        except asyncssh.ChannelOpenError as error:
            raise of_channel(self._host, error) from error
        except (OSError, asyncssh.Error) as error:
            raise of_connecting(self._host, error) from error
        try:
            found = await self._told(process, mark)
            if found.get("need"):
                process.stdin.write(self._build.content)
                await self._told(process, mark)
        except BaseException:
            process.close()
            raise
        return process, found

    async def _told(self, process: Process, mark: str) -> JSONObject:
        """What comes behind the marker, after whatever start-up files print."""
        noise = b""
        try:
            async with asyncio.timeout(BOOT_S):
                noise = await process.stdout.readuntil(mark.encode())
                line = await process.stdout.readline()
        except asyncio.IncompleteReadError as error:
            noise = error.partial + await _last_of(process)
            raise of_shell(self._host, noise, status=process.exit_status, waited=False) from error
        except TimeoutError as error:
            raise of_shell(self._host, noise, status=None, waited=True) from error
        except (OSError, asyncssh.Error) as error:
            raise of_connecting(self._host, error) from error
        try:
            said = msgspec.json.decode(line, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise of_shell(self._host, line, status=None, waited=False) from error
        if "trouble" in said:
            raise of_boot(self._host, said)
        return said


async def _last_of(process: Process) -> bytes:
    """What a process that says no more said of errors; its status is known then, if ever."""
    errors = b""
    with contextlib.suppress(TimeoutError, OSError, asyncssh.Error):
        async with asyncio.timeout(END_S):
            errors = await process.stderr.read(ERRORS_KEPT)
            await process.wait_closed()
    return errors


class Hand(AnyHand):
    """The hand at the end of an SSH connection."""

    def __init__(
        self, host: Host, connection: asyncssh.SSHClientConnection, process: Process, home: str
    ) -> None:
        super().__init__(str(host), Channel(process), home)
        self.connection = connection
        self._process = process
        self._errors = asyncio.create_task(self._drop_errors(), name=f"errors of {host}")

    def lost(self, why: str) -> SshTrouble:
        """Says that the connection is over."""
        return SshTrouble("connection-lost", f"the connection to {self.place} broke: {why}", "")

    async def _drop_errors(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while await self._process.stderr.read(64 * 1024):
                pass

    async def close(self) -> None:
        """Hangs up; what runs there goes on."""
        self._errors.cancel()
        await asyncio.gather(self._errors, return_exceptions=True)
        await super().close()
        self.connection.abort()


class Channel:
    """The streams of a process, whose errors are those of any connection."""

    def __init__(self, process: Process) -> None:
        self._process = process

    async def read(self, n: int, /) -> bytes:
        """At most so many bytes; b"" at the end."""
        with _as_os_error():
            return await self._process.stdout.read(n)

    async def readline(self) -> bytes:
        """One line; all that is left where none ends."""
        with _as_os_error():
            return await self._process.stdout.readline()

    def write(self, data: bytes, /) -> None:
        """Takes bytes to send."""
        with _as_os_error():
            self._process.stdin.write(data)

    async def drain(self) -> None:
        """Waits while too much is under way."""
        with _as_os_error():
            await self._process.stdin.drain()

    async def hang_up(self) -> None:
        """Ends the process's channel."""
        self._process.close()


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except asyncssh.Error as error:
        raise ConnectionError(str(error)) from error
