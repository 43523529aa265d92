"""Reads which models and data sets the Hugging Face hub cache of a user has whole, and at which
commit.

A commit is `proved` where the list of its files (`trees/<commit>.json`) is there and its snapshot
has all of them at their size; `links` where there is no such list and every link of the snapshot
leads to a file; else `half`. Files that are still downloaded (`.incomplete`) never count. A look is
bounded by entries and by time: what it didn't reach is counted, and looked at the next time.
"""

from __future__ import annotations

import json
import os
import re
import stat
import time
from collections.abc import Iterator, Mapping
from typing import NamedTuple, Optional

from .files import JSONObject, Places, open_file, read_json
from .snapshot import load, login_environment, snapshot_key

PARTIAL = ".incomplete"
TREE_VERSION = 1
MOST_REPOS = 500
MOST_COMMITS = 1_500
MOST_REFS = 10
MOST_ENTRIES = 200_000
LOOK_S = 2.0
_AGAIN_S = 600.0
"""What hasn't changed by its directories is read again so often: files can change without them."""
_RACY_NS = 2_000_000_000
_LARGEST_TREE = 64 * 1024 * 1024
_REPO = re.compile(r"(models|datasets)--([A-Za-z0-9][\w.-]*)")
COMMIT = re.compile(r"[0-9a-f]{40}")


def cache_folder(environment: Mapping[str, str]) -> str:
    """Where the hub's cache of whoever has this environment is, by the rules of its library."""
    for name in ("HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"):
        if environment.get(name):
            return _expanded(environment[name], environment)
    home = environment.get("HF_HOME")
    if not home:
        home = os.path.join(environment.get("XDG_CACHE_HOME") or "~/.cache", "huggingface")
    return os.path.join(_expanded(home, environment), "hub")


def _expanded(path: str, environment: Mapping[str, str]) -> str:
    home = environment.get("HOME") or os.path.expanduser("~")
    if path == "~" or path.startswith("~/"):
        path = home + path[1:]
    return os.path.join(home, path)


def environment_of(root: str) -> dict[str, str]:
    """What a job of this user would see: that of its interactive shell, where that was read."""
    plain, places = login_environment(os.environ), Places(root)
    try:
        shell = load(places, snapshot_key(plain), plain)
        return _newest(places, plain) if shell is None else shell.env
    except (OSError, ValueError, KeyError, TypeError):
        return plain  # it is read anew when the next job needs it


def _newest(places: Places, plain: Mapping[str, str]) -> dict[str, str]:
    """What was read last, where this session began in another way than that of the agent."""
    found = [entry for entry in os.scandir(places.shell) if entry.name.endswith(".json")]
    for entry in sorted(found, key=lambda one: one.stat().st_mtime_ns, reverse=True):
        stored = read_json(entry.path) or {}
        if stored.get("why_plain") is None and isinstance(stored.get("set"), dict):
            return {**plain, **stored["set"]}
    return dict(plain)


def name_of(folder: str) -> str:
    """`hf://datasets/org/name` or `hf://org/name` of a folder of the cache; "" for any other."""
    found = _REPO.fullmatch(folder)
    if found is None:
        return ""
    kind = "datasets/" if found.group(1) == "datasets" else ""
    return f"hf://{kind}{found.group(2).replace('--', '/')}"


def folder_of(name: str) -> str:
    """The folder of a repository; "" for what is no name of one."""
    path = name[5:] if name.startswith("hf://") else ""
    kind = "models"
    if path.startswith("datasets/"):
        kind, path = "datasets", path[9:]
    folder = f"{kind}--{path.replace('/', '--')}"
    fits = (
        path.count("/") <= 1 and "--" not in path and ".." not in path and _REPO.fullmatch(folder)
    )
    return folder if fits and name_of(folder) == name else ""


class _TooMuch(Exception):
    """A look has reached its bounds."""


class _Budget:
    def __init__(self, entries: int, seconds: float) -> None:
        self.spent = 0
        self._entries = entries
        self._until = time.monotonic() + seconds

    def spend(self) -> None:
        self.spent += 1
        if self.spent > self._entries or time.monotonic() > self._until:
            raise _TooMuch


class _Known(NamedTuple):
    """What was found of a repository, and how its directories were then."""

    directories: tuple[tuple[str, int], ...]
    at_s: float
    told: JSONObject


