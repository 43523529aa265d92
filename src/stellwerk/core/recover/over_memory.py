"""Which runs hold more of a shared GPU than they asked for, and whom that keeps from their own.

What a driver can't enforce is watched: who takes more is told so, and is stopped only where another
run on that card can't get what it was promised. Pure; what isn't known harms nobody.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec import Struct

from stellwerk.core.model.quantity import MIB
from stellwerk.core.model.reasons import Param, Reason

LEAST_OVER_BYTES = 512 * MIB
SHARE_OVER = 20
"""More by a twentieth, at least half a GiB: allocators round up, and a context grows a little."""


class Holder(Struct, frozen=True):
    """A run on a card: what it asked for, and what it holds (None: its driver doesn't tell)."""

    run: str
    name: str
    asked_bytes: int
    used_bytes: int | None = None

    @property
    def over_bytes(self) -> int:
        """By how much it holds more than it asked for, beyond what is left out of account."""
        over = (self.used_bytes or 0) - self.asked_bytes
        return over if over > max(LEAST_OVER_BYTES, self.asked_bytes // SHARE_OVER) else 0


class SharedCard(Struct, frozen=True):
    """A card that runs share, with what is free on it (None: not known)."""

    label: str
    holders: tuple[Holder, ...]
    free_bytes: int | None = None


class Over(Struct, frozen=True):
    """A run that holds more than it asked for, and why it must stop, if it must."""

    run: str
    reason: Reason
    harms: bool = False


def over(card: SharedCard) -> list[Over]:
    """Gives who holds too much of a card. At most one of them must stop: who takes the most."""
    greedy = sorted(
        (one for one in card.holders if one.over_bytes), key=lambda one: (-one.over_bytes, one.run)
    )
    found = []
    for place, one in enumerate(greedy):
        harmed = _harmed(card, one) if place == 0 else None
        params: dict[str, Param] = {
            "gpu": card.label,
            "used_bytes": one.used_bytes or 0,
            "asked_bytes": one.asked_bytes,
        }
        if harmed is not None:
            params |= {
                "other": harmed.name,
                "other_bytes": harmed.asked_bytes,
                "left_bytes": (harmed.used_bytes or 0) + (card.free_bytes or 0),
            }
        reason = Reason("gpu_over_harms" if harmed is not None else "gpu_over_asked", params)
        found.append(Over(one.run, reason, harms=harmed is not None))
    return found


def _harmed(card: SharedCard, greedy: Holder) -> Holder | None:
    """Who can't get what it asked for while this run holds more than its own."""
    if card.free_bytes is None:
        return None
    lacking = [
        (one.asked_bytes - one.used_bytes - card.free_bytes, one)
        for one in card.holders
        if one.run != greedy.run and one.used_bytes is not None
    ]
    harmed = [(lack, one) for lack, one in lacking if lack > 0]
    return max(harmed, key=lambda item: (item[0], item[1].run))[1] if harmed else None


def judged(cards: Iterable[SharedCard]) -> list[Over]:
    """Who holds too much of any card; of a run that does on several, what is worst."""
    found: dict[str, Over] = {}
    for card in cards:
        for one in over(card):
            known = found.get(one.run)
            if known is None or (one.harms and not known.harms):
                found[one.run] = one
    return list(found.values())
