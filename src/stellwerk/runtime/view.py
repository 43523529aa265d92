"""Builds the view of the file system that one run has: its mounts, where the job looks for them.

The wrapper enters a mount namespace and stays in it, so that all ranks of a run share one view.
Where a target is missing and this user may write there, an empty placeholder is made; where they
may not, the folder around it is replaced by a read-only twin that has the target as well.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Optional

from . import namespaces
from .placeholders import Placeholders

SKY_WORKDIR = "~/sky_workdir"
_NEVER = ("/", "/proc", "/sys", "/dev")
_MOST_LINKS = 40
_MEMORY_BYTES = 16 * 1024 * 1024


class ViewError(Exception):
    """The view can't be had; the message is for people and names what to do."""


class Bind(NamedTuple):
    """What is at `source` (a folder or a file) appears at `target`; both absolute."""

    target: str
    source: str
    read_only: bool = False


class View:
    """The view of one run.

    `scratch` is a folder of the run, `marks` that of all placeholders, `root` the agent's.
    """

    def __init__(self, scratch: str, marks: str, root: str) -> None:
        self._scratch = scratch
        self._root = os.path.realpath(root)
        self._placeholders = Placeholders(marks)
        self._twins: dict[str, int] = {}
        """Folders that have been replaced, and the device number of what replaced them."""
        self._mounted: list[tuple[str, int]] = []
        """Places, and how many placeholders there were before each."""
        self.top = ""
        """Where the files of an image are that the job takes for the whole machine."""

    def enter(self) -> None:
        """From here on this process and its children have a view of their own. Raises ViewError."""
        try:
            namespaces.enter()
        except OSError as error:
            raise ViewError(
                "this machine gives a user no view of their own (user namespaces: "
                f"{error.strerror}); have them allowed, or mount nothing outside of "
                f"`{SKY_WORKDIR}/`"
            ) from error

    def enter_image(self, files: str, kept: Iterable[str]) -> None:
        """Like `enter`, for a job that sees an image's files and what is `kept` of the machine.

        What the job changes in them goes into a layer of the run. Raises ViewError.
        """
        try:
            takes_user = namespaces.enter(as_root=True)
            folders = [os.path.join(self._scratch, name) for name in ("layer", "overlay", "top")]
            for folder in folders:
                os.makedirs(folder, mode=0o755, exist_ok=True)
            namespaces.mount_layer(files, *folders, as_user=takes_user)
        except OSError as error:
            raise ViewError(
                f"this machine lets a user lay nothing over an image ({error.strerror}); it takes "
                "user namespaces, and Linux 5.11 or newer"
            ) from error
        self.top = folders[-1]
        self._mounted.append((self.top, 0))
        self.bind_all([Bind(path, path) for path in kept if os.path.exists(path)])

    def bind_all(self, binds: Iterable[Bind]) -> None:
        """Binds everything, what lies inside of something else after it. Raises ViewError."""
        in_order = sorted(binds, key=lambda bind: bind.target.count("/"))
        with contextlib.ExitStack() as opened:
            for bind in () if self.top else in_order:
                with _telling(bind):
                    self._refuse_vital(bind.target)
                    if _folder_to_replace(bind.target) == "/" and "/" not in self._twins:
                        self._replace_by_twin("/")
            # A source may lie below what another one covers: all are held before the first is used.
            sources = [opened.enter_context(_held(bind)) for bind in in_order]
            for bind, source in zip(in_order, sources):
                with _telling(bind):
                    if self.top:
                        self._bind_in_image(bind, source)
                    else:
                        self._bind(bind, source)
        for twin in self._twins:
            with contextlib.suppress(OSError):  # nothing is lost: it was memory of this run alone
                namespaces.make_read_only(twin)

    def keep_secrets(self, values: Mapping[str, str]) -> str:
        """A folder in memory with a file for each secret, seen in this view only; its path."""
        folder = self._in_memory("secrets", 0o700)
        for name, value in values.items():
            path = os.path.join(folder, name)
            file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(file, "wb") as target:
                target.write(os.fsencode(value))
        self._mounted.append((folder, 0))
        return folder

    def leave(self) -> None:
        """Lets go of everything, and removes what was the run's own and nobody else uses."""
        for place, placeholders in reversed(self._mounted):
            with contextlib.suppress(OSError):  # it ends with the namespace at the latest
                namespaces.detach(place)
            with contextlib.suppress(OSError):  # an empty folder stays behind
                self._placeholders.give_up(placeholders)
        self._mounted = []
        # Only what can't have anything mounted in it: the layer itself, never what it is shown as.
        shutil.rmtree(os.path.join(self._scratch, "layer"), ignore_errors=True)

    def _bind_in_image(self, bind: Bind, source: str) -> None:
        target = resolved_in(self.top, bind.target)
        _make(target, is_folder=os.path.isdir(source))
        namespaces.bind(source, target)
        self._mounted.append((target, 0))
        if bind.read_only:
            namespaces.make_read_only(target)

    def _bind(self, bind: Bind, source: str) -> None:
        target = os.path.realpath(bind.target)
        is_folder = os.path.isdir(source)
        self._mounted.append((target, self._placeholders.count))
        if not os.path.lexists(target):
            self._make_room(target, is_folder=is_folder)
        elif is_folder != os.path.isdir(target):
            kinds = ("a folder", "a file") if is_folder else ("a file", "a folder")
            raise ViewError(
                f"`{bind.target}` is to be {kinds[0]}, but there is {kinds[1]} of that name on "
                "this machine; mount it elsewhere"
            )
        else:
            self._placeholders.use(target, is_folder=is_folder)
        namespaces.bind(source, target)
        if bind.read_only:
            namespaces.make_read_only(target)

    def _refuse_vital(self, target: str) -> None:
        place = os.path.realpath(target)
        hides_us = (self._root + "/").startswith(place.rstrip("/") + "/")
        if place in _NEVER or hides_us or place.startswith(("/proc/", "/sys/")):
            raise ViewError(
                f"`{target}` can't be replaced: the machine, or Stellwerk itself, works with what "
                "lies there; mount it elsewhere"
            )

    def _make_room(self, target: str, *, is_folder: bool) -> None:
        """Makes the target: really, where this user may, else in a twin of the folder around it."""
        around = _folder_to_replace(target)
        if around is not None:
            self._replace_by_twin(around)
        if os.stat(_nearest(target)).st_dev in self._twins.values():
            _make(target, is_folder=is_folder)
        else:
            self._placeholders.use(target, is_folder=is_folder)

    def _replace_by_twin(self, folder: str) -> None:
        """Mounts a folder in memory that shows everything of a folder, and can take more."""
        building = self._in_memory(f"twin-{len(self._twins)}", 0o755)
        with os.scandir(folder) as entries:
            for entry in entries:
                _copy_entry(entry, os.path.join(building, entry.name))
        if folder == "/":
            namespaces.change_root(building)
        else:
            namespaces.move(building, folder)
        with contextlib.suppress(OSError):  # only where the twin shows the place it was built at
            namespaces.detach(building)
        self._twins[folder] = os.stat(folder).st_dev

    def _in_memory(self, name: str, mode: int) -> str:
        folder = os.path.join(self._scratch, name)
        os.makedirs(folder, mode=0o700, exist_ok=True)
        namespaces.mount_memory(folder, mode=mode, size_bytes=_MEMORY_BYTES)
        return folder


