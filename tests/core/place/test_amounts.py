"""Amounts as people read them: what is offered can be asked for as it is written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.model.quantity import Amount, parse_cpus, parse_memory
from stellwerk.core.place.amounts import amount, apart, digits, limit_that_admits

GIB = 1 << 30
SIZES = st.one_of(st.integers(1, 1 << 21), st.integers(1, 1 << 45), st.just(GIB))


def read(text: str) -> int:
    """A size as the task file would be understood."""
    found = parse_memory(text.replace(" ", ""))
    assert isinstance(found, Amount), text
    return found.value


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (1500, "milli", "1.5"),
        (16_000, "milli", "16"),
        (0, "milli", "0"),
        (16 * GIB, "bytes", "16 GiB"),
        (GIB // 2, "bytes", "512 MiB"),
        (1500 * GIB, "bytes", "1.46 TiB"),
        (16_700_000_000, "bytes", "15.6 GiB"),
        (0, "bytes", "0 B"),
        (1, "bytes", "1 B"),
        (7, "", "7"),
    ],
)
def test_amounts_read_well(value: int, unit: str, text: str) -> None:
    """Whole numbers stay whole, sizes have three digits."""
    assert amount(value, unit) == text


@given(SIZES)
def test_what_is_written_down_is_there(size: int) -> None:
    """Rounded down, the text never asks for more than there is, and for little less."""
    written = read(amount(size, "bytes", down=True))
    assert written <= size
    assert size - written <= size // 100 + 1


@given(st.integers(1, 10**7))
def test_cpus_are_written_exactly(milli: int) -> None:
    """Nothing of a CPU is lost between screen and task file."""
    found = parse_cpus(amount(milli, "milli", down=True))
    assert isinstance(found, Amount)
    assert found.value == milli


@given(SIZES, SIZES)
def test_two_sizes_that_differ_look_different(one: int, other: int) -> None:
    """`16 GiB asked, 16 GiB free` would explain nothing."""
    wanted, less = max(one, other), min(one, other)
    if wanted != less:
        assert apart(wanted, less, "bytes") != amount(less, "bytes", down=True)


def test_sizes_that_nearly_agree_get_more_digits() -> None:
    """Only then, and only as many as it takes."""
    assert apart(16 * GIB, 15 * GIB, "bytes") == "16 GiB"
    assert apart(16 * GIB + 10_000_000, 16 * GIB, "bytes") == "16.01 GiB"
    assert apart(16 * GIB + 1, 16 * GIB, "bytes") == "16.000000001 GiB"


@given(st.floats(0.001, 1e9))
def test_a_limit_that_is_told_admits_the_number_it_was_made_for(value: float) -> None:
    """Read back as it is written, it isn't below the number, and at most a cent above it."""
    written = digits(limit_that_admits(value))
    assert "e" not in written
    assert value <= float(written) <= value + 0.010001


def test_numbers_keep_their_cents_however_large_they_are() -> None:
    """A budget of a training has more than six digits."""
    assert digits(limit_that_admits(12_345.63)) == "12345.63"
    assert digits(limit_that_admits(1_234_567.891)) == "1234567.9"
    assert digits(limit_that_admits(9.0)) == "9"
    assert digits(limit_that_admits(79.30000000000001)) == "79.31"
