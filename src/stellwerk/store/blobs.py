"""Keeps texts and files by the hash of their content, outside the database.

A blob is written beside its place, flushed and renamed, so that a name never stands for half of it.
Being asked for or put again renews a blob's age, which protects it from being removed until what
refers to it is stored.
"""

import hashlib
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Self

from msgspec import Struct

from stellwerk.core.model.ids import BlobHash
from stellwerk.store.disk import flush_folder
from stellwerk.store.errors import StoreError, free_bytes, from_os, full, refusal, said_in_words
from stellwerk.store.together import TEMPORARY, Together, damaged

_HASH = re.compile(r"[0-9a-f]{64}")
_CHUNK_BYTES = 1 << 20

FEW = 8
"""So many new blobs are flushed one by one; more of them together."""


class Collected(Struct, frozen=True):
    """What `drop` removed."""

    names: tuple[str, ...]
    bytes: int


class BlobStore:
    """Blobs under one folder, in a subfolder for each first two digits of their hash (SHA-256).

    ``reserve_bytes`` of room on the disk are left to others: with less, new blobs are refused.
    """

    def __init__(self, root: Path, reserve_bytes: int = 0) -> None:
        self.root = root
        self.reserve_bytes = reserve_bytes
        self._folders: set[str] = set()

    def put(self, data: bytes) -> BlobHash:
        """Stores bytes durably; gives their hash. What is there already isn't written again."""
        name = BlobHash(hashlib.sha256(data).hexdigest())
        if not self.renew(name):
            self.put_stream((data,))
        return name

    def put_many(self, contents: Sequence[bytes]) -> list[BlobHash]:
        """Stores many contents durably, with two flushes for all of them; gives their hashes."""
        names = [BlobHash(hashlib.sha256(data).hexdigest()) for data in contents]
        by_name = dict(zip(names, contents, strict=True))
        new = {name: data for name, data in by_name.items() if not self.renew(name)}
        if len(new) <= FEW:
            for data in new.values():
                self.put_stream((data,))
            return names
        if free_bytes(str(self.root)) < self.reserve_bytes + sum(map(len, new.values())):
            raise full(str(self.root))
        with Together(self) as arriving:
            for data in new.values():
                arriving.add(data)
            arriving.keep()
        return names

    def together(self) -> Together:
        """Many blobs that come one after another and are kept all at once, or none of them."""
        return Together(self)

    def put_stream(self, chunks: Iterable[bytes], expected: str = "") -> BlobHash:
        """Stores what ``chunks`` yields; refused if its hash isn't the ``expected`` one."""
        with self.incoming() as blob:
            for chunk in chunks:
                blob.write(chunk)
            return blob.keep(expected)

    def incoming(self) -> "Incoming":
        """A blob that comes in parts: use it as a context, `write` the parts, then `keep` it."""
        return Incoming(self)

    def get(self, name: str, *, verify: bool = False) -> bytes:
        """A blob's bytes. With ``verify``, content that was changed behind our back is an error."""
        try:
            data = self.path(name).read_bytes()
        except FileNotFoundError:
            raise _absent(name) from None
        except OSError as error:
            raise from_os(error, str(self.root)) from error
        if verify and hashlib.sha256(data).hexdigest() != name:
            raise refusal(
                "store/blob-damaged",
                f"blob {name} isn't what its name says",
                "submit what refers to it again; look into the system's log for disk errors",
            )
        return data

    def begins(self, name: str, count: int = 8) -> bytes:
        """The first bytes of a blob; nothing of one that isn't there."""
        try:
            with open(self._place(name), "rb") as file:
                return file.read(count)
        except FileNotFoundError:
            return b""

    def path(self, name: str) -> Path:
        """Where a blob is or would be; for those that read it in parts. Never write to it."""
        self.checked(name)
        return self.root / name[:2] / name[2:]

    def missing(self, names: Iterable[str]) -> list[BlobHash]:
        """Those that aren't there, in the order asked for."""
        return [
            BlobHash(name) for name in dict.fromkeys(names) if not self.renew(self.checked(name))
        ]

    def old(self, before_ms: int) -> dict[str, int]:
        """Blobs last asked for before an instant (UTC), with their sizes.

        What an interrupted `put` left is among them, by the name of its file.
        """
        found = {}
        for path, name in self._files():
            stat = _stat(path)
            if stat is not None and stat.st_mtime_ns // 1_000_000 < before_ms:
                found[name] = stat.st_size
        return found

    def drop(self, names: Iterable[str], before_ms: int) -> Collected:
        """Removes those of some old blobs that are still as old; gives what was removed."""
        removed: list[str] = []
        size = 0
        for name in names:
            path = self._place(name)
            stat = _stat(path)
            if stat is None or stat.st_mtime_ns // 1_000_000 >= before_ms:
                continue
            path.unlink(missing_ok=True)
            removed.append(name)
            size += stat.st_size
        return Collected(tuple(removed), size)

    def measure(self) -> tuple[int, int]:
        """How many blobs there are, and their bytes together."""
        sizes = [stat.st_size for path, _ in self._files() if (stat := _stat(path)) is not None]
        return len(sizes), sum(sizes)

    def _files(self) -> Iterator[tuple[Path, str]]:
        """All blobs with their hashes, and what an interrupted `put` left, with its own name."""
        if not self.root.is_dir():
            return
        for folder in sorted(self.root.iterdir()):
            if folder.name.startswith(TEMPORARY):
                yield folder, folder.name
            elif folder.is_dir():
                for path in sorted(folder.iterdir()):
                    yield path, folder.name + path.name

    def _place(self, name: str) -> Path:
        """Where a blob is, or what an interrupted `put` left under this name."""
        return self.root / name if name.startswith(TEMPORARY) else self.path(name)

    @staticmethod
    def checked(name: str) -> str:
        """A blob's name; refused if it can't be one."""
        if _HASH.fullmatch(name) is None:
            raise refusal(
                "store/bad-hash",
                f"`{name[:80]}` is not the hash of a blob",
                "a blob is named by the SHA-256 of its content, 64 digits of 0-9a-f",
            )
        return name

    def make_folder(self, folder: Path) -> None:
        """Makes a folder once, durably."""
        if str(folder) in self._folders:
            return
        if not folder.is_dir():
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            flush_folder(folder.parent)
        self._folders.add(str(folder))

    def renew(self, name: str) -> bool:
        """Whether a blob is there; if so, its age begins anew."""
        try:
            os.utime(self.path(name))
        except FileNotFoundError:
            return False
        except OSError as error:
            raise from_os(error, str(self.root)) from error
        return True


