"""Remembers the hashes of files, so that an unchanged file isn't read again.

A file counts as unchanged when size, modification time and inode are the same. What was modified
shortly before it was hashed isn't remembered: it may change again within the clock's resolution.
"""

import hashlib
import os
import time
from types import TracebackType
from typing import Self

import msgspec

SETTLED_NS = 2_000_000_000

_Line = tuple[int, int, int, str]
"""Modification time in ns, size, inode, hash."""


class HashCache:
    """The hashes of one directory, kept in a file of the cache folder. Never fails: it forgets."""

    def __init__(self, folder: str, top: str) -> None:
        name = hashlib.sha256(os.fsencode(top)).hexdigest()[:24]
        self._path = os.path.join(folder, "hashes", f"{name}.json")
        self._old: dict[str, _Line] = {}
        self._new: dict[str, _Line] = {}

    def __enter__(self) -> Self:
        try:
            with open(self._path, "rb") as file:
                self._old = msgspec.json.decode(file.read(), type=dict[str, _Line])
        except (OSError, msgspec.MsgspecError):
            self._old = {}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if error is None and self._new != self._old:
            self._save()

    def get(self, path: str, status: os.stat_result) -> str:
        """The remembered hash, or nothing."""
        line = self._old.get(path)
        if line is None or line[:3] != (status.st_mtime_ns, status.st_size, status.st_ino):
            return ""
        self._new[path] = line
        return line[3]

    def put(self, path: str, status: os.stat_result, digest: str) -> str:
        """Remembers a hash, if the file has been left alone for a while; gives it back."""
        if status.st_mtime_ns + SETTLED_NS < time.clock_gettime_ns(time.CLOCK_REALTIME):
            line = (status.st_mtime_ns, status.st_size, status.st_ino, digest)
            self._new[path] = line
        return digest

    def _save(self) -> None:
        draft = f"{self._path}.{os.getpid()}"
        try:
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
            with open(draft, "wb") as file:
                file.write(msgspec.json.encode(self._new))
            os.replace(draft, self._path)
        except OSError:
            # A full disk or a read-only home: the next packing reads the files again.
            self._new.clear()
