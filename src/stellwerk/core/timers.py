"""What follows as time goes on, whoever asks for what: drains, checks and reservations."""

from collections.abc import Callable

from stellwerk.core.checks import next_overdue_ms, overdue
from stellwerk.core.draining import lapsed, next_lapse_ms
from stellwerk.core.model import events as ev
from stellwerk.core.reservations import due, next_due_ms
from stellwerk.core.state import State
from stellwerk.core.windows import closing, next_closing_ms

TIMERS: tuple[Callable[[State, int], list[ev.Event]], ...] = (lapsed, overdue, due, closing)
"""Each is asked in turn, on the state as the one before leaves it."""


def next_time_ms(state: State, now_ms: int, wake_at_ms: int) -> int:
    """When the first of them, or a plan that wants to be made again then, is due; 0 = never."""
    times = (
        wake_at_ms,
        next_lapse_ms(state),
        next_overdue_ms(state),
        next_due_ms(state, now_ms),
        next_closing_ms(state, now_ms),
    )
    return min((at_ms for at_ms in times if at_ms), default=0)
