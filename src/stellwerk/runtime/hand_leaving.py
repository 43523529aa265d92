"""What a hand does when its caller goes for good: the agent ends, and with it what lies here."""

from __future__ import annotations

import contextlib
import os

from .files import JSONObject
from .hand_files import Answer, Here
from .reach import dismiss, socket_of
from .removing import remove_tree

FOLDERS = ("outputs", "checkpoints", "carried", "content", "runtime")
"""All that a caller has here; the last one holds the file that is being run."""

OF_JOINING = ("join.json", "join.lock")


def leave(here: Here, head: JSONObject, _data: bytes) -> Answer:
    """End the agent unless runs go on under it; with `purge` remove everything of the caller's."""
    root = here.places.root
    if not dismiss(socket_of(root)):
        return {"agent": "goes on", "purged": False}, b""
    if not head.get("purge"):
        return {"agent": "ended", "purged": False}, b""
    for name in OF_JOINING:
        remove_tree(os.path.join(here.home, name))
    left = [name for name in FOLDERS if not remove_tree(os.path.join(here.home, name))]
    with contextlib.suppress(OSError):  # what somebody else has put there stays
        os.rmdir(here.home)
    return {"agent": "ended", "purged": not left, "left": left}, b""