class HubCache:
    """Looks at a cache again and again; reads anew only what has changed."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}
        self._too_large: dict[str, float] = {}

    def look(
        self, folder: str, entries: int = MOST_ENTRIES, seconds: float = LOOK_S, only: str = ""
    ) -> JSONObject:
        """What the cache has: `folder`, `repos`, and how many repositories were `unseen`.

        ``only`` is the folder of one repository, if no other is asked for.
        """
        try:
            listed = [only] if only else os.listdir(folder)
            names = sorted(name for name in listed if name_of(name))
        except OSError:
            self._known = {}
            return {"folder": folder, "repos": [], "unseen": 0}
        budget = _Budget(entries, seconds)
        found: dict[str, _Known] = {}
        unseen = max(0, len(names) - MOST_REPOS)
        for name in names[:MOST_REPOS]:
            path = os.path.join(folder, name)
            known = self._known.get(path)
            if time.monotonic() - self._too_large.get(path, -_AGAIN_S) < _AGAIN_S:
                unseen += 1
                continue
            began = budget.spent
            try:
                if known is None or not _is_as_before(known):
                    known = _read(folder, name, budget)
                found[path] = known
            except _TooMuch:
                unseen += 1
                if not began:  # all of a look isn't enough for it: it would be so the next time
                    self._too_large[path] = time.monotonic()
                if known is not None:
                    found[path] = known
            except OSError:
                unseen += 1
        self._known = found
        repos, commits = [], 0
        for told in (known.told for known in found.values() if known.told["commits"]):
            commits += len(told["commits"])
            if commits > MOST_COMMITS:
                unseen += 1
            else:
                repos.append(told)
        return {"folder": folder, "repos": repos, "unseen": unseen}


def _is_as_before(known: _Known) -> bool:
    if not 0 <= time.monotonic() - known.at_s < _AGAIN_S:
        return False
    try:
        return all(os.stat(path).st_mtime_ns == at for path, at in known.directories)
    except OSError:
        return False


def _read(folder: str, name: str, budget: _Budget) -> _Known:
    began_ns = time.time_ns()
    top = os.path.join(folder, name)
    directories: dict[str, int] = {}
    for path in ("", "blobs", "trees", "snapshots"):
        _note(directories, os.path.join(top, path))
    blobs = {entry.name: entry.stat().st_size for entry in _entries(top, "blobs", budget)}
    refs = _refs(os.path.join(top, "refs"), directories, budget)
    trees = {entry.name[:-5] for entry in _entries(top, "trees", budget) if _is_tree(entry.name)}
    snapshots = {entry.name for entry in _entries(top, "snapshots", budget)}
    commits = {}
    for commit in sorted(c for c in snapshots | trees if COMMIT.fullmatch(c)):
        files = _files(os.path.join(top, "snapshots", commit), directories, budget)
        tree = read_tree(os.path.join(top, "trees", f"{commit}.json"))
        told = measured(files, tree, blobs, folder)
        named = sorted(ref for ref, at in refs.items() if at == commit)
        commits[commit] = {**told, "refs": named[:MOST_REFS]}
    partial = sum(size for blob, size in blobs.items() if blob.endswith(PARTIAL))
    told = {"name": name_of(name), "commits": commits, "partial_bytes": partial}
    # A directory that changed just now may change again within one tick of its clock.
    is_steady = all(began_ns - at > _RACY_NS for at in directories.values())
    at_s = time.monotonic() if is_steady else time.monotonic() - _AGAIN_S
    return _Known(tuple(directories.items()), at_s, told)


def _note(directories: dict[str, int], path: str) -> None:
    try:
        directories[path] = os.stat(path).st_mtime_ns
    except FileNotFoundError:
        return


def _is_tree(name: str) -> bool:
    return name.endswith(".json") and COMMIT.fullmatch(name[:-5]) is not None


def _entries(top: str, below: str, budget: _Budget) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(os.path.join(top, below)) as entries:
            for entry in entries:
                budget.spend()
                if entry.is_symlink() and not os.path.exists(entry.path):
                    continue
                yield entry
    except FileNotFoundError:
        return


def _refs(top: str, directories: dict[str, int], budget: _Budget) -> dict[str, str]:
    """Branches and tags, and the commit that each stood for when it was last asked for."""
    found = {}
    for path, status in walk(top, directories, budget):
        if status is None or not stat.S_ISREG(status.st_mode) or status.st_size > 100:
            continue
        with open_file(os.path.join(top, path)) as file:
            found[path] = file.read(100).decode("ascii", "replace").strip()
    return found


def _files(top: str, directories: dict[str, int], budget: _Budget) -> dict[str, Optional[int]]:
    """The files of a snapshot by path: the size of what each link leads to, None for nowhere."""
    return {
        path: None if status is None or not stat.S_ISREG(status.st_mode) else status.st_size
        for path, status in walk(top, directories, budget)
    }


def walk(
    top: str, directories: Optional[dict[str, int]] = None, budget: Optional[_Budget] = None
) -> Iterator[tuple[str, Optional[os.stat_result]]]:
    """All files below a directory, links followed to files and never into directories."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        if directories is not None:
            _note(directories, os.path.join(top, below))
        try:
            listed = list(os.scandir(os.path.join(top, below)))
        except (FileNotFoundError, NotADirectoryError):
            continue
        for entry in listed:
            if budget is not None:
                budget.spend()
            path = os.path.join(below, entry.name)
            if entry.is_dir(follow_symlinks=False):
                waiting.append(path)
                continue
            try:
                yield path, entry.stat()
            except OSError:
                yield path, None


