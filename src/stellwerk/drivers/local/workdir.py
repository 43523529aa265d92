"""Makes directories of a run on this machine out of snapshots.

A directory appears whole or not at all: it is made beside its place and renamed.
"""

import contextlib
import errno
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from functools import partial

from stellwerk.core.model.errors import StellwerkError
from stellwerk.drivers.agents.snapshots import (
    BlobReader,
    Entry,
    Part,
    read_manifest,
    refusal,
    together,
)
from stellwerk.drivers.base import DriverError
from stellwerk.runtime.trees import UNFINISHED, ContentMissing, make_directory_of, write_file


def make_work_directory(
    work: str, parts: Sequence[Part], blobs: BlobReader, *, single: bool = False
) -> bool:
    """Makes the directory ``work`` out of snapshots, where later ones replace files of earlier
    ones; False if it is there already. ``single``: a snapshot may be one file, which lies in it.

    Raises a final DriverError if it can't be made: nothing was started then.
    """
    if os.path.isdir(work):
        return False
    return make_tree(work, together(parts, blobs, single=single), blobs)


def make_tree(work: str, entries: Iterable[Entry], blobs: BlobReader) -> bool:
    """Makes a directory out of entries; False if it is there already. Raises DriverError."""
    try:
        return make_directory_of(work, entries, lambda name: str(blobs.path(name)))
    except OSError as error:
        full = error.errno in {errno.ENOSPC, errno.EDQUOT}
        code = "snapshot/disk-full" if full else "snapshot/not-written"
        message = f"the work directory {work} can't be made: {error.strerror} ({error.filename})"
        raise refusal(code, message) from error
    except ContentMissing as error:
        raise refusal("snapshot/missing", str(error)) from error
    except StellwerkError as error:
        raise refusal("snapshot/damaged", error.problems[0].message) from error


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
            raise refusal("snapshot/outside", message)
        if entry.link:
            _replace(path, partial(os.symlink, entry.link))
        elif not entry.dir and not _is_the_same(path, entry):
            _replace(path, partial(_write, entry=entry, blobs=blobs))


def _leads_inside(folder: str, path: str) -> bool:
    top = os.path.realpath(folder)
    return os.path.commonpath([top, os.path.realpath(path)]) == top


def _replace(path: str, make: Callable[[str], None]) -> None:
    draft = f"{path}.{os.getpid()}{UNFINISHED}"
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


def _write(path: str, entry: Entry, blobs: BlobReader) -> None:
    try:
        write_file(path, entry, lambda name: str(blobs.path(name)))
    except ContentMissing as error:
        raise refusal("snapshot/missing", str(error)) from error
