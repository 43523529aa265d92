"""Blobs in one stream: however it is cut into pieces, and whatever is wrong with it."""

import hashlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.model.errors import StellwerkError
from stellwerk.server import framing
from stellwerk.server.framing import Frames

HASH = "a" * 64


def framed(contents: Sequence[bytes]) -> bytes:
    return b"".join(
        b"%b %d\n%b" % (hashlib.sha256(one).hexdigest().encode(), len(one), one) for one in contents
    )


@given(st.lists(st.binary(max_size=300), max_size=8), st.integers(1, 400))
def test_what_went_in_comes_out(contents: list[bytes], size: int) -> None:
    """In its order, for pieces of any size."""
    stream, frames = framed(contents), Frames()
    found = [
        blob for at in range(0, len(stream), size) for blob in frames.feed(stream[at : at + size])
    ]
    frames.end()
    assert [blob.data for blob in found] == contents
    assert all(hashlib.sha256(blob.data).hexdigest() == blob.hash for blob in found)
    assert frames.count == len(contents)


@given(st.lists(st.binary(min_size=1, max_size=50), min_size=1, max_size=4), st.data())
def test_a_stream_that_is_cut_is_told(contents: list[bytes], data: st.DataObject) -> None:
    """Anywhere but between two blobs."""
    stream = framed(contents)
    whole = {len(framed(contents[:n])) for n in range(len(contents) + 1)}
    at = data.draw(st.integers(1, len(stream) - 1).filter(lambda n: n not in whole))
    frames = Frames()
    list(frames.feed(stream[:at]))
    with pytest.raises(StellwerkError, match="middle of its blob"):
        frames.end()


@pytest.mark.parametrize(
    "stream",
    [
        b"x" * 200,
        f"{HASH}\n".encode(),
        f"{HASH} -1\n".encode(),
        f"{HASH} 1e3\n".encode(),
        f"{HASH} {'9' * 9}\n".encode(),
        f"{HASH[:63]} 1\nx".encode(),
        f"{HASH} \u0661\nx".encode(),
        b"\n",
    ],
)
def test_what_is_no_batch_is_refused_in_words(stream: bytes) -> None:
    """At once, without waiting for more."""
    with pytest.raises(StellwerkError, match="should begin is no line"):
        list(Frames().feed(stream))


def test_limits_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the bytes of the one too many, or too large, are taken."""
    with pytest.raises(StellwerkError, match="larger than 8 MiB"):
        list(Frames().feed(f"{HASH} {framing.BLOB_BYTES + 1}\n".encode()))
    monkeypatch.setattr(framing, "BLOBS", 2)
    with pytest.raises(StellwerkError, match="at most 2 blobs"):
        list(Frames().feed(framed([b"1", b"2", b"3"])))
