"""Fills a directory with files, links and directories whose content lies in files named by hash.

Nothing is ever written through a symbolic link: links are made last and into directories that were
made here. Blocks are shared with the content where the file system can.
"""

from __future__ import annotations

import errno
import os
import shutil
from collections.abc import Callable, Iterable
from typing import Optional, Protocol

from .removing import remove_tree

UNFINISHED = ".unfinished"
_NOT_COPYABLE_IN_KERNEL = {errno.EXDEV, errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM}
_CHUNK_BYTES = 1 << 30


class Entry(Protocol):
    """One file, link or directory: `hash` with `mode` and `size`, `link`, or `dir`."""

    @property
    def path(self) -> str:
        """Where in the directory it is."""

    @property
    def mode(self) -> Optional[int]:
        """Who may do what with it, where that is known."""

    @property
    def size(self) -> int:
        """Bytes of a file."""

    @property
    def hash(self) -> str:
        """The name of a file's content."""

    @property
    def link(self) -> str:
        """Where a link leads; empty for what is none."""

    @property
    def dir(self) -> bool:
        """Whether it is a directory."""


class ContentMissing(Exception):
    """Content isn't where it should be, or isn't what it should be."""


ContentPath = Callable[[str], str]


def make_directory_of(target: str, entries: Iterable[Entry], content: ContentPath) -> bool:
    """Makes `target`, whole or not at all; False where it is there already.

    Raises OSError, ContentMissing, and whatever `content` raises; nothing is left then.
    """
    if os.path.isdir(target):
        return False
    unfinished = target + UNFINISHED
    try:
        os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
        remove_tree(unfinished)
        os.mkdir(unfinished, 0o700)
        fill(unfinished, entries, content)
        os.rename(unfinished, target)
    except BaseException:
        remove_tree(unfinished)
        raise
    return True


def remove_generations(parent: str, run: str) -> None:
    """Removes the directories `RUN.GENERATION` of all generations of a run that is over."""
    try:
        names = os.listdir(parent)
    except FileNotFoundError:
        return
    for name in names:
        if name.rpartition(".")[0] == run:
            remove_tree(os.path.join(parent, name))


def fill(root: str, entries: Iterable[Entry], content: ContentPath) -> None:
    """Puts entries into an empty directory."""
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
            write_file(path, entry, content)
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


def write_file(path: str, entry: Entry, content: ContentPath) -> None:
    """Makes one file that isn't there yet."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    target = os.open(path, flags, 0o600)
    try:
        size = _copy(content(entry.hash), target)
        if size != entry.size:
            found = "isn't in the blob store" if size is None else f"has {size} bytes"
            message = f"{entry.path} ({entry.hash[:12]}, {entry.size} bytes) {found}"
            raise ContentMissing(message)
        os.fchmod(target, (0o644 if entry.mode is None else entry.mode & 0o777) | 0o400)
    finally:
        os.close(target)


def _copy(source: str, target: int) -> Optional[int]:
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
        with open(descriptor, "rb", closefd=False) as one, open(target, "wb", closefd=False) as two:
            shutil.copyfileobj(one, two, 1 << 20)
        return os.fstat(target).st_size
    finally:
        os.close(descriptor)
