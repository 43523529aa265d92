"""Starts the command of a guest: checks the wish for it, and gives it pipes or a terminal.

In place of a command somebody may wish for a connection to a port that the job listens at.
"""

from __future__ import annotations

import array
import fcntl
import json
import os
import signal
import struct
import termios
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, Optional

from . import frames, guest_port
from .launch import SpawnError, Start, start_process
from .spec import check_env

if TYPE_CHECKING:
    from .guest_session import GuestPlace

OURS = 125
_MOST_ROWS = 0xFFFF
_MOST_PORTS = 0xFFFF
_MOST_DESCRIPTORS = 4096
"""A keeper has a dozen."""


class GuestRefused(Exception):
    """The command can't be started; `exit_code` is what a shell would say: 125, 126 or 127."""

    def __init__(self, code: str, message: str, exit_code: int = OURS) -> None:
        super().__init__(message)
        self.code = code
        self.exit_code = exit_code


class Wish(NamedTuple):
    """What somebody wants to run, or the port that they want to be connected to."""

    argv: list[str]
    port: int
    terminal: bool
    stdin: bool
    rows: int
    columns: int
    env: dict[str, str]


class Guest:
    """A command that has been started, and the descriptors of ours that lead to it."""

    def __init__(
        self, pid: int, outputs: dict[int, bytes], given: Optional[int], terminal: Optional[int]
    ) -> None:
        self.pid = pid
        self.outputs = outputs
        """Where its output can be read, and as which kind of frame it is told."""
        self.input = given
        self.terminal = terminal
        self.has_terminal = terminal is not None

    def still_held(self) -> dict[int, int]:
        """How many bytes wait in each pipe."""
        return {} if self.has_terminal else {fd: _waiting(fd) for fd in self.outputs}

    def let_go(self, descriptor: int) -> None:
        """Close a descriptor, whatever it was used for."""
        self.outputs.pop(descriptor, None)
        self.input = None if self.input == descriptor else self.input
        self.terminal = None if self.terminal == descriptor else self.terminal
        os.close(descriptor)


def read_wish(content: bytes) -> Wish:
    """The wish that a frame holds. Raises GuestRefused with all that is wrong."""
    try:
        said = json.loads(content)
    except (ValueError, RecursionError):
        said = None
    if not isinstance(said, dict):
        raise GuestRefused("bad_command", "the command is no object of JSON")
    problems: list[str] = []
    argv, port = said.get("argv"), said.get("port", 0)
    if type(port) is not int or not 0 <= port <= _MOST_PORTS:
        problems.append("`port` is a whole number up to 65535")
    elif port:
        argv = ["-"]
    if not isinstance(argv, list) or not argv or not all(_is_argument(word) for word in argv):
        problems.append("`argv` is a list of texts that a program can be given, at least one")
    elif not argv[0]:
        problems.append("the program's name is empty")
    env = check_env("env", said.get("env"), lambda place, why: problems.append(f"{place} {why}"))
    sizes = [said.get(name, 0) for name in ("rows", "columns")]
    if not all(type(number) is int and 0 <= number <= _MOST_ROWS for number in sizes):
        problems.append("`rows` and `columns` are whole numbers up to 65535")
    if problems:
        raise GuestRefused("bad_command", "; ".join(problems))
    return Wish(
        argv=list(argv or ()),
        port=port if type(port) is int else 0,
        terminal=said.get("terminal") is True,
        stdin=said.get("stdin") is True,
        rows=sizes[0],
        columns=sizes[1],
        env=env,
    )


def _is_argument(word: object) -> bool:
    try:
        return isinstance(word, str) and "\0" not in word and os.fsencode(word) is not None
    except UnicodeEncodeError:
        return False


def start_guest(wish: Wish, place: GuestPlace) -> Guest:
    """Start a command where the job is, or connect there. Raises GuestRefused."""
    if wish.port:
        return _connected(wish.port)
    start = Start(wish.argv, {**place.env, **wish.env}, place.cwd, "", top=place.top)
    try:
        return (_in_terminal if wish.terminal else _with_pipes)(wish, start, place)
    except SpawnError as error:
        names = {127: "not_found", 126: "not_executable"}
        code = names.get(error.shell_code, "start_failed")
        raise GuestRefused(code, str(error), error.shell_code) from error
    except OSError as error:
        raise GuestRefused("start_failed", f"nothing can be started: {error.strerror}") from error


def _connected(port: int) -> Guest:
    try:
        connection = guest_port.connect(port)
    except OSError as error:
        message = f"nothing answers at port {port} where the job runs: {error.strerror or error}"
        raise GuestRefused("not_listening", message) from error
    opened: list[int] = []
    for _ in range(3):
        opened += os.pipe()
    output, output_there, errors, errors_there, source, sink = opened
    pid = os.fork()
    if not pid:
        code = OURS
        try:
            signal.set_wakeup_fd(-1)
            for number in (signal.SIGCHLD, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
            _connect((source, output_there, errors_there))
            os.closerange(3, connection.fileno())
            os.closerange(connection.fileno() + 1, _MOST_DESCRIPTORS)
            code = guest_port.carry(connection)
        finally:
            os._exit(code)
    connection.close()
    for descriptor in (output_there, errors_there, source):
        os.close(descriptor)
    for descriptor in (output, errors, sink):
        os.set_blocking(descriptor, False)
    return Guest(pid, {output: frames.OUTPUT, errors: frames.ERRORS}, sink, None)


def _with_pipes(wish: Wish, start: Start, place: GuestPlace) -> Guest:
    opened: list[int] = []
    try:
        for _ in range(2 + wish.stdin):
            opened += os.pipe()
        output, output_there, errors, errors_there, *given = opened
        source = given[0] if given else os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        if not given:
            opened.append(source)
        there = (source, output_there, errors_there)
        pid = start_process(start, place.inherited, partial(_connect, there))
    except (SpawnError, OSError):
        for descriptor in opened:
            os.close(descriptor)
        raise
    for descriptor in there:
        os.close(descriptor)
    sink = given[1] if given else None
    for descriptor in (output, errors, *([sink] if sink is not None else [])):
        os.set_blocking(descriptor, False)
    return Guest(pid, {output: frames.OUTPUT, errors: frames.ERRORS}, sink, None)


def _connect(there: tuple[int, int, int]) -> None:
    for number, descriptor in enumerate(there):
        os.dup2(descriptor, number)


def _in_terminal(wish: Wish, start: Start, place: GuestPlace) -> Guest:
    ours, theirs = os.openpty()
    try:
        if wish.rows and wish.columns:
            set_size(ours, wish.rows, wish.columns)
        pid = start_process(start, place.inherited, partial(_connect_terminal, theirs))
    except (SpawnError, OSError):
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    os.set_blocking(ours, False)
    return Guest(pid, {ours: frames.OUTPUT}, ours if wish.stdin else None, ours)


def _connect_terminal(theirs: int) -> None:
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    _connect((theirs, theirs, theirs))


def set_size(terminal: int, rows: int, columns: int) -> None:
    """Tell a terminal, and so what runs in it, how large its window is."""
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def _waiting(descriptor: int) -> int:
    held = array.array("i", [0])
    fcntl.ioctl(descriptor, termios.FIONREAD, held)
    return held[0]
