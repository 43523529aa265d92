"""What is told of a workload's checkpoints at home."""

import msgspec

from stellwerk.drivers.agents.checkpoint_home import Told


class SavedView(msgspec.Struct, frozen=True):
    """One checkpoint: by its name, and the step that the name tells."""

    name: str
    step: int | None
    bytes: int
    saved_ms: int


class CheckpointView(msgspec.Struct, frozen=True):
    """The newest whole copy at home (`null`: none yet), and what its machine has that isn't there.

    `home_ms` is when the copy was whole, after `copy_ms`; `machines` where it came from, `folder`
    where it is. `next_copy_ms` is what its machine is needed for after the job's end. `newer` is on
    `newer_on` alone; `trouble` says why it isn't copied.
    """

    at_home: SavedView | None
    home_ms: int | None
    machines: list[str]
    folder: str
    newer: SavedView | None = None
    newer_on: list[str] = []
    trouble: str = ""
    copy_ms: int | None = None
    next_copy_ms: int | None = None


def checkpoint_view(told: Told | None) -> CheckpointView | None:
    """The same for an answer."""
    if told is None:
        return None
    one = told.newer
    newer = None if one is None else SavedView(one.name, one.step, one.bytes, one.modified_ms)
    return CheckpointView(
        at_home=SavedView(told.name, told.step, told.bytes, told.saved_ms) if told.name else None,
        home_ms=told.home_ms or None,
        machines=list(told.from_nodes),
        folder=told.folder,
        newer=newer,
        newer_on=list(told.newer_on),
        trouble=told.trouble,
        copy_ms=told.took_ms if told.name else None,
        next_copy_ms=told.next_ms or None,
    )
