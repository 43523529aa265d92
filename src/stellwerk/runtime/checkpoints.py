"""Decides which checkpoints in a directory are whole, and gives a new workload a copy of its own.

A copy, and no hard links: a program that writes into its newest checkpoint would damage the one
that it was started from. For the same reason a link to something in the old directory leads to its
copy; whatever else a link leads to is not copied. The copy appears in the directory only when all
of it is there, so that after a crash it is either finished or made anew, and never made twice.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterable
from itertools import chain, islice
from typing import NamedTuple, Optional

from . import copying
from .errands import ErrandError
from .files import open_file
from .removing import remove_tree

SAID_COMPLETE = ".complete.jsonl"
"""What the helper's `checkpoint_complete` writes."""

KEPT_OF_A_KIND = 2
_COMING = ".resuming"
_UNFINISHED = ".resuming.unfinished"
_LOOKED_AT = 100_000
_MOST_SAID_BYTES = 4 * 1024 * 1024
_NUMBER = re.compile(r"\d+")
_STEP = re.compile(
    r"(?:steps?|epochs?|iter(?:ation)?s?|checkpoint|ckpt|updates?|rounds?)[-_=.]?(\d+)",
    re.IGNORECASE,
)
_HALF_WRITTEN = re.compile(
    r"^(?:tmp|temp)[-_.]|[-_.](?:tmp|temp|part|partial|incomplete|unfinished)\d*$|~$", re.IGNORECASE
)
MARKERS = ("trainer_state.json", ".metadata")
"""Files that frameworks write last: a folder without one, beside some that have it, isn't whole."""


class Checkpoint(NamedTuple):
    """One whole checkpoint: the entry of its directory, the step that its name tells, its size."""

    name: str
    step: Optional[int]
    bytes: int
    modified_ms: int


def complete(directory: str) -> list[Checkpoint]:
    """The whole checkpoints in a directory, the newest last; none if there is no such directory.

    Raises OSError if it can't be looked at.

    Where some are told by a step in their names, or by the job, what lies beside them is none. Nor
    is anything where the copy of another's was on its way: the other one has all of it.
    """
    if os.path.lexists(os.path.join(directory, _COMING)):
        return []
    found = []
    for name in _whole(directory):
        path = os.path.join(directory, name)
        size, modified_ms = (0, 0) if os.path.islink(path) else measure(path)
        if size:
            found.append(Checkpoint(name, step_of(name), size, modified_ms))
    said = said_complete(directory)
    told = [one for one in found if one.step is not None or one.name in said]
    return sorted(told or found, key=lambda one: (one.modified_ms, one.step or 0, one.name))


def step_of(name: str) -> Optional[int]:
    """The step that a name tells: `checkpoint-500`, `epoch=3-step=1200.ckpt`; None for others."""
    found = _STEP.findall(name)
    return int(found[-1]) if found else None


def resume(source: str, target: str) -> None:
    """Give a directory the last whole checkpoints of another and what lies beside them, once.

    Nothing is done where the target holds something already. Raises ErrandError if there is
    nothing to go on from.
    """
    coming = os.path.join(target, _COMING)
    unfinished = os.path.join(target, _UNFINISHED)
    if not os.path.lexists(coming):
        if os.path.lexists(unfinished):
            remove_tree(unfinished)
        if os.listdir(target):
            return
        names = to_copy(source)
        if not names:
            raise ErrandError(f"there are no checkpoints to go on from in `{source}` any more")
        try:
            os.mkdir(unfinished)
            for name in names:
                _copy(source, name, unfinished, target)
            os.rename(unfinished, coming)
        except OSError:
            forget_unfinished(target)  # it may have filled the disk
            raise
    for name in os.listdir(coming):
        os.rename(os.path.join(coming, name), os.path.join(target, name))
    os.rmdir(coming)


def _copy(source: str, name: str, unfinished: str, target: str) -> None:
    """Copy one entry to where it is until all are there; sockets and such have nothing to copy."""
    status = os.lstat(os.path.join(source, name))
    entries: Iterable[tuple[str, os.stat_result]] = [(name, status)]
    if stat.S_ISDIR(status.st_mode):
        below = copying.walk(os.path.join(source, name))
        entries = chain(entries, ((os.path.join(name, path), status) for path, status in below))
    for path, status in entries:
        there = os.path.join(unfinished, path)
        if stat.S_ISLNK(status.st_mode):
            os.symlink(_led(os.readlink(os.path.join(source, path)), source, target), there)
        elif stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode):
            copying.copy_one(os.path.join(source, path), there, status)


