"""Decides whether a setup must run, and keeps what one has made in the work directory.

A result belongs to a key, which says what the setup depends on, and holds until the machine starts
anew. It is taken over only into a work directory at the same path, since environments have paths
written into them, and only if none of its files stands in the way of one that came with the code.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import time
from typing import Optional

from .copying import Seen, copy_one, look_at, walk
from .errands import ErrandError
from .files import JSONObject, read_json, write_json
from .removing import remove_tree
from .system import boot_id, now_ms

MINE, KEPT, BUSY = "mine", "kept", "busy"
UNUSED_S = 14 * 24 * 3600
_VERSION = 2
_UNFINISHED = ".unfinished"


class SetupGate:
    """The way to one setup; without a key every run has its own."""

    def __init__(self, directory: str, key: Optional[str]) -> None:
        self._directory = directory
        self._key = key
        self._lock: Optional[int] = None

    @property
    def has_key(self) -> bool:
        """Whether a result may be taken over or kept."""
        return self._key is not None

    @property
    def files(self) -> str:
        """Where the files of the result are."""
        return os.path.join(self._directory, f"{self._key}.files")

    def enter(self) -> str:
        """`mine`: run it, then `succeeded` or `leave`; `kept`: take the result over, then `leave`;
        `busy`: ask again.
        """
        if self._key is None:
            return MINE
        if self._lock is None and self._locked(fcntl.LOCK_SH):
            if self._result() is not None:
                with contextlib.suppress(OSError):  # it only counts as unused a little earlier
                    os.utime(self._mark())
                return KEPT
            self.leave()
        if self._lock is None and not self._locked(fcntl.LOCK_EX):
            return BUSY
        return MINE

    def succeeded(self, run: str) -> None:
        """Remember that the result is complete. Raises OSError."""
        write_json(
            self._mark(), {"v": _VERSION, "run": run, "at_ms": now_ms(), "boot_id": boot_id()}
        )
        self.leave()

    def leave(self) -> None:
        """Let others in."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def give_up(self) -> None:
        """Neither take a result over nor keep one."""
        self.leave()
        self._key = None

    def remove_if_unused(self, unused_s: float) -> None:
        """Remove the result unless it holds and was used a short while ago, or is in use now."""
        if not self._locked(fcntl.LOCK_EX):
            return
        try:
            holds = self._result() is not None
            if holds and time.time() - os.stat(self._mark()).st_mtime < unused_s:
                return
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._mark())
            remove_tree(self.files)
            remove_tree(self.files + _UNFINISHED)
        finally:
            self.leave()

    def _locked(self, kind: int) -> bool:
        path = os.path.join(self._directory, f"{self._key}.lock")
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return False
        self._lock = lock
        return True

    def _result(self) -> Optional[JSONObject]:
        mark = read_json(self._mark())
        if mark is None or mark.get("v") != _VERSION or mark.get("boot_id") != boot_id():
            return None
        return mark

    def _mark(self) -> str:
        return os.path.join(self._directory, f"{self._key}.ok")


def remember(work: str, path: str) -> None:
    """Write down how a work directory is before its setup."""
    write_json(path, {name: list(found) for name, found in look_at(work).items()})


def keep(work: str, remembered: str, target: str) -> None:
    """Copy what a setup has made. Raises ErrandError where it did more than add files."""
    with open(remembered, "rb") as file:
        before = {name: Seen(*found) for name, found in json.load(file).items()}
    after = look_at(work)
    for name, found in before.items():
        if after.get(name) != found:
            did = "changed" if name in after else "removed"
            raise ErrandError(f"it {did} `{name}`, which was there before it")
    remove_tree(target)
    remove_tree(target + _UNFINISHED)
    os.mkdir(target + _UNFINISHED, 0o700)
    for name, status in walk(work):
        if name not in before:
            place = os.path.join(target + _UNFINISHED, name)
            os.makedirs(os.path.dirname(place), exist_ok=True)
            copy_one(os.path.join(work, name), place, status)
    os.rename(target + _UNFINISHED, target)


def take_over(kept: str, work: str) -> None:
    """Copy a kept result into a work directory. Raises ErrandError if a file is in the way."""
    entries = list(walk(kept))
    for name, _ in entries:
        place = os.path.join(work, name)
        if os.path.lexists(place) and not (os.path.isdir(place) and not os.path.islink(place)):
            raise ErrandError(f"`{name}`, which it made, comes with the code now")
    for name, status in entries:
        copy_one(os.path.join(kept, name), os.path.join(work, name), status)


def remove_unused(directory: str, unused_s: float = UNUSED_S) -> None:
    """Remove results that nobody has used for long, or that an earlier boot has left."""
    for name in os.listdir(directory):
        key, _, kind = name.rpartition(".")
        if kind == "lock":
            with contextlib.suppress(OSError):  # the next agent tries again
                SetupGate(directory, key).remove_if_unused(unused_s)
