"""Work in a child process, and what its end says."""

import errno
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from stellwerk.runtime import errands


def refuse() -> None:
    """Work that can't be done."""
    raise errands.ErrandError("no such thing")


def find_the_disk_full() -> None:
    """Work for which there is no room."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/there")


def be_killed() -> None:
    """Work that the kernel ends."""
    os.kill(os.getpid(), signal.SIGKILL)


def be_wrong() -> None:
    """Work with a fault in it."""
    raise ZeroDivisionError


@pytest.mark.parametrize(
    ("work", "said", "of_machine"),
    [
        (refuse, "no such thing", False),
        (find_the_disk_full, "No space left on device (/there)", True),
        (be_killed, "it was killed", True),
        (be_wrong, "ZeroDivisionError", False),
    ],
)
def test_only_what_the_task_asked_for_is_its_own_fault(
    tmp_path: Path, work: Callable[[], None], said: str, of_machine: bool
) -> None:
    """What the machine did to the work may be tried again, there or elsewhere."""
    trouble = str(tmp_path / "errand")
    _pid, status = os.waitpid(errands.send(work, trouble), 0)
    assert said in errands.why_failed(trouble)
    assert errands.is_of_machine_status(os.waitstatus_to_exitcode(status)) is of_machine


def test_the_status_tells_what_there_is_no_room_to_say(tmp_path: Path) -> None:
    """A full disk is the machine's lack even when the sentence about it finds no place."""
    trouble = str(tmp_path / "nowhere" / "errand")
    _pid, status = os.waitpid(errands.send(find_the_disk_full, trouble), 0)
    assert os.waitstatus_to_exitcode(status) == errands.FAILED_FOR_THE_MACHINE
    assert "no room on the disk" in errands.why_failed(trouble)
