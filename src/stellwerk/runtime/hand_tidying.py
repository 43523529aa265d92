"""What a hand looks for and removes of what runs and workloads left here, by its caller's word.

It decides nothing but what belongs to no run: the caller knows which work is over. Looking takes
as long as there are files, so each request has a thread of its own.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path

from . import leftovers
from .files import RUN_NAME, JSONObject
from .hand_files import KEPT_CONTENT_S, Answer, FileTrouble, Here, Operation
from .leftovers import Left

KINDS = ("outputs", "checkpoints")
CONTENT = "content/"
_MOST = 20_000
_JUST_ASKED_FOR_S = 3600
"""Content that was asked for so lately is about to be used, whatever was said of it before."""


def left(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """What lies here of a `kind`: `runs`, `outputs`, `checkpoints`; or whether a `run` does."""
    if "run" in head:
        return {"is": os.path.isdir(here.run(head["run"]).directory)}, b""
    kind = head.get("kind")
    if kind == "runs":
        return _told(leftovers.runs_left(Path(here.places.root))), b""
    return _told(leftovers.folders_left(_folder(here, kind))), b""


def strays(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """What is older than `before_ms` and belongs to no run here nor in `live`; old content too."""
    before_ms = int(head["before_ms"])
    found = leftovers.strays(Path(here.places.root), set(head["live"]), before_ms)
    old = []
    unwanted_ms = min(before_ms, int((time.time() - KEPT_CONTENT_S) * 1000))
    with os.scandir(here.content) as entries:
        for entry in entries:
            status = entry.stat(follow_symlinks=False)
            if status.st_mtime_ns // 1_000_000 < unwanted_ms:
                old.append(Left(CONTENT + entry.name, status.st_blocks * leftovers.BLOCK_BYTES))
    return _told([*found, *old]), b""


def sweep(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Remove a `workload`'s folder of a `kind`, or what `strays` named."""
    if "kind" in head:
        leftovers.remove_folder(_folder(here, head["kind"]), str(head["workload"]))
        return {}, b""
    names = [str(name) for name in head["strays"]]
    for name in names:
        if name.startswith(CONTENT):
            _remove_content(here, name[len(CONTENT) :])
    root = Path(here.places.root)
    inside = [name for name in names if not name.startswith(CONTENT) and _is_plain(name)]
    leftovers.remove_strays(root, inside)
    return {}, b""


def _folder(here: Here, kind: object) -> Path:
    if kind not in KINDS:
        raise FileTrouble("bad_request", f"`{kind}` is nothing that workloads leave")
    return Path(here.home, str(kind))


def _is_plain(name: str) -> bool:
    parts = name.split("/")
    return len(parts) <= 2 and all(RUN_NAME.fullmatch(part) for part in parts)


def _remove_content(here: Here, name: str) -> None:
    if "/" in name or name.startswith("."):
        raise FileTrouble("bad_request", f"`{name}` is no name of content")
    path = os.path.join(here.content, name)
    try:
        if time.time() - os.lstat(path).st_mtime > _JUST_ASKED_FOR_S:
            os.unlink(path)
    except FileNotFoundError:
        pass  # somebody else was faster


def _told(found: Sequence[Left]) -> JSONObject:
    return {"left": [list(one) for one in found[:_MOST]]}


OPERATIONS: dict[str, Operation] = {
    "left": left,
    "strays": strays,
    "sweep": sweep,
}
