"""Says when something could start, and how sure that is."""

from stellwerk.cli.render.units import clock, duration, plural
from stellwerk.client.ahead import Forecast

SOON_MS = 60_000


def start_cell(found: Forecast | None, now_ms: int) -> str:
    """`~18:40 (90 %: 19:10)`, `by 19:30`, `after 18:10`, `not known`: for a column."""
    if found is None:
        return "-"
    if found.likely_ms is not None:
        if found.likely_ms <= now_ms:
            return "now"
        likely, p90 = (_minute(one, now_ms) for one in (found.likely_ms, found.p90_ms))
        return f"~{likely} (90 %: {p90})" if p90 not in ("-", likely) else f"~{likely}"
    if found.latest_ms is not None:
        return f"by {_minute(found.latest_ms, now_ms)}"
    if _is_later(found.earliest_ms, now_ms):
        return f"after {_minute(found.earliest_ms, now_ms)}"
    return "not known"


def start_line(found: Forecast, now_ms: int) -> str:
    """The whole forecast as a sentence."""
    parts = [_likely(found, now_ms)]
    if _is_later(found.earliest_ms, now_ms) and found.earliest_ms != found.likely_ms:
        parts.append(f"not before {_minute(found.earliest_ms, now_ms)}")
    if found.p90_ms is not None and _is_later(found.p90_ms, found.likely_ms or now_ms):
        parts.append(f"by {_minute(found.p90_ms, now_ms)} in nine of ten futures")
    if found.latest_ms is not None and found.latest_ms != found.likely_ms:
        parts.append(f"by {_minute(found.latest_ms, now_ms)} at the latest")
    if found.likely_ms is not None:
        parts.append(f"confidence {found.confidence}")
    told = ", ".join(parts)
    if len(parts) == 1 and found.likely_ms is None:
        return told
    return f"{told}; if {', and '.join(found.assumes)}" if found.assumes else told


def _likely(found: Forecast, now_ms: int) -> str:
    if found.likely_ms is None:
        work = "the work" if found.unknown == 1 else f"{plural(found.unknown, 'piece')} of work"
        why = f": nobody knows how long {work} before it will take"
        return f"its start isn't known{why if found.unknown else ''}"
    if found.likely_ms <= now_ms:
        return "starts now"
    ahead = duration((found.likely_ms - now_ms) // SOON_MS * SOON_MS or SOON_MS)
    return f"starts in ~{ahead} ({_minute(found.likely_ms, now_ms)})"


def _is_later(at_ms: int | None, now_ms: int) -> bool:
    return at_ms is not None and at_ms > now_ms + SOON_MS


def _minute(at_ms: int | None, now_ms: int) -> str:
    return "-" if at_ms is None else clock(at_ms, now_ms)[:-3]