class Incoming:
    """A blob on its way in. Leaving the context without `keep` removes what was written."""

    def __init__(self, store: BlobStore) -> None:
        self._store = store
        self._digest = hashlib.sha256()
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        with said_in_words(str(self._store.root)):
            self._store.make_folder(self._store.root)
            handle, self._temporary = tempfile.mkstemp(prefix=TEMPORARY, dir=self._store.root)
            self._file = open(handle, "wb")
        return self

    def write(self, chunk: bytes) -> None:
        """Takes the next part."""
        assert self._file is not None, "outside its context"
        if free_bytes(str(self._store.root)) < self._store.reserve_bytes + len(chunk):
            raise full(str(self._store.root))
        self._digest.update(chunk)
        with said_in_words(str(self._store.root)):
            self._file.write(chunk)

    def keep(self, expected: str = "") -> BlobHash:
        """Makes it durable under its hash; refused if that isn't the ``expected`` one."""
        assert self._file is not None, "outside its context"
        name = BlobHash(self._digest.hexdigest())
        if expected and name != self._store.checked(expected):
            raise damaged(expected, name)
        with said_in_words(str(self._store.root)):
            self._file.flush()
            os.fsync(self._file.fileno())
            path = self._store.path(name)
            self._store.make_folder(path.parent)
            os.chmod(self._temporary, 0o400)
            os.rename(self._temporary, path)
            flush_folder(path.parent)
        return name

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            with suppress(OSError):  # flushing to a full disk again has nothing new to say
                self._file.close()
            self._file = None
        with suppress(FileNotFoundError):  # it was kept, and has its name
            os.unlink(self._temporary)


def chunks_of(path: Path) -> Iterator[bytes]:
    """Reads a file in parts, for `BlobStore.put_stream`."""
    with open(path, "rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            yield chunk


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.stat()
    except FileNotFoundError:
        return None


def _absent(name: str) -> StoreError:
    return refusal("store/no-blob", f"there is no blob {name}", "send it again")
