"""Removes a commit of a model or data set from its user's cache, and nothing that anybody reads.

Content that another commit has too stays. A program that has any of it open keeps all of it there.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from . import hub_cache
from .files import JSONObject, open_file
from .hand_files import Answer, FileTrouble, Here, Operation
from .hub_hand import BLOB, Repo, commit_of, let_go, repo_of, size_of, take_lock, target_of
from .processes import everything, run_of
from .removing import remove_tree


def remove(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Remove a commit, and content that no other one has; refused while a program has it open."""
    repo, commit = repo_of(here, head), commit_of(head)
    snapshot = repo.at("snapshots", commit)
    if not os.path.isdir(snapshot) and not os.path.exists(repo.at("trees", f"{commit}.json")):
        raise FileTrouble("not_found", f"{repo.name} at {commit[:12]} isn't in {repo.cache}")
    take_lock(repo)
    try:
        ours, others = _contents(snapshot), _of_others(repo, commit)
        alone = sorted(ours - others)
        _refuse_if_open(repo, [repo.at("blobs", one) for one in alone], snapshot)
        freed = 0
        for name, at in _refs(repo):
            if at == commit:
                os.unlink(repo.at("refs", name))
        tree = repo.at("trees", f"{commit}.json")
        if os.path.exists(tree):
            os.unlink(tree)
        remove_tree(snapshot)
        for one in alone:
            if not os.path.islink(repo.at("blobs", one)):  # else it is in the store of all of them
                freed += size_of(repo.at("blobs", one)) or 0
            os.unlink(repo.at("blobs", one))
        if not _commits(repo):
            remove_tree(repo.top)
    finally:
        let_go(repo)
    return {"freed": freed}, b""


def _contents(snapshot: str) -> set[str]:
    found = set()
    for path, status in hub_cache.walk(snapshot):
        blob = os.path.basename(target_of(os.path.join(snapshot, path)))
        if status is not None and BLOB.fullmatch(blob):
            found.add(blob)
    return found


def _commits(repo: Repo) -> list[str]:
    try:
        return os.listdir(repo.at("snapshots"))
    except FileNotFoundError:
        return []


def _of_others(repo: Repo, commit: str) -> set[str]:
    found: set[str] = set()
    for other in _commits(repo):
        if other != commit:
            found |= _contents(repo.at("snapshots", other))
    return found


def _refs(repo: Repo) -> Iterable[tuple[str, str]]:
    for path, status in list(hub_cache.walk(repo.at("refs"))):
        if status is not None and status.st_size <= 100:
            with open_file(repo.at("refs", path)) as file:
                yield path, file.read(100).decode("ascii", "replace").strip()


def _refuse_if_open(repo: Repo, blobs: list[str], snapshot: str) -> None:
    """A program that reads it holds it open or has it in its memory, or works in it."""
    guarded = {os.path.realpath(path) for path in blobs}
    below = os.path.realpath(snapshot)
    for process in everything():
        if process.pid == os.getpid():
            continue
        for path in _open_files(process.pid):
            if path in guarded or path.startswith(below):
                run = run_of(process.pid)
                who = f"run {run}" if run else f"process {process.pid}"
                raise FileTrouble("in_use", f"{who} has {repo.name} open")


def _open_files(pid: int) -> Iterable[str]:
    try:
        for name in os.listdir(f"/proc/{pid}/fd"):
            yield target_of(f"/proc/{pid}/fd/{name}")
        yield target_of(f"/proc/{pid}/cwd")
        with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as file:
            for line in file:
                parts = line.split(None, 5)
                if len(parts) == 6:
                    yield parts[5].rstrip("\n")
    except OSError:
        return  # it has ended, or is another user's


OPERATIONS: dict[str, Operation] = {"hub_remove": remove}
