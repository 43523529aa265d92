"""Writes and reads the small files of an agent and of its runs, so that a reader never sees half.

`Places` names what lies under an agent's root, `RunFiles` what lies in the directory of one run.
"""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from typing import Any, BinaryIO, Optional

from .epilogues import telling_lines

JSONObject = dict[str, Any]
RUN_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_TAIL_BYTES = 16_384
_TAIL_LINES = 20
_LARGEST_JSON = 16 * 1024 * 1024
_ANEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NONBLOCK


def write_atomically(path: str, content: bytes, *, durable: bool = False) -> None:
    """Replace `path` by rename; `durable` also waits until it would outlive a power cut."""
    unfinished = f"{path}.{os.getpid()}.tmp"
    descriptor = os.open(unfinished, _ANEW, 0o600)
    try:
        view = memoryview(content)
        while view:
            view = view[os.write(descriptor, view) :]
        if durable:
            os.fsync(descriptor)
    except OSError:
        os.unlink(unfinished)
        raise
    finally:
        os.close(descriptor)
    os.rename(unfinished, path)
    if durable:
        sync_directory(os.path.dirname(path))


def sync_directory(path: str) -> None:
    """Make names created in a directory outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def sync_file(path: str) -> None:
    """Make the content of a file outlive a power cut."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def to_json(value: JSONObject) -> bytes:
    """One line of JSON, without the line's end."""
    return json.dumps(value, separators=(",", ":")).encode("ascii")


def write_json(path: str, value: JSONObject, *, durable: bool = False) -> None:
    """Replace a JSON file by rename."""
    write_atomically(path, to_json(value) + b"\n", durable=durable)


def open_file(path: str) -> BinaryIO:
    """Open a regular file for reading. Raises OSError for anything else.

    A job may have put a pipe in the place of any of its files, and opening that would never end.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no regular file", path)
    return open(descriptor, "rb")


def read_json(path: str) -> Optional[JSONObject]:
    """The object in a file, or None where it is missing, torn or something else."""
    try:
        with open_file(path) as file:
            text = file.read(_LARGEST_JSON + 1)
        value = json.loads(text) if len(text) <= _LARGEST_JSON else None
    except (OSError, ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def last_lines(path: str) -> list[str]:
    """The last lines of a log, at most 20 and at most 16 KiB of them, without a launcher's."""
    try:
        with open_file(path) as file:
            size = file.seek(0, os.SEEK_END)
            start = file.seek(max(0, size - _TAIL_BYTES))
            tail = file.read(_TAIL_BYTES)
    except OSError:
        return []
    if start > 0:
        tail = tail.partition(b"\n")[2] or tail
    text = tail.decode("utf-8", "replace")
    lines = [line.rpartition("\r")[2][:2000] for line in text.splitlines()]
    return telling_lines(lines)[-_TAIL_LINES:]


class Places:
    """What lies under the root of an agent."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.runs = os.path.join(root, "runs")
        self.setups = os.path.join(root, "setups")
        self.images = os.path.join(root, "images")
        self.placeholders = os.path.join(root, "placeholders")
        self.shell = os.path.join(root, "shell")
        self.lock = os.path.join(root, "agent.lock")
        self.card = os.path.join(root, "agent.json")
        self.inbox = os.path.join(root, "agent.fifo")
        self.epoch = os.path.join(root, "epoch")
        self.trash = os.path.join(root, "trash")
        self.forgotten = os.path.join(root, "forgotten")
        self.sessions = os.path.join(root, "sessions")
        self.console = os.path.join(root, "console.json")

    def make(self) -> None:
        """Create the directories, open to their user only."""
        for path in (self.root, self.runs, self.setups, self.shell, self.trash, self.sessions):
            os.makedirs(path, mode=0o700, exist_ok=True)
        os.chmod(self.root, 0o700)

    def run(self, name: str) -> RunFiles:
        """The files of one run."""
        return RunFiles(os.path.join(self.runs, name))


class RunFiles:
    """What lies in the directory of one run."""

    def __init__(self, directory: str) -> None:
        self.directory = directory

    def path(self, name: str) -> str:
        """The path of a file of this run."""
        return os.path.join(self.directory, name)

    @property
    def spec(self) -> str:
        """What was asked for, without the values of secrets."""
        return self.path("spec.json")

    @property
    def started(self) -> str:
        """Who the wrapper is; written before anything of the user's runs."""
        return self.path("started.json")

    @property
    def status(self) -> str:
        """How far the run is."""
        return self.path("status.json")

    @property
    def ended(self) -> str:
        """How the run ended; its existence is the end."""
        return self.path("ended.json")

    @property
    def lock(self) -> str:
        """Locked by the wrapper for as long as it lives."""
        return self.path("lock")

    @property
    def control(self) -> str:
        """The FIFO on which the wrapper takes orders."""
        return self.path("control")

    @property
    def stop(self) -> str:
        """There from a notice until it is withdrawn."""
        return self.path("stop")

    @property
    def withdrawn(self) -> str:
        """There after a notice was taken back, until the next one."""
        return self.path("stop.withdrawn")

    @property
    def done(self) -> str:
        """Made by the job that is finished although it had a notice."""
        return self.path("done")

    @property
    def metrics(self) -> str:
        """JSON lines of the job: step, name, value."""
        return self.path("metrics.jsonl")

    @property
    def setup_log(self) -> str:
        """Output of the setup."""
        return self.path("setup.log")

    def rank_log(self, rank: int) -> str:
        """Output of one rank; rank 0 is the run's log."""
        return self.path("run.log" if rank == 0 else f"rank-{rank}.log")

    def stream(self, name: str) -> Optional[str]:
        """The file behind a stream's name, or None if it has no such name."""
        if name in {"run", "setup"}:
            return self.path(f"{name}.log")
        if name == "metrics":
            return self.metrics
        return self.path(f"{name}.log") if re.fullmatch(r"rank-[0-9]{1,5}", name) else None
