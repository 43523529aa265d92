"""The engine's time never goes back and never stands still, whatever the machine's clock does."""

from hypothesis import given
from hypothesis import strategies as st

from stellwerk.engine.clock import SteadyClock


class _Wall:
    """A clock that is set by hand."""

    def __init__(self, at_ms: int) -> None:
        self.at_ms = at_ms

    def now_ms(self) -> int:
        return self.at_ms


class _Machine:
    """A wall clock that jumps, and a monotonic one that doesn't."""

    def __init__(self) -> None:
        self.wall = _Wall(1_000_000)
        self.up_ms = 0
        self.clock = SteadyClock(self.wall, lambda: self.up_ms)

    def wait(self, ms: int, jump_ms: int = 0) -> int:
        self.up_ms += ms
        self.wall.at_ms += ms + jump_ms
        return self.clock.now_ms()


@given(st.lists(st.tuples(st.integers(0, 10_000), st.integers(-(10**9), 10**9)), max_size=30))
def test_time_never_goes_back_and_never_stands_still(steps: list[tuple[int, int]]) -> None:
    """Over any jumps, each wait brings the time on by at least what was waited."""
    machine = _Machine()
    before = machine.clock.now_ms()
    for wait_ms, jump_ms in steps:
        now = machine.wait(wait_ms, jump_ms)
        assert now >= before + wait_ms
        before = now


def test_a_clock_set_back_is_caught_up_with() -> None:
    """After a year ahead and back, time goes on from there; then the clock is used again."""
    machine = _Machine()
    year = 365 * 86_400_000
    ahead = machine.wait(0, year)
    assert machine.wait(5_000, -year) == ahead + 5_000
    assert machine.wait(year) == ahead + 5_000 + year
    assert machine.wait(1, 10 * year) == machine.wall.at_ms


def test_a_journal_from_the_future_is_gone_on_from() -> None:
    """What is known to have been reached isn't gone back behind."""
    machine = _Machine()
    machine.clock.not_before(2_000_000)
    assert machine.wait(10) == 2_000_010
