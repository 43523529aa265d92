"""Learns how much GPU memory work holds at most, and says how much would have been enough.

Of each task and each name the highest peak of the newest ends is kept, and that of as many before
them: so what was used long ago is forgotten, and what is kept doesn't grow.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from stellwerk.core.model.peaks import Peak
from stellwerk.core.model.quantity import GIB

WINDOW = 32
MOST_KEYS = 2_000
TRUSTED = 2
"""So many ends are needed before anything is said."""

MARGIN = (11, 10)
WORTH_BYTES = GIB
WORTH_SHARE = 4
"""Less by a quarter, and by a GiB, is worth to be told."""


class Enough(Struct, frozen=True):
    """What work asked for on a card, the most it ever held in so many ends, and what would do."""

    asked_bytes: int
    most_bytes: int
    ends: int
    enough_bytes: int


class Peaks:
    """What is kept, by key; keys that were added to last come last."""

    def __init__(self, kept: dict[str, Peak] | None = None) -> None:
        self._kept = dict(kept or {})

    def image(self) -> dict[str, Peak]:
        """What a restart goes on from."""
        return dict(self._kept)

    def learn(self, keys: Iterable[str], most_bytes: int) -> None:
        """Takes the peak of one end into account."""
        for key in keys:
            known = self._kept.pop(key, Peak(0, 0))
            if known.ends >= WINDOW:
                known = Peak(0, 0, known.ends, known.most_bytes)
            self._kept[key] = Peak(
                known.ends + 1,
                max(known.most_bytes, most_bytes),
                known.before,
                known.before_bytes,
            )
        while len(self._kept) > MOST_KEYS:
            del self._kept[next(iter(self._kept))]

    def most(self, keys: Iterable[str]) -> tuple[int, int]:
        """The most that was held of a card, and in how many ends, by the nearest key that says it;
        (0, 0) where too few are known.
        """
        for key in keys:
            known = self._kept.get(key)
            if known is not None and known.ends + known.before >= TRUSTED:
                return max(known.most_bytes, known.before_bytes), known.ends + known.before
        return 0, 0

    def enough(self, keys: Iterable[str], asked_bytes: int) -> Enough | None:
        """How much would have been enough, where that is so much less that it's worth saying."""
        most, ends = self.most(keys)
        times, of = MARGIN
        whole = -(-most * times // of // GIB) * GIB
        saved = asked_bytes - whole
        if not most or saved < max(WORTH_BYTES, asked_bytes // WORTH_SHARE):
            return None
        return Enough(asked_bytes, most, ends, whole)
