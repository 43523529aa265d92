"""Packs a work directory: what is submitted is what runs, whatever is edited later.

The result is a manifest that names every file by the hash of its content, so only what the server
doesn't have yet is sent. Commit and difference to it are recorded. Files whose size, time and inode
are those of the last packing aren't read again.
"""

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from stellwerk.client.git import revision_of
from stellwerk.client.hashes import HashCache
from stellwerk.client.ignores import GITIGNORE, Ignores
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.quantity import show_bytes

NAMED_AT_MOST = 20
READ_BYTES = 1 << 20
LOOKED_AT_TIMES = 2
"""A folder with so many times the files that may be packed isn't looked through to its end."""


class FileEntry(msgspec.Struct):
    """A regular file; `mode` holds the permission bits."""

    path: str
    mode: int
    size: int
    hash: str


class LinkEntry(msgspec.Struct):
    """A symbolic link with its target as it stands."""

    path: str
    link: str


class FolderEntry(msgspec.Struct):
    """A folder that has nothing else in it."""

    path: str
    dir: bool = True


Entry = FileEntry | LinkEntry | FolderEntry


class Manifest(msgspec.Struct):
    """A packed directory: its files in the order of their paths, and where they come from.

    ``single``: what was packed isn't a directory but the one file in it.
    """

    v: int
    files: list[Entry]
    commit: str = ""
    dirty: bool = False
    diff: str = ""
    single: bool = False


class Limits(NamedTuple):
    """What is packed without being asked."""

    files: int
    bytes: int


class Packed(NamedTuple):
    """A manifest with all it takes to send it. `sources` maps hashes to files or bytes."""

    manifest: Manifest
    data: bytes
    hash: str
    sources: dict[str, str | bytes]
    notices: tuple[str, ...]

    @property
    def file_count(self) -> int:
        """Regular files."""
        return sum(isinstance(entry, FileEntry) for entry in self.manifest.files)

    @property
    def byte_count(self) -> int:
        """Bytes of all regular files."""
        return sum(entry.size for entry in self.manifest.files if isinstance(entry, FileEntry))


class TooLargeError(StellwerkError):
    """More than is packed without being asked; a person may say yes."""


def pack(top: str, cache_folder: str, limits: Limits | None) -> Packed:
    """Packs the directory `top`; raises StellwerkError that names every file in the way.

    `limits=None` packs whatever there is; else TooLargeError is raised before anything is read.
    """
    top = os.path.realpath(top)
    revision = revision_of(top)
    walk = _Walk(top, Ignores(top, revision.tracked))
    _walk_all(walk, cache_folder, limits)
    sources = walk.sources()
    manifest = Manifest(1, walk.entries, revision.commit, revision.dirty)
    if revision.diff:
        manifest.diff = sha256(revision.diff)
        sources[manifest.diff] = revision.diff
    return _packed(manifest, sources, walk.notices)


def pack_sources(paths: Sequence[str], cache_folder: str, limits: Limits | None) -> Packed:
    """Packs what a mount names: a file, or what is in a folder; several side by side, by name.

    Of a folder only its own rules about what stays behind count, not those of a repository around
    it: whoever names an ignored folder wants it.
    """
    single = len(paths) == 1 and not os.path.isdir(paths[0])
    entries: list[Entry] = []
    sources: dict[str, str | bytes] = {}
    notices: list[str] = []
    for path in paths:
        full, name = os.path.realpath(path), os.path.basename(os.path.abspath(path))
        is_folder = os.path.isdir(full)
        if is_folder:
            walk = _Walk(full, Ignores(full, whole_repository=False))
        else:
            walk = _Walk(os.path.dirname(full), None, only=os.path.basename(full))
        _walk_all(walk, cache_folder, limits)
        sources |= walk.sources()
        notices += walk.notices
        if is_folder and len(paths) == 1:
            entries = walk.entries
        elif is_folder:
            entries += [_moved(entry, f"{name}/{entry.path}") for entry in walk.entries]
        else:
            entries += [_moved(entry, name) for entry in walk.entries]
    entries.sort(key=lambda entry: entry.path)
    return _packed(Manifest(1, entries, single=single), sources, notices)


def _moved(entry: Entry, path: str) -> Entry:
    return msgspec.structs.replace(entry, path=path)


def _walk_all(walk: "_Walk", cache_folder: str, limits: Limits | None) -> None:
    walk.run(None if limits is None else limits.files * LOOKED_AT_TIMES)
    walk.raise_problems()
    if limits is not None:
        _refuse_large(walk.top, walk, limits)
    with HashCache(cache_folder, walk.name) as cache:
        walk.hash_files(cache)
    walk.raise_problems()


def _packed(manifest: Manifest, sources: dict[str, str | bytes], notices: Sequence[str]) -> Packed:
    data = msgspec.json.encode(manifest)
    return Packed(manifest, data, sha256(data), sources, tuple(notices))


def sha256(data: bytes) -> str:
    """The name of a content."""
    return hashlib.sha256(data).hexdigest()


def _refuse_large(top: str, walk: "_Walk", limits: Limits) -> None:
    if len(walk.found) <= limits.files and walk.bytes <= limits.bytes:
        return
    more = "" if walk.whole else "more than "
    problem = Problem(
        "workdir/large",
        f"{top} holds {more}{len(walk.found):,} files with {show_bytes(walk.bytes)} to be packed",
        "name data folders in .skyignore or .gitignore, or pack it all with --yes",
    )
    raise TooLargeError([problem])


