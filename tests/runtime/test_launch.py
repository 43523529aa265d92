"""What a process that can't be started says: why, and whether another machine might do better."""

import errno
import os
import resource
import shutil
from pathlib import Path

import pytest

from stellwerk.runtime.ending import disk_free_bytes
from stellwerk.runtime.launch import Inherited, SpawnError, Start, is_of_machine, spawn
from tests.runtime.rig import Rig

INHERITED = Inherited(0o022, resource.getrlimit(resource.RLIMIT_NOFILE))


@pytest.mark.parametrize(
    ("argv", "cwd", "log", "says", "of_machine"),
    [
        (
            ["/no/such/program"],
            ".",
            "log",
            "the program `/no/such/program` can't be executed",
            False,
        ),
        (["no-such-program"], ".", "log", "`no-such-program` is in no folder of PATH", False),
        (["/bin/true"], "gone", "log", "can't be entered", False),
        (["/bin/true", "x" * (1 << 20)], ".", "log", "larger than Linux allows", False),
        (["/bin/true"], ".", "gone/log", "can't be written", True),
    ],
)
def test_a_start_that_fails_says_whose_fault_it_is(
    tmp_path: Path, argv: list[str], cwd: str, log: str, says: str, of_machine: bool
) -> None:
    """What the job asked for is the job's; what the machine couldn't give is the machine's."""
    start = Start(argv, {}, str(tmp_path / cwd), str(tmp_path / log))
    with pytest.raises(SpawnError) as caught:
        spawn(start, INHERITED)
    assert says in str(caught.value)
    assert is_of_machine(caught.value) is of_machine


def test_errors_of_the_machine_are_told_by_their_number() -> None:
    """A full disk is; a name that is too long, or one that may not be written, isn't."""
    for number, of_machine in (
        (errno.ENOSPC, True),
        (errno.EROFS, True),
        (errno.ENOMEM, True),
        (errno.EACCES, False),
        (errno.ENAMETOOLONG, False),
    ):
        assert is_of_machine(OSError(number, os.strerror(number))) is of_machine
    assert not is_of_machine(ValueError("x"))


def test_an_end_says_what_is_left_on_the_disk(rig: Rig) -> None:
    """Of the fuller one; a folder that is gone isn't asked."""
    rig.start("left", "exit 3")
    ended = rig.wait("the end", lambda: rig.report("left")["ended"])
    assert 0 < ended["disk_free_bytes"] <= shutil.disk_usage(rig.root).free * 1.1
    assert ended["of_machine"] is False
    assert disk_free_bytes("/no/such/folder") is None
    assert disk_free_bytes("/no/such/folder", rig.root) == disk_free_bytes(rig.root)
