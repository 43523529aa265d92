"""How much of a GPU's memory work held at most, run after run."""

from msgspec import Struct


class Peak(Struct, frozen=True, omit_defaults=True):
    """The most that some work held of any one card, in the newest ends and in those before them.

    ``ends`` of the newest were seen so far; ``before`` counts those that ``before_bytes`` is of.
    """

    ends: int
    most_bytes: int
    before: int = 0
    before_bytes: int = 0
