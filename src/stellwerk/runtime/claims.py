"""Tells other Stellwerks on this machine what runs hold here, and reads what theirs hold.

Each run has a file in a folder of the machine's that everybody may add to and nobody may take from
(`/var/tmp/stellwerk-claims`, sticky). Its wrapper writes it and removes it at the end. A claim
counts while that wrapper lives: by process, its start and this boot; and only if the file belongs
to the user of that process. Of the run it has no more than its id.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import stat
from typing import Any, Optional

from . import processes
from .files import JSONObject
from .system import boot_id, machine_id, user_name

FOLDER = "/var/tmp/stellwerk-claims"  # noqa: S108 - sticky, and what lies there is checked
_LARGEST = 64 * 1024
_MOST = 10_000
_NAME = re.compile(r"(\d{1,10})-([0-9a-f]{12})-[0-9a-f]{12}\.json")
_INDEX = re.compile(r"[0-9]{1,4}")
_FIELDS = ("cpus_milli", "memory_bytes")


def folder() -> str:
    """Where claims lie; a variable names another place, as for tests."""
    return os.environ.get("STELLWERK_CLAIMS") or FOLDER


def claim(root: str, run: str, holds: JSONObject) -> None:
    """Say what a run of this process holds. Where that can't be, nobody is told."""
    me = processes.look_up(os.getpid())
    content = {
        "v": 1,
        "boot_id": boot_id(),
        "machine_id": machine_id() or "",
        "pid": os.getpid(),
        "starttime": me.started if me else 0,
        "run": run,
        "holds": holds,
    }
    with contextlib.suppress(OSError):
        place = _folder_to_use(make=True)
        if place is None:
            return
        path = os.path.join(place, _name(root, run))
        draft = f"{path}.{os.getpid()}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        with contextlib.suppress(FileNotFoundError):
            os.unlink(draft)
        with open(os.open(draft, flags, 0o644), "w", encoding="ascii") as file:
            os.fchmod(file.fileno(), 0o644)
            json.dump(content, file)
        os.rename(draft, path)


def give_back(root: str, run: str) -> None:
    """Say that a run holds nothing any more."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder(), _name(root, run)))


def of_others(root: str) -> list[JSONObject]:
    """What live runs hold here that aren't of this root, and whose they are."""
    place = _folder_to_use(make=False)
    if place is None:
        return []
    own, boot = f"{os.getuid()}-{_key(root)}-", boot_id()
    found: list[JSONObject] = []
    with os.scandir(place) as entries:
        names = [entry.name for entry, _ in zip(entries, range(_MOST))]
    for name in sorted(names):
        match = _NAME.fullmatch(name)
        if match is None or name.startswith(own):
            continue
        said = _said(os.path.join(place, name), int(match[1]), boot)
        if said is None:
            continue
        holds = said["holds"]
        amounts = {field: _amount(holds.get(field)) for field in _FIELDS}
        whose = {"user": user_name(int(match[1])), "run": str(said.get("run", ""))[:100]}
        found.append({**whose, **amounts, "gpus": _gpus(holds)})
    return found


def _said(path: str, uid: int, boot: str) -> Optional[dict[str, Any]]:
    """What a claim says, if it is its user's own and its wrapper lives; dead ones of ours go."""
    try:
        fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with open(fd, "rb") as file:
            status = os.fstat(fd)
            if not stat.S_ISREG(status.st_mode) or status.st_uid != uid:
                return None
            said = json.loads(file.read(_LARGEST))
        here = said["boot_id"] == boot and said["machine_id"] == (machine_id() or "")
        alive = here and _lives(int(said["pid"]), int(said["starttime"]), uid)
        if not alive and uid == os.getuid():
            os.unlink(path)
        good = alive and isinstance(said["holds"], dict)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None  # whoever wrote that mustn't keep anybody from looking
    return said if good else None


def _lives(pid: int, started: int, uid: int) -> bool:
    """Whether a process of a user lives; where /proc hides others' processes, as far as can be."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # it is there, and somebody else's
    try:
        if os.stat(f"/proc/{pid}").st_uid != uid:
            return False
    except OSError:
        return True
    return processes.is_running(pid, started)


def _folder_to_use(*, make: bool) -> Optional[str]:
    """The folder, where nobody but its owner could take away what others put there."""
    place = folder()
    if make:
        with contextlib.suppress(FileExistsError):
            os.mkdir(place)
            os.chmod(place, 0o1777)  # noqa: S103 - everybody's, and sticky
    try:
        status = os.lstat(place)
    except OSError:
        return None
    open_to_all = status.st_mode & 0o022
    if not stat.S_ISDIR(status.st_mode) or (open_to_all and not status.st_mode & stat.S_ISVTX):
        return None
    return place


def _name(root: str, run: str) -> str:
    digest = hashlib.sha256(os.fsencode(run)).hexdigest()[:12]
    return f"{os.getuid()}-{_key(root)}-{digest}.json"


def _key(root: str) -> str:
    return hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:12]


def _gpus(holds: dict[str, Any]) -> dict[str, int]:
    said = holds.get("gpus")
    if not isinstance(said, dict):
        return {}
    return {index: _amount(size) for index, size in said.items() if _INDEX.fullmatch(index)}


def _amount(value: object) -> int:
    return value if type(value) is int and 0 < value < 1 << 60 else 0
