"""Starts the server when a command needs it and it isn't running.

Callers take turns at a lock file, so two at once never start two; the server holds its own lock
against a third way of starting it. The server is in a session of its own and outlives its caller.
"""

import os
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from stellwerk.client.connection import (
    UnreachableError,
    answers,
    refuse_foreign_socket,
    unreachable_because,
)
from stellwerk.config import Settings, clean_environment

if TYPE_CHECKING:
    from io import BufferedWriter
    from subprocess import Popen

POLL_S = 0.005
AFTER_DEATH_S = 1.0  # a server that lost the race for its lock ends; the winner may need a moment
TAIL_BYTES = 4096
TAIL_LINES = 8
LOG_LINES = 256
_ANSWERS, _ENDED = " answers at ", " has ended"
"""What a server says of itself in its log when it listens, and at its end."""

_started: list["Popen[bytes]"] = []  # a server outlives its caller; this only keeps it waited for


def ensure_server(settings: Settings, tell: Callable[[str], None] | None = None) -> bool:
    """Makes sure that a server listens; says whether it had to. Raises UnreachableError.

    `tell` is told where the one before had ended by itself.
    """
    if settings.socket_is_default:
        refuse_foreign_socket(settings.socket)
    if answers(settings.socket):
        return False
    _refuse_to_replace(settings)
    import fcntl

    deadline = time.monotonic() + settings.number("start_timeout_ms") / 1000
    with _open_lock(settings.home) as lock:
        while True:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if answers(settings.socket):
                    return False
                _sleep_until(deadline, settings)
        if answers(settings.socket):
            return False
        how = how_it_ended(settings.server_log)
        _start(settings, deadline)
    if how and tell is not None:
        tell(f"{how}; started anew, jobs went on")
    return True


def _refuse_to_replace(settings: Settings) -> None:
    """Starts nothing in the place of somebody else's server."""
    try:
        owner = os.stat(os.path.dirname(settings.socket)).st_uid
    except OSError:
        return
    if owner != os.getuid() and os.getuid():
        import pwd

        try:
            name = pwd.getpwuid(owner).pw_name
        except KeyError:
            name = f"user {owner}"
        raise unreachable_because(
            "server/not-running",
            f"the server of {name} isn't running",
            f"ask {name} to start it (stw server start), or name a socket of your own with "
            "STELLWERK_SOCKET",
        )


def how_it_ended(log: str) -> str:
    """What became of the last server, by its log; empty where somebody ended it."""
    lines = tail(log, LOG_LINES)
    begins = max((at for at, line in enumerate(lines) if _ANSWERS in line), default=-1)
    since = lines[begins + 1 :]
    if any(" CRITICAL " in line for line in since):
        return "the server had failed (stw doctor says when, stw server logs why)"
    if begins < 0 or any(_ENDED in line for line in since):
        return ""
    return "the server had been killed, or this machine was restarted"


def server_command() -> list[str]:
    """How the server is started: with this interpreter, and nothing from the current folder."""
    return [sys.executable, "-P", "-m", "stellwerk.server"]


def tail(path: str, lines: int = TAIL_LINES, start: int = 0) -> list[str]:
    """The last lines of a text file from a byte on, or nothing where there is none."""
    try:
        with open(path, "rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(start, size - TAIL_BYTES * max(1, lines // TAIL_LINES)))
            data = file.read()
    except OSError:
        return []
    told = [line for line in data.decode(errors="replace").splitlines() if line.strip()]
    return told[-lines:]


def _open_lock(home: str) -> "BufferedWriter":
    try:
        os.makedirs(home, mode=0o700, exist_ok=True)
        return open(os.path.join(home, "launch.lock"), "ab")
    except OSError as error:
        raise unreachable_because(
            "server/home",
            f"{home} can't be used for the server's state: {error.strerror}",
            "name another folder with STELLWERK_HOME",
        ) from error


def _start(settings: Settings, deadline: float) -> None:
    log_size = _size(settings.server_log)
    process = _spawn(settings)
    died_at = None
    while not answers(settings.socket):
        now = time.monotonic()
        if died_at is None and process.poll() is not None:
            died_at = now
        if died_at is not None and now > died_at + AFTER_DEATH_S:
            raise _died(settings, process.returncode, log_size)
        _sleep_until(deadline, settings)


def _spawn(settings: Settings) -> "Popen[bytes]":
    import subprocess

    env = clean_environment(settings, os.environ)
    env["STELLWERK_HOME"] = settings.home
    env["STELLWERK_SOCKET"] = settings.socket
    if paths := os.environ.get("PYTHONPATH"):  # by which the server finds itself
        env["PYTHONPATH"] = os.pathsep.join(map(os.path.abspath, paths.split(os.pathsep)))
    with open(settings.server_log, "ab") as log:
        process = subprocess.Popen(
            server_command(),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd="/",
            env=env,
            start_new_session=True,
        )
    _started.append(process)
    return process


def _died(settings: Settings, status: int, log_size: int) -> UnreachableError:
    # A log that became shorter has been turned over: all of it is new.
    start = log_size if _size(settings.server_log) >= log_size else 0
    lines = tail(settings.server_log, start=start)
    said = "".join(f"\n  | {line}" for line in lines) or "\n  (it left no message)"
    return unreachable_because(
        "server/start-failed",
        f"the server ended while it started (status {status}):{said}",
        f"the whole log is {settings.server_log}",
    )


def _sleep_until(deadline: float, settings: Settings) -> None:
    if time.monotonic() > deadline:
        seconds = settings.number("start_timeout_ms") / 1000
        raise unreachable_because(
            "server/start-timeout",
            f"the server did not answer within {seconds:g} s of being started",
            f"see {settings.server_log}, or wait longer with STELLWERK_START_TIMEOUT_MS",
        )
    time.sleep(POLL_S)


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0
