"""What changes would do to live work: for whom they matter, and how sure that is."""

from collections import Counter
from collections.abc import Sequence

from stellwerk.cli.render.ahead import start_cell
from stellwerk.cli.render.table import Column, table
from stellwerk.cli.render.units import plural
from stellwerk.cli.terminal import Terminal
from stellwerk.client.ahead import Fate, WhatIf, WhatIfRow

SAME = "as before"
PLANNED = {"starts now": "now", "starts when there is room": "when they have gone"}
"""What the next cycle would do needs no forecast."""
LIMITS = "by limits"
"""Only the latest start moves, which time limits bound."""


def lines_of(found: WhatIf, terminal: Terminal, now_ms: int) -> list[str]:
    """The whole answer."""
    if not found.items:
        lines = ["nothing changes for anybody who runs or waits"]
    else:
        lines = table(columns(now_ms), found.items, terminal, cut=False)
    lines += _over(found)
    lines += _others(found)
    return [*lines, *_how_sure(found.items, found.assumes)]


def columns(now_ms: int) -> list[Column[WhatIfRow]]:
    """Name, start and reason, each before and after."""
    return [
        Column("name", "NAME", lambda one: one.name),
        Column("owner", "OWNER", lambda one: one.owner or "-"),
        Column("change", "CHANGE", lambda one: one.change),
        Column("starts", "STARTS", lambda one: _starts(one, now_ms)),
        Column("futures", "SURE", _sure),
        Column("reason", "REASON", _reason, grows=True),
    ]


def _starts(one: WhatIfRow, now_ms: int) -> str:
    before, after = _start(one.before, now_ms), _start(one.after, now_ms)
    return after if after == before or one.change == "new" else f"{before} -> {after}"


def _start(fate: Fate, now_ms: int) -> str:
    if fate.what in PLANNED:
        return PLANNED[fate.what]
    return start_cell(fate.forecast, now_ms)


def _sure(one: WhatIfRow) -> str:
    """In how many futures it comes as it is told."""
    planned = one.after.what in PLANNED and one.before.what not in PLANNED
    if planned or one.change in {"stopped", "spared"}:
        return "planned"
    if not one.futures:
        return "-"
    most = max(one.earlier, one.later)
    if not most and one.change in {"earlier", "later"}:
        return LIMITS
    return f"{most} of {one.futures}" if most else SAME


def _reason(one: WhatIfRow) -> str:
    before, after = _why(one.before), _why(one.after)
    if not before or before == after:
        return after
    return f"{before} -> {after or 'gone'}"


def _why(fate: Fate) -> str:
    return f"{fate.what}: {fate.why}" if fate.why else fate.what


def _over(found: WhatIf) -> list[str]:
    return [
        f"{one.kind} {one.name} would use {one.used} {one.resource} of {one.flavor}, and may use "
        f"{one.most}: nothing is stopped for that, and nothing more starts until it is less"
        for one in found.over
    ]


def _others(found: WhatIf) -> list[str]:
    told = [f"{plural(found.unchanged, 'workload')} as before"] if found.unchanged else []
    if found.unseen:
        told.append(f"{found.unseen} of others, which aren't shown to you")
    if found.beyond:
        told.append(f"{found.beyond:,} further back in line, which weren't looked at")
    return [", ".join(told)] if told else []


def _how_sure(items: Sequence[WhatIfRow], assumes: Sequence[str]) -> list[str]:
    """On what the starts rest."""
    known = [one for one in items if one.futures]
    if not known:
        return []
    most = max(one.futures for one in known)
    dark = sum(
        (one.after.forecast is None or one.after.forecast.likely_ms is None)
        and one.after.what not in PLANNED
        for one in known
    )
    how = f"played in {plural(most, 'future')}, without the change and with it, with equal lengths"
    confidence = Counter(
        one.after.forecast.confidence for one in known if one.after.forecast is not None
    )
    told = ", ".join(f"{count} {name}" for name, count in sorted(confidence.items()))
    lines = [f"{how}; confidence of the starts: {told}" if told else how]
    if dark:
        lines.append(f"with the change nobody knows when {dark} of these would likely start")
    if assumes:
        lines.append(f"if {', and '.join(assumes)}")
    return lines
