"""What `stw data` prints for people."""

import pytest
from msgspec.structs import replace

from stellwerk.cli.commands.data import copy_line, machine_of, read_size, state_of
from stellwerk.core.model.data_there import DataCopy, DataThere
from stellwerk.core.model.errors import StellwerkError

COMMIT = "c0ffee" * 6 + "0123"
WORDS = "hf://datasets/lab/words"
COPY = DataCopy(1, WORDS, COMMIT, "k017/pc1", "k017", "pc2", total_bytes=4 * 2**30)


def test_how_whole_something_is() -> None:
    """Half says how much lacks, where that is known; a machine alone isn't named twice."""
    half = DataThere("k017", "pc1", WORDS, COMMIT, whole="half", missing_bytes=2**30)
    assert state_of(half) == "half, lacks 1 GiB"
    assert state_of(DataThere("a", "a", WORDS, COMMIT, whole="half")) == "half"
    assert state_of(DataThere("a", "a", WORDS, COMMIT, whole="links")) == "whole, not proved"
    assert (machine_of(half), machine_of(DataThere("a", "a", WORDS, COMMIT))) == ("k017/pc1", "a")


@pytest.mark.parametrize(
    ("copy", "said"),
    [
        (COPY, "waits for the copy before it"),
        (replace(COPY, state="copying", done_bytes=2**30), "1 GiB of 4 GiB (25 %)"),
        (replace(COPY, state="failed", message="the disk is full"), "the disk is full"),
        (replace(COPY, state="done", ended_ms=2000, note="slowly"),
         "4 GiB are there, after 2.0 s (slowly)"),
    ],
)  # fmt: skip
def test_how_far_a_copy_is(copy: DataCopy, said: str) -> None:
    """What goes where, and how much of it is there."""
    assert copy_line(copy) == f"datasets/lab/words@c0ffeec0ffee: k017/pc1 -> k017/pc2: {said}"


def test_sizes_are_read() -> None:
    """With a unit; what is none is refused with an example."""
    assert (read_size("20GB"), read_size(None)) == (20 * 2**30, None)
    with pytest.raises(StellwerkError, match="no size"):
        read_size("much")
