"""Keeps copies of checkpoints on the server's machine: content by hash, and lists of what is whole.

A folder for each workload: `content` with its files, `N.json` for each whole copy, written when all
of its content is there, and `run.json`, which says which run writes now and where. The two newest
copies stay. What isn't named by one of them is a copy on its way, and counts for nothing.
"""

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.quantity import show_bytes
from stellwerk.drivers.base import DriverError, FileThere, Left, Listing, LogChunk, Saved
from stellwerk.runtime.carrying import Piece
from stellwerk.runtime.files import RUN_NAME, sync_directory, write_atomically
from stellwerk.runtime.leftovers import bytes_of
from stellwerk.runtime.removing import remove_tree

KEPT = 2
VERSION = 1
RESERVE_BYTES = 1 << 30
"""So much of the disk is left to others."""

_HASH = re.compile(r"[0-9a-f]{64}")
_COPY = re.compile(r"(\d+)\.json")
_BLOCK = 1 << 20
Kind = TypeVar("Kind", bound=msgspec.Struct)


class Whole(msgspec.Struct, frozen=True):
    """A whole copy: of which run, of which hosts' folders (in order), and what they hold.

    ``states`` are what the hosts said of theirs, by which a newer one is told. ``taken_ms`` is when
    it was complete here, by the server's clock, ``took_ms`` how long that took, and
    ``brought_bytes`` how much of it had to come. ``apart``: its hosts have saved no step together.
    ``as_held`` says of each host whether its part is what it held itself.
    """

    generation: int
    nodes: tuple[str, ...]
    states: tuple[str, ...]
    found: tuple[Saved, ...]
    parts: tuple[tuple[Piece, ...], ...]
    taken_ms: int
    took_ms: int = 0
    brought_bytes: int = 0
    apart: bool = False
    as_held: tuple[bool, ...] = ()
    v: int = VERSION

    @property
    def newest(self) -> Saved:
        """Its newest checkpoint."""
        return self.found[-1]

    @property
    def bytes(self) -> int:
        """Of all its files."""
        return sum(piece.size for part in self.parts for piece in part)


class Running(msgspec.Struct, frozen=True):
    """The newest run that was ordered, and on which hosts: an older one has nothing to say.

    ``final``: it is over, and what it left is here or was nothing. ``told`` is what is known of its
    newest checkpoint on its machine, and ``trouble`` why that isn't here. ``before`` is the one in
    whose place it came, in case it never begins. ``given`` is what each of several hosts had when
    it began: the content of each file, by its path. ``apart`` is what its hosts saved last where
    they have saved no step together. ``run`` is its name.
    """

    generation: int
    nodes: tuple[str, ...]
    final: bool = False
    told: Saved | None = None
    trouble: str = ""
    before: "Running | None" = None
    given: tuple[dict[str, str], ...] = ()
    apart: str = ""
    run: str = ""
    v: int = VERSION


