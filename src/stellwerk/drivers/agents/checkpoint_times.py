"""Predicts how long it takes until what a run saves last is safe at home, from earlier copies.

The last checkpoint before an end is as large as the largest of late, and travels as fast as those
did, hashing and all. A quarter more is allowed, and no more than a bound: what holds a machine back
must have an end.
"""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

from stellwerk.drivers.agents.checkpoint_store import Whole

LOOKED_AT = 2
SHARE_MORE = 1.25
LEAST_MS = 1_000
MOST_MS = 30 * 60_000
UNKNOWN_MS = 30_000
"""What a copy of which nothing is known may take before its machine is given back without it."""


class CopyTime(NamedTuple):
    """What is expected: so many bytes, in that time. Both 0 where nothing was copied yet."""

    bytes: int = 0
    ms: int = 0

    @property
    def patience_s(self) -> float:
        """How long a machine is held back for a copy at most."""
        return min(MOST_MS, max(2 * self.ms, UNKNOWN_MS)) / 1000


def predicted(copies: Iterable[Whole]) -> CopyTime:
    """What the next copy takes; ``copies`` are the earlier ones, the newest first."""
    known = [one for one in islice(copies, LOOKED_AT) if one.brought_bytes and one.took_ms]
    if not known:
        return CopyTime()
    brought = sum(one.brought_bytes for one in known)
    bytes_ms = brought / sum(one.took_ms for one in known)
    size = max(one.newest.bytes for one in known)
    expected_ms = int(SHARE_MORE * size / bytes_ms)
    return CopyTime(size, min(MOST_MS, max(LEAST_MS, expected_ms)))
