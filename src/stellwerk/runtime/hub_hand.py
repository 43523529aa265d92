"""What a hand does with its user's cache of models and data sets: lists, reads, fills, removes.

One writer for each repository, by a lock file that is free again when its process ends. Content
counts under the name of its own hash and nothing else; what was begun is gone on from. Links come
after all content, the list of files last, so that a commit is never taken for whole before it is.

| request | asks with | gets |
|---|---|---|
| `hub_list` | `name`, `commit`, `start` | `files` from there on, and how whole it is |
| `hub_read` | `name`, `blob` or the `tree` of a commit, `offset`, `limit` | bytes, or `zeros` |
| `hub_begin` | `name`, `bytes` that are to come, `keep_free` | `free` |
| `hub_lacks` | `name`, `blobs`: [blob, size] | [blob, bytes that are there] |
| `hub_write` | `name`, `blob`, `offset`, `zeros` or bytes behind | |
| `hub_keep` | `name`, `blob`, `size` | |
| `hub_link` | `name`, `commit`, `files`: [path, blob, size] | |
| `hub_seal` | `name`, `commit`, `refs`, `size`, `offset`, with the tree's bytes behind | |
| `hub_end` | `name` | |
| `hub_remove` | `name`, `commit`, see `hub_removing.py` | `freed` |
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import shutil
import threading
from typing import Any, NamedTuple, Optional

from . import hub_cache
from .files import JSONObject, open_file, write_atomically
from .hand_files import Answer, FileTrouble, Here, Operation
from .messages import PIECE

PART = ".stellwerk-part"
PAGE = 500
KEPT_SHARE = 20
MOST_KEPT_FREE = 50 * 10**9
"""Of what is free a twentieth stays so, and no more than this, if nothing else is asked for."""
BLOB = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_REF = re.compile(r"[A-Za-z0-9][\w.-]*(/[\w.-]+)*")
_LOCKS: dict[str, int] = {}
_AT_A_TIME = threading.Lock()


class Repo(NamedTuple):
    name: str
    cache: str
    top: str

    def at(self, *parts: str) -> str:
        return os.path.join(self.top, *parts)


def repo_of(here: Here, head: JSONObject) -> Repo:
    name = str(head.get("name"))
    folder = hub_cache.folder_of(name)
    if not folder:
        raise FileTrouble("bad_request", f"`{name}` is no name of a model or data set")
    cache = hub_cache.cache_folder(hub_cache.environment_of(here.places.root))
    return Repo(name, cache, os.path.join(cache, folder))


def commit_of(head: JSONObject, field: str = "commit") -> str:
    commit = str(head.get(field))
    if hub_cache.COMMIT.fullmatch(commit) is None:
        raise FileTrouble("bad_request", f"`{commit[:60]}` is no commit")
    return commit


def blob_of(name: object) -> str:
    if not isinstance(name, str) or BLOB.fullmatch(name) is None:
        raise FileTrouble("bad_request", f"`{name}` is no name of content")
    return name


def _inside(path: object) -> str:
    """A path of a file in a snapshot, which can't lead out of it."""
    parts = str(path).split("/")
    if not isinstance(path, str) or "\0" in path or any(one in {"", ".", ".."} for one in parts):
        raise FileTrouble("bad_request", f"`{path}` is no path of a file")
    return path


# reading


