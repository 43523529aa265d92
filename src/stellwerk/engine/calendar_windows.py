"""Makes the windows of a cluster from what its calendar follows from."""

from collections.abc import Callable
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from stellwerk.core.data.weekly import (
    RULE_HELP,
    BadRule,
    combined,
    expand_rules,
    horizon_ms,
    parse_rules,
)
from stellwerk.core.model.calendars import Calendar, Source, Window
from stellwerk.core.model.errors import StellwerkError
from stellwerk.engine.ical import read, zone_of


def spans_of(source: Source, text: str, now_ms: int) -> list[Window]:
    """The times that a source means from now on; raises StellwerkError with all that is wrong."""
    zone = zone_of(source.zone)
    if source.kind == "weekly":
        return _weekly(source, zone, now_ms)
    return read(text, source.name or "calendar", zone, now_ms, horizon_ms(now_ms)).spans


def _weekly(source: Source, zone: ZoneInfo, now_ms: int) -> list[Window]:
    try:
        rules = parse_rules(source.text)
    except BadRule as error:
        raise StellwerkError.of("calendar/rule", str(error), RULE_HELP) from error
    return expand_rules(rules, zone, now_ms, horizon_ms(now_ms))


def expanded(calendar: Calendar, text_of: Callable[[Source], str], now_ms: int) -> Calendar:
    """A calendar with its windows from now on. Times of several sources add up."""
    opens: list[Window] | None = None
    closed: list[Window] = []
    for source in calendar.sources:
        text = text_of(source) if source.kind == "ical" else ""
        spans = spans_of(source, text, now_ms)
        if source.means == "open":
            opens = [*(opens or ()), *spans]
        else:
            closed += spans
    overrides = tuple(one for one in calendar.overrides if one.until_ms > now_ms)
    windows, until_ms = combined(opens, closed, overrides, now_ms)
    before = [one for one in calendar.windows if one[0] <= now_ms < one[1]]
    if before and windows and windows[0][0] <= now_ms and windows[0][1:] == before[0][1:]:
        windows = (before[0], *windows[1:])
    return replace(calendar, windows=windows, until_ms=until_ms, overrides=overrides)
