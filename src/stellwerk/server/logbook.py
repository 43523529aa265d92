"""Writes what the server has to say: one line per event, to stderr, which turns over at 10 MiB.

The file is the standard error itself, so that what the interpreter or a library prints lies in it
too. When it has grown enough it is renamed to `server.log.1` and a new one takes its descriptor.
"""

import json
import logging
import os
import sys
import time

LARGEST = 10 * 2**20


class LineFormatter(logging.Formatter):
    """`2026-11-30T16:45:01.123Z INFO stellwerk.engine text`; a traceback is one JSON string."""

    def format(self, record: logging.LogRecord) -> str:
        """One record, one line."""
        clock = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        text = record.getMessage().replace("\\", "\\\\").replace("\n", "\\n")
        line = f"{clock}.{int(record.msecs):03d}Z {record.levelname} {record.name} {text}"
        if record.exc_info:
            line += f" trace={json.dumps(self.formatException(record.exc_info))}"
        return line


class StderrHandler(logging.Handler):
    """Writes lines to descriptor 2, and turns its file over when `path` is that file."""

    def __init__(self, path: str = "", largest: int = LARGEST) -> None:
        super().__init__()
        self.path = path
        self.largest = largest
        self.setFormatter(LineFormatter())

    def emit(self, record: logging.LogRecord) -> None:
        """A log that can't be written must not stop the server."""
        try:
            os.write(2, (self.format(record) + "\n").encode(errors="replace"))
            if self.path and os.fstat(2).st_size > self.largest:
                self._turn_over()
        except OSError:
            pass  # a full disk or a closed terminal: the next line may fare better

    def _turn_over(self) -> None:
        """Makes the new file first: where that can't be done the old one is written on."""
        fd = _open(self.path + ".new")
        os.replace(self.path, self.path + ".1")
        os.replace(self.path + ".new", self.path)
        _become_stderr(fd)


def write_stderr_to(path: str) -> None:
    """Makes standard output and standard error the end of a file that only its user can read."""
    _become_stderr(_open(path))


def _open(path: str) -> int:
    return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)


def _become_stderr(fd: int) -> None:
    os.dup2(fd, 1, inheritable=True)
    os.dup2(fd, 2, inheritable=True)
    if fd > 2:
        os.close(fd)


def begin(path: str, *, to_terminal: bool) -> None:
    """Sets up logging for the whole process; `to_terminal` leaves the standard error as it is."""
    if not to_terminal:
        sys.stderr.flush()
        write_stderr_to(path)
    root = logging.getLogger()
    root.handlers[:] = [StderrHandler("" if to_terminal else path)]
    root.setLevel(logging.WARNING)
    logging.getLogger("stellwerk").setLevel(logging.INFO)
