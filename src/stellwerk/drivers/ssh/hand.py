"""One connection to a machine and the hand at its end: requests, content, and the agent's lines.

A hand is used until its connection breaks and never repaired. Commands inside runs have channels of
their own on the same connection.
"""

import asyncio
import contextlib
import errno
import itertools
import secrets
from collections.abc import Iterator
from typing import Any, NamedTuple

import asyncssh
import msgspec

from stellwerk.drivers.agents.link import AgentLink, JSONObject
from stellwerk.drivers.base import DriverError
from stellwerk.drivers.ssh.boot import Boot
from stellwerk.drivers.ssh.hosts import Host
from stellwerk.drivers.ssh.troubles import SshTrouble, of_boot, of_channel, of_connecting, of_shell
from stellwerk.runtime import frames, messages

BOOT_S = 30.0
NOISE_BYTES = 1 << 20
ANSWER_S = 60.0
ERRORS_KEPT = 2_000
END_S = 2.0
Process = asyncssh.SSHClientProcess[bytes]


class Build(NamedTuple):
    """The runtime's file: its content and the hash of that."""

    content: bytes
    digest: str


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

        Raises SshTrouble.
        """
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


class Hand:
    """The hand at the end of a connection; ``closed`` is set when that is over."""

    def __init__(
        self, host: Host, connection: asyncssh.SSHClientConnection, process: Process, home: str
    ) -> None:
        self.connection = connection
        self.home = home
        self.closed = asyncio.Event()
        self._host = host
        self._process = process
        self._ids = itertools.count(1)
        self._waiting: dict[int, asyncio.Future[tuple[JSONObject, bytes]]] = {}
        self._link: AgentLink | None = None
        self._tasks = [
            asyncio.create_task(self._listen(), name=f"hand on {host}"),
            asyncio.create_task(self._ping(), name=f"ping to {host}"),
            asyncio.create_task(self._drop_errors(), name=f"errors of {host}"),
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
        error_told = head.get("error")
        if error_told:
            raise _refusal(self._host, dict(error_told))
        return head, more

    def join(self, link: AgentLink) -> None:
        """Lets a link speak with the agent, after `agent` was asked for."""
        self._link = link
        link.opened(_Wire(self, link))

    async def _say(self, frame: bytes) -> None:
        if self.closed.is_set():
            raise self.lost("it is closed")
        try:
            self._process.stdin.write(frame)
            await self._process.stdin.drain()
        except (OSError, asyncssh.Error) as error:
            raise self.lost(str(error)) from error

    def write_now(self, frame: bytes) -> None:
        """Sends a frame without waiting."""
        if not self.closed.is_set():
            with contextlib.suppress(OSError, asyncssh.Error):  # who listens finds out
                self._process.stdin.write(frame)

    def lost(self, why: str) -> SshTrouble:
        """Says that the connection is over."""
        return SshTrouble("connection-lost", f"the connection to {self._host} broke: {why}", "")

    async def _listen(self) -> None:
        reader = frames.FrameReader()
        try:
            while block := await self._process.stdout.read(256 * 1024):
                for kind, content in reader.frames(block):
                    self._hear(kind, content)
        except (OSError, ValueError, asyncssh.Error):
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

    async def _drop_errors(self) -> None:
        with contextlib.suppress(OSError, asyncssh.Error):
            while await self._process.stderr.read(64 * 1024):
                pass

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
        self._process.close()
        self.connection.abort()


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


@contextlib.contextmanager
def _as_os_error() -> Iterator[None]:
    try:
        yield
    except asyncssh.Error as error:
        raise ConnectionError(str(error)) from error


def _refusal(host: Host, told: dict[str, Any]) -> DriverError:
    code, message = str(told.get("code")), str(told.get("message"))
    if told.get("errno") in {errno.ENOSPC, errno.EDQUOT}:
        full = f"the disk of {host} is full, or a quota is used up: {message}"
        return DriverError("snapshot/disk-full", full, final=True)
    if code == "content_missing":
        return DriverError("snapshot/missing", f"on {host}: {message}", final=True)
    final = code in {"bad_request", "outside", "not_found", "gone", "content_damaged"}
    return DriverError(f"runtime/{code}", f"on {host}: {message}", final=final)
