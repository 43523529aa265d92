"""Makes the windows of a cluster from what its calendar follows from."""

from collections.abc import Callable, Mapping
from zoneinfo import ZoneInfo

from msgspec.structs import replace

from stellwerk.core.data.node_windows import both
from stellwerk.core.data.weekly import (
    RULE_HELP,
    BadRule,
    combined,
    expand_rules,
    horizon_ms,
    parse_rules,
)
from stellwerk.core.model.calendars import Calendar, NodeWindows, Source, Window
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
    spans = {source: _spans(source, text_of, now_ms) for source in calendar.sources}
    overrides = tuple(one for one in calendar.overrides if one.until_ms > now_ms)
    calendar = replace(calendar, overrides=overrides)
    windows, until_ms = _of_nodes(calendar, spans, "", calendar.windows, now_ms)
    before = {one.nodes: one.windows for one in calendar.parts}
    said = {one.nodes: True for one in calendar.sources if one.nodes}
    said |= {one.nodes: True for one in overrides if one.nodes}
    parts = tuple(
        NodeWindows(nodes, _of_nodes(calendar, spans, nodes, before.get(nodes, ()), now_ms)[0])
        for nodes in sorted(said)
    )
    return replace(calendar, windows=windows, until_ms=until_ms, parts=parts)


def _spans(source: Source, text_of: Callable[[Source], str], now_ms: int) -> list[Window]:
    return spans_of(source, text_of(source) if source.kind == "ical" else "", now_ms)


def _of_nodes(
    calendar: Calendar,
    spans: Mapping[Source, list[Window]],
    nodes: str,
    known: tuple[Window, ...],
    now_ms: int,
) -> tuple[tuple[Window, ...], int]:
    """The windows of some nodes: what is said of them, and what is said of the whole cluster.

    Nodes with rules of their own are open when those say so and the cluster is open too.
    """
    closed: list[Window] = []
    opens: list[Window] | None = None
    for whose in dict.fromkeys(("", nodes)):
        mine = [one for one in calendar.sources if one.nodes == whose]
        closed += [span for one in mine if one.means == "closed" for span in spans[one]]
        times = [spans[one] for one in mine if one.means == "open"]
        if times:
            all_of_them = [span for each in times for span in each]
            opens = all_of_them if opens is None else list(both(opens, all_of_them))
    overrides = [one for one in calendar.overrides if one.nodes in {"", nodes}]
    windows, until_ms = combined(opens, closed, overrides, now_ms)
    before = [one for one in known if one[0] <= now_ms < one[1]]
    if before and windows and windows[0][0] <= now_ms and windows[0][1:] == before[0][1:]:
        windows = (before[0], *windows[1:])
    return windows, until_ms
