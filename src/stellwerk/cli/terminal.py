"""Knows what the terminal can show, and talks on stderr: narration, a transient line, questions.

Data goes to stdout, everything said about it to stderr. Without a terminal there is no colour, no
line that is overwritten, and no question.
"""

import os
import shutil
import sys
import threading
import time
from collections.abc import Mapping
from typing import NamedTuple, TextIO

STYLES = {
    "good": "32",
    "bad": "31",
    "warn": "33",
    "busy": "36",
    "faint": "2",
    "strong": "1",
}
TRANSIENT_AFTER_S = 1.0


class Terminal(NamedTuple):
    """What an output stream can show. Symbols and colours never carry meaning alone."""

    is_tty: bool
    colour: bool
    unicode: bool
    width: int

    def style(self, text: str, style: str) -> str:
        """Colours a text where that is wanted."""
        if not self.colour or style not in STYLES or not text:
            return text
        return f"\x1b[{STYLES[style]}m{text}\x1b[0m"


def terminal_of(
    stream: TextIO, env: Mapping[str, str] | None = None, *, ascii_only: bool = False
) -> Terminal:
    """Looks at a stream and at NO_COLOR, FORCE_COLOR, TERM and COLUMNS."""
    env = os.environ if env is None else env
    is_tty = stream.isatty()
    colour = is_tty and env.get("TERM") != "dumb" and not env.get("NO_COLOR")
    if env.get("FORCE_COLOR", "0") not in {"", "0"} and not env.get("NO_COLOR"):
        colour = True
    encoding = (stream.encoding or "ascii").lower().replace("-", "")
    width = shutil.get_terminal_size((100, 24)).columns if is_tty else 0
    return Terminal(is_tty, colour, not ascii_only and encoding.startswith("utf"), width)


class Narrator:
    """Says lines on stderr; keeps one transient line below them while there is nothing else.

    Raw output of a job goes to stdout through `data`, so that the two don't run into each other.
    """

    def __init__(self, *, quiet: bool = False, ascii_only: bool = False) -> None:
        self.terminal = terminal_of(sys.stderr, ascii_only=ascii_only)
        self._quiet = quiet
        self._transient = (
            self.terminal.is_tty and not quiet and not os.environ.get("STW_NO_PROGRESS")
        )
        self._shown = False
        self._at_line_start = True
        self._shares_screen = self.terminal.is_tty and sys.stdout.isatty()
        self._started = time.monotonic()
        self._lock = threading.RLock()

    @property
    def shows_progress(self) -> bool:
        """Whether a line can be shown that is written over."""
        return self._transient

    def say(self, line: str, style: str = "") -> None:
        """One line of narration."""
        if self._quiet:
            return
        with self._lock:
            self._clear()
            self._to_new_line()
            self._write(self.terminal.style(line, style) + "\n")

    def insist(self, line: str, style: str = "") -> None:
        """A line that is said even with `--quiet`."""
        with self._lock:
            self._clear()
            self._to_new_line()
            self._write(self.terminal.style(line, style) + "\n")

    def progress(self, line: str) -> None:
        """Replaces the transient line; nothing without a terminal or in the first second."""
        if not self._transient or time.monotonic() - self._started < TRANSIENT_AFTER_S:
            return
        with self._lock:
            if not self._at_line_start and self._shares_screen:
                return
            self._clear()
            self._write(self.terminal.style(line[: max(20, self.terminal.width - 1)], "faint"))
            self._shown = True

    def data(self, chunk: bytes) -> None:
        """Raw bytes of a job to stdout, at once."""
        with self._lock:
            self._clear()
            out = sys.stdout.buffer
            out.write(chunk)
            out.flush()
            self._at_line_start = chunk.endswith(b"\n")

    def end(self) -> None:
        """Takes the transient line away."""
        with self._lock:
            self._clear()

    def ask(self, question: str, answers: Mapping[str, str]) -> str:
        """Asks on the terminal until one of the answers (key: meaning) comes; gives its key."""
        choice = ", ".join(f"[{key}] {meaning}" for key, meaning in answers.items())
        with self._lock:
            self._clear()
            self._to_new_line()
            while True:
                self._write(f"{question}  {choice}, then Enter: ")
                typed = sys.stdin.readline()
                key = typed.strip()[:1].lower()
                if key in answers:
                    return key
                if not typed:
                    return next(iter(answers))

    def _clear(self) -> None:
        if self._shown:
            self._write("\r\x1b[K")
            self._shown = False

    def _to_new_line(self) -> None:
        if self._shares_screen and not self._at_line_start:
            self._write("\n")
            self._at_line_start = True

    @staticmethod
    def _write(text: str) -> None:
        sys.stderr.write(text)
        sys.stderr.flush()
