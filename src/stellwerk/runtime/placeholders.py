"""Makes the empty files and folders that something is mounted on, and takes them away again.

They lie in places where this user may write, so others see them while a run goes on: empty. Each
run holds a shared lock on what it mounts on; the last one removes it, if one of ours made it. That
must not happen earlier: removing a place takes away what others have mounted on it.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
from collections.abc import Iterator

from .files import read_json, write_json


class Placeholders:
    """Those that one run uses. `marks` is a folder that remembers which were made by us."""

    def __init__(self, marks: str) -> None:
        self._marks = marks
        self._used: list[tuple[str, int]] = []

    def use(self, path: str, *, is_folder: bool) -> None:
        """Makes what is missing of a path, and keeps it there for this run. Raises OSError."""
        missing = []
        place = path
        while not os.path.lexists(place):
            missing.append(place)
            place = os.path.dirname(place)
        with self._alone():
            for place in reversed(missing):
                self._make(place, is_folder=is_folder or place != path)
            for place in [*reversed(missing[1:]), path]:
                self._share(place)

    @property
    def count(self) -> int:
        """How many this run uses."""
        return len(self._used)

    def give_up(self, kept: int) -> None:
        """Uses no more than the first `kept`; what we made and nobody uses any more is removed,
        if it is still empty.
        """
        with self._alone():
            for path, descriptor in reversed(self._used[kept:]):
                with contextlib.suppress(OSError):  # somebody uses it, or has put something there
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self._remove(path, os.fstat(descriptor))
                os.close(descriptor)
        del self._used[kept:]

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        os.makedirs(self._marks, mode=0o700, exist_ok=True)
        path = os.path.join(self._marks, "lock")
        lock = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
        finally:
            os.close(lock)

    def _make(self, path: str, *, is_folder: bool) -> None:
        try:
            if is_folder:
                os.mkdir(path, 0o755)
            else:
                os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        except FileExistsError:
            # It has come to be since we looked, and isn't ours.
            return
        made = os.lstat(path)
        write_json(self._mark(path), {"path": path, "device": made.st_dev, "inode": made.st_ino})

    def _share(self, path: str) -> None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        except PermissionError:
            # It was there before, and what isn't ours is never removed.
            return
        self._used.append((path, descriptor))
        with contextlib.suppress(OSError):  # without locks there it stays when the run is over
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)

    def _remove(self, path: str, held: os.stat_result) -> None:
        mark = read_json(self._mark(path))
        found = os.lstat(path)
        if mark is None or not os.path.samestat(held, found):
            return
        if (mark.get("device"), mark.get("inode")) != (found.st_dev, found.st_ino):
            return
        if os.path.isdir(path):
            os.rmdir(path)
        elif found.st_size == 0:
            os.unlink(path)
        os.unlink(self._mark(path))

    def _mark(self, path: str) -> str:
        return os.path.join(self._marks, hashlib.sha256(os.fsencode(path)).hexdigest()[:24])
