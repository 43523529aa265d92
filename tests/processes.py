"""Looks at processes as the kernel sees them: a zombie that nobody reaps has ended all the same.

What a test has started may become the child of process 1, which takes a second to reap it on some
machines, and never does on others.
"""

import os
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 15.0


def is_alive(pid: int) -> bool:
    """Whether a process runs (a zombie doesn't, when the last of its threads is gone: until then
    it has its files, and a socket of it takes connections).
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        threads = len(os.listdir(f"/proc/{pid}/task"))
    except OSError:
        return False
    return threads > 1 or stat.rpartition(")")[2].split()[0] not in {"Z", "X"}


def wait_until(holds: Callable[[], object], what: str, timeout_s: float = PATIENCE_S) -> None:
    """Waits until something holds."""
    deadline = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < deadline, f"never came: {what}"
        time.sleep(0.005)


def wait_gone(pid: int, timeout_s: float = PATIENCE_S) -> None:
    """Waits until a process runs no more."""
    wait_until(lambda: not is_alive(pid), f"the end of process {pid}", timeout_s)


def end_all_of(state: Path) -> None:
    """Has all processes end that belong to the Stellwerk of this folder."""
    mark = f"STELLWERK_HOME={state}".encode()
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            is_of_it = mark in Path(f"/proc/{name}/environ").read_bytes()
        except OSError:
            continue
        if is_of_it:
            os.kill(int(name), signal.SIGTERM)


def end_started(process: "subprocess.Popen[bytes]", with_signal: int, patience_s: float) -> None:
    """Ends what the test has started, by SIGKILL where it takes too long."""
    process.send_signal(with_signal)
    try:
        process.wait(patience_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)