def unreadable(path: str, error: OSError) -> Problem:
    """A file that can't be packed because it can't be read."""
    return Problem(
        "workdir/unreadable",
        f"{path} can't be read: {error.strerror}",
        "make it readable, or name it in .skyignore",
    )


class _Found(NamedTuple):
    path: str
    status: os.stat_result


class _Walk:
    """Goes through a tree in the order of names and collects entries and problems.

    With `only` it takes that one file of the top folder.
    """

    def __init__(self, top: str, ignores: Ignores | None, only: str = "") -> None:
        self.top = top
        self.found: list[_Found] = []
        self.bytes = 0
        self.whole = True
        self.entries: list[Entry] = []
        self.notices: list[str] = []
        self._ignores = ignores
        self._only = only
        self._problems: list[Problem] = []

    def run(self, most: int | None) -> None:
        """Goes through the tree, or to where more than so many files were found."""
        waiting = [""]
        while waiting and (most is None or len(self.found) <= most):
            folder = waiting.pop()
            waiting += list(self._folder(folder))[::-1]
        self.whole = not waiting

    def hash_files(self, cache: HashCache) -> None:
        """Turns what was found into entries; a file that can't be read becomes a problem."""
        for path, status in self.found:
            full = os.path.join(self.top, path)
            try:
                digest = cache.get(path, status) or cache.put(path, status, _hash_file(full))
            except OSError as error:
                self._problems.append(unreadable(full, error))
                continue
            mode = stat.S_IMODE(status.st_mode)
            self.entries.append(FileEntry(path, mode, status.st_size, digest))
        self.entries.sort(key=lambda entry: entry.path)

    @property
    def name(self) -> str:
        """What this walk is about, for the memory of hashes."""
        return f"{self.top}/{self._only}" if self._only else self.top

    def sources(self) -> dict[str, str | bytes]:
        """Where the content of each hash is."""
        return {
            entry.hash: os.path.join(self.top, entry.path)
            for entry in self.entries
            if isinstance(entry, FileEntry)
        }

    def raise_problems(self) -> None:
        """Raises StellwerkError with all problems so far, a great number of them cut short."""
        if not self._problems:
            return
        problems = self._problems[:NAMED_AT_MOST]
        if rest := len(self._problems) - len(problems):
            message = f"{rest} more files of {self.top} have such a problem"
            problems.append(Problem("workdir/more", message, "mend those above first"))
        raise StellwerkError(problems)

    def _folder(self, folder: str) -> Iterator[str]:
        """Takes up what is in a folder, and yields the folders inside it."""
        try:
            with os.scandir(os.path.join(self.top, folder)) as listing:
                children = sorted(
                    (child for child in listing if self._only in {"", child.name}),
                    key=lambda child: child.name,
                )
        except OSError as error:
            self._problems.append(unreadable(os.path.join(self.top, folder), error))
            return
        ignores = self._ignores
        if ignores is not None:
            ignores.enter(folder, has_gitignore=any(c.name == GITIGNORE for c in children))
        taken = 0
        for child in children:
            path = f"{folder}/{child.name}" if folder else child.name
            is_folder = child.is_dir(follow_symlinks=False)
            if ignores is not None and ignores.leaves_behind(path, is_folder=is_folder):
                continue
            taken += 1
            if not _is_text(path):
                self._refuse(path, "has a name that isn't UTF-8")
            elif is_folder:
                yield path
            else:
                self._leaf(path, child)
        if not taken and folder:
            self.entries.append(FolderEntry(folder))

    def _leaf(self, path: str, child: os.DirEntry[str]) -> None:
        try:
            status = child.stat(follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                self._link(path, os.readlink(child.path))
                return
        except OSError as error:
            self._problems.append(unreadable(child.path, error))
            return
        if stat.S_ISREG(status.st_mode):
            self.found.append(_Found(path, status))
            self.bytes += status.st_size
        else:
            self._refuse(path, f"is a {_KINDS.get(stat.S_IFMT(status.st_mode), 'special file')}")

    def _link(self, path: str, target: str) -> None:
        if not _is_text(target):
            self._refuse(path, "points to a name that isn't UTF-8")
            return
        aim = os.path.normpath(os.path.join(os.path.dirname(path), target))
        if not os.path.isabs(target) and aim.split("/")[0] == "..":
            self.notices.append(f"{path} points outside the work directory, to {target}")
        self.entries.append(LinkEntry(path, target))

    def _refuse(self, path: str, what: str) -> None:
        shown = (
            os.path.join(self.top, path)
            .encode(errors="surrogateescape")
            .decode(errors="backslashreplace")
        )
        self._problems.append(
            Problem(
                "workdir/special-file",
                f"{shown} {what}, which can't be packed",
                "remove it, or name it in .skyignore",
            )
        )


_KINDS = {
    stat.S_IFSOCK: "socket",
    stat.S_IFIFO: "named pipe",
    stat.S_IFBLK: "block device",
    stat.S_IFCHR: "character device",
}


def _is_text(path: str) -> bool:
    try:
        path.encode()
    except UnicodeEncodeError:
        return False
    return True


def _hash_file(path: str) -> str:
    digest = hashlib.sha256()
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
    with open(os.open(path, flags), "rb", buffering=0) as file:
        while chunk := file.read(READ_BYTES):
            digest.update(chunk)
    return digest.hexdigest()
