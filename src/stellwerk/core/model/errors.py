"""Says what is wrong with something a person gave us: every problem at once, each with its place.

    StellwerkError            anything that is reported to a person by code, place and remedy
    └── SpecError             a task file, script or flag that cannot be understood or accepted

A `Problem` is data: it travels as JSON through the API unchanged, and `str()` gives the one line
that a terminal shows. Codes are interface (`spec/unknown-field`); messages are text.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec


class Problem(msgspec.Struct, frozen=True, omit_defaults=True):
    """One thing that is wrong, or (in a `SpecError`) one of several found in the same text.

    `line` and `column` count from 1; 0 means that the place isn't known. `path` is the way to the
    value inside the document (`resources.any_of[1].cpus`).
    """

    code: str
    message: str
    help: str = ""
    file: str = ""
    line: int = 0
    column: int = 0
    path: str = ""

    @property
    def place(self) -> str:
        """`train.yaml:3:3`, or as much of it as is known, or nothing."""
        parts = [self.file] if self.file else []
        if self.line:
            parts.append(str(self.line))
            if self.column:
                parts.append(str(self.column))
        return ":".join(parts)

    def __str__(self) -> str:
        line = f"error[{self.code}]"
        for part in (self.place, self.message, f"help: {self.help}" if self.help else ""):
            if part:
                line += f"  {part}"
        return line if line.isprintable() else "".join(map(_shown, line))


def _shown(char: str) -> str:
    """A character as it can be shown: what steers a terminal would change what it shows."""
    return char if char.isprintable() or char == "\n" else ascii(char)[1:-1]


class Notice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Something accepted that a person should know: a key that has no effect here, and why."""

    code: str
    message: str
    help: str = ""
    path: str = ""
    line: int = 0
    column: int = 0


class StellwerkError(Exception):
    """Carries every problem found, in the order of their places."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems: tuple[Problem, ...] = tuple(problems)
        if not self.problems:
            raise ValueError("an error needs at least one problem")
        super().__init__("\n".join(str(problem) for problem in self.problems))

    @classmethod
    def of(cls, code: str, message: str, help: str = "") -> StellwerkError:
        """The common case of one problem without a place."""
        return cls([Problem(code, message, help)])


class SpecError(StellwerkError):
    """What was asked for can't be understood or accepted; nothing was submitted."""