class CheckpointStore:
    """All copies below one folder. ``most_bytes`` (0: any amount) is what they may take.

    Whoever changes something of a workload does so alone; all of this waits for the disk.
    """

    def __init__(self, root: Path, most_bytes: int = 0) -> None:
        self.root = root
        self._most_bytes = most_bytes

    # what is known

    def running(self, workload: str) -> Running | None:
        """The newest run that was ordered of a workload; None if none was that is known here."""
        return _read(self._folder(workload) / "run.json", Running)

    def says(self, workload: str, running: Running) -> None:
        """Writes down which run writes, and how far its copy is.

        Of a first run it is as well not to know it: then its machines are asked.
        """
        folder = self._folder(workload)
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        content, durable = msgspec.json.encode(running), running.generation > 1 or running.final
        write_atomically(str(folder / "run.json"), content, durable=durable)

    def copies(self, workload: str) -> Iterator[Whole]:
        """The whole copies of a workload, the newest first."""
        for number in reversed(self._numbers(workload)):
            whole = _read(self._folder(workload) / f"{number}.json", Whole)
            if whole is not None and whole.found:
                yield whole

    def newest(self, workload: str) -> Whole | None:
        """The newest whole copy of a workload whose content is all there."""
        return next(self.copies(workload), None)

    # what comes in

    def missing(self, workload: str, pieces: Iterable[Piece]) -> list[Piece]:
        """Files whose content isn't here yet, each content once."""
        wanted = {piece.hash: piece for piece in pieces if piece.hash}
        content = self.content(workload)
        return [piece for name, piece in wanted.items() if not content.path(name).exists()]

    def check_room(self, missing: Iterable[Piece]) -> str:
        """Why there is no room for something; "" if there is."""
        wanted = sum(piece.size for piece in missing)
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        disk = os.statvfs(self.root)
        free = disk.f_bavail * disk.f_frsize - RESERVE_BYTES
        more = f"its checkpoint takes {show_bytes(wanted)} more"
        if wanted > free:
            return (
                f"{more} and the disk of the checkpoint home has {show_bytes(max(0, free))} to "
                f"give: make room in {self.root}, or name another folder with `checkpoint_home`"
            )
        if self._most_bytes and bytes_of(self.root) + wanted > self._most_bytes:
            return (
                f"{more}, and the checkpoint home may hold {show_bytes(self._most_bytes)}: `stw gc "
                "--only checkpoints` removes old ones, `checkpoint_home_bytes` allows more"
            )
        return ""

    def content(self, workload: str) -> "Content":
        """Its content by hash."""
        return Content(self._folder(workload) / "content")

    def keep(self, workload: str, whole: Whole) -> None:
        """Makes a copy count, durably; what is older than the last two goes."""
        folder = self._folder(workload)
        numbers = self._numbers(workload)
        number = (numbers[-1] if numbers else 0) + 1
        sync_directory(str(folder / "content"))
        write_atomically(str(folder / f"{number}.json"), msgspec.json.encode(whole), durable=True)
        for old in [*numbers, number][:-KEPT]:
            (folder / f"{old}.json").unlink(missing_ok=True)
        self._forget_content(workload)

    def _forget_content(self, workload: str) -> None:
        folder = self._folder(workload)
        wanted: set[str] = set()
        for number in self._numbers(workload):
            whole = _read(folder / f"{number}.json", Whole)
            if whole is None:
                return  # what it names isn't known
            wanted |= {piece.hash for part in whole.parts for piece in part}
        for path in (folder / "content").iterdir():
            if path.name not in wanted:
                path.unlink(missing_ok=True)

    # what is read

    def listing(self, workload: str, path: str) -> Listing | None:
        """What lies at a path of the newest copy of its first host; None without a copy."""
        whole = self.newest(workload)
        if whole is None:
            return None
        path = path.strip("/")
        lines: dict[str, FileThere] = {}
        for piece in whole.parts[0]:
            if piece.path == path and not piece.dir:
                return Listing(str(self._folder(workload)), False, (_line(piece, path),))
            inside = piece.path.removeprefix(f"{path}/") if path else piece.path
            if (not path or inside != piece.path) and "/" not in inside:
                lines[inside] = _line(piece, inside)
        if path and not any(piece.path == path for piece in whole.parts[0]):
            message = f"there is no `{path}` in the copy of its checkpoints"
            raise DriverError("runtime/not_found", message, final=True)
        found = tuple(lines[name] for name in sorted(lines))
        return Listing(str(self._folder(workload)), True, found)

    def read(self, workload: str, path: str, offset: int, limit: int) -> LogChunk | None:
        """Bytes of a file of the newest copy; None without one."""
        whole = self.newest(workload)
        if whole is None:
            return None
        files = {piece.path: piece for piece in whole.parts[0] if piece.hash}
        piece = files.get(path.strip("/"))
        if piece is None:
            message = f"there is no file `{path}` in the copy of its checkpoints"
            raise DriverError("runtime/not_found", message, final=True)
        with open(self.content(workload).path(piece.hash), "rb") as file:
            file.seek(offset)
            return LogChunk(file.read(limit), offset, piece.size)

    # what is removed

    def left(self) -> list[Left]:
        """Workloads that have something here, and the disk that it takes."""
        if not self.root.is_dir():
            return []
        names = sorted(path.name for path in self.root.iterdir() if path.is_dir())
        return [Left(name, bytes_of(self.root / name)) for name in names]

    def remove(self, workload: str) -> None:
        """Removes all of a workload's copies."""
        remove_tree(str(self._folder(workload)))

    def _numbers(self, workload: str) -> list[int]:
        try:
            names = os.listdir(self._folder(workload))
        except FileNotFoundError:
            return []
        return sorted(int(found[1]) for name in names if (found := _COPY.fullmatch(name)))

    def _folder(self, workload: str) -> Path:
        if RUN_NAME.fullmatch(workload) is None:
            message = f"`{workload}` is no workload's id"
            raise DriverError("runtime/spec_invalid", message, final=True)
        return self.root / workload


class Content:
    """Files by the hash of what is in them. One that is on its way grows beside its place."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def root(self) -> Path:
        """The folder of all workloads'."""
        return self._folder.parent.parent

    def path(self, name: str, /) -> Path:
        """Where a file is, or would be."""
        if _HASH.fullmatch(name) is None:
            raise StellwerkError.of("store/bad-hash", f"`{name[:80]}` is no hash of content", "")
        return self._folder / name

    def begun(self, name: str) -> int:
        """How much of a file has come: what an interrupted copy has brought isn't asked again."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            return self._part(name).stat().st_size
        except FileNotFoundError:
            return 0

    def grow(self, name: str, offset: int, data: bytes) -> None:
        """Takes the next part."""
        with open(self._part(name), "r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(data)

    def finish(self, name: str, size: int) -> bool:
        """Makes it durable under its name; False, and it is gone, if it isn't what it should be."""
        part = self._part(name)
        if not size:
            part.touch()
        digest = hashlib.sha256()
        with open(part, "r+b") as file:
            while block := file.read(_BLOCK):
                digest.update(block)
            os.fsync(file.fileno())
        if digest.hexdigest() != name:
            part.unlink()
            return False
        os.chmod(part, 0o400)
        os.rename(part, self.path(name))
        return True

    def _part(self, name: str) -> Path:
        return self.path(name).with_name(f"{name}.part")


def _line(piece: Piece, name: str) -> FileThere:
    kind = "link" if piece.link else "folder" if piece.dir else "file"
    return FileThere(name.rpartition("/")[2], kind, piece.size, piece.modified_ns // 1_000_000)


def _read(path: Path, type: type[Kind]) -> Kind | None:
    try:
        return msgspec.json.decode(path.read_bytes(), type=type)
    except (FileNotFoundError, msgspec.DecodeError):
        return None
