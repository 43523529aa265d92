"""Makes directories of a run out of snapshots: manifests of content in the blob store.

A directory appears whole or not at all: it is made beside its place and renamed. Nothing is ever
written through a symbolic link, since links are made last and into directories that were made here;
content that would lie below a link is refused.
"""

import contextlib
import errno
import hashlib
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple, Protocol

import msgspec
from msgspec.structs import replace

from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.base import DriverError
from stellwerk.runtime.removing import remove_tree

MANIFEST_VERSION = 1
_UNFINISHED = ".unfinished"
_NOT_COPYABLE_IN_KERNEL = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
_CHUNK_BYTES = 1 << 30


class BlobReader(Protocol):
    """Where content is found by its hash: a blob store, of which only this is needed here."""

    def path(self, name: str, /) -> Path:
        """The file of a hash, there or not; raises StellwerkError for what is no hash."""
        ...


class Entry(msgspec.Struct, frozen=True):
    """One file, link or directory: ``hash`` with ``mode`` and ``size``, ``link``, or ``dir``."""

    path: str
    mode: int | None = None
    size: int = 0
    hash: str = ""
    link: str = ""
    dir: bool = False


class Manifest(msgspec.Struct, frozen=True):
    """All of a directory; or, where it is ``single``, the one file that stands for itself."""

    v: int
    files: tuple[Entry, ...]
    single: bool = False


class Part(NamedTuple):
    """A snapshot, and where in a directory its content goes: "" for all of it."""

    place: str
    snapshot: str


def read_manifest(snapshot: str, blobs: BlobReader) -> Manifest:
    """Reads and checks the manifest of a snapshot; raises DriverError if it can't be used."""
    try:
        manifest = msgspec.json.decode(blobs.path(snapshot).read_bytes(), type=Manifest)
    except FileNotFoundError as error:
        message = f"snapshot {snapshot[:12]} isn't in the blob store"
        raise _refusal("snapshot/missing", message) from error
    except StellwerkError as error:
        raise _refusal("snapshot/missing", error.problems[0].message) from error
    except OSError as error:
        message = f"snapshot {snapshot[:12]} can't be read: {error.strerror}"
        raise _refusal("snapshot/missing", message) from error
    except msgspec.DecodeError as error:
        message = f"snapshot {snapshot[:12]} is no manifest: {error}"
        raise _refusal("snapshot/damaged", message) from error
    if manifest.v != MANIFEST_VERSION:
        message = (
            f"snapshot {snapshot[:12]} has version {manifest.v}; this reads {MANIFEST_VERSION}"
        )
        raise _refusal("snapshot/version", message)
    bad = [entry.path for entry in manifest.files if not _is_inside(entry.path)]
    if bad:
        message = f"snapshot {snapshot[:12]} leads out of the work directory: {bad[0]!r}"
        raise _refusal("snapshot/outside", message)
    return manifest


def make_work_directory(
    work: str, parts: Sequence[Part], blobs: BlobReader, *, single: bool = False
) -> bool:
    """Makes the directory ``work`` out of snapshots, where later ones replace files of earlier
    ones; False if it is there already. ``single``: a snapshot may be one file, which lies in it.

    Raises a final DriverError if it can't be made: nothing was started then.
    """
    if os.path.isdir(work):
        return False
    entries = _together(parts, blobs, single=single)
    unfinished = work + _UNFINISHED
    try:
        os.makedirs(os.path.dirname(work), mode=0o700, exist_ok=True)
        remove_tree(unfinished)
        os.mkdir(unfinished, 0o700)
        _fill(unfinished, entries, blobs)
        os.rename(unfinished, work)
    except OSError as error:
        remove_tree(unfinished)
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        code = "snapshot/disk-full" if full else "snapshot/not-written"
        message = f"the work directory {work} can't be made: {error.strerror} ({error.filename})"
        raise _refusal(code, message) from error
    except StellwerkError as error:
        remove_tree(unfinished)
        raise _refusal("snapshot/damaged", error.problems[0].message) from error
    except DriverError:
        remove_tree(unfinished)
        raise
    return True


def merge_into(folder: str, snapshot: str, blobs: BlobReader) -> None:
    """Puts the content of a snapshot into a folder that has its own: each file appears whole, one
    that is the same already is left alone, and nothing is removed. Raises DriverError or OSError.
    """
    for entry in read_manifest(snapshot, blobs).files:
        path = os.path.join(folder, entry.path)
        around = path if entry.dir else os.path.dirname(path)
        os.makedirs(around, exist_ok=True)
        if not _leads_inside(folder, around):
            message = f"`{entry.path}` would be written through a link, out of {folder}"
            raise _refusal("snapshot/outside", message)
        if entry.link:
            _replace(path, partial(os.symlink, entry.link))
        elif not entry.dir and not _is_the_same(path, entry):
            _replace(path, partial(_write, entry=entry, blobs=blobs))


