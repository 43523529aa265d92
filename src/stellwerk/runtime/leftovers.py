"""Finds and removes what runs and workloads left on this machine, and what belongs to none of them.

Nothing here decides what may go: names come in from those who know which work is over. A stray is a
folder of a run that the runtime knows nothing of, a build of the runtime that nobody uses, or the
files of an image that no run had whose folder is still there.
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

from .files import RUN_NAME, RunFiles, read_json
from .removing import remove_tree

IMAGES = "images"
LAID_OUT = ("work", "mounts")
"""Folders beside the runtime's own, with `RUN.GENERATION` in them."""

BLOCK_BYTES = 512


class Left(NamedTuple):
    """Something that was left, by its name, and the bytes that it takes on the disk."""

    name: str
    bytes: int


def runs_left(root: Path) -> tuple[Left, ...]:
    """The runs whose folder is there, each with the bytes of all that belongs to it."""
    sizes = {name: bytes_of(root / "runs" / name) for name in names_in(root / "runs")}
    for folder in LAID_OUT:
        for name in names_in(root / folder):
            run = run_of(name)
            if run in sizes:
                sizes[run] += bytes_of(root / folder / name)
    return tuple(Left(name, size) for name, size in sizes.items())


def folders_left(parent: Path) -> tuple[Left, ...]:
    """The folders that workloads have in a folder, by the workload's id."""
    return tuple(Left(name, bytes_of(parent / name)) for name in names_in(parent))


def remove_folder(parent: Path, name: str) -> None:
    """Removes one workload's folder; one that is gone already is removed."""
    if name in names_in(parent):
        remove_tree(str(parent / name))


def strays(root: Path, live: Collection[str], before_ms: int) -> tuple[Left, ...]:
    """What belongs to no run of the runtime's nor to a live one, and is older than an instant.

    Names are relative to the root.
    """
    known = {*names_in(root / "runs"), *live}
    found = [
        f"{folder}/{name}"
        for folder in LAID_OUT
        for name in names_in(root / folder)
        if run_of(name) not in known
    ]
    builds = sorted(root.glob("runtime-*.pyz"), key=_changed_ms)[:-1]
    used = _used_by_processes(root) if builds else ""
    found += [build.name for build in builds if build.name not in used]
    found += unused_images(root)
    return tuple(
        Left(name, bytes_of(root / name)) for name in found if _changed_ms(root / name) < before_ms
    )


def remove_strays(root: Path, names: Collection[str]) -> None:
    """Removes strays by the names under which they were found."""
    for name in names:
        if not name.startswith(f"{IMAGES}/"):
            remove_tree(str(root / name))
    wanted = [name for name in names if name.startswith(f"{IMAGES}/")]
    if wanted:
        with _nobody_gets_images(root) as alone:
            still = unused_images(root) if alone else ()
            for name in wanted:
                if name in still:
                    _remove_at_once(root, name)


def unused_images(root: Path) -> list[str]:
    """Images that no run folder names; none while a run is getting one."""
    kept = set()
    for name in names_in(root / "runs"):
        files = RunFiles(str(root / "runs" / name))
        image = read_json(files.path("image.json"))
        if image is not None:
            kept.add(os.path.basename(str(image.get("files", ""))))
        elif (read_json(files.spec) or {}).get("image") and read_json(files.ended) is None:
            return []
    return [f"{IMAGES}/{name}" for name in names_in(root / IMAGES) if name not in kept]


@contextmanager
def _nobody_gets_images(root: Path) -> Iterator[bool]:
    """Holds the turns of all images that were ever got here; False if somebody has one."""
    with ExitStack() as turns:
        try:
            for path in sorted((root / IMAGES).glob("*.lock")):
                turn = turns.enter_context(path.open("rb"))
                fcntl.flock(turn, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield False
        else:
            yield True


def _remove_at_once(root: Path, name: str) -> None:
    """Takes a folder out of the way by one rename, so that nobody finds half of it."""
    away = root / "trash" / f"{name.replace('/', '-')}.{os.getpid()}"
    away.parent.mkdir(mode=0o700, exist_ok=True)
    try:
        os.rename(root / name, away)
    except OSError:
        return
    remove_tree(str(away))


def names_in(folder: Path) -> list[str]:
    """What lies in a folder under the name of a run or workload, in order; links don't count."""
    try:
        with os.scandir(folder) as entries:
            found = [entry.name for entry in entries if entry.is_dir(follow_symlinks=False)]
    except FileNotFoundError:
        return []
    return sorted(name for name in found if RUN_NAME.fullmatch(name))


def run_of(name: str) -> str:
    """The run of `RUN.GENERATION`, or of one that was never finished."""
    return name.removesuffix(".unfinished").rpartition(".")[0]


def bytes_of(path: Path) -> int:
    """What a file or folder takes on the disk; what vanishes meanwhile takes nothing."""
    return sum(_sizes(str(path)))


def _sizes(path: str) -> Iterator[int]:
    try:
        yield os.lstat(path).st_blocks * BLOCK_BYTES
    except OSError:
        return
    folders = [path]
    while folders:
        try:
            with os.scandir(folders.pop()) as entries:
                for entry in entries:
                    yield entry.stat(follow_symlinks=False).st_blocks * BLOCK_BYTES
                    if entry.is_dir(follow_symlinks=False):
                        folders.append(entry.path)
        except OSError:
            continue


def _changed_ms(path: Path) -> int:
    try:
        return path.lstat().st_mtime_ns // 1_000_000
    except FileNotFoundError:
        return 0


def _used_by_processes(root: Path) -> str:
    """The command lines and environments of all processes we may look at, where they name `root`.

    A wrapper reads its modules from the build it was started from for as long as it lives, and so
    may a job that has it on its path.
    """
    told = []
    mark = os.fsencode(root)
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        content = _told_by(pid)
        if mark in content:
            told.append(os.fsdecode(content))
    return "\n".join(told)


def _told_by(pid: str) -> bytes:
    """The command line and environment of a process.

    Both are empty for a moment while it starts a program: it is asked again, so that nothing is
    taken for unused because its user was just being started.
    """
    for patience in (0.001, 0.004, 0.01, 0):
        content = _read(f"/proc/{pid}/cmdline") + b"\0" + (said := _read(f"/proc/{pid}/environ"))
        if said or not patience or not os.path.exists(f"/proc/{pid}/exe"):
            break
        time.sleep(patience)
    return content


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return b""
