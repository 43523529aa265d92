"""Time that goes on only when told: what is due runs in the order of its times, then as it came."""

import heapq
import itertools
from collections.abc import Callable

Action = Callable[[], None]


class VirtualClock:
    """Keeps what is to happen when; nothing happens before `advance_to` reaches it."""

    def __init__(self, start_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = start_ms
        self._due: list[tuple[int, int, Action]] = []
        self._order = itertools.count()

    @property
    def now_ms(self) -> int:
        """The time, UTC."""
        return self._now_ms

    def at(self, when_ms: int, action: Action) -> None:
        """Has an action run at a time; a time that has passed means the next advance."""
        heapq.heappush(self._due, (max(when_ms, self._now_ms), next(self._order), action))

    def after(self, delay_ms: int, action: Action) -> None:
        """Has an action run some time from now."""
        self.at(self._now_ms + delay_ms, action)

    @property
    def next_ms(self) -> int | None:
        """When the next action is due, if there is one."""
        return self._due[0][0] if self._due else None

    def advance_to(self, when_ms: int) -> None:
        """Goes on to a time, running all that falls due on the way, also what those actions add."""
        while self._due and self._due[0][0] <= when_ms:
            due_ms, _, action = heapq.heappop(self._due)
            self._now_ms = due_ms
            action()
        self._now_ms = max(self._now_ms, when_ms)

    def advance(self, by_ms: int) -> None:
        """Goes on by some time."""
        self.advance_to(self._now_ms + by_ms)
