"""Counts what goes through the keeper of a guest, in memory that the wrapper and the keeper share.

The wrapper tells the keeper by the same way that the run was given notice.
"""

from __future__ import annotations

import mmap
import struct

_NUMBERS = struct.Struct("qqq")
_TYPED, _CARRIED, _GRACE = range(3)


class Meter:
    """Three numbers; each has one writer."""

    def __init__(self) -> None:
        self._shared = mmap.mmap(-1, _NUMBERS.size)

    @property
    def typed_bytes(self) -> int:
        """How much was typed at the guest's terminal."""
        return self._get(_TYPED)

    @property
    def carried_bytes(self) -> int:
        """How much went to and fro beside that."""
        return self._get(_CARRIED)

    @property
    def grace_s(self) -> int:
        """0, or one more than the seconds that the run was given with its notice."""
        return self._get(_GRACE)

    def count(self, bytes: int, *, typed: bool) -> None:
        """The keeper has carried so much."""
        self._add(_TYPED if typed else _CARRIED, bytes)

    def tell_notice(self, grace_ms: int) -> None:
        """The run was given notice."""
        self._put(_GRACE, 1 + max(0, grace_ms) // 1000)

    def close(self) -> None:
        """The keeper has gone, and its numbers were read."""
        self._shared.close()

    def _get(self, which: int) -> int:
        return int(_NUMBERS.unpack_from(self._shared)[which])

    def _add(self, which: int, number: int) -> None:
        self._put(which, self._get(which) + number)

    def _put(self, which: int, number: int) -> None:
        struct.pack_into("q", self._shared, which * 8, number)
