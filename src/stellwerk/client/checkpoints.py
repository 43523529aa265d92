"""What the server tells of a job's checkpoints at home."""

from msgspec import Struct


class Saved(Struct):
    """One checkpoint."""

    name: str
    step: int | None = None
    bytes: int = 0
    saved_ms: int = 0


class Checkpoint(Struct):
    """The newest whole copy of a job's checkpoints at home, and what is newer elsewhere."""

    at_home: Saved | None = None
    home_ms: int | None = None
    machines: list[str] = []
    folder: str = ""
    newer: Saved | None = None
    newer_on: list[str] = []
    trouble: str = ""
    copy_ms: int | None = None
    next_copy_ms: int | None = None
