"""Reads weekly rules like ``mon-fri 18:00-08:00, sat-sun`` and puts spans of time together."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from zoneinfo import ZoneInfo

from msgspec import Struct

from stellwerk.core.data.windows import join
from stellwerk.core.model.calendars import AHEAD_MS, FOREVER_MS, Override, Window

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
RULE_HELP = "write `sun-fri 18:00-08:00, sat-sun`"
MIDNIGHT = 24 * 60


class Rule(Struct, frozen=True):
    """Days of the week (0 = Monday) with minutes of the day; an early end is on the next."""

    days: tuple[int, ...]
    from_min: int = 0
    until_min: int = MIDNIGHT


class BadRule(ValueError):
    """A rule that can't be read; it says which part of it."""


def parse_rules(text: str) -> tuple[Rule, ...]:
    """Reads rules apart by commas; raises BadRule with all that is wrong."""
    rules, wrong = [], []
    for part in (one.strip() for one in text.lower().split(",")):
        try:
            rules.append(_rule(part))
        except BadRule as error:
            wrong.append(str(error))
    if wrong:
        raise BadRule("; ".join(wrong))
    return tuple(rules)


def _rule(text: str) -> Rule:
    words = text.split()
    if not 1 <= len(words) <= 2:
        raise BadRule(f"`{text[:40]}` isn't days with a time of day")
    days: tuple[int, ...]
    if words[0] in {"daily", "always"}:
        days = tuple(range(7))
    else:
        first, dash, last = words[0].partition("-")
        begin, end = _day(first), _day(last if dash else first)
        days = tuple((begin + step) % 7 for step in range((end - begin) % 7 + 1))
    if len(words) == 1:
        return Rule(days)
    begins, dash, ends = words[1].partition("-")
    if not dash:
        raise BadRule(f"`{words[1][:40]}` has no end")
    return Rule(days, _minutes(begins), _minutes(ends))


def _day(text: str) -> int:
    if text[:3] not in DAYS or not text.isalpha():
        raise BadRule(f"`{text[:40]}` is no day of the week")
    return DAYS.index(text[:3])


def _minutes(text: str) -> int:
    hours, colon, minutes = text.partition(":")
    if not (hours.isdecimal() and (minutes.isdecimal() or not colon)):
        raise BadRule(f"`{text[:40]}` is no time of day")
    found = int(hours) * 60 + int(minutes or 0)
    if found > MIDNIGHT or int(minutes or 0) > 59:
        raise BadRule(f"`{text[:40]}` is no time of day")
    return found


def expand_rules(
    rules: Sequence[Rule], zone: ZoneInfo, from_ms: int, until_ms: int
) -> list[Window]:
    """The times that rules mean, as the clocks of the zone show them, over its changes too."""
    day = _local(from_ms, zone).date() - timedelta(days=1)
    last = _local(until_ms, zone).date()
    found = []
    while day <= last:
        for rule in rules:
            if day.weekday() in rule.days:
                ends = day if rule.until_min > rule.from_min else day + timedelta(days=1)
                span = (_at_ms(day, rule.from_min, zone), _at_ms(ends, rule.until_min, zone))
                if span[1] > from_ms and span[0] < until_ms:
                    found.append(span)
        day += timedelta(days=1)
    return join(found)


def _local(at_ms: int, zone: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(at_ms // 1000, UTC).astimezone(zone)


def _at_ms(day: date, minutes: int, zone: ZoneInfo) -> int:
    days, left = divmod(minutes, MIDNIGHT)
    at = datetime.combine(day + timedelta(days=days), time(left // 60, left % 60), zone)
    return int(at.timestamp() * 1000)


def without(windows: Iterable[Window], closed: Iterable[Window]) -> list[Window]:
    """Windows less the times that are closed."""
    left = join(windows)
    for from_ms, until_ms in join(closed):
        cut: list[Window] = []
        for opens_ms, closes_ms in left:
            if until_ms <= opens_ms or closes_ms <= from_ms:
                cut.append((opens_ms, closes_ms))
                continue
            parts = ((opens_ms, from_ms), (until_ms, closes_ms))
            cut += [one for one in parts if one[0] < one[1]]
        left = cut
    return left


def combined(
    opens: Sequence[Window] | None,
    closed: Sequence[Window],
    overrides: Sequence[Override],
    now_ms: int,
) -> tuple[tuple[Window, ...], int]:
    """The windows that rules, lectures and exceptions leave, and until when they are known.

    ``opens`` None = nobody has said when it opens, so it is open where nothing closes it.
    """
    until_ms = horizon_ms(now_ms)
    left = join([(now_ms, until_ms)] if opens is None else opens)
    left = without(left, closed)
    for one in overrides:
        span = (one.from_ms, one.until_ms)
        left = join([*left, span]) if one.means == "open" else without(left, [span])
    found = [one for one in left if one[1] > now_ms and one[0] < until_ms]
    if found and found[-1][1] >= until_ms:
        found[-1] = (found[-1][0], FOREVER_MS)
    return tuple(found), until_ms


def horizon_ms(now_ms: int) -> int:
    """Until when windows are looked for: whole days, so that nothing changes from hour to hour."""
    day_ms = 86_400_000
    return (now_ms // day_ms + 1) * day_ms + AHEAD_MS
