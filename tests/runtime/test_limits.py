"""The end of a window on a machine whose clock on the wall is wrong, and jumps."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

import pytest

from stellwerk.runtime import limits
from stellwerk.runtime.files import RunFiles
from stellwerk.runtime.loop import Loop
from stellwerk.runtime.spec import Spec

MINUTE = 60_000


class Machine:
    """A clock since boot that goes on, one on the wall that says what it likes, and timers."""

    def __init__(self) -> None:
        self.booted_ms = 7_000_000
        self.timers: dict[str, tuple[int, Callable[[], None]]] = {}
        self.told: list[tuple[int, str, int]] = []

    def after(self, name: str, delay_ms: int, callback: Callable[[], None]) -> None:
        """As the loop does: by the time since boot, one timer of a name."""
        self.timers[name] = (self.booted_ms + max(0, delay_ms), callback)

    def let(self, ms: int) -> None:
        """Time goes on; what is due is called at its moment."""
        end_ms = self.booted_ms + ms
        while due := [(at, name) for name, (at, _) in self.timers.items() if at <= end_ms]:
            at, name = min(due)
            self.booted_ms = max(self.booted_ms, at)
            self.timers.pop(name)[1]()
        self.booted_ms = end_ms

    def give_notice(self, why: str, grace_ms: int) -> None:
        """Notes when it was given, and for how long."""
        self.told.append((self.booted_ms, why, grace_ms))


@pytest.mark.parametrize("wrong_ms", [0, 5 * 3_600_000, -50 * 365 * 86_400_000])
def test_the_end_of_a_window_comes_at_its_moment_whatever_the_clock_shows(
    monkeypatch: pytest.MonkeyPatch, wrong_ms: int
) -> None:
    """Hours off from the beginning, set again in between, also where the window is moved then."""
    machine = Machine()
    off = {"ms": wrong_ms}
    monkeypatch.setattr(time, "clock_gettime_ns", lambda _clock: machine.booted_ms * 1_000_000)
    wall = 1_700_000_000_000
    monkeypatch.setattr(time, "time_ns", lambda: (wall + off["ms"]) * 1_000_000)
    spec = SimpleNamespace(ranks=[], grace_ms=MINUTE, time_limit_ms=None,
                           window_end_in_ms=10 * MINUTE)  # fmt: skip
    files = SimpleNamespace(setup_log="/nowhere/setup.log")
    begun_ms = machine.booted_ms
    limit = limits.Limits(
        cast("Spec", spec), cast("RunFiles", files), cast("Loop", machine),
        machine.give_notice, lambda _size: None,
    )  # fmt: skip
    machine.let(5 * MINUTE)
    off["ms"] -= 9 * 3_600_000
    machine.let(3 * MINUTE)
    assert machine.told == []
    machine.let(2 * MINUTE)
    assert machine.told == [(begun_ms + 9 * MINUTE, "window", MINUTE)]
    off["ms"] += 90 * 3_600_000
    limit.window_ends_in(4 * MINUTE)
    machine.let(4 * MINUTE)
    assert machine.told[1:] == [(begun_ms + 13 * MINUTE, "window", MINUTE)]
