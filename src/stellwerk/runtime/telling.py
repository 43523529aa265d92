"""Carries word from a wrapper to whatever agent is there: lines of JSON in the agent's FIFO.

A line says that the files of a run are worth a look, or brings a sample, which no file keeps.
Without an agent nothing is lost: the next one reads the files.
"""

from __future__ import annotations

import errno
import os

from .files import JSONObject, to_json

_ATOMIC_BYTES = 4096
_BLOCK_BYTES = 65_536
_LONGEST_LINE = 1 << 20


def tell(inbox: str, line: JSONObject) -> bool:
    """Write one line; False when the agent is too busy to take it and it is worth a second try."""
    try:
        fifo = os.open(inbox, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return error.errno not in {errno.EAGAIN, errno.EMFILE, errno.ENFILE}
    try:
        os.write(fifo, (to_json(line) + b"\n")[:_ATOMIC_BYTES])
    except BlockingIOError:
        return False
    except OSError:
        return True
    finally:
        os.close(fifo)
    return True


def make_fifo(path: str) -> int:
    """Create a FIFO for its user only, and open it so that it never looks closed."""
    if not os.path.exists(path):
        os.mkfifo(path, 0o600)
    return os.open(path, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)


class LineReader:
    """Puts the bytes of a FIFO together to lines."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._rest = b""

    def lines(self) -> list[bytes]:
        """Complete lines that are there now. Of much, a part at a time: somebody who writes without
        end holds up nothing else.
        """
        try:
            self._rest += os.read(self.descriptor, _BLOCK_BYTES)
        except BlockingIOError:
            return []
        *complete, self._rest = self._rest.split(b"\n")
        if len(self._rest) > _LONGEST_LINE:
            self._rest = b""
        return complete
