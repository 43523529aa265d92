"""The quota tree and the queues as people read them."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from stellwerk.cli.render.table import Cell, Column, table
from stellwerk.cli.terminal import Terminal
from stellwerk.client.queueing import PairOf, QueueRow, QuotaRow

BAR = 12


class Row(NamedTuple):
    """One flavor's resource at one node, with the branch that leads to it."""

    branch: str
    name: str
    first: bool
    one: QuotaRow
    pair: PairOf | None


def quota_lines(rows: Sequence[QuotaRow], terminal: Terminal) -> list[str]:
    """The trees from their roots to their leaves, a line for each flavor and resource."""
    return table(_columns(terminal), list(_drawn(rows, terminal)), terminal, cut=False)


def _columns(terminal: Terminal) -> list[Column[Row]]:
    return [
        Column("name", "COHORT / QUEUE", lambda row: row.branch + (row.name if row.first else "")),
        Column("flavor", "FLAVOR", lambda row: row.pair.flavor if row.pair else "-"),
        Column("resource", "RESOURCE", lambda row: row.pair.resource if row.pair else "-"),
        Column("used", "USED", lambda row: _used(row.pair, terminal)),
        Column("nominal", "NOMINAL", lambda row: _nominal(row.pair), right=True),
        Column("borrowed", "BORROWS", lambda row: _borrows(row.pair)),
        Column("lending", "LENDS", lambda row: _lends(row.pair)),
        Column("available", "CAN GET", lambda row: can_get(row.pair), right=True),
    ]


def _drawn(rows: Sequence[QuotaRow], terminal: Terminal) -> Iterator[Row]:
    """Each node with its pairs; a terminal gets branches, a pipe the path of names."""
    last = [not _has_sibling(rows, index) for index in range(len(rows))]
    trail: list[bool] = []
    for index, one in enumerate(rows):
        trail = [*trail[: one.depth], last[index]]
        below = index + 1 < len(rows) and rows[index + 1].depth > one.depth
        head, rest = _branches(trail, one.depth, below, terminal)
        name = f"{one.name}/" if one.kind == "cohort" else one.name
        for at, pair in enumerate([*one.pairs] or [None]):
            whole = at == 0 or not terminal.is_tty
            yield Row(head if whole else rest, name, whole, one, pair)


def _has_sibling(rows: Sequence[QuotaRow], index: int) -> bool:
    depth = rows[index].depth
    for other in rows[index + 1 :]:
        if other.depth <= depth:
            return other.depth == depth
    return False


def _branches(trail: list[bool], depth: int, below: bool, terminal: Terminal) -> tuple[str, str]:
    """What stands before a name, and before the further lines of the same node."""
    if not terminal.is_tty:
        return "  " * depth, "  " * depth
    line, fork, end = ("│  ", "├─ ", "└─ ") if terminal.unicode else ("|  ", "|- ", "`- ")
    before = "".join("   " if over else line for over in trail[1:-1])
    under = line if below else ""
    if not depth:
        return "", under
    return before + (end if trail[-1] else fork), before + ("   " if trail[-1] else line) + under


def can_get(pair: PairOf | None) -> str:
    """How much more it could use; nothing where more is used or promised than there is."""
    more = _or(pair, "available")
    return "0" if more.startswith("-") and more != "-" else more


def _or(pair: PairOf | None, field: str) -> str:
    return (getattr(pair, field) or "-") if pair is not None else "-"


def _nominal(pair: PairOf | None) -> str:
    """`8`, or `8 derived` where it follows from what the clusters have."""
    return _or(pair, "nominal") + (" derived" if pair is not None and pair.derived else "")


def _used(pair: PairOf | None, terminal: Terminal) -> Cell | str:
    """`[####........] 3/8`."""
    if pair is None:
        return "-"
    numbers = f"{pair.used}/{pair.quota}"
    over = pair.borrowed != "0"
    if not terminal.is_tty:
        return numbers
    full, empty = ("█", "·") if terminal.unicode else ("#", ".")
    share = 1.0 if over else pair.used_share or 0.0
    count = min(BAR, round(BAR * share))
    return Cell(f"[{full * count}{empty * (BAR - count)}] {numbers}", "warn" if over else "")


def _borrows(pair: PairOf | None) -> Cell | str:
    """`2 of 4`, `up to 4`, or that there is no limit."""
    if pair is None:
        return "-"
    limit = pair.borrowing_limit
    if pair.borrowed != "0":
        return Cell(pair.borrowed + (f" of {limit}" if limit else ""), "warn")
    return f"up to {limit}" if limit else "-"


def _lends(pair: PairOf | None) -> str:
    return f"up to {pair.lending_limit}" if pair is not None and pair.lending_limit else "-"


def queue_columns() -> list[Column[QueueRow]]:
    """What `stw queues` shows."""
    return [
        Column("name", "QUEUE", lambda one: one.name),
        Column("cohort", "COHORT", lambda one: one.cohort or "-"),
        _count("pending", "PENDING"),
        _count("reserving", "RESERVING", wide=True),
        _count("admitted", "ADMITTED"),
        Column("used", "USED", _in_use, grows=True),
        Column("status", "STATUS", _status),
        Column("strategy", "STRATEGY", lambda one: one.strategy, wide=True),
        Column("local", "LOCAL QUEUES", lambda one: ", ".join(one.local_queues) or "-", wide=True),
    ]


def _count(field: str, header: str, *, wide: bool = False) -> Column[QueueRow]:
    def number(one: QueueRow) -> int:
        value: int = getattr(one, field)
        return value

    return Column(field, header, lambda one: str(number(one)), number, right=True, wide=wide)


def _in_use(one: QueueRow) -> str:
    """`a100 gpu 3/8, cpu 10/64`: what is used of what there is."""
    told: list[str] = []
    flavor = ""
    for pair in one.used:
        name = pair.resource.rpartition("/")[2]
        told.append(
            f"{pair.flavor + ' ' if pair.flavor != flavor else ''}{name} {pair.used}/{pair.quota}"
        )
        flavor = pair.flavor
    return ", ".join(told) or "-"


def _status(one: QueueRow) -> Cell | str:
    if one.status == "Ready" and not one.about:
        return one.status
    return Cell(f"{one.status} ({one.about})" if one.about else one.status, "warn")
