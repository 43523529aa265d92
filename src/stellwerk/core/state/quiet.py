"""Remembers until when nothing has to be looked at again as long as nothing happens."""

from typing import NamedTuple


class Quiet(NamedTuple):
    """What was found at a state of the journal: nothing to do until ``until_ms``."""

    seq: int = -1
    from_ms: int = 0
    until_ms: int = 0
    next_ms: int = 0

    def holds(self, seq: int, now_ms: int) -> bool:
        """Whether that is still so."""
        return seq == self.seq and self.from_ms <= now_ms < self.until_ms
