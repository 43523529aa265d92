"""Every reason for waiting, failing or being refused: a code, its numbers, and a sentence made of them.

A reason is stored as code and parameters; the sentence, the remedy and who can act come from the
catalogue here, so that wording may improve without touching stored data. Tiers order reasons for
people: what can never be is told before what merely takes time.
"""

from collections.abc import Mapping
from typing import Literal

from msgspec import Struct

Tier = Literal["blocked", "held", "capacity", "turn", "unknown", "ended"]
Who = Literal["you", "queue owner", "cluster owner", "time", "stellwerk"]

TIERS: tuple[Tier, ...] = ("blocked", "held", "capacity", "turn", "unknown", "ended")
"""Worst first: the order in which reasons are shown."""


class Reason(Struct, frozen=True, omit_defaults=True):
    """One enumerated reason with the numbers and names that belong to it."""

    code: str
    params: dict[str, str | int | float] = {}


class Entry(Struct, frozen=True):
    """What the catalogue knows of a code; the texts are format strings over the parameters."""

    tier: Tier
    who: Who
    sentence: str
    remedy: str


class RenderedReason(Struct, frozen=True):
    """A reason as people and JSON see it."""

    code: str
    tier: Tier
    who: Who
    sentence: str
    remedy: str
    params: dict[str, str | int | float]


class _Params(dict[str, object]):
    """Keeps a sentence readable when an older record lacks a parameter."""

    def __missing__(self, key: str) -> str:
        return f"({key} not recorded)"


def render(reason: Reason, catalogue: Mapping[str, Entry]) -> RenderedReason:
    """Fills the catalogue's texts with the reason's parameters."""
    entry = catalogue.get(reason.code)
    if entry is None:
        entry = Entry("unknown", "stellwerk", f"{reason.code} (a reason this version does not know)",
                      "upgrade Stellwerk to read it")
    params = _Params(reason.params)
    return RenderedReason(
        code=reason.code, tier=entry.tier, who=entry.who,
        sentence=entry.sentence.format_map(params), remedy=entry.remedy.format_map(params),
        params=dict(reason.params),
    )


def tier_rank(reason: Reason, catalogue: Mapping[str, Entry]) -> int:
    """Orders reasons worst first."""
    entry = catalogue.get(reason.code)
    return TIERS.index(entry.tier if entry else "unknown")
