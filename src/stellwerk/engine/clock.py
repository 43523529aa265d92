"""The only reader of the time; everything else gets it as a value."""

import time
from typing import Protocol


class Clock(Protocol):
    """Says what time it is."""

    def now_ms(self) -> int:
        """UTC milliseconds; may jump when the machine's clock is set."""
        ...


class SystemClock:
    """The machine's clock."""

    def now_ms(self) -> int:
        """UTC milliseconds since 1970."""
        return time.time_ns() // 1_000_000
