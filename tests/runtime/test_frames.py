"""Frames come out of a stream as they went in, however it is cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.runtime import frames

KINDS = st.sampled_from([frames.INPUT, frames.OUTPUT, frames.ERRORS, frames.ENDED])
FRAMES = st.lists(st.tuples(KINDS, st.binary(max_size=40)), max_size=8)


@given(sent=FRAMES, cuts=st.lists(st.integers(1, 17), min_size=1, max_size=9))
def test_frames_survive_any_cutting(sent: list[frames.Frame], cuts: list[int]) -> None:
    """Each frame once, whole and in order; nothing is left over."""
    stream = b"".join(frames.frame(kind, content) for kind, content in sent)
    reader = frames.FrameReader()
    heard: list[frames.Frame] = []
    place = turn = 0
    while place < len(stream):
        size = cuts[turn % len(cuts)]
        heard += reader.frames(stream[place : place + size])
        place, turn = place + size, turn + 1
    assert heard == sent


@given(rows=st.integers(0, 0xFFFF), columns=st.integers(0, 0xFFFF), count=st.integers(0, 2**32 - 1))
def test_numbers_are_read_as_they_were_said(rows: int, columns: int, count: int) -> None:
    """The size of a window, and how much input was taken."""
    [(_, size), (_, taken)] = frames.FrameReader().frames(
        frames.size(rows, columns) + frames.taken(count)
    )
    assert frames.read_size(size) == (rows, columns)
    assert frames.read_taken(taken) == count


def test_what_is_no_frame_is_refused() -> None:
    """A length beyond all measure, and numbers of the wrong length."""
    with pytest.raises(frames.FrameError, match="larger than"):
        frames.FrameReader().frames(b"i\xff\xff\xff\xff")
    with pytest.raises(frames.FrameError, match="four bytes"):
        frames.read_size(b"abc")
    with pytest.raises(frames.FrameError, match="four bytes"):
        frames.read_taken(b"")
