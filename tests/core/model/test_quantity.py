"""Amounts are read exactly, in both notations, and written so that they read back the same."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.model.quantity import (
    DAY_MS,
    GIB,
    HOUR_MS,
    LARGEST,
    MIB,
    MINUTE_MS,
    Amount,
    BadQuantity,
    parse_cpus,
    parse_duration,
    parse_memory,
    parse_size,
    show_bytes,
    show_cpus,
    show_duration,
    write_amount,
    write_bytes,
    write_cpus,
    write_duration,
)

amounts = st.integers(min_value=1, max_value=LARGEST)


@pytest.mark.parametrize(
    ("written", "milli", "at_least"),
    [
        ("4", 4000, False),
        pytest.param(4, 4000, False, id="int"),
        ("4+", 4000, True),
        (0.5, 500, False),
        ("500m", 500, False),
        ("1500m+", 1500, True),
        (" 2 ", 2000, False),
        ("0.0001", 1, False),
        ("1e2", 100_000, False),
    ],
)
def test_cpus(written: str | float, milli: int, at_least: bool) -> None:
    """Whole CPUs, fractions and milli-CPUs; what is smaller than the unit is rounded up."""
    assert parse_cpus(written) == Amount(milli, at_least)


@pytest.mark.parametrize(
    ("written", "size", "at_least"),
    [
        ("16", 16 * GIB, False),
        ("16+", 16 * GIB, True),
        ("16GB+", 16 * GIB, True),
        ("16.0+", 16 * GIB, True),
        ("64Gi", 64 * GIB, False),
        ("64gib", 64 * GIB, False),
        ("512MB", 512 * MIB, False),
        ("500m", 500 * MIB, False),
        ("1.5G", GIB + GIB // 2, False),
        ("1Ti", 1024 * GIB, False),
        ("10b", 10, False),
        (0.1, 107374183, False),
    ],
)
def test_memory(written: str | float, size: int, at_least: bool) -> None:
    """A bare number is GiB, every unit a power of 1024, and a part of a byte a whole one."""
    assert parse_memory(written) == Amount(size, at_least)


def test_another_unit_for_bare_numbers() -> None:
    """Batch scripts count memory in MiB and times in minutes."""
    assert parse_memory("4000", bare=MIB) == Amount(4000 * MIB)
    assert parse_duration("90", bare=MINUTE_MS) == 90 * MINUTE_MS


@pytest.mark.parametrize(
    ("written", "span_ms"),
    [
        ("30m", 30 * MINUTE_MS),
        ("2h", 2 * HOUR_MS),
        ("1d12h", DAY_MS + 12 * HOUR_MS),
        ("1d 12 h", DAY_MS + 12 * HOUR_MS),
        ("1.5h", 90 * MINUTE_MS),
        ("2 hours", 2 * HOUR_MS),
        ("250ms", 250),
        ("2W", 14 * DAY_MS),
        (90, 90_000),
        ("0s", 0),
    ],
)
def test_durations(written: str | float, span_ms: int) -> None:
    """Parts add up; a number alone counts in seconds."""
    assert parse_duration(written) == span_ms


@pytest.mark.parametrize("written", ["", "+", "four", "-4", "4 GB", "nan", "1/2", "4++", "0", True])
def test_what_is_no_number_of_cpus(written: str) -> None:
    """Nonsense is a value with a remedy, not an exception."""
    bad = parse_cpus(written)
    assert isinstance(bad, BadQuantity)
    assert "`4+`" in bad.help


@pytest.mark.parametrize(
    "written", ["", "16XB", "GB", "16 G B", "0", "-1", "1e99", "9" * 25, "1_0"]
)
def test_what_is_no_memory(written: str) -> None:
    """Unknown units, nothing at all, and more than any machine has."""
    assert isinstance(parse_memory(written), BadQuantity)


@pytest.mark.parametrize("written", ["", "h", "2x", "2h30", "-1h", "1d-2h", "9" * 19 + "w"])
def test_what_is_no_duration(written: str) -> None:
    """A number without a unit after a part with one is ambiguous."""
    assert isinstance(parse_duration(written), BadQuantity)


def test_a_long_text_is_shortened_in_the_message() -> None:
    """A message stays a line."""
    bad = parse_size("x" * 10_000)
    assert isinstance(bad, BadQuantity)
    assert len(bad.message) < 80


@given(amounts, st.booleans())
def test_round_trips(value: int, at_least: bool) -> None:
    """What is written reads back as the same amount, in each unit."""
    amount = Amount(value, at_least)
    assert parse_memory(write_amount(amount, write_bytes)) == amount
    assert parse_cpus(write_amount(amount, write_cpus)) == amount
    assert parse_size(write_bytes(value)) == value
    assert parse_duration(write_duration(value)) == value


@given(st.integers(1, 10**6), st.integers(0, 3))
def test_a_request_never_shrinks(digits: int, places: int) -> None:
    """A decimal number gives at least what it says, and less than a unit more."""
    text = f"{digits // 10**places}.{digits % 10**places:0{places}d}" if places else str(digits)
    amount = parse_memory(text)
    assert isinstance(amount, Amount)
    assert 0 <= amount.value * 10**places - digits * GIB < 10**places


@given(st.text(max_size=60))
def test_no_text_raises(text: str) -> None:
    """Any text gives an amount or a reason."""
    for parse in (parse_cpus, parse_memory, parse_size, parse_duration):
        assert parse(text) is not None


def test_for_people() -> None:
    """Rounded to what a person reads at a glance."""
    assert [show_cpus(n) for n in (4000, 1500, 250)] == ["4", "1.5", "0.25"]
    assert show_bytes(18 * GIB - 1) == "18 GiB"
    assert show_bytes(int(17.52 * GIB)) == "17.5 GiB"
    assert show_bytes(212 * GIB + GIB // 4) == "212 GiB"
    assert show_bytes(900) == "900 B"
    assert show_duration(130 * MINUTE_MS) == "2 h 10 min"
    assert show_duration(DAY_MS) == "1 d"
    assert show_duration(45_200) == "45 s"
    assert show_duration(0) == "0 s"
