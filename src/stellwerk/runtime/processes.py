"""Reads from /proc which processes belong to a job, what they use, and what they do on a signal.

A job's processes are the descendants of its wrapper: as a subreaper it gets every orphan. Only
when a wrapper has died are they looked for by the marker in their environment.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple, Optional

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_LARGEST_READ = 1 << 20


class Process(NamedTuple):
    """One line of /proc/PID/stat; `started` are ticks since boot, which tell two pids apart."""

    pid: int
    name: str
    state: str
    parent: int
    session: int
    cpu_ms: int
    reaped_cpu_ms: int
    started: int
    rss_bytes: int

    @property
    def is_alive(self) -> bool:
        """False for one that has ended and waits to be reaped."""
        return self.state not in {"Z", "X", "x"}


class SignalMasks(NamedTuple):
    """Bit n-1 stands for signal n."""

    blocked: int
    ignored: int
    caught: int

    def reacts_to(self, number: int) -> bool:
        """Whether the process catches the signal or holds it back to look at it later."""
        return bool((self.caught | self.blocked) >> (number - 1) & 1)

    def ignores(self, number: int) -> bool:
        """Whether the signal would have no effect at all."""
        return bool(self.ignored >> (number - 1) & 1)


def _read(path: str, size: int = 4096) -> bytes:
    """The content of a small file of /proc; empty when the process has gone."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return b""
    try:
        return os.read(descriptor, size)
    except OSError:
        return b""
    finally:
        os.close(descriptor)


def parse_stat(raw: bytes) -> Optional[Process]:
    """One /proc/PID/stat; the name may hold spaces and brackets."""
    head, opened, rest = raw.partition(b"(")
    name, closed, tail = rest.rpartition(b")")
    fields = tail.split()
    if not opened or not closed or len(fields) < 22:
        return None
    tick_ms = 1000 // _TICKS_PER_S or 1
    return Process(
        pid=int(head),
        name=name.decode("utf-8", "replace"),
        state=fields[0].decode("ascii"),
        parent=int(fields[1]),
        session=int(fields[3]),
        cpu_ms=(int(fields[11]) + int(fields[12])) * tick_ms,
        reaped_cpu_ms=(int(fields[13]) + int(fields[14])) * tick_ms,
        started=int(fields[19]),
        rss_bytes=int(fields[21]) * _PAGE_BYTES,
    )


def look_up(pid: int) -> Optional[Process]:
    """The process of that number now, or None."""
    return parse_stat(_read(f"/proc/{pid}/stat"))


def is_running(pid: int, started: int) -> bool:
    """Whether that very process is still alive (not a later one of the same number)."""
    process = look_up(pid)
    return process is not None and process.started == started and process.is_alive


def everything() -> list[Process]:
    """All processes of the machine."""
    found = (look_up(int(name)) for name in os.listdir("/proc") if name.isdigit())
    return [process for process in found if process is not None]


def descendants(
    ancestor: int, table: Iterable[Process], without: Collection[int] = ()
) -> list[Process]:
    """Living processes below `ancestor`, parents before children; none of or below `without`."""
    children: dict[int, list[Process]] = {}
    for process in table:
        if process.pid not in without:
            children.setdefault(process.parent, []).append(process)
    found: list[Process] = []
    waiting = list(children.get(ancestor, ()))
    for process in waiting:
        if process.is_alive:
            found.append(process)
        waiting.extend(children.get(process.pid, ()))
    return found


def orphans(parent: int, table: Sequence[Process]) -> list[Process]:
    """Processes that the kernel gave to `parent` when their own had died, with all below them.

    They are told from what it forked by the program they run.
    """
    own = arguments(parent)
    heads = [p for p in table if p.parent == parent and p.is_alive]
    strangers = [head for head in heads if arguments(head.pid) not in ([], own)]
    return strangers + [below for head in strangers for below in descendants(head.pid, table)]


