"""Decides how much a text may hold, and where its documents begin."""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

LARGEST_TEXT = 2 * 1024 * 1024
MOST_VALUES = 20_000
MOST_EXPANDED = 50_000
MOST_WORDS = 50_000
"""Of so many words what they mean is remembered: keys and many values come again and again."""
_DOCUMENT = re.compile(r"^---(?=[ \t\r\n]|\Z)", re.MULTILINE)
_EMPTY = re.compile(r"(?:[ \t\r]*(?:[#%][^\n]*|(?:---|\.\.\.)[ \t\r]*)?(?:\n|\Z))*")


class Bounds(Struct, frozen=True):
    """How much one text may hold; `what` it is called and the `remedy` are for people."""

    text: int = LARGEST_TEXT
    values: int = MOST_VALUES
    expanded: int = MOST_EXPANDED
    what: str = "a task file"
    remedy: str = "put data and programs into files and name them under `workdir` or `file_mounts`"


TASK_FILE = Bounds()


def split_documents(text: str) -> Iterator[tuple[int, str]]:
    """The documents of a text, each with the number of lines before it.

    A line that begins with `---` divides documents wherever it stands: YAML allows no value that
    holds one.
    """
    start, line = 0, 0
    for mark in _DOCUMENT.finditer(text):
        part = text[start : mark.start()]
        if not _EMPTY.fullmatch(part):
            yield line, part
        line += part.count("\n")
        start = mark.start()
    if not _EMPTY.fullmatch(text[start:]):
        yield line, text[start:]


class Budget:
    """What one text may still cost, over all of its documents."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self.values = 0
        self.expanded = 0
        self.words: dict[str, str] = {}
        self._texts: dict[str, str] = {}

    def same(self, text: str) -> str:
        """The text itself, or an equal one read before, so that it is kept only once."""
        texts = self._texts
        if len(texts) < MOST_WORDS:
            return texts.setdefault(text, text)
        return texts.get(text, text)

    @property
    def spent(self) -> bool:
        """Whether nothing more may be read."""
        return self.values > self.bounds.values or self.expanded > self.bounds.expanded
