"""Lays rows out: aligned columns on a terminal, tabs and nothing cut off anywhere else."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

from stellwerk.cli.terminal import Terminal

T = TypeVar("T")
GAP = "  "
NARROWEST = 8


class Cell(NamedTuple):
    """A text with a style that only repeats what the text says."""

    text: str
    style: str = ""


class Column(NamedTuple, Generic[T]):
    """One column: `cell` is what people see, `sort` what rows are ordered by."""

    key: str
    header: str
    cell: Callable[[T], Cell | str]
    sort: Callable[[T], Any] | None = None
    right: bool = False
    wide: bool = False
    """Shown only with `-o wide`."""
    grows: bool = False
    """Takes what room is left and is cut there."""


def table(
    columns: Sequence[Column[T]],
    rows: Sequence[T],
    terminal: Terminal,
    *,
    headers: bool = True,
    cut: bool = True,
) -> list[str]:
    """The lines of a table."""
    cells = [[_cell(column.cell(row)) for column in columns] for row in rows]
    if headers:
        cells.insert(0, [Cell(column.header, "strong") for column in columns])
    if not terminal.is_tty:
        return ["\t".join(cell.text for cell in line) for line in cells]
    widths = [max((len(line[i].text) for line in cells), default=0) for i in range(len(columns))]
    if cut:
        _narrow(columns, widths, terminal.width)
    return [_line(columns, line, widths, terminal, cut=cut) for line in cells]


def _narrow(columns: Sequence[Column[T]], widths: list[int], width: int) -> None:
    excess = sum(widths) + len(GAP) * (len(widths) - 1) - width
    growing = [i for i, column in enumerate(columns) if column.grows]
    for i in reversed(growing):
        if excess <= 0:
            return
        taken = min(excess, max(0, widths[i] - NARROWEST))
        widths[i] -= taken
        excess -= taken


def _line(
    columns: Sequence[Column[T]],
    cells: Sequence[Cell],
    widths: Sequence[int],
    terminal: Terminal,
    *,
    cut: bool,
) -> str:
    parts = []
    for i, (column, cell, width) in enumerate(zip(columns, cells, widths, strict=True)):
        text = shorten(cell.text, width, terminal) if cut and column.grows else cell.text
        padding = " " * (width - len(text))
        shown = terminal.style(text, cell.style)
        is_last = i == len(columns) - 1
        parts.append(padding + shown if column.right else shown + ("" if is_last else padding))
    return GAP.join(parts).rstrip()


def shorten(text: str, width: int, terminal: Terminal) -> str:
    """Cuts a text and says so."""
    if len(text) <= width:
        return text
    mark = "…" if terminal.unicode else "..."
    return text[: max(0, width - len(mark))] + mark


def _cell(value: Cell | str) -> Cell:
    cell = value if isinstance(value, Cell) else Cell(value)
    if any(not c.isprintable() for c in cell.text):
        return Cell("".join(c if c.isprintable() else "?" for c in cell.text), cell.style)
    return cell
