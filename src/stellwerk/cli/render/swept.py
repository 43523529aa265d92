"""What a sweep removed or would remove, a line per kind."""

from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import duration, plural, size
from stellwerk.client.wire import Swept, SweptKind


def columns(swept: Swept) -> list[Column[SweptKind]]:
    """Each kind with what goes, what is left, and how long it is kept."""
    return [
        Column("kind", "KIND", lambda one: one.kind),
        Column(
            "count",
            "WOULD GO" if swept.dry_run else "GONE",
            lambda one: f"{one.count:,}",
            lambda one: one.count,
            right=True,
        ),
        Column("bytes", "SIZE", lambda one: _size(one.bytes), lambda one: one.bytes, right=True),
        Column(
            "left",
            "LEFT",
            lambda one: "-" if one.left is None else f"{one.left:,}",
            lambda one: one.left or 0,
            right=True,
        ),
        Column(
            "left_bytes",
            "SIZE",
            lambda one: "-" if one.left_bytes is None else _size(one.left_bytes),
            lambda one: one.left_bytes or 0,
            right=True,
        ),
        Column("kept", "KEPT", _kept, lambda one: one.keep_ms or 1 << 62),
        Column("about", "WHAT", lambda one: one.about, grows=True),
    ]


def summary(swept: Swept) -> str:
    """One sentence about all kinds."""
    freed = size(sum(one.bytes for one in swept.items))
    things = plural(sum(one.count for one in swept.items), "thing")
    failed = sum(one.failed for one in swept.items)
    told = f"{things}, {freed} {'would go' if swept.dry_run else 'gone'}"
    if not any(one.count for one in swept.items):
        told = "nothing is kept longer than the settings say"
    if failed:
        told += f"; {failed} could not be removed: stw server logs"
    if swept.skipped:
        told += f"; not looked at, since they are out of reach: {', '.join(swept.skipped)}"
    return told


def _size(count: int) -> str:
    return size(count) if count else "-"


def _kept(one: SweptKind) -> str:
    return "for ever" if one.keep_ms is None else duration(one.keep_ms)
