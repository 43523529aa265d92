"""A reason for waiting, failing or being refused: a code and the numbers that belong to it.

The sentence, the remedy and who can act come from the catalogue, so that wording may improve
without touching stored data. Tiers order reasons for people: what can never be is told before what
merely takes time.
"""

from typing import Literal

from msgspec import Struct

Tier = Literal["blocked", "held", "capacity", "turn", "unknown", "ended"]
Who = Literal["you", "queue owner", "cluster owner", "time", "stellwerk"]

TIERS: tuple[Tier, ...] = ("blocked", "held", "capacity", "turn", "unknown", "ended")
"""Worst first: the order in which reasons are shown."""

Param = str | int | float


class Reason(Struct, frozen=True, omit_defaults=True):
    """One enumerated reason with the numbers and names that belong to it."""

    code: str
    params: dict[str, Param] = {}


class RenderedReason(Struct, frozen=True):
    """A reason as people and JSON see it."""

    code: str
    tier: Tier
    who: Who
    sentence: str
    remedy: str
    params: dict[str, Param]


class Entry(Struct, frozen=True):
    """What the catalogue knows of a code; sentence and remedy are templates over its params."""

    tier: Tier
    who: Who
    sentence: str
    remedy: str
