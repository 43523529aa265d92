"""Decides how a command inside a run is spoken with: frames, over whatever carries bytes both ways.

A frame is one letter, four bytes of length (most significant first) and so many bytes. The caller
sends COMMAND first, and never has more than WINDOW bytes of input under way that no TAKEN has
answered: so nobody on the way ever has to stop reading, and a hang-up is noticed at once.
"""

from __future__ import annotations

import struct

_HEAD = struct.Struct(">cI")
LARGEST = 4 * 1024 * 1024
"""Bytes that a frame holds at most: a command with its arguments."""
WINDOW = 256 * 1024
"""Bytes of input that may be under way."""
PIECE = 32 * 1024
"""Bytes of input or output in one frame, where there is more to send."""

COMMAND = b"c"
"""From the caller: JSON {argv, terminal, stdin, rows, columns, env}."""
INPUT = b"i"
"""From the caller: bytes for the command's standard input."""
END_OF_INPUT = b"e"
"""From the caller: no more of them."""
SIZE = b"w"
"""From the caller: rows and columns of its window, two bytes each."""
SIGNAL = b"s"
"""From the caller: one byte, the signal for the command and what it has started."""

OUTPUT = b"o"
"""To the caller: bytes of standard output, or of the terminal."""
ERRORS = b"r"
"""To the caller: bytes of standard error."""
TAKEN = b"k"
"""To the caller: four bytes, how much input has been taken since the last one."""
ENDED = b"x"
"""To the caller, last: JSON {code} of the command, with {error: {code, message}} if it is ours."""

_COUNT = struct.Struct(">I")
_SIZE = struct.Struct(">HH")
Frame = tuple[bytes, bytes]


class FrameError(ValueError):
    """What came is no frame."""


def frame(kind: bytes, content: bytes = b"") -> bytes:
    """One frame as bytes."""
    return _HEAD.pack(kind, len(content)) + content


def taken(count: int) -> bytes:
    """A frame that says how much input was taken."""
    return frame(TAKEN, _COUNT.pack(count))


def read_taken(content: bytes) -> int:
    """What such a frame says. Raises FrameError."""
    try:
        return int(_COUNT.unpack(content)[0])
    except struct.error as error:
        raise FrameError("a count of input has four bytes") from error


def size(rows: int, columns: int) -> bytes:
    """A frame that tells the size of a window."""
    return frame(SIZE, _SIZE.pack(min(rows, 0xFFFF), min(columns, 0xFFFF)))


def read_size(content: bytes) -> tuple[int, int]:
    """Rows and columns that such a frame tells. Raises FrameError."""
    try:
        rows, columns = _SIZE.unpack(content)
    except struct.error as error:
        raise FrameError("the size of a window has four bytes") from error
    return rows, columns


class FrameReader:
    """Puts the bytes of a stream together to frames."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def frames(self, data: bytes) -> list[Frame]:
        """The frames that are whole now. Raises FrameError."""
        self._rest += data
        found: list[Frame] = []
        start = 0
        while len(self._rest) - start >= _HEAD.size:
            kind, length = _HEAD.unpack_from(self._rest, start)
            if length > LARGEST:
                raise FrameError(f"a frame of {length} bytes is larger than {LARGEST}")
            end = start + _HEAD.size + length
            if len(self._rest) < end:
                break
            found.append((kind, bytes(self._rest[start + _HEAD.size : end])))
            start = end
        del self._rest[:start]
        return found
