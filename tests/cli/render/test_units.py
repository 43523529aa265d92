"""Amounts and times as people read them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.cli.render.units import age, clock, duration, plural, rfc3339, size

NOW = 1_700_000_000_000


@pytest.mark.parametrize(
    ("count", "told"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (1000, "1000 B"),
        (1024, "1 KiB"),
        (1536, "1.5 KiB"),
        (20 * 2**20, "20 MiB"),
        (24.4 * 2**30, "24.4 GiB"),
        (1000 * 2**30, "1000 GiB"),
        (1300 * 2**30, "1.27 TiB"),
    ],
)
def test_sizes(count: float, told: str) -> None:
    """Three digits, or all before the point; binary units."""
    assert size(count) == told


@given(st.integers(0, 2**70))
def test_a_size_is_never_long(count: int) -> None:
    """It fits a column, whatever it is."""
    assert len(size(count)) < 12


@pytest.mark.parametrize(
    ("ms", "told"),
    [
        (0, "0 ms"),
        (999, "999 ms"),
        (1000, "1.0 s"),
        (59_900, "59.9 s"),
        (60_000, "1 min"),
        (190_000, "3 min 10 s"),
        (3_000_000, "50 min"),
        (7_500_000, "2 h 05 min"),
        (90_000_000, "1 d 1 h"),
        (86_400_000, "1 d"),
        (-5000, "-5.0 s"),
    ],
)
def test_durations(ms: int, told: str) -> None:
    """The two largest units."""
    assert duration(ms) == told


@pytest.mark.parametrize(
    ("ago_ms", "told"),
    [
        (0, "0 s"),
        (59_999, "59 s"),
        (60_000, "1 min"),
        (3_600_000, "1 h"),
        (200_000_000, "2 d"),
        (-5, "0 s"),
    ],
)
def test_ages(ago_ms: int, told: str) -> None:
    """One coarse unit; a clock that is off makes nothing negative."""
    assert age(NOW - ago_ms, NOW) == told


def test_what_has_not_happened_has_no_age() -> None:
    """A dash instead of fifty years."""
    assert age(None, NOW) == "-"
    assert age(0, NOW) == "-"


def test_times_of_day_carry_the_date_when_it_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Today needs no date."""
    assert len(clock(NOW - 1000, NOW)) == 8
    assert len(clock(NOW - 10 * 86_400_000, NOW)) == 19


def test_data_carries_whole_times() -> None:
    """UTC with milliseconds."""
    assert rfc3339(NOW + 7) == "2023-11-14T22:13:20.007Z"


def test_words_agree_with_numbers() -> None:
    """One file, two files, two thousand files."""
    assert [plural(n, "file") for n in (0, 1, 2000)] == ["0 files", "1 file", "2,000 files"]
    assert plural(2, "entry", "entries") == "2 entries"
