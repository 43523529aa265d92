"""Finds the agent of this home, or starts it: there is never more than one, and it outlives us.

An agent of another build is left alone while runs go on under it, as long as we speak its protocol,
and replaced once it is idle. Runs don't notice: the next agent takes them over from their files.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from stellwerk.drivers.agents.conversation import Met
from stellwerk.drivers.agents.link import AgentGone, AgentLink, AgentRefused, JSONObject, OnPush
from stellwerk.drivers.base import DriverError
from stellwerk.runtime import EXIT_ALREADY_THERE, PROTOCOL
from stellwerk.runtime.bundle import build
from stellwerk.runtime.files import Places, read_json
from stellwerk.runtime.processes import look_up

NAME = "agent.sock"
LOOK_MS = 5
START_MS = 15_000
DEAF_MS = 500
LOG_TAIL_BYTES = 2_000
IDLE_EXIT_S = 1_800
"""An agent that no server has called and that has no run ends by itself after so long."""
_BUILDING = threading.Lock()


def agent_socket(folder: Path, root: Path) -> Path:
    """Where the agent listens: in the folder of sockets, if it is nobody else's to write to."""
    try:
        found = folder.stat()
    except FileNotFoundError:
        return folder / NAME
    except OSError:
        return root / NAME
    is_ours = found.st_uid == os.getuid() and not found.st_mode & 0o022
    return (folder if is_ours else root) / NAME


class AgentHouse:
    """The one agent of a root and its socket."""

    def __init__(self, root: Path, socket: Path, python: str = sys.executable) -> None:
        self.root = root
        self.socket = socket
        self._python = python
        self._bundle: Path | None = None
        self._child = 0
        self._former: list[int] = []

    async def reach(self, on_push: OnPush, on_break: Callable[[], None]) -> Met:
        """Connects to the agent, after starting or replacing it where needed; gives its greeting.

        Raises a DriverError that isn't final if there is no agent to be had now.
        """
        try:
            self._bundle = await asyncio.to_thread(_build, self.root)
        except OSError as error:
            raise _trouble("driver/no-runtime", f"{self.root} can't be used: {error}") from error
        met = await self._meet(on_push, on_break)
        if met is not None:
            link, hello = met
            if await self._may_stay(link, hello):
                return met
            await link.closed.wait()
        return await self._start(on_push, on_break)

    async def _meet(self, on_push: OnPush, on_break: Callable[[], None]) -> Met | None:
        """Connects and greets; None if nobody is there, or only somebody about to leave."""
        try:
            link = await AgentLink.connect(str(self.socket), on_push, on_break)
        except AgentGone:
            return None
        try:
            return link, await link.call("hello")
        except (AgentGone, AgentRefused) as error:
            if link.closed.is_set():
                return None
            await link.close()
            message = f"the agent at {self.socket} is no use: {error}{self._why_silent()}"
            raise _trouble("driver/agent-silent", message) from error

    async def _may_stay(self, link: AgentLink, hello: JSONObject) -> bool:
        """Whether this agent is the one to work with; one that isn't has been asked to leave."""
        speaks = PROTOCOL in hello["protocol"]
        if speaks and self._runs_our_build(int(hello["pid"])):
            return True
        try:
            await link.call("quit", force=not speaks)
        except AgentRefused as refusal:
            if refusal.code == "busy":
                return True
            await link.close()
            message = f"the agent at {self.socket} can't be replaced: {refusal.message}"
            raise _trouble("driver/agent-stays", message) from refusal
        except AgentGone:
            await link.close()
        return False

    def _runs_our_build(self, pid: int) -> bool:
        return self._bundle is not None and str(self._bundle) in _command_line(pid)

    async def _start(self, on_push: OnPush, on_break: Callable[[], None]) -> Met:
        begun = time.monotonic()
        self._spawn()
        told_to_leave = False
        while (waited_ms := (time.monotonic() - begun) * 1000) < START_MS:
            met = await self._meet(on_push, on_break)
            if met is not None:
                return met
            await asyncio.sleep(LOOK_MS / 1000)
            status = self._child_status()
            if status not in {None, 0, EXIT_ALREADY_THERE}:
                message = f"the agent ended with {status}: {self._last_words()}"
                raise _trouble("driver/agent-failed", message)
            if status is not None and waited_ms > DEAF_MS and not told_to_leave:
                told_to_leave = True
                self._send_away()
            if status is not None and (told_to_leave or status == 0):
                self._spawn()
        raise _trouble("driver/agent-silent", f"no agent answers at {self.socket}")

    def _spawn(self) -> None:
        """Starts an agent in a session of its own, with its words in a file."""
        log = self.root / "agent.log"
        argv = [self._python, "-I", "-S", str(self._bundle), "serve"]
        argv += ["--root", str(self.root), "--socket", str(self.socket)]
        argv += ["--idle-exit-s", str(IDLE_EXIT_S)]
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        output = [(os.POSIX_SPAWN_OPEN, number, str(log), append, 0o600) for number in (1, 2)]
        quiet = (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0)
        if self._child_status() is None:
            self._former.append(self._child)
        try:
            self._child = os.posix_spawn(
                self._python, argv, os.environ, file_actions=[quiet, *output], setsid=True
            )
        except OSError as error:
            message = f"no agent can be started with {self._python}: {error.strerror}"
            raise _trouble("driver/agent-failed", message) from error

    def _child_status(self) -> int | None:
        """How the agent that we started last ended, or None while it hasn't; 0 if there is none."""
        self._former = [pid for pid in self._former if _exit_status(pid) is None]
        status = _exit_status(self._child) if self._child else 0
        if status is not None:
            self._child = 0
        return status

    def _agent_pid(self) -> int:
        card = read_json(Places(str(self.root)).card) or {}
        return int(card.get("pid", 0))

    def _why_silent(self) -> str:
        pid = self._agent_pid()
        agent = look_up(pid)
        is_stopped = agent is not None and agent.state == "T"
        return f"; process {pid} is stopped, `kill -CONT {pid}` has it go on" if is_stopped else ""

    def _send_away(self) -> None:
        """Ends an agent that lives but can't be reached, as when its socket was removed."""
        pid = self._agent_pid()
        if pid and str(self.root) in _command_line(pid):
            os.kill(pid, signal.SIGTERM)

    def _last_words(self) -> str:
        try:
            with open(self.root / "agent.log", "rb") as file:
                file.seek(max(0, file.seek(0, os.SEEK_END) - LOG_TAIL_BYTES))
                lines = file.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            lines = []
        return lines[-1] if lines else "it said nothing"


def _build(root: Path) -> Path:
    """Makes the runtime's file; one at a time, since all would write beside the same name."""
    with _BUILDING:
        return build(root)


def _exit_status(child: int) -> int | None:
    """How a child ended, or None while it hasn't; 0 for what is no child of ours."""
    try:
        pid, status = os.waitpid(child, os.WNOHANG)
    except ChildProcessError:
        return 0
    return os.waitstatus_to_exitcode(status) if pid else None


def _command_line(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(part) for part in file.read().split(b"\0")]
    except OSError:
        return []


def _trouble(code: str, message: str) -> DriverError:
    return DriverError(code, message, final=False)
