"""What a hand does with files for its caller: content, directories, logs, results."""

from __future__ import annotations

import itertools
import json
import os
import re
import stat
import time
from collections.abc import Callable
from typing import NamedTuple, Optional

from .files import RUN_NAME, JSONObject, Places, RunFiles, open_file, read_json
from .messages import PIECE
from .removing import remove_tree
from .trees import ContentMissing, make_directory_of, remove_generations

LAID_OUT = ("work", "mounts")
KEPT_CONTENT_S = 14 * 24 * 3600
"""Content that nobody has asked for so long is removed; the next caller sends it again."""
_CONTENT_NAME = re.compile(r"[0-9a-f]{64}")
_PLACE = re.compile(r"(work|mounts)/[A-Za-z0-9][A-Za-z0-9._-]{0,200}(/[0-9]{1,4})?")
_KINDS = {stat.S_IFDIR: "folder", stat.S_IFLNK: "link", stat.S_IFREG: "file"}
_MOST_LISTED = 20_000


class FileTrouble(Exception):
    """A request that can't be carried out: a code for programs, a sentence for people."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class _Entry(NamedTuple):
    path: str
    mode: Optional[int] = None
    size: int = 0
    hash: str = ""
    link: str = ""
    dir: bool = False


class Here:
    """Where things lie on this machine."""

    def __init__(self, home: str) -> None:
        self.home = home
        self.places = Places(os.path.join(home, "runtime"))
        self.content = os.path.join(home, "content")
        self._numbers = itertools.count()
        os.makedirs(self.content, mode=0o700, exist_ok=True)

    def content_path(self, name: str) -> str:
        """Where content of a name is, or would be."""
        if _CONTENT_NAME.fullmatch(name) is None:
            raise FileTrouble("bad_request", f"`{name}` is no name of content")
        return os.path.join(self.content, name)

    def run(self, name: object) -> RunFiles:
        """The files of a run."""
        return self.places.run(checked_name(name))

    def draft(self, name: str) -> str:
        """A path for content that isn't whole yet."""
        return f"{self.content_path(name)}.{os.getpid()}-{next(self._numbers)}"

    def forget_old_content(self) -> None:
        """Remove what has not been asked for in a long time, and drafts of who went away."""
        before = time.time() - KEPT_CONTENT_S
        for name in os.listdir(self.content):
            path = os.path.join(self.content, name)
            try:
                if os.lstat(path).st_mtime < before:
                    os.unlink(path)
            except OSError:
                continue  # somebody else was faster


def checked_name(name: object) -> str:
    """A run's or a workload's name; anything else is refused."""
    if not isinstance(name, str) or RUN_NAME.fullmatch(name) is None:
        raise FileTrouble("bad_request", f"`{name}` is no run's or workload's name")
    return name


Answer = tuple[JSONObject, bytes]
"""What is told, and bytes as they are."""


