"""Index sets, sweeps and what may be waited for, as they are written."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.describe.arrays import (
    MOST_ELEMENTS,
    Indices,
    Waits,
    read_after,
    read_array,
    read_dependency,
    read_sweep,
)


@pytest.mark.parametrize(
    ("written", "indices", "limit"),
    [
        ("0-3", (0, 1, 2, 3), 0),
        ("1,5,9%2", (1, 5, 9), 2),
        ("0-9:4", (0, 4, 8), 0),
        ("3, 0-4", (3, 0, 1, 2, 4), 0),
        ("%8", (), 8),
        ("7", (7,), 0),
    ],
)
def test_index_sets(written: str, indices: tuple[int, ...], limit: int) -> None:
    """As Slurm writes them; each index once, in the order of writing."""
    found = read_array(written)
    assert isinstance(found, Indices)
    assert (found.indices, found.limit) == (indices, limit)


@pytest.mark.parametrize("written", ["0-4000001", "0-10000000", "99999999999"])
def test_an_index_that_is_too_high_is_told_as_such(written: str) -> None:
    """However many digits it has."""
    assert read_array(written) == "indices go up to 4,000,000"


@pytest.mark.parametrize(
    "written",
    ["", "a", "3-1", "0-9:0", "1,,2", "-1", "0-9%", "0-9%x", "0-9%0", "1-4000001", "0-100000",
     ",".join(["0-60000"] * 2), "٣"],
)  # fmt: skip
def test_what_is_no_index_set(written: str) -> None:
    """Said in words, before anything large is made."""
    assert isinstance(read_array(written), str)


@given(st.text(alphabet="0123456789-,:% ax", max_size=30))
def test_any_text_is_read_or_told(written: str) -> None:
    """Never an error, and never more elements than there may be."""
    found = read_array(written)
    assert isinstance(found, str) or len(found.indices) <= MOST_ELEMENTS


def test_a_sweep_is_every_combination() -> None:
    """The last variable changes fastest."""
    found = read_sweep({"lr": ["1", "2"], "bs": ["8", "16"]})
    assert found == [
        {"lr": "1", "bs": "8"},
        {"lr": "1", "bs": "16"},
        {"lr": "2", "bs": "8"},
        {"lr": "2", "bs": "16"},
    ]
    assert isinstance(read_sweep({name: list(map(str, range(100))) for name in "abc"}), str)
    assert isinstance(read_sweep({"a": []}), str)


def test_what_may_be_waited_for() -> None:
    """A name alone means that it must have succeeded."""
    assert read_after("a, fail:b,any:c") == [
        Waits("ok", "a"),
        Waits("fail", "b"),
        Waits("any", "c"),
    ]
    assert read_dependency("afterok:a:b,afternotok:c") == [
        Waits("ok", "a"),
        Waits("ok", "b"),
        Waits("fail", "c"),
    ]
    for wrong in ("", "soon:a", "ok:", ":a"):
        assert isinstance(read_after(wrong), str), wrong
    for wrong in ("singleton", "afterok", "afterok::a", "aftercorr:a", "afterok:a?afterany:b"):
        assert isinstance(read_dependency(wrong), str), wrong
