"""Takes a stream apart that carries many blobs: for each a line `HASH LENGTH`, then so many bytes.

No more than one blob is held at a time, however the stream is cut into pieces; what breaks the form
or a limit is refused in words at the first byte that does.
"""

from collections.abc import Iterator
from typing import NamedTuple

from stellwerk.core.model.errors import StellwerkError

BLOB_BYTES = 8 * 2**20
"""What one blob of a batch may have; a larger one is sent alone."""

BLOBS = 20_000
"""So many blobs a batch may have."""

HASH_DIGITS = 64
LENGTH_DIGITS = 8
LONGEST_LINE = HASH_DIGITS + 1 + LENGTH_DIGITS


class Framed(NamedTuple):
    """One blob, and the hash that it is said to have."""

    hash: str
    data: bytes


class Frames:
    """Gives blobs as soon as they are whole."""

    def __init__(self) -> None:
        self._left = bytearray()
        self._hash = ""
        self._length = -1
        self.count = 0

    def feed(self, piece: bytes) -> Iterator[Framed]:
        """Takes the next bytes; gives what they complete."""
        self._left += piece
        at = 0
        while True:
            if self._length < 0:
                end = self._left.find(b"\n", at, at + LONGEST_LINE + 1)
                if end < 0:
                    if len(self._left) - at > LONGEST_LINE:
                        raise self._malformed()
                    break
                self._begin(bytes(self._left[at:end]))
                at = end + 1
            if len(self._left) - at < self._length:
                break
            data = bytes(self._left[at : at + self._length])
            at += self._length
            self._length = -1
            self.count += 1
            yield Framed(self._hash, data)
        del self._left[:at]

    def end(self) -> None:
        """Says that there is nothing more; refused in the middle of a blob."""
        if self._left or self._length >= 0:
            raise StellwerkError.of(
                "request/cut-off",
                f"the batch ends in the middle of its blob {self.count + 1}; none of it was kept",
                "send it again",
            )

    def _begin(self, line: bytes) -> None:
        name, _, length = line.partition(b" ")
        is_length = length.isdigit() and length.isascii() and len(length) <= LENGTH_DIGITS
        if len(name) != HASH_DIGITS or not is_length:
            raise self._malformed()
        if self.count >= BLOBS:
            raise StellwerkError.of(
                "request/too-large",
                f"a batch has at most {BLOBS:,} blobs; none of this one was kept",
                "send the rest in another batch",
            )
        if int(length) > BLOB_BYTES:
            raise StellwerkError.of(
                "request/too-large",
                f"blob {self.count + 1} of the batch is larger than {BLOB_BYTES >> 20} MiB; "
                "none of the batch was kept",
                "send that blob alone, with PUT /v1/blobs/{hash}",
            )
        self._hash, self._length = name.decode(errors="replace"), int(length)

    def _malformed(self) -> StellwerkError:
        return StellwerkError.of(
            "request/invalid",
            f"where blob {self.count + 1} of the batch should begin is no line `HASH LENGTH`; "
            "none of the batch was kept",
            "write the hash of 64 digits, a space, the number of bytes and a line end, "
            "then the bytes",
        )
