"""What a hand does for checkpoints that follow their job: tells of them, lends them, puts them in.

`settled` costs a look at the directory's entries; `hold` and `put_in_place` read and write all of
it, so they have threads of their own.
"""

from __future__ import annotations

import os
import threading
import time

from . import carrying
from .files import JSONObject, open_file, write_atomically
from .hand_files import Answer, FileTrouble, Here, Operation, checked_name
from .messages import PIECE
from .removing import remove_tree
from .trees import ContentMissing, ContentPath

FOLDER = "carried"
"""Beside the runtime: what is held for a copy, or on its way in; a folder for each workload."""
_FORGOTTEN_S = 24 * 3600
_AT_A_TIME = threading.Lock()
"""One look through all of a checkpoint at a time: disks of machines are the jobs' own."""


def _folder(here: Here, head: JSONObject) -> tuple[str, str]:
    name = checked_name(head.get("workload"))
    return os.path.join(here.home, "checkpoints", name), os.path.join(here.home, FOLDER, name)


def _told(here: Here, head: JSONObject, carried: carrying.Carried) -> JSONObject:
    return {
        "found": [[one.name, one.bytes, one.modified_ms, one.step] for one in carried.found],
        "state": carried.state,
        "generation": carrying.generation_here(here.places, checked_name(head.get("workload"))),
    }


def settled(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Which checkpoints of a `workload` may be copied away; `over` if no job writes them now."""
    directory, _ = _folder(here, head)
    carried = carrying.to_carry(directory, over=head.get("over") is True)
    return _told(here, head, carried), b""


def hold(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Hold them, so that they can be read whatever the job does; `size` is that of their list."""
    directory, held = _folder(here, head)
    with _AT_A_TIME:
        _forget_old(os.path.dirname(held))
        carried = carrying.hold(directory, held, over=head.get("over") is True)
    size = os.path.getsize(os.path.join(held, carrying.LIST)) if carried.names else 0
    return {**_told(here, head, carried), "size": size}, b""


def held(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Bytes of a file that is held; without a `path` of the list of all."""
    _, folder = _folder(here, head)
    path = os.path.join(folder, carrying.LIST)
    if head.get("path"):
        top = os.path.realpath(os.path.join(folder, carrying.HELD))
        path = os.path.realpath(os.path.join(top, str(head["path"])))
        if not path.startswith(top + os.sep):
            raise FileTrouble("outside", f"`{head['path']}` leads out of what is held")
    with open_file(path) as file:
        file.seek(int(head["offset"]))
        return {}, file.read(min(PIECE, max(0, int(head["limit"]))))


def shares(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Whether a `folder` of the caller's is the same one here: its `word` is there, and
    answered."""
    del here
    folder, word = str(head["folder"]), checked_name(head.get("word"))
    mark = os.path.join(folder, f".seen-{word}")
    try:
        with open_file(mark) as file:
            if file.read(len(word) + 1) != word.encode("ascii"):
                return {"same": False}, b""
        write_atomically(f"{mark}.there", b"")
    except OSError:
        return {"same": False}, b""
    return {"same": True}, b""


def lend(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Put what is held into a `folder` for content that the caller has too; no more than `pace`
    bytes a second, where that isn't 0. What is there already isn't read."""
    _, folder = _folder(here, head)
    with open_file(os.path.join(folder, carrying.LIST)) as file:
        pieces = carrying.read_list(file.read())
    target = os.path.join(str(head["folder"]), checked_name(head.get("workload")), "content")
    os.makedirs(target, mode=0o700, exist_ok=True)
    try:
        lent = carrying.lend(os.path.join(folder, carrying.HELD), pieces, target, int(head["pace"]))
    except ContentMissing as error:
        raise FileTrouble("changed", str(error)) from error
    return {"bytes": lent}, b""


def let_go(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Hold them no longer."""
    remove_tree(_folder(here, head)[1])
    return {}, b""


def put_in_place(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """Make a workload's checkpoint directory of content that is here, in place of an older one.

    With a `folder` the content is in that one, which the caller has too.
    """
    directory, aside = _folder(here, head)
    with _AT_A_TIME:
        try:
            with open_file(here.content_path(str(head["entries"]))) as file:
                pieces = carrying.read_list(file.read())
            content = _content_in(head) if head.get("folder") else here.content_path
            carrying.put_in_place(directory, aside, pieces, content)
        except (ContentMissing, FileNotFoundError) as error:
            raise FileTrouble("content_missing", str(error)) from error
    return {}, b""


def _content_in(head: JSONObject) -> ContentPath:
    folder = os.path.join(str(head["folder"]), checked_name(head.get("workload")), "content")
    return lambda name: os.path.join(folder, checked_name(name))


def _forget_old(parent: str) -> None:
    """Let go of what nobody has come for in a long time."""
    before_s = time.time() - _FORGOTTEN_S
    try:
        names = os.listdir(parent)
    except FileNotFoundError:
        return
    for name in names:
        path = os.path.join(parent, name)
        try:
            if os.lstat(path).st_mtime < before_s:
                remove_tree(path)
        except FileNotFoundError:
            continue


OPERATIONS: dict[str, Operation] = {
    "settled": settled,
    "hold": hold,
    "held": held,
    "let_go": let_go,
    "shares": shares,
    "lend": lend,
    "put_in_place": put_in_place,
}
