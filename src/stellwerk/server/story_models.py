"""What is answered about the story of a workload, and about the code that it runs."""

import msgspec


class Moment(msgspec.Struct, frozen=True):
    """One line of a workload's story."""

    at_ms: int
    what: str


class SnapshotView(msgspec.Struct, frozen=True):
    """The packed work directory: what was submitted is what runs."""

    hash: str
    files: int
    bytes: int
    commit: str
    dirty: bool
