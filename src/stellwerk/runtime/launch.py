"""Starts one process of a job: its own session, its output in files, nothing of ours left open.

Returns only when the program is running, so a missing program or directory is an error with its
place and never a job that failed.
"""

from __future__ import annotations

import errno
import os
import resource
import select
import signal
import struct
from collections.abc import Callable, Sequence
from typing import NamedTuple, Optional

from .system import die_with_parent

_STAGES = ("start", "directory", "program")
_EXECUTION_LIMIT_S = 20.0
APPEND = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NONBLOCK
"""How a log is opened: a pipe that somebody has put in its place isn't waited for."""

_TO_RESET = ("SIGPIPE", "SIGXFSZ", "SIGCHLD", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT", "SIGUSR1")


_MACHINE_LACKS = frozenset([
    errno.EAGAIN, errno.EDQUOT, errno.EIO, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOSPC,
    errno.EROFS,
])  # fmt: skip


class SpawnError(Exception):
    """The process could not be started; the message is for people.

    `of_machine`: not for what was asked for, but for what the machine couldn't give. `shell_code`
    is what a shell would end with: 127 without such a program, 126 if it can't be executed.
    """

    def __init__(self, message: str, *, of_machine: bool, shell_code: int = 125) -> None:
        super().__init__(message)
        self.of_machine = of_machine
        self.shell_code = shell_code


def is_of_machine(error: Exception) -> bool:
    """Whether another machine might have done what failed here."""
    if isinstance(error, SpawnError):
        return error.of_machine
    return isinstance(error, OSError) and error.errno in _MACHINE_LACKS


class Start(NamedTuple):
    """Everything that makes a process."""

    argv: Sequence[str]
    env: dict[str, str]
    cwd: str
    log: str
    stderr_too: Optional[int] = None
    """A descriptor that carries the log as well, while stderr itself goes nowhere."""
    top: str = ""
    """The folder that the process takes for the whole machine, if any; the rest is seen in it."""


class Inherited(NamedTuple):
    """What the agent changed for itself and a job gets back."""

    umask: int
    open_files: tuple[int, int]


def raise_own_limits() -> Inherited:
    """Take what an agent needs; returns what its jobs are to have."""
    umask = os.umask(0o077)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (ValueError, OSError):
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return Inherited(umask, (soft, hard))


def spawn(start: Start, inherited: Inherited) -> int:
    """Start a process and wait until it executes its program; its pid. Raises SpawnError."""
    try:
        log = os.open(start.log, APPEND, 0o600)
        os.set_blocking(log, True)
    except OSError as error:
        message = f"the log `{start.log}` can't be written: {error.strerror}"
        raise SpawnError(message, of_machine=True) from error
    try:
        return start_process(start, inherited, lambda: _connect_output(start, log))
    finally:
        os.close(log)


def start_process(start: Start, inherited: Inherited, connect: Callable[[], None]) -> int:
    """Like `spawn`, where `connect` gives the new process its standard files."""
    heard, told = os.pipe()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _become(start, connect, told, parent, inherited)
    os.close(told)
    # A program on a file server that hangs may never execute; the wrapper must not hang with it.
    is_heard = select.select([heard], [], [], _EXECUTION_LIMIT_S)[0]
    answer = os.read(heard, 16) if is_heard else b""
    os.close(heard)
    if not answer:
        return pid
    os.waitpid(pid, 0)
    stage, code = struct.unpack("ii", answer)
    of_machine = _STAGES[stage] == "start" and code in _MACHINE_LACKS
    raise SpawnError(
        _sentence(_STAGES[stage], code, start),
        of_machine=of_machine,
        shell_code=_shell_code(_STAGES[stage], code),
    )


def _shell_code(stage: str, code: int) -> int:
    if stage != "program" or code == errno.E2BIG or code in _MACHINE_LACKS:
        return 125
    return 127 if code in {errno.ENOENT, errno.ENOTDIR} else 126


def _sentence(stage: str, code: int, start: Start) -> str:
    if stage == "directory":
        return f"the directory `{start.cwd}` can't be entered: {os.strerror(code)}"
    if code == errno.E2BIG:
        size = sum(len(os.fsencode(f"{name}={value}")) + 1 for name, value in start.env.items())
        return f"the environment ({size} bytes) and the arguments are larger than Linux allows"
    if stage == "program" and code == errno.ENOENT and "/" not in start.argv[0]:
        return f"the program `{start.argv[0]}` is in no folder of PATH"
    if stage == "program":
        return f"the program `{start.argv[0]}` can't be executed: {os.strerror(code)}"
    return f"no process could be started: {os.strerror(code)}"


def _become(
    start: Start, connect: Callable[[], None], told: int, parent: int, inherited: Inherited
) -> None:
    """The child's side: never returns."""
    stage = 0
    try:
        os.setsid()
        die_with_parent()
        if os.getppid() != parent:
            os._exit(127)
        signal.set_wakeup_fd(-1)
        for name in _TO_RESET:
            signal.signal(getattr(signal, name), signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())
        connect()
        resource.setrlimit(resource.RLIMIT_NOFILE, inherited.open_files)
        os.umask(inherited.umask)
        stage = 1
        if start.top:
            os.chroot(start.top)
        os.chdir(start.cwd)
        stage = 2
        os.execvpe(start.argv[0], list(start.argv), start.env)  # noqa: S606 - no shell is wanted
    except OSError as error:
        os.write(told, struct.pack("ii", stage, error.errno or 0))
    finally:
        os._exit(127)


def _connect_output(start: Start, log: int) -> None:
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    os.dup2(nothing, 0)
    os.dup2(log, 1)
    if start.stderr_too is None:
        os.dup2(log, 2)
    else:
        os.dup2(nothing, 2)
        os.dup2(log, start.stderr_too)
