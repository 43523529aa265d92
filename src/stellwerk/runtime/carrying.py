"""Decides what of a workload's checkpoints may be copied away, and puts such a copy in place.

While a job runs, a checkpoint counts only when nobody writes it any more: the job said so, or its
framework's last file is there, or it was renamed into place, or a later one of its kind is whole,
or nothing of it has changed for a while. What is copied is held by hard links meanwhile, so that a
job which removes its old ones doesn't take it away; one that writes into it is found out by its
hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Optional

from . import copying
from .checkpoints import (
    MARKERS,
    SAID_COMPLETE,
    Checkpoint,
    complete,
    kind_of,
    measure,
    said_complete,
    to_copy,
)
from .files import Places, read_json, sync_directory, sync_file, to_json, write_atomically
from .removing import remove_tree
from .trees import ContentMissing, ContentPath, fill

QUIET_S = 30.0
"""A checkpoint that nobody has announced is over when nothing of it has changed for so long."""
LIST = "list.json"
HELD = "held"
_BLOCK = 1 << 20


class Piece(NamedTuple):
    """One file, link or directory of a checkpoint directory, as `trees` has them, with its time."""

    path: str
    mode: Optional[int] = None
    size: int = 0
    hash: str = ""
    link: str = ""
    dir: bool = False
    modified_ns: int = 0


class Carried(NamedTuple):
    """What may be copied away: its whole checkpoints, the newest last, and all names with it.

    ``state`` is another one when any of it has changed.
    """

    found: list[Checkpoint]
    names: list[str]
    state: str


def to_carry(directory: str, *, over: bool, now_s: Optional[float] = None) -> Carried:
    """What of a directory may be copied; ``over`` says that no job writes there any more."""
    now = time.time() if now_s is None else now_s
    whole = {one.name: one for one in complete(directory)}
    if over:
        names = to_copy(directory)
    else:
        settled = _Settled(directory, list(whole.values()), now)
        names = to_copy(directory, settled.is_over)
    found = [one for one in whole.values() if one.name in names]
    sizes = {name: measure(os.path.join(directory, name)) for name in names if name in whole}
    told = [[name, *sizes.get(name, (0, 0))] for name in names if name != SAID_COMPLETE]
    state = hashlib.sha256(to_json({"names": told})).hexdigest()[:16] if told else ""
    return Carried(found, names, state)


class _Settled:
    """Says of entries of a directory in which a job works whether they are still written."""

    def __init__(self, directory: str, whole: Iterable[Checkpoint], now_s: float) -> None:
        self._directory = directory
        self._now_s = now_s
        self._said = said_complete(directory)
        self._newest: dict[str, int] = {}
        for one in whole:
            if one.step is not None:
                kind = kind_of(one.name)
                self._newest[kind] = max(self._newest.get(kind, 0), one.step)
        self._steps = {one.name: one.step for one in whole}

    def is_over(self, name: str) -> bool:
        path = os.path.join(self._directory, name)
        if name in self._said or os.path.islink(path):
            return True
        if any(os.path.exists(os.path.join(path, marker)) for marker in MARKERS):
            return True
        step = self._steps.get(name)
        if step is not None and step < self._newest.get(kind_of(name), 0):
            return True
        try:
            status = os.lstat(path)
        except FileNotFoundError:
            return False
        changed_ms = measure(path)[1]
        renamed = status.st_ctime_ns > status.st_mtime_ns
        if renamed and changed_ms <= status.st_ctime_ns // 1_000_000:
            return True
        newest_s = max(changed_ms / 1000, status.st_ctime_ns / 1e9)
        return self._now_s - newest_s >= QUIET_S


def hold(directory: str, held: str, *, over: bool) -> Carried:
    """Hold what may be copied in a folder of its own, and write down beside it what it holds.

    Raises OSError. Nothing is held where there is nothing to copy.
    """
    remove_tree(held)
    carried = to_carry(directory, over=over)
    if not carried.names:
        return carried
    place = os.path.join(held, HELD)
    os.makedirs(place, mode=0o700)
    pieces = [
        piece._asdict() for name in carried.names for piece in _hold_one(directory, place, name)
    ]
    write_atomically(os.path.join(held, LIST), to_json({"entries": pieces}))
    return carried


def _hold_one(directory: str, place: str, name: str) -> Iterator[Piece]:
    """Link or copy one entry with all that is in it; what each of it is."""
    source = os.path.join(directory, name)
    status = os.lstat(source)
    found: list[tuple[str, os.stat_result]] = [(name, status)]
    if stat.S_ISDIR(status.st_mode):
        found += [(f"{name}/{path}", below) for path, below in copying.walk(source)]
    for path, one in found:
        there, target = os.path.join(directory, path), os.path.join(place, path)
        mode, time_ns = stat.S_IMODE(one.st_mode), one.st_mtime_ns
        if stat.S_ISLNK(one.st_mode):
            link = _inside(directory, there)
            if link:
                yield Piece(path, link=link)
        elif stat.S_ISDIR(one.st_mode):
            os.mkdir(target, 0o700)
            yield Piece(path, mode, dir=True, modified_ns=time_ns)
        elif stat.S_ISREG(one.st_mode):
            _link(there, target, one)
            digest, size = _hash_of(target)
            yield Piece(path, mode, size, digest, modified_ns=time_ns)


def _inside(directory: str, link: str) -> str:
    """Where a link leads, from its own folder on; "" if that is outside of the directory."""
    folder = os.path.dirname(link)
    end = os.path.normpath(os.path.join(folder, os.readlink(link)))
    if not end.startswith(os.path.normpath(directory) + os.sep):
        return ""
    return os.path.relpath(end, folder)


def _link(source: str, target: str, status: os.stat_result) -> None:
    try:
        os.link(source, target, follow_symlinks=False)
    except FileNotFoundError:
        raise  # the job has removed it just now
    except OSError:  # where hard links aren't allowed
        copying.copy_one(source, target, status)


def _hash_of(path: str) -> tuple[str, int]:
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
            size += len(block)
    return digest.hexdigest(), size


def lend(held: str, pieces: Iterable[Piece], folder: str, pace_bytes_s: int = 0) -> int:
    """Copy what is held into a folder of content by hash; gives the bytes that weren't there.

    Raises OSError, and ContentMissing for what was changed while it was held.
    """
    lent = 0
    for piece in pieces:
        target = os.path.join(folder, piece.hash)
        if not piece.hash or os.path.exists(target):
            continue
        draft = f"{target}.lent-{os.getpid()}"
        digest = hashlib.sha256()
        try:
            with open(os.path.join(held, piece.path), "rb") as source, open(draft, "wb") as file:
                while block := source.read(_BLOCK):
                    digest.update(block)
                    file.write(block)
                    if pace_bytes_s:
                        time.sleep(len(block) / pace_bytes_s)
                file.flush()
                os.fsync(file.fileno())
            if digest.hexdigest() != piece.hash:
                raise ContentMissing(f"{piece.path} was written while it was copied")
            os.chmod(draft, 0o400)
            os.rename(draft, target)
        finally:
            if os.path.lexists(draft):
                os.unlink(draft)
        lent += piece.size
    return lent


def put_in_place(directory: str, aside: str, pieces: Iterable[Piece], content: ContentPath) -> None:
    """Make a checkpoint directory of content that is here, whole or not at all.

    What was there before is older and goes. After a crash it is either as before, or gone with the
    new one ready, or done: whoever asked asks again. Raises OSError, ContentMissing.
    """
    coming, gone = os.path.join(aside, "coming"), os.path.join(aside, "gone")
    remove_tree(coming)
    os.makedirs(coming, mode=0o700)
    pieces = list(pieces)
    fill(coming, pieces, content)
    for piece in reversed(pieces):
        if not piece.link:
            path = os.path.join(coming, piece.path)
            os.utime(path, ns=(piece.modified_ns, piece.modified_ns))
            sync_file(path)
    os.makedirs(os.path.dirname(directory), mode=0o700, exist_ok=True)
    remove_tree(gone)
    if os.path.lexists(directory):
        os.rename(directory, gone)
    os.rename(coming, directory)
    sync_directory(os.path.dirname(directory))
    remove_tree(aside)


def generation_here(places: Places, workload: str) -> int:
    """The newest generation of a workload's runs that began on this machine; 0 for none."""
    newest = 0
    try:
        names = os.listdir(os.path.join(places.root, "runs"))
    except FileNotFoundError:
        return 0
    for name in names:
        if name.rpartition("-")[0] == workload:
            spec = read_json(places.run(name).spec) or {}
            generation = spec.get("generation")
            newest = max(newest, generation if isinstance(generation, int) else 0)
    return newest


def read_list(content: bytes) -> list[Piece]:
    """What `hold` wrote down. Raises ValueError for what isn't that."""
    try:
        return [Piece(**entry) for entry in json.loads(content)["entries"]]
    except (TypeError, KeyError) as error:
        raise ValueError(f"it is no list of what a directory holds: {error}") from error
