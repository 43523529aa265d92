"""Says whether two commands under one idempotency key ask for the same.

Of secrets and of a caller's environment only the names count, as in a plan's id; nor does what a
reader had to say, so a comment more in the file is the same task. What an earlier submission asked
for may have been removed since: then its key still stands for it.
"""

from typing import Any

import msgspec
from msgspec.structs import replace

from stellwerk.core.model.commands import Command, Submit, anonymous
from stellwerk.core.model.ids import BlobHash
from stellwerk.engine.orders import Launch
from stellwerk.store import BlobStore, StoreError

_launch = msgspec.json.Decoder(Launch).decode


class Keys:
    """Compares commands, and what is stored of them."""

    def __init__(self, blobs: BlobStore) -> None:
        self._blobs = blobs

    def agree(self, first: Command, again: Command) -> bool:
        """Whether the second is the first once more."""
        if not isinstance(first, Submit) or not isinstance(again, Submit):
            return first == again
        if _without_names(first) != _without_names(again):
            return False
        return first.task == again.task or self._same_task(first.task, again.task)

    def _same_task(self, first: BlobHash, again: BlobHash) -> bool:
        try:
            return _content(self._blobs.get(first)) == _content(self._blobs.get(again))
        except (StoreError, msgspec.MsgspecError):
            return True


def _without_names(submit: Submit) -> Submit:
    """What the submission itself makes up differs each time; the task has the name asked for."""
    return replace(anonymous(submit), task=BlobHash(""))


def _content(stored: bytes) -> tuple[Any, ...]:
    launch = _launch(stored)
    return (
        replace(launch.task, ignored=(), notices=()),
        launch.mounts,
        launch.argv,
        launch.cwd,
        bool(launch.caller_env),
        sorted(launch.secrets),
        sorted(launch.secret_files),
    )
