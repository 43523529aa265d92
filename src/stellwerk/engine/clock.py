"""The only reader of the time; everything else gets it as a value."""

import time
from collections.abc import Callable
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


class SteadyClock:
    """A clock that never goes back, and never stands still either.

    The journal's times may not go backwards. When the machine's clock is set back, or the journal
    was written under a clock that was ahead, time goes on from the latest time known, as fast as
    the monotonic clock, until the machine's clock has caught up. Taking the maximum alone would
    make time stand still until then, and every back-off with it.
    """

    def __init__(
        self, clock: Clock, monotonic_ms: Callable[[], int] = lambda: time.monotonic_ns() // 10**6
    ) -> None:
        self._clock = clock
        self._monotonic_ms = monotonic_ms
        self._latest_ms = 0
        self._read_at_ms = monotonic_ms()

    def now_ms(self) -> int:
        """UTC milliseconds, at least as many as at the last call."""
        read_at_ms = self._monotonic_ms()
        gone_on_ms = self._latest_ms + max(0, read_at_ms - self._read_at_ms)
        self._latest_ms = max(self._clock.now_ms(), gone_on_ms)
        self._read_at_ms = read_at_ms
        return self._latest_ms

    def not_before(self, at_ms: int) -> None:
        """Goes on from a time that is known to have been reached."""
        self._latest_ms = max(self._latest_ms, at_ms)
