"""Copies trees of files as they are: links stay links, modes and times are kept.

Times matter: Python takes a compiled file only for a source of the very time it was made for. The
kernel copies, and where the file system can it shares the blocks.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
from collections.abc import Iterator
from typing import NamedTuple

from .errands import ErrandError

_CHUNK_BYTES = 1 << 30
_COPY_OURSELVES = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}


class Seen(NamedTuple):
    """What tells whether a file is still the one that was seen; a folder is only that."""

    mode: int
    size: int
    modified_ns: int
    inode: int


def walk(top: str) -> Iterator[tuple[str, os.stat_result]]:
    """Everything below a folder by its relative path, folders before what is in them.

    What somebody removes meanwhile is left out.
    """
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        try:
            with os.scandir(os.path.join(top, folder)) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except FileNotFoundError:
            if not folder:
                raise
            continue
        for entry in found:
            path = os.path.join(folder, entry.name)
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            yield path, status
            if stat.S_ISDIR(status.st_mode):
                waiting.append(path)


def look_at(top: str) -> dict[str, Seen]:
    """How everything below a folder is now."""
    return {path: seen(status) for path, status in walk(top)}


def seen(status: os.stat_result) -> Seen:
    """What is remembered of one entry."""
    if stat.S_ISDIR(status.st_mode):
        return Seen(stat.S_IFMT(status.st_mode), 0, 0, 0)
    return Seen(status.st_mode, status.st_size, status.st_mtime_ns, status.st_ino)


def copy_tree(source: str, target: str) -> None:
    """Copy a folder with all that is in it, or a file, to a place that may be an empty folder."""
    if not os.path.isdir(source):
        copy_one(source, target, os.lstat(source))
        return
    os.makedirs(target, exist_ok=True)
    for path, status in walk(source):
        copy_one(os.path.join(source, path), os.path.join(target, path), status)


def copy_one(source: str, target: str, status: os.stat_result) -> None:
    """Copy one entry; a folder without what is in it. Raises ErrandError for sockets and such."""
    if stat.S_ISDIR(status.st_mode):
        if not os.path.isdir(target):
            os.mkdir(target)
        os.chmod(target, stat.S_IMODE(status.st_mode) | stat.S_IRWXU)
    elif stat.S_ISLNK(status.st_mode):
        os.symlink(os.readlink(source), target)
    elif stat.S_ISREG(status.st_mode):
        _copy_file(source, target, status)
    else:
        raise ErrandError(f"`{source}` is a socket, pipe or device, which can't be copied")


def _copy_file(source: str, target: str, status: os.stat_result) -> None:
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        writing = os.open(target, flags, 0o600)
        try:
            _pour(reading, writing)
            os.fchmod(writing, stat.S_IMODE(status.st_mode))
            os.utime(writing, ns=(status.st_atime_ns, status.st_mtime_ns))
        finally:
            os.close(writing)
    finally:
        os.close(reading)


def _pour(reading: int, writing: int) -> None:
    try:
        while os.copy_file_range(reading, writing, _CHUNK_BYTES):
            pass  # the kernel says 0 at the end
    except OSError as error:
        if error.errno not in _COPY_OURSELVES:
            raise
        os.lseek(reading, 0, os.SEEK_SET)
        os.lseek(writing, 0, os.SEEK_SET)
        with (
            open(reading, "rb", closefd=False) as source,
            open(writing, "wb", closefd=False) as target,
        ):
            shutil.copyfileobj(source, target, 1 << 20)
