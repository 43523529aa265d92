"""Takes many small blobs in together: all of them become durable with two flushes, or none is kept.

What comes is written beside its place at once, so that memory holds one blob at a time. Nothing has
a name before everything has been checked, so a batch that is refused leaves nothing behind.
"""

import hashlib
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Self

from stellwerk.core.model.ids import BlobHash
from stellwerk.store.disk import flush_file_system
from stellwerk.store.errors import free_bytes, full, refusal, said_in_words

if TYPE_CHECKING:
    from stellwerk.store.blobs import BlobStore

TEMPORARY = ".new-"
"""How the names of what isn't whole yet begin."""

ASK_AGAIN_BYTES = 1 << 20
"""After so much the disk is asked for its room again."""


class Together:
    """Blobs on their way in. Leaving the context without `keep` removes what was written."""

    def __init__(self, store: "BlobStore") -> None:
        self._store = store
        self._root = str(store.root)
        self._prefix = f"{TEMPORARY}{os.urandom(6).hex()}-"
        self._waiting: dict[BlobHash, str] = {}
        self._room = -1

    def __enter__(self) -> Self:
        with said_in_words(self._root):
            self._store.make_folder(self._store.root)
        return self

    def add(self, data: bytes, expected: str = "") -> BlobHash:
        """Takes one whole content; refused if its hash isn't the ``expected`` one."""
        name = BlobHash(hashlib.sha256(data).hexdigest())
        if expected and name != self._store.checked(expected):
            raise damaged(expected, name)
        if name in self._waiting or self._store.renew(name):
            return name
        self._check_room(len(data))
        path = f"{self._root}/{self._prefix}{name}"
        with said_in_words(self._root):
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o400)
            self._waiting[name] = path
            try:
                written = os.write(handle, data)
                while written < len(data):
                    written += os.write(handle, data[written:])
            finally:
                os.close(handle)
        return name

    def _check_room(self, size: int) -> None:
        """Leaves the reserve to others; asks the disk only when it could have become short."""
        self._room -= size
        if self._room < 0:
            self._room = free_bytes(self._root) - self._store.reserve_bytes - size
            if self._room < 0:
                raise full(self._root)
            self._room = min(self._room, ASK_AGAIN_BYTES)

    def keep(self) -> int:
        """Makes all of them durable under their hashes; gives how many are new."""
        count = len(self._waiting)
        if not count:
            return 0
        with said_in_words(self._root):
            flush_file_system(self._store.root)
            for folder in sorted({name[:2] for name in self._waiting}):
                os.makedirs(f"{self._root}/{folder}", mode=0o700, exist_ok=True)
            for name in list(self._waiting):
                os.rename(self._waiting[name], f"{self._root}/{name[:2]}/{name[2:]}")
                del self._waiting[name]
            flush_file_system(self._store.root)
        return count

    def __exit__(self, *exc: object) -> None:
        for path in self._waiting.values():
            with suppress(FileNotFoundError):  # somebody made room by hand
                os.unlink(path)
        self._waiting.clear()


def damaged(expected: str, found: str) -> Exception:
    """Content that isn't what its name says."""
    return refusal(
        "store/blob-damaged",
        f"the content sent for blob {expected} has the hash {found}",
        "send it again",
    )