def _led(link: str, source: str, target: str) -> str:
    """Where a copied link leads: to the copy of what it led to in the old directory."""
    if not os.path.isabs(link):
        return link
    inside = os.path.relpath(os.path.normpath(link), os.path.normpath(source))
    return link if inside.split(os.sep)[0] == os.pardir else os.path.join(target, inside)


def _linked(source: str, names: Iterable[str]) -> frozenset[str]:
    """The entries to which others of these lead, as `best` may lead to `checkpoint-100`."""
    links = (os.path.join(source, name) for name in names)
    top = os.path.realpath(source)
    ends = (os.path.relpath(os.path.realpath(link), top) for link in links if os.path.islink(link))
    return frozenset(end.split(os.sep)[0] for end in ends)


def forget_unfinished(target: str) -> None:
    """Remove what there is of a copy that nobody goes on with. It is no use, and may be large."""
    remove_tree(os.path.join(target, _UNFINISHED))


def to_copy(source: str, is_over: Callable[[str], bool] = lambda _name: True) -> list[str]:
    """All that is whole, of many numbered ones of a kind the last two and those that a link leads
    to; nothing without any. ``is_over`` says of an entry whether anybody may still write it."""
    whole = [one for one in complete(source) if is_over(one.name)]
    if not whole:
        return []
    kinds: dict[str, list[Checkpoint]] = {}
    for one in whole:
        if one.step is not None and len(_NUMBER.findall(one.name)) == 1:
            kinds.setdefault(kind_of(one.name), []).append(one)
    old = {
        one.name
        for alike in kinds.values()
        for one in sorted(alike, key=lambda one: one.step or 0)[:-KEPT_OF_A_KIND]
    }
    whole_names = [name for name in _whole(source) if is_over(name)]
    old -= _linked(source, whole_names)
    names = [name for name in whole_names if name not in old]
    return [SAID_COMPLETE, *names] if said_complete(source) else names


def _whole(directory: str) -> list[str]:
    """The entries that aren't known to be half written, in order of their names."""
    try:
        with os.scandir(directory) as entries:
            names = sorted(entry.name for entry in entries if not entry.name.startswith("."))
    except (FileNotFoundError, NotADirectoryError):
        return []
    names = [name for name in names if not _HALF_WRITTEN.search(name)]
    said = said_complete(directory)
    said_kinds = {kind_of(name) for name in said}
    marked = {
        (kind_of(name), marker)
        for name in names
        for marker in MARKERS
        if os.path.exists(os.path.join(directory, name, marker))
    }
    return [
        name
        for name in names
        if (name in said or kind_of(name) not in said_kinds)
        and all(
            os.path.exists(os.path.join(directory, name, marker))
            for kind, marker in marked
            if kind == kind_of(name)
        )
    ]


def kind_of(name: str) -> str:
    """What checkpoints have in common that differ in their numbers."""
    return _NUMBER.sub("#", name)


def said_complete(directory: str) -> frozenset[str]:
    """The entries that the job itself called complete."""
    try:
        with open_file(os.path.join(directory, SAID_COMPLETE)) as file:
            lines = file.read(_MOST_SAID_BYTES).splitlines()
    except OSError:
        return frozenset()
    return frozenset(_paths(lines))


def _paths(lines: Iterable[bytes]) -> Iterable[str]:
    for line in lines:
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue  # a line that was cut off says nothing
        path = entry.get("path") if isinstance(entry, dict) else None
        if isinstance(path, str) and path.split("/")[0] not in {"", ".", ".."}:
            yield path.split("/")[0]


def measure(path: str) -> tuple[int, int]:
    """The bytes of all regular files of an entry, and when the newest was written."""
    size = newest_ns = 0
    with contextlib.suppress(FileNotFoundError):  # removed just now
        for status in islice(_files(path), _LOOKED_AT):
            size += status.st_size
            newest_ns = max(newest_ns, status.st_mtime_ns)
    return size, newest_ns // 1_000_000


def _files(path: str) -> Iterable[os.stat_result]:
    itself = os.lstat(path)
    if not stat.S_ISDIR(itself.st_mode):
        return (itself,)
    return (status for _, status in copying.walk(path) if stat.S_ISREG(status.st_mode))
