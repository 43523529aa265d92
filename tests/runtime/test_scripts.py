"""The trap around a user's text, run by a real bash."""

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from stellwerk.runtime.scripts import has_own_trap, trap

LINE = trap([85, 17], [signal.SIGTERM])


def ends_with(tmp_path: Path, body: str, *, withdrawn: bool = False) -> tuple[int, str]:
    """Run a script under the trap, send SIGTERM when it says ready; its status and output."""
    script = tmp_path / "script.sh"
    script.write_text(f"{LINE}{body}\n")
    stop = tmp_path / "stop"
    if withdrawn:
        Path(f"{stop}.withdrawn").touch()
    shell = subprocess.Popen(
        ["bash", str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "STELLWERK_STOP_FILE": str(stop)},
    )
    assert shell.stdout is not None
    assert shell.stdout.readline() == "ready\n"
    time.sleep(0.03)
    shell.send_signal(signal.SIGTERM)
    with shell.stdout:
        rest = shell.stdout.read()
    return shell.wait(), rest


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("echo ready; sleep 0.1; echo next", 0),
        ("echo ready; (sleep 0.1; exit 85); echo next", 85),
        ("echo ready; (sleep 0.1; exit 85) | cat; echo next", 85),
        ("echo ready; cat /dev/null | (sleep 0.1; exit 17); echo next", 17),
        ("echo ready; (sleep 0.1; exit 3) | cat; echo next", 0),
        ("set -o pipefail; echo ready; (sleep 0.1; exit 3) | cat; echo next", 3),
        ("set -eu; echo ready; sleep 0.1; echo next", 0),
    ],
)
def test_no_later_command_starts(tmp_path: Path, body: str, status: int) -> None:
    """The running command ends by itself, and its status, or a saved one in its pipe, counts."""
    assert ends_with(tmp_path, body) == (status, "")


def test_trap_lets_go_after_a_withdrawal(tmp_path: Path) -> None:
    """A signal that was meant for a notice no longer in force stops nothing."""
    assert ends_with(tmp_path, "echo ready; sleep 0.1; echo next", withdrawn=True) == (0, "next\n")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("trap 'save' TERM", True),
        ("if x; then trap save SIGTERM; fi", True),
        ('trap "kill -USR1 $pid" \\\n  15', True),
        ("trap cleanup EXIT", True),
        ("trap - INT", False),
        ("# trap save TERM", False),
        ("echo TERM", False),
        ("python trap.py", False),
    ],
)
def test_own_trap_is_recognised(text: str, expected: bool) -> None:
    """A script that handles the signal itself is known by its text."""
    assert has_own_trap(text, [signal.SIGTERM]) == expected
