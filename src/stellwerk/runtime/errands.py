"""Does what may take long in a child process, so that the wrapper goes on hearing orders.

A child that fails leaves a sentence in a file; it dies with the wrapper and can be killed like any
other process of the run.
"""

from __future__ import annotations

import contextlib
import os
import signal
import traceback
from collections.abc import Callable

from .launch import is_of_machine
from .system import close_descriptors, die_with_parent

FAILED, FAILED_FOR_THE_MACHINE = 1, 2
"""Exit statuses; the second one says that the machine lacked something, not the task."""

_UNSAID = "it was killed, or found no room on the disk to say why"


class ErrandError(Exception):
    """The work can't be done; the message is for people."""


def send(work: Callable[[], None], trouble: str) -> int:
    """Fork a child that does the work; its pid. It ends with 0, or says in `trouble` why not."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    status = FAILED
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        die_with_parent()
        if os.getppid() == parent:
            close_descriptors()
            status = _do(work, trouble)
    finally:
        os._exit(status)


def _do(work: Callable[[], None], trouble: str) -> int:
    status = FAILED
    try:
        work()
    except ErrandError as error:
        said = str(error)
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        said = f"{error.strerror}{where}"
        status = FAILED_FOR_THE_MACHINE if is_of_machine(error) else FAILED
    except Exception:  # noqa: BLE001 - told as it is: a fault of ours
        said = traceback.format_exc()
    else:
        return 0
    with (
        contextlib.suppress(OSError),  # on a full disk: the status says it as well
        open(trouble, "w", encoding="utf-8", errors="backslashreplace") as file,
    ):
        file.write(said)
    return status


def is_of_machine_status(status: int) -> bool:
    """Whether a child's end isn't the task's doing: the machine lacked something, or it was killed,
    as by the kernel for memory. What runs there is ours alone."""
    return status == FAILED_FOR_THE_MACHINE or status < 0


def why_failed(trouble: str) -> str:
    """What a child that failed has said."""
    try:
        with open(trouble, encoding="utf-8", errors="replace") as file:
            return file.read(4096).strip() or _UNSAID
    except OSError:
        return _UNSAID