def list_files(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """The files of a commit: path, blob and size of each; and whether it is whole."""
    repo, commit, start = repo_of(here, head), commit_of(head), int(head.get("start") or 0)
    known = _LISTED.get(repo.top)
    if known is None or not start or known.commit != commit:
        _LISTED.clear()
        known = _LISTED[repo.top] = _list(repo, commit)
    page = known.files[start : start + PAGE]
    return {**known.told, "files": page, "count": len(known.files)}, b""


class _Listed(NamedTuple):
    commit: str
    files: list[list[Any]]
    told: JSONObject


_LISTED: dict[str, _Listed] = {}
"""The last one, for those who read it page by page."""


def _list(repo: Repo, commit: str) -> _Listed:
    look = hub_cache.HubCache().look(repo.cache, seconds=60, only=os.path.basename(repo.top))
    found = [one["commits"][commit] for one in look["repos"] if commit in one["commits"]]
    if not found:
        raise FileTrouble("not_found", f"{repo.name} at {commit[:12]} isn't in {repo.cache}")
    files: list[list[Any]] = []
    snapshot = repo.at("snapshots", commit)
    for path, status in hub_cache.walk(snapshot):
        if status is not None:
            blob = os.path.basename(target_of(os.path.join(snapshot, path)))
            files.append([path, blob if BLOB.fullmatch(blob) else "", status.st_size])
    tree = size_of(repo.at("trees", f"{commit}.json")) or 0
    return _Listed(commit, sorted(files), {**found[0], "tree_bytes": tree})


def target_of(link: str) -> str:
    try:
        return os.readlink(link)
    except OSError:
        return ""  # a file of its own, as caches have them where links aren't possible


def read(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Bytes of content from `offset` on; of a hole in a file only how long it is."""
    repo = repo_of(here, head)
    path = repo.at("blobs", blob_of(head.get("blob"))) if head.get("blob") else ""
    if not path:
        path = repo.at("trees", f"{commit_of(head, 'tree')}.json")
    offset = int(head["offset"])
    with open_file(os.path.realpath(path)) as file:
        size = os.fstat(file.fileno()).st_size
        zeros = _hole(file.fileno(), offset, size)
        if zeros >= PIECE:
            return {"zeros": zeros, "size": size}, b""
        file.seek(offset)
        return {"zeros": 0, "size": size}, file.read(min(PIECE, max(0, int(head["limit"]))))


def _hole(descriptor: int, offset: int, size: int) -> int:
    """How many bytes from an offset on are in no block of the disk."""
    if offset >= size:
        return 0
    try:
        return min(os.lseek(descriptor, offset, os.SEEK_DATA), size) - offset
    except OSError as error:
        if error.errno == errno.ENXIO:  # nothing but a hole up to its end
            return size - offset
        return 0


# writing


def begin(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Take the lock of a repository, if there is room for what is to come."""
    repo = repo_of(here, head)
    os.makedirs(repo.at("blobs"), exist_ok=True)
    coming, asked = int(head.get("bytes") or 0), head.get("keep_free")
    free = shutil.disk_usage(repo.top).free
    kept = min(MOST_KEPT_FREE, free // KEPT_SHARE) if asked is None else int(asked)
    if coming and free - coming < kept:
        gigabytes = (round(one / 1e9, 3) for one in (coming, free, kept))
        message = "{:g} GB are to come, {:g} GB are free, and {:g} GB stay free".format(*gigabytes)
        raise FileTrouble("no_room", message)
    take_lock(repo)
    return {"free": free, "folder": repo.cache}, b""


def take_lock(repo: Repo) -> None:
    folder = os.path.join(repo.cache, ".locks", os.path.basename(repo.top))
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "stellwerk.lock")
    with _AT_A_TIME:
        if repo.top in _LOCKS:
            raise FileTrouble("busy", f"{repo.name} is being written into {repo.cache} already")
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            if error.errno in {errno.EAGAIN, errno.EACCES}:
                message = f"{repo.name} is being written into {repo.cache} by somebody else"
                raise FileTrouble("busy", message) from error
            message = f"{path} can't be locked ({error.strerror}), as on many network file systems"
            raise FileTrouble("no_lock", message) from error
        _LOCKS[repo.top] = descriptor


def end(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Let go of the lock."""
    let_go(repo_of(here, head))
    return {}, b""


def let_go(repo: Repo) -> None:
    with _AT_A_TIME:
        descriptor = _LOCKS.pop(repo.top, None)
    if descriptor is not None:
        os.close(descriptor)


def locked(here: Here, head: JSONObject) -> Repo:
    repo = repo_of(here, head)
    if repo.top not in _LOCKS:
        raise FileTrouble("not_begun", f"nobody has begun to write {repo.name}")
    return repo


def lacks(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """How much of each of some content is there: all of it, what was begun, or nothing."""
    repo = repo_of(here, head)
    found = []
    for name, size in head["blobs"]:
        there = size_of(repo.at("blobs", blob_of(name)))
        if there != size:
            begun = size_of(repo.at("blobs", name + PART))
            there = begun if begun is not None and begun < size else 0
        found.append([name, there])
    return {"blobs": found}, b""


def size_of(path: str) -> Optional[int]:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return None


def write(here: Here, head: JSONObject, data: bytes) -> Answer:
    """The next part of content that isn't whole yet."""
    path = locked(here, head).at("blobs", blob_of(head.get("blob")) + PART)
    offset = int(head["offset"])
    with open(path, "r+b" if offset else "wb") as file:
        zeros = int(head.get("zeros") or 0)
        if zeros:
            file.truncate(offset + zeros)
        else:
            file.seek(offset)
            file.write(data)
    return {}, b""


def keep(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Take content over under its name, if that is its hash."""
    repo, name, size = locked(here, head), blob_of(head.get("blob")), int(head["size"])
    path = repo.at("blobs", name)
    if not size and not os.path.exists(path + PART):
        with open(path + PART, "wb"):
            pass
    if _hash(path + PART, name) != name or size_of(path + PART) != size:
        os.unlink(path + PART)
        message = f"content {name[:12]} of {repo.name} isn't what its name says: it is damaged"
        raise FileTrouble("content_damaged", message)
    os.rename(path + PART, path)
    return {}, b""


def _hash(path: str, name: str) -> str:
    """The name of content: of large files by sha256, of small ones as git has it."""
    digest: Any = hashlib.sha256()
    with open(path, "rb") as file:
        if len(name) == 40:
            size = os.fstat(file.fileno()).st_size
            digest = hashlib.sha1(b"blob %d\0" % size)  # noqa: S324 - git names it so
        while block := file.read(1 << 20):
            digest.update(block)
        os.fsync(file.fileno())
    return str(digest.hexdigest())


def link(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Name files of a commit, whose content is there."""
    repo, commit = locked(here, head), commit_of(head)
    for path, blob, size in head["files"]:
        target = repo.at("snapshots", commit, _inside(path))
        content = repo.at("blobs", blob_of(blob))
        if size_of(content) != size:
            raise FileTrouble("content_missing", f"the content of {path} isn't there")
        leads_to = os.path.relpath(content, os.path.dirname(target))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        if target_of(target) != leads_to:
            draft = f"{target}{PART}"
            if os.path.lexists(draft):
                os.unlink(draft)
            os.symlink(leads_to, draft)
            os.rename(draft, target)
    return {}, b""


def seal(here: Here, head: JSONObject, data: bytes) -> Answer:
    """Take over the list of a commit's files, and the names that it had where it comes from."""
    repo, commit = locked(here, head), commit_of(head)
    offset, size = int(head.get("offset") or 0), int(head.get("size") or 0)
    if size:
        os.makedirs(repo.at("trees"), exist_ok=True)
        path = repo.at("trees", f"{commit}.json")
        with open(path + PART, "r+b" if offset else "wb") as file:
            file.seek(offset)
            file.write(data)
        if offset + len(data) < size:
            return {}, b""
        if hub_cache.read_tree(path + PART) is None:
            os.unlink(path + PART)
            raise FileTrouble("content_damaged", "the list of its files can't be read")
        os.rename(path + PART, path)
    for ref in head.get("refs") or ():
        if _REF.fullmatch(str(ref)) is None or ".." in str(ref):
            continue
        path = repo.at("refs", str(ref))
        if not os.path.exists(path):
            os.makedirs(os.path.dirname(path), exist_ok=True)
            write_atomically(path, commit.encode("ascii"))
    return {}, b""


OPERATIONS: dict[str, Operation] = {
    "hub_list": list_files,
    "hub_read": read,
    "hub_begin": begin,
    "hub_lacks": lacks,
    "hub_write": write,
    "hub_keep": keep,
    "hub_link": link,
    "hub_seal": seal,
    "hub_end": end,
}
