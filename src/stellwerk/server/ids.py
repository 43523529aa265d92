"""Makes the ids of workloads: `w-` and 13 characters that sort by time and can't be guessed.

42 bits of milliseconds and 23 bits of chance in Crockford's base 32 (digits before letters, so text
order is number order; no letters that look like digits). Ids of one server only ever grow.
"""

import secrets

from stellwerk.core.model.ids import WorkloadId

ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
LENGTH = 13
CHANCE_BITS = 23


class Ids:
    """Gives one id after the other."""

    def __init__(self) -> None:
        self._last = 0

    def give(self, now_ms: int) -> WorkloadId:
        """An id later than all before it, even when the clock is set back."""
        fresh = now_ms << CHANCE_BITS | secrets.randbits(CHANCE_BITS)
        self._last = max(fresh, self._last + 1)
        return WorkloadId("w-" + _text(self._last))


def _text(number: int) -> str:
    digits = []
    for _ in range(LENGTH):
        number, rest = divmod(number, 32)
        digits.append(ALPHABET[rest])
    return "".join(reversed(digits))
