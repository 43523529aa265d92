"""Draws when a cluster may be used: a line for each of the next days."""

from collections.abc import Sequence
from datetime import datetime, timedelta, tzinfo

from stellwerk.core.model.calendars import Window

CELL_MIN = 30
CELLS = 24 * 60 // CELL_MIN
OPEN, CLOSED, BOTH = "█", "·", "▒"
ASCII = "#.+"
HOURS = "0     3     6     9     12    15    18    21    "


def timeline(
    windows: Sequence[Window], now_ms: int, days: int, zone: tzinfo | None, *, ascii_only: bool
) -> list[str]:
    """A row for each day with half hours as cells; whole ones are open or closed, or it is both."""
    day = datetime.fromtimestamp(now_ms / 1000, zone).astimezone(zone).date()
    rows = [f"{'':10} {HOURS}".rstrip()]
    for number in range(days):
        one = day + timedelta(days=number)
        cells = "".join(
            _cell(windows, *_half_hour(one.year, one.month, one.day, cell, zone))
            for cell in range(CELLS)
        )
        rows.append(f"{one:%a %d %b} {cells}")
    if ascii_only:
        plain = str.maketrans(OPEN + CLOSED + BOTH, ASCII)
        rows = [row.translate(plain) for row in rows]
    return rows


def _half_hour(year: int, month: int, day: int, cell: int, zone: tzinfo | None) -> Window:
    hours, minutes = divmod(cell * CELL_MIN, 60)
    at = datetime(year, month, day, hours, minutes, tzinfo=zone)
    if zone is None:
        at = at.astimezone()
    from_ms = int(at.timestamp() * 1000)
    return from_ms, from_ms + CELL_MIN * 60_000


def _cell(windows: Sequence[Window], from_ms: int, until_ms: int) -> str:
    shared = sum(max(0, min(until_ms, b) - max(from_ms, a)) for a, b in windows)
    if shared == 0:
        return CLOSED
    return OPEN if shared == until_ms - from_ms else BOTH
