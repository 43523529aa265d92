"""What one measurement says, and the table of them."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Line(NamedTuple):
    """One line of the table: a number with its unit, its target, and a peer's number beside it.

    A line without a target informs only. ``least`` is the smallest of the repetitions: on a busy
    machine it says more of the program than the median does.
    """

    what: str
    value: float
    unit: str
    target: float | None = None
    least: float | None = None
    peer: str = ""
    beside: float | None = None
    beside_least: float | None = None

    @property
    def is_over(self) -> bool:
        """Whether the target is missed, give or take the machine: even by the best repetition."""
        measured = self.value if self.least is None else self.least
        return self.target is not None and measured > self.target

    @property
    def verdict(self) -> str:
        """The line's end."""
        if self.target is None:
            return ""
        if self.value <= self.target:
            return "ok"
        return "OVER" if self.is_over else "busy"


def median(values: Sequence[float]) -> float:
    """The middle one."""
    return statistics.median(values)


def render(lines: Sequence[Line]) -> str:
    """The table as text."""
    rows = [("WHAT", "MEDIAN", "LEAST", "TARGET", "", "BESIDE IT", "MEDIAN", "LEAST", "RATIO")]
    for line in lines:
        ratio = f"{line.value / line.beside:.2f}" if line.beside else ""
        rows.append(
            (
                line.what,
                _number(line.value, line.unit),
                _number(line.least, line.unit),
                _number(line.target, line.unit),
                line.verdict,
                line.peer,
                _number(line.beside, line.unit),
                _number(line.beside_least, line.unit),
                ratio,
            )
        )
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    left = {0, 4, 5}
    return "\n".join(
        "  ".join(
            cell.ljust(width) if column in left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    )


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:.{digits}f} {unit}"