def read_tree(path: str) -> Optional[dict[str, JSONObject]]:
    """The files that a commit has, by path; None where nobody wrote that down readably."""
    try:
        with open_file(path) as file:
            text = file.read(_LARGEST_TREE + 1)
        tree = json.loads(text) if len(text) <= _LARGEST_TREE else None
    except (OSError, ValueError, RecursionError):
        return None
    if not isinstance(tree, dict) or tree.get("format_version", 0) != TREE_VERSION:
        return None
    files = tree.get("files")
    if not isinstance(files, dict) or not all(map(_is_file, files.values())):
        return None
    return files


def _is_file(one: object) -> bool:
    return isinstance(one, dict) and type(one.get("size")) is int and bool(one.get("blob_id"))


def size_of(file: JSONObject) -> int:
    """The real size of a file of a tree, where a pointer stands for it too."""
    size = file.get("lfs_size")
    return max(0, size if type(size) is int else file["size"])


def content_of(file: JSONObject) -> str:
    """The name under which the content of a file of a tree is kept."""
    return str(file.get("lfs_sha256") or file["blob_id"])


def measured(
    files: Mapping[str, Optional[int]],
    tree: Optional[Mapping[str, JSONObject]],
    blobs: Mapping[str, int],
    folder: str,
) -> JSONObject:
    """How much of a commit is there. Content that several paths share is counted once."""
    broken = sorted(path for path, size in files.items() if size is None)
    if tree is None:
        held = sum(size for size in files.values() if size is not None)
        whole = "half" if broken or not files else "links"
        return {"whole": whole, "bytes": held, "missing_bytes": None, "files": len(files),
                "lacks": [one[:200] for one in broken[:1]], "lacking": len(broken)}  # fmt: skip
    sizes: dict[str, int] = {}
    held_of: dict[str, int] = {}
    lacks = []
    for path, file in sorted(tree.items()):
        content, size = content_of(file), size_of(file)
        sizes[content] = size
        is_linked = files.get(path) == size
        if not is_linked:
            lacks.append(path)
        if is_linked or blobs.get(content) == size or _is_shared(folder, file, size):
            held_of[content] = size
    held = sum(held_of.values())
    return {"whole": "half" if lacks else "proved", "bytes": held, "files": len(files),
            "missing_bytes": sum(sizes.values()) - held, "lacks": [one[:200] for one in lacks[:1]],
            "lacking": len(lacks)}  # fmt: skip


def _is_shared(folder: str, file: JSONObject, size: int) -> bool:
    """Whether the store that all repositories of a cache have in common has a file's content."""
    xet = file.get("xet_hash")
    if not isinstance(xet, str) or re.fullmatch(r"[0-9a-f]{8,}", xet) is None:
        return False
    try:
        return os.stat(os.path.join(folder, "blobs", xet[:2], xet)).st_size == size
    except OSError:
        return False