def _make(target: str, *, is_folder: bool) -> None:
    """Makes an empty folder or file where nothing is yet."""
    if os.path.lexists(target):
        return
    os.makedirs(target if is_folder else os.path.dirname(target), exist_ok=True)
    if not is_folder:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def _copy_entry(entry: os.DirEntry[str], twin: str) -> None:
    if entry.is_symlink():
        os.symlink(os.readlink(entry.path), twin)
        return
    if entry.is_dir(follow_symlinks=False):
        os.mkdir(twin)
    else:
        os.close(os.open(twin, os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    namespaces.bind(entry.path, twin)


def _folder_to_replace(target: str) -> Optional[str]:
    """The folder that needs a twin before a target can be made; None where it can be made so."""
    place = os.path.realpath(target)
    if os.path.lexists(place):
        return None
    around = _nearest(place)
    if not os.path.isdir(around):
        raise ViewError(f"`{target}` can't be mounted: `{around}` is no folder")
    may_write = os.access(around, os.W_OK | os.X_OK)
    is_read_only = os.statvfs(around).f_flag & os.ST_RDONLY
    return around if not may_write or is_read_only else None


def _nearest(path: str) -> str:
    """The last part of a path that exists."""
    while not os.path.lexists(path):
        path = os.path.dirname(path)
    return path


@contextlib.contextmanager
def _held(bind: Bind) -> Iterator[str]:
    """A name of the source that stays, whatever is mounted above it. Raises ViewError."""
    with _telling(bind):
        descriptor = os.open(bind.source, os.O_PATH | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


@contextlib.contextmanager
def _telling(bind: Bind) -> Iterator[None]:
    """Says of which mount the machine complains."""
    try:
        yield
    except OSError as error:
        where = f" ({os.fsdecode(error.filename)})" if error.filename else ""
        raise ViewError(f"`{bind.target}` can't be mounted: {error.strerror}{where}") from error


def resolved_in(top: str, path: str) -> str:
    """A path below `top`, its links followed as they are for somebody whose `/` is `top`."""
    found, rest, links = top, path.split("/")[::-1], 0
    while rest:
        part = rest.pop()
        if part == "..":
            found = top if found == top else os.path.dirname(found)
        elif part not in {"", "."}:
            place = os.path.join(found, part)
            if os.path.islink(place) and links < _MOST_LINKS:
                links += 1
                aim = os.readlink(place)
                rest += aim.split("/")[::-1]
                found = top if aim.startswith("/") else found
            else:
                found = place
    return found


def at_home(target: str, home: str) -> str:
    """`~/x` as an absolute path."""
    if target == "~" or target.startswith("~/"):
        return os.path.normpath(home + target[1:])
    return os.path.normpath(target)


def inside_work(target: str) -> Optional[str]:
    """The part of `~/sky_workdir/x` below the work directory, "" for itself; None elsewhere."""
    if target == SKY_WORKDIR:
        return ""
    inside = target.startswith(SKY_WORKDIR + "/")
    return target[len(SKY_WORKDIR) + 1 :] if inside else None
