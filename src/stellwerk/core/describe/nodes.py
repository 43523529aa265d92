"""What a text was read as: values that remember where they stand, and the report on them.

A `Node` is a value of a document with its line and column; a `Report` gathers everything that is
wrong or worth telling, so that a person gets all of it at once.
"""

from __future__ import annotations

from typing import Any, Literal

from stellwerk.core.model.errors import Notice, Problem, SpecError

Kind = Literal["scalar", "list", "map"]
MOST_PROBLEMS = 100
"""More than this nobody reads; the rest is counted."""


_NOTHING: list[Any] = []
"""What is in a scalar: one empty list for all of them, as most values are scalars."""


class Entry:
    """One `key: value` of a map; `key` is text as SkyPilot would see it (`on` becomes `True`)."""

    __slots__ = ("key", "key_node", "value")

    def __init__(self, key: str, key_node: Node, value: Node) -> None:
        self.key = key
        self.key_node = key_node
        self.value = value


class Node:
    """A value with its place; lines and columns count from 1, offsets from 0.

    `value` is the Python value of a scalar, and `written` what stands there if that is no text
    (else it isn't set). `size` and `height` count an anchored value wherever
    it is used, so they bound the work of anyone who walks the tree.
    """

    __slots__ = ("column", "end", "entries", "height", "items", "kind", "line", "size", "start",
                 "value", "written")  # fmt: skip
    written: str

    def __init__(self, kind: Kind, line: int, column: int, value: Any = None) -> None:
        self.kind: Kind = kind
        self.line = line
        self.column = column
        self.value = value
        self.items: list[Node] = _NOTHING if kind == "scalar" else []
        self.entries: list[Entry] = _NOTHING if kind == "scalar" else []
        self.size = 1
        self.height = 1
        self.start = 0
        self.end = 0

    @property
    def is_null(self) -> bool:
        """Whether nothing was written, or `null`, or `~`."""
        return self.kind == "scalar" and self.value is None

    @property
    def text(self) -> str | None:
        """The text of a scalar that is a text."""
        return self.value if isinstance(self.value, str) else None

    def get(self, key: str) -> Node | None:
        """The value under a key of a map; None if it isn't there or nothing was written."""
        for entry in self.entries:
            if entry.key == key:
                return None if entry.value.is_null else entry.value
        return None

    def plain(self) -> Any:
        """The value as plain Python data, with dates as text."""
        if self.kind == "list":
            return [item.plain() for item in self.items]
        if self.kind == "map":
            return {entry.key: entry.value.plain() for entry in self.entries}
        if self.value is None or isinstance(self.value, str | int | float | bool):
            return self.value
        return str(self.value)

    def as_text(self) -> str:
        """What stands in the text for a scalar, or would."""
        plain = str(self.value)
        written: str = getattr(self, "written", "")
        return written or (plain.lower() if isinstance(self.value, bool) else plain)

    def quoted(self) -> Node:
        """The same value, if it were written in quotes."""
        return Node("scalar", self.line, self.column, self.as_text())

    def what(self) -> str:
        """What it is, for a sentence: `a list`, `a number`, `text`."""
        if self.kind != "scalar":
            return f"a {self.kind}"
        if self.value is None:
            return "nothing"
        if isinstance(self.value, bool):
            return "true or false"
        if isinstance(self.value, int | float):
            return "a number"
        return "text" if isinstance(self.value, str) else "a date"

    def short(self) -> str:
        """The value of a scalar, shortened, in backticks; else what it is."""
        if self.kind != "scalar" or self.value is None:
            return self.what()
        text = self.as_text().split("\n", 1)[0]
        return f"`{text if len(text) <= 60 else text[:57] + '…'}`"


class Report:
    """Everything found in one text, in the order found; of problems, the first `most` are kept."""

    def __init__(self, file: str, most: int = MOST_PROBLEMS) -> None:
        self.file = file
        self.most = most
        self.problems: list[Problem] = []
        self.ignored: list[Notice] = []
        self.notices: list[Notice] = []
        self.uncounted = 0

    @property
    def full(self) -> bool:
        """Whether more problems would only be counted."""
        return len(self.problems) >= self.most

    @property
    def crowded(self) -> bool:
        """Whether so much was said that looking for what may be meant no longer helps anybody."""
        return self.full or len(self.ignored) >= MOST_PROBLEMS

    @property
    def told(self) -> bool:
        """Whether more notices would only be dropped."""
        return len(self.notices) >= MOST_PROBLEMS

    def problem(
        self, code: str, node: Node | None, path: str, message: str, help: str = ""
    ) -> None:
        """Something is wrong at a node, or without one (or its line) with a flag named `path`."""
        line, column = (node.line, node.column) if node else (0, 0)
        self.add(Problem(code, message, help, self.file if line else "", line, column, path))

    def add(self, problem: Problem) -> None:
        """Something that was found wrong elsewhere."""
        if self.full:
            self.uncounted += 1
        else:
            self.problems.append(problem)

    def ignore(self, node: Node, path: str, message: str) -> None:
        """A key is accepted and has no effect here; of very many only the first are told."""
        if len(self.ignored) >= MOST_PROBLEMS:
            return
        self.ignored.append(Notice("spec/ignored", message, "", path, node.line, node.column))

    def notice(self, code: str, node: Node | None, path: str, message: str, help: str = "") -> None:
        """Something is accepted that a person should know; of very many only the first."""
        if self.told:
            return
        line, column = (node.line, node.column) if node else (0, 0)
        self.notices.append(Notice(code, message, help, path, line, column))

    def finish(self) -> None:
        """Raise everything that is wrong, in the order of the places, if anything is."""
        if not self.problems:
            return
        problems = sorted(self.problems, key=lambda problem: (problem.line, problem.column))
        if self.uncounted:
            message = f"and {self.uncounted} more problems, which are not shown"
            problems.append(Problem("spec/more", message, file=self.file))
        raise SpecError(problems)