def missing(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Which content isn't here; what is here counts as asked for."""
    absent = []
    for name in head["names"]:
        try:
            os.utime(here.content_path(name))
        except FileNotFoundError:
            absent.append(name)
    return {"missing": absent}, b""


def put(here: Here, head: JSONObject, data: bytes) -> Answer:
    """Keep content: small pieces whole, or the next part of a large one."""
    if "name" in head:
        _put_part(here, str(head["name"]), int(head["offset"]), int(head["size"]), data)
        return {}, b""
    import hashlib  # most hands never need it, and somebody waits for them to start

    start = 0
    for name, size in head["items"]:
        content = data[start : start + size]
        start += size
        draft = here.draft(name)
        with open(draft, "wb") as file:
            file.write(content)
        _keep(here, name, draft, hashlib.sha256(content).hexdigest())
    return {}, b""


def _put_part(here: Here, name: str, offset: int, size: int, data: bytes) -> None:
    draft = f"{here.content_path(name)}.part-{os.getpid()}"
    with open(draft, "r+b" if offset else "wb") as file:
        file.seek(offset)
        file.write(data)
    if offset + len(data) < size:
        return
    import hashlib

    digest = hashlib.sha256()
    with open(draft, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    _keep(here, name, draft, digest.hexdigest())


def _keep(here: Here, name: str, draft: str, found: str) -> None:
    if found != name:
        os.unlink(draft)
        raise FileTrouble("content_damaged", f"content {name[:12]} arrived as {found[:12]}")
    os.rename(draft, here.content_path(name))


def tree(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Make a directory out of content that is here."""
    place = str(head["place"])
    if _PLACE.fullmatch(place) is None:
        raise FileTrouble("bad_request", f"`{place}` is no place for a directory")
    listed = here.content_path(str(head["entries"]))
    try:
        with open(listed, "rb") as file:
            entries = [_Entry(**entry) for entry in json.load(file)]
        target = os.path.join(here.places.root, place)
        made = make_directory_of(target, entries, here.content_path)
    except FileNotFoundError as error:
        raise FileTrouble("content_missing", "the list of what it holds isn't here") from error
    except ContentMissing as error:
        raise FileTrouble("content_missing", str(error)) from error
    os.unlink(listed)
    return {"made": made}, b""


def remove(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Remove the directories that were made for a run: `places`, or those of all generations."""
    if "places" in head:
        for place in head["places"]:
            if _PLACE.fullmatch(str(place)) is not None:
                remove_tree(os.path.join(here.places.root, place))
        return {}, b""
    run = checked_name(head.get("run"))
    for folder in LAID_OUT:
        remove_generations(os.path.join(here.places.root, folder), run)
    return {}, b""


def log(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Bytes of a log; one that isn't there yet is empty."""
    files = here.run(head.get("run"))
    path = {"setup": files.setup_log, "metrics": files.metrics}.get(str(head.get("stream")))
    try:
        with open_file(path or files.rank_log(int(head.get("rank") or 0))) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(int(head["offset"]))
            return {"size": size}, file.read(min(PIECE, max(0, int(head["limit"]))))
    except FileNotFoundError:
        return {"size": 0}, b""


def folders(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Where a run works, writes results and keeps checkpoints, as far as that is known."""
    return {**_folders(here, head)}, b""


def _folders(here: Here, head: JSONObject) -> dict[str, str]:
    files = here.run(head.get("run"))
    spec = read_json(files.spec)
    if spec is None:
        workload = checked_name(head.get("workload"))
        kept = {"output": "outputs", "checkpoint": "checkpoints"}
        paths = {what: os.path.join(here.home, name, workload) for what, name in kept.items()}
        there = {what: path for what, path in paths.items() if os.path.isdir(path)}
        return {"work": "", "output": "", "checkpoint": "", **there}
    return {
        "work": spec.get("cwd") or files.path("work"),
        "output": spec.get("output_dir") or files.path("output"),
        "checkpoint": spec.get("checkpoint_dir") or files.path("checkpoint"),
    }


def checkpoints(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """The whole checkpoints of a workload, the newest last."""
    from .checkpoints import complete

    folder = os.path.join(here.home, "checkpoints", checked_name(head.get("workload")))
    found = [[one.name, one.bytes, one.modified_ms, one.step] for one in complete(folder)]
    return {"found": found}, b""


def list_files(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """What lies at a path of a run's area."""
    root, path = _inside(here, head)
    if not os.path.isdir(path):
        return {"root": root, "files": [_line(os.path.basename(path), os.lstat(path))]}, b""
    found = []
    with os.scandir(path) as entries:
        for entry in itertools.islice(entries, _MOST_LISTED):
            try:
                found.append(_line(entry.name, entry.stat(follow_symlinks=False)))
            except FileNotFoundError:
                continue
    return {"root": root, "folder": True, "files": sorted(found)}, b""


def _line(name: str, status: os.stat_result) -> list[object]:
    kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special")
    return [name, kind, status.st_size, status.st_mtime_ns // 1_000_000]


def get(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Bytes of a file of a run's area."""
    _root, path = _inside(here, head)
    with open_file(path) as file:
        status = os.fstat(file.fileno())
        file.seek(int(head["offset"]))
        data = file.read(min(PIECE, max(0, int(head["limit"]))))
    return {"size": status.st_size, "mode": stat.S_IMODE(status.st_mode)}, data


def _inside(here: Here, head: JSONObject) -> tuple[str, str]:
    """An area's folder and a path in it; a path can't leave it, not even through a link."""
    names = {"work": "work", "outputs": "output", "checkpoints": "checkpoint"}
    folder = _folders(here, head).get(names.get(str(head.get("area")), ""), "")
    if not folder or not os.path.isdir(folder):
        raise FileTrouble("gone", "there is no such folder on its machine (any more)")
    root = os.path.realpath(folder)
    path = os.path.realpath(os.path.join(root, str(head.get("path", "")).lstrip("/")))
    if path != root and not path.startswith(root + os.sep):
        raise FileTrouble("outside", f"`{head.get('path')}` leads out of {root}")
    if not os.path.lexists(path):
        raise FileTrouble("not_found", f"there is no `{head.get('path')}` in {root}")
    return root, path


Operation = Callable[[Here, JSONObject, bytes], Answer]
OPERATIONS: dict[str, Operation] = {
    "missing": missing,
    "put": put,
    "tree": tree,
    "remove": remove,
    "log": log,
    "folders": folders,
    "checkpoints": checkpoints,
    "list": list_files,
    "get": get,
}