def _leads_inside(folder: str, path: str) -> bool:
    top = os.path.realpath(folder)
    return os.path.commonpath([top, os.path.realpath(path)]) == top


def _replace(path: str, make: Callable[[str], None]) -> None:
    draft = f"{path}.{os.getpid()}{_UNFINISHED}"
    try:
        make(draft)
        os.rename(draft, path)
    except (OSError, DriverError):
        with contextlib.suppress(OSError):  # it may not have come to that
            os.unlink(draft)
        raise


def _is_the_same(path: str, entry: Entry) -> bool:
    try:
        with open(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW), "rb") as file:
            if os.fstat(file.fileno()).st_size != entry.size:
                return False
            return hashlib.file_digest(file, "sha256").hexdigest() == entry.hash
    except OSError:
        return False


def remove_work_directories(parent: str, run: str) -> None:
    """Removes the work directories of all generations of a run that is over."""
    try:
        names = os.listdir(parent)
    except FileNotFoundError:
        return
    for name in names:
        if name.rpartition(".")[0] == run:
            remove_tree(os.path.join(parent, name))


def _together(parts: Sequence[Part], blobs: BlobReader, *, single: bool) -> list[Entry]:
    """The entries of all parts, each at its place; the files of the first part come first."""
    found: dict[str, Entry] = {}
    for part in parts:
        manifest = read_manifest(part.snapshot, blobs)
        if not part.place and manifest.single and not single:
            raise _refusal("snapshot/file", "a file can't be the work directory")
        for entry in manifest.files:
            stands_for_itself = manifest.single and part.place
            path = part.place if stands_for_itself else f"{part.place}/{entry.path}".lstrip("/")
            found[path] = replace(entry, path=path)
        if part.place and not manifest.files:
            found[part.place] = Entry(part.place, dir=True)
    solid = {path for path, entry in found.items() if not entry.dir}
    for path in found:
        above = next((parent for parent in _parents(path) if parent in solid), "")
        if above:
            message = f"`{path}` can't be made: `{above}` of the work directory is no folder"
            raise _refusal("snapshot/in-the-way", message)
    return list(found.values())


def _parents(path: str) -> Iterator[str]:
    while path := os.path.dirname(path):
        yield path


def _fill(root: str, entries: Iterable[Entry], blobs: BlobReader) -> None:
    made = {root}
    last: list[tuple[str, Entry]] = []
    for entry in entries:
        path = os.path.join(root, entry.path)
        if entry.link or entry.dir:
            last.append((path, entry))
        if entry.dir:
            _make_directory(path, made)
        elif not entry.link:
            _make_directory(os.path.dirname(path), made)
            _write(path, entry, blobs)
    for path, entry in last:
        if entry.link:
            _make_directory(os.path.dirname(path), made)
            os.symlink(entry.link, path)
    for path, entry in last:
        if entry.dir and entry.mode is not None:
            os.chmod(path, (entry.mode & 0o777) | 0o700)


def _make_directory(path: str, made: set[str]) -> None:
    missing = []
    while path not in made:
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):  # a tree may be deeper than calls can be
        os.mkdir(folder, 0o755)
        made.add(folder)


def _write(path: str, entry: Entry, blobs: BlobReader) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(path, flags, 0o600)
    try:
        size = _copy(blobs.path(entry.hash), target)
        if size != entry.size:
            found = "isn't in the blob store" if size is None else f"has {size} bytes"
            message = f"{entry.path} ({entry.hash[:12]}, {entry.size} bytes) {found}"
            raise _refusal("snapshot/missing", message)
        os.fchmod(target, (0o644 if entry.mode is None else entry.mode & 0o777) | 0o400)
    finally:
        os.close(target)


def _copy(source: Path, target: int) -> int | None:
    """Copies inside the kernel, which shares the blocks where the file system can."""
    try:
        descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        copied = 0
        while count := os.copy_file_range(descriptor, target, _CHUNK_BYTES):
            copied += count
        return copied
    except OSError as error:
        if error.errno not in _NOT_COPYABLE_IN_KERNEL:
            raise
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.ftruncate(target, 0)
        os.lseek(target, 0, os.SEEK_SET)
        with (
            open(descriptor, "rb", closefd=False) as reader,
            open(target, "wb", closefd=False) as to,
        ):
            shutil.copyfileobj(reader, to, 1 << 20)
        return os.fstat(target).st_size
    finally:
        os.close(descriptor)


def _is_inside(path: str) -> bool:
    parts = path.split("/")
    return "\0" not in path and all(part not in {"", ".", ".."} for part in parts)


def _refusal(code: str, message: str) -> DriverError:
    return DriverError(code, message, final=True)
