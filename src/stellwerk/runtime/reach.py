"""Finds the agent of a root on this machine, or starts it; for a caller that is elsewhere.

An agent of another build is left alone while runs go on under it, as long as it speaks this
protocol, and replaced once it is idle. Runs don't notice.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import sys
import time
from typing import TYPE_CHECKING, Optional

from . import EXIT_ALREADY_THERE, PROTOCOL
from .files import JSONObject, Places, read_json

if TYPE_CHECKING:
    import subprocess

_START_S = 15.0
_LOOK_S = 0.005
_DEAF_S = 0.5
_ANSWER_S = 10.0
_IDLE_EXIT_S = 1_800
_NOT_FOR_JOBS = ("SSH_", "XDG_SESSION_")


class NoAgent(Exception):
    """There is no agent to be had: a code for programs, a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def reach(root: str, path: str, build: str) -> socket.socket:
    """A connection to the agent of a root, on which nothing has been said. Raises NoAgent."""
    met = _connect(path)
    if met is not None:
        if _may_stay(met, path, build):
            met.close()
            fresh = _connect(path)
            if fresh is not None:
                return fresh
        met.close()
    return _start(root, path, build)


def dismiss(path: str) -> bool:
    """End the agent that listens there; False if it stays because runs go on under it."""
    met = _connect(path)
    if met is None:
        return True
    try:
        answer = _ask(met, {"id": 1, "op": "quit"})
        if answer.get("error"):
            return False
        met.recv(1)  # the end of the connection is the end of the agent
    except (OSError, ValueError) as error:
        raise NoAgent("agent-silent", f"the agent at {path} is no use: {error}") from error
    finally:
        met.close()
    return True


def _connect(path: str) -> Optional[socket.socket]:
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.settimeout(_ANSWER_S)
    try:
        connection.connect(path)
    except OSError:
        connection.close()
        return None
    return connection


def _may_stay(met: socket.socket, path: str, build: str) -> bool:
    """Whether this agent is the one to work with; one that isn't is asked to leave."""
    try:
        hello = _ask(met, {"id": 1, "op": "hello"})
        speaks = PROTOCOL in hello.get("protocol", ())
        if speaks and build in _command_line(int(hello["pid"])):
            return True
        answer = _ask(met, {"id": 2, "op": "quit", "force": not speaks})
        if (answer.get("error") or {}).get("code") == "busy":
            return True
        met.recv(1)  # the end of the connection is the end of the agent
    except (OSError, ValueError, KeyError) as error:
        if os.path.exists(path):
            raise NoAgent("agent-silent", f"the agent at {path} is no use: {error}") from error
    return False


def _ask(connection: socket.socket, request: JSONObject) -> JSONObject:
    connection.sendall(json.dumps(request).encode("ascii") + b"\n")
    line = b""
    while not line.endswith(b"\n"):
        block = connection.recv(65_536)
        if not block:
            raise OSError("it hung up")
        line += block
    answer = json.loads(line)
    if not isinstance(answer, dict):
        raise ValueError("it speaks another language")  # noqa: TRY004
    return answer


def _start(root: str, path: str, build: str) -> socket.socket:
    begun = time.monotonic()
    child = _spawn(root, path, build)
    told_to_leave = False
    while (waited := time.monotonic() - begun) < _START_S:
        connection = _connect(path)
        if connection is not None:
            return connection
        time.sleep(_LOOK_S)
        status = child.poll()
        if status not in {None, 0, EXIT_ALREADY_THERE}:
            raise NoAgent("agent-failed", f"the agent ended with {status}: {_last_words(root)}")
        if status is not None and waited > _DEAF_S and not told_to_leave:
            told_to_leave = True
            _send_away(root)
        if status is not None and (told_to_leave or status == 0):
            child = _spawn(root, path, build)
    raise NoAgent("agent-silent", f"no agent answers at {path}")


def _spawn(root: str, path: str, build: str) -> subprocess.Popen[bytes]:
    """Starts an agent that survives the connection over which it was asked for."""
    import subprocess  # only where there is no agent yet

    argv = [sys.executable, "-I", "-S", build, "serve", "--root", root, "--socket", path]
    argv += ["--idle-exit-s", str(_IDLE_EXIT_S)]
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_JOBS)
    }
    with open(os.path.join(root, "agent.log"), "ab") as log:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env=environment,
        )


def _send_away(root: str) -> None:
    """Ends an agent that lives but can't be reached, as when its socket was removed."""
    pid = int((read_json(Places(root).card) or {}).get("pid", 0))
    if pid and root in _command_line(pid):
        os.kill(pid, signal.SIGTERM)


def _command_line(pid: int) -> list[str]:
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return [os.fsdecode(part) for part in file.read().split(b"\0")]
    except OSError:
        return []


def _last_words(root: str) -> str:
    try:
        with open(os.path.join(root, "agent.log"), "rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - 2_000))
            lines = file.read().decode("utf-8", "replace").strip().splitlines()
    except OSError:
        lines = []
    return lines[-1] if lines else "it said nothing"


def socket_of(root: str) -> str:
    """Where the agent of a root listens: there, or where a path is short enough."""
    path = os.path.join(root, "agent.sock")
    if len(os.fsencode(path)) <= 107:
        return path
    import hashlib

    key = hashlib.sha256(os.fsencode(root)).hexdigest()[:12]
    return f"/tmp/stellwerk-{os.getuid()}-{key}/agent.sock"  # noqa: S108 (the agent checks it)