def signal_masks(pid: int) -> Optional[SignalMasks]:
    """What a process does with signals, or None when it has gone."""
    masks = {}
    for line in _read(f"/proc/{pid}/status", 8192).splitlines():
        name, _, value = line.partition(b":")
        if name in {b"SigBlk", b"SigIgn", b"SigCgt"}:
            masks[name] = int(value, 16)
    if len(masks) != 3:
        return None
    return SignalMasks(masks[b"SigBlk"], masks[b"SigIgn"], masks[b"SigCgt"])


def arguments(pid: int) -> list[str]:
    """The command line of a process, at most the first 4 KiB of it."""
    raw = _read(f"/proc/{pid}/cmdline")
    return [os.fsdecode(part) for part in raw.rstrip(b"\0").split(b"\0")] if raw else []


def command_name(pid: int) -> str:
    """What the kernel calls the program of a process: 15 letters of it; "" where nobody tells."""
    return _read(f"/proc/{pid}/comm").decode("utf-8", "replace").strip()


def reads_pipe(pid: int) -> bool:
    """Whether the standard input of a process is a pipe."""
    try:
        return os.readlink(f"/proc/{pid}/fd/0").startswith("pipe:")
    except OSError:
        return False


def proportional_bytes(pid: int) -> Optional[int]:
    """Memory of a process with what it shares divided by the number of sharers, or None."""
    for line in _read(f"/proc/{pid}/smaps_rollup").splitlines():
        if line.startswith(b"Pss:"):
            return int(line.split()[1]) * 1024
    return None


_MARKER = b"STELLWERK_RUN_ID="
_STOP_FILE = b"STELLWERK_STOP_FILE="


def run_of(pid: int) -> Optional[str]:
    """The run a process belongs to, by the marker in its environment, or None."""
    return _variable(pid, _MARKER)


def run_below(pid: int, runs: str) -> Optional[str]:
    """The run a process belongs to if that has, or had, its directory in `runs`; or None."""
    run = run_of(pid)
    is_here = run is not None and _variable(pid, _STOP_FILE) == f"{runs}/{run}/stop"
    return run if is_here else None


def _variable(pid: int, prefix: bytes) -> Optional[str]:
    for entry in _read(f"/proc/{pid}/environ", _LARGEST_READ).split(b"\0"):
        if entry.startswith(prefix):
            return os.fsdecode(entry[len(prefix) :])
    return None


def marked(run: str, table: Iterable[Process], run_directory: str, sessions: set[int]) -> set[int]:
    """Processes of a run without its wrapper: by the marker in their environment.

    One that has overwritten its environment counts when it is in a session of the run and its
    output goes into the run's directory.
    """
    found = set()
    for process in table:
        if process.is_alive:
            in_session = process.session in sessions and _writes_into(process.pid, run_directory)
            if in_session or run_of(process.pid) == run:
                found.add(process.pid)
    return found


def _writes_into(pid: int, directory: str) -> bool:
    for descriptor in (1, 2):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except OSError:
            continue
        if target.startswith(directory + "/"):
            return True
    return False


def send(process: Process, number: int) -> bool:
    """Signal that very process; False when it has gone or isn't ours."""
    current = look_up(process.pid)
    if current is None or current.started != process.started:
        return False
    return send_to_pid(process.pid, number)


def send_to_pid(pid: int, number: int) -> bool:
    """Signal a process known to be there; False when it has gone or isn't ours."""
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def kill_all_below(ancestor: int, passes: int = 10) -> int:
    """SIGKILL every descendant, again and again as more are found; the number found last.

    They are stopped first: a job that forks faster than it can be counted would win otherwise.
    """
    left: list[Process] = []
    for _ in range(passes):
        left = descendants(ancestor, everything())
        for process in left:
            send_to_pid(process.pid, signal.SIGSTOP)
        for process in left:
            send_to_pid(process.pid, signal.SIGKILL)
        if not left:
            break
    return len(left)
