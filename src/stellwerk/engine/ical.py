"""Reads iCalendar text: when something takes place, with all that can't be read and where that is.

What repeats is expanded by `recurring-ical-events`, which is imported when a calendar is read and
never before. What costs too much to expand is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import MAXYEAR, UTC, date, datetime, time, timedelta, tzinfo
from math import prod
from typing import Any
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from msgspec import Struct

from stellwerk.core.data.windows import join
from stellwerk.core.model.calendars import MOST_TEXT, Window
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.engine.ical_text import shortened

MOST_EVENTS = 20_000
MOST_TOLD = 20
MOST_A_DAY = 24
TOO_OFTEN = ("SECONDLY", "MINUTELY", "HOURLY")
EARLIEST_YEAR = 1970
INSTALL = "pip install 'stellwerk[calendars]'"


class Happening(Struct, frozen=True):
    """One time of an event (UTC milliseconds)."""

    from_ms: int
    until_ms: int
    what: str = ""


class Read(Struct, frozen=True):
    """What a calendar says: times in order, and notes about what was assumed."""

    happenings: tuple[Happening, ...]
    events: int = 0
    notes: tuple[str, ...] = ()

    @property
    def spans(self) -> list[Window]:
        """The times at which something takes place, joined."""
        return join((one.from_ms, one.until_ms) for one in self.happenings)


def zone_of(name: str) -> ZoneInfo:
    """A time zone by its name; raises StellwerkError for one that isn't there."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise StellwerkError.of(
            "calendar/zone", f"there is no time zone `{name[:60]}`", "write one as `Europe/Berlin`"
        ) from error


def read(text: str, file: str, zone: ZoneInfo, from_ms: int, until_ms: int) -> Read:
    """The times between two moments; raises StellwerkError with everything that is wrong.

    ``zone`` is meant by times that name none.
    """
    if len(text) > MOST_TEXT:
        raise _refused("calendar/too-large", file, f"has more than {MOST_TEXT >> 20} MiB")
    if "\0" in text or "BEGIN:VCALENDAR" not in text[:4096].upper():
        raise _refused("calendar/not-ical", file, "isn't an iCalendar file: no BEGIN:VCALENDAR")
    upper = text.upper()
    if upper.rstrip()[-13:] != "END:VCALENDAR":
        raise _refused("calendar/broken", file, "breaks off: it doesn't end with END:VCALENDAR")
    if upper.count("BEGIN:VEVENT") > MOST_EVENTS:
        raise _refused("calendar/too-many", file, f"has more than {MOST_EVENTS} events")
    reader = _Reader(text, file, zone, from_ms, until_ms)
    return reader.read()


def _refused(code: str, file: str, why: str) -> StellwerkError:
    return StellwerkError.of(code, f"{file} {why}", "export the calendar again, or a part of it")


class _Reader:
    """One text, read once."""

    def __init__(self, text: str, file: str, zone: ZoneInfo, from_ms: int, until_ms: int) -> None:
        self.text, self.file, self.zone = text, file, zone
        self.begin = datetime.fromtimestamp(from_ms // 1000, UTC)
        self.end = datetime.fromtimestamp(until_ms // 1000, UTC)
        self.problems: list[Problem] = []
        self.floating = 0
        self._lines: list[str] | None = None

    def read(self) -> Read:
        """Parses, sorts by series, expands."""
        calendars = self._parsed()
        found: list[Happening] = []
        events = 0
        for calendar in calendars:
            for series in self._series(calendar):
                events += len(series)
                try:
                    found += self._expanded(calendar, series)
                except OverflowError:
                    self._wrong(series[0], f"lasts beyond the year {MAXYEAR}")
        if self.problems:
            raise StellwerkError(self.problems[:MOST_TOLD])
        notes = []
        if self.floating:
            notes.append(
                f"{self.floating} events name no time zone that is known: {self.zone} was taken"
            )
        found.sort(key=lambda one: (one.from_ms, one.until_ms, one.what))
        return Read(tuple(found), events, tuple(notes))

    def _parsed(self) -> list[Any]:
        try:
            import icalendar
        except ImportError as error:
            message = "calendars can't be read: the library `icalendar` isn't installed"
            raise StellwerkError.of("calendar/library", message, INSTALL) from error
        text = shortened(self.text, self.begin, self.end)
        try:
            return list(icalendar.Calendar.from_ical(text, multiple=True))
        except (ValueError, IndexError, KeyError, TypeError) as error:
            why = f"can't be read: {' '.join(str(error).split())[:200]}"
            raise _refused("calendar/broken", self.file, why) from error

    def _series(self, calendar: Any) -> Iterator[list[Any]]:
        """Events by UID: one with its exceptions is one series. Where several have the same, which
        shouldn't be, each counts.
        """
        found: dict[str, list[Any]] = {}
        whole: dict[str, None] = {}
        for number, event in enumerate(calendar.walk("VEVENT")):
            if self._counts(event):
                uid = str(event.get("UID", "")) or f"event {number + 1}"
                if "RECURRENCE-ID" not in event and uid in whole:
                    uid = f"event {number + 1} of {uid}"
                elif "RECURRENCE-ID" not in event:
                    whole[uid] = None
                found.setdefault(uid, []).append(event)
        for series in found.values():
            try:
                outside = self._is_outside(series)
            except OverflowError:
                outside = False
            if not outside:
                yield series

    def _counts(self, event: Any) -> bool:
        """Whether it takes time of anybody, and can be read; what speaks against that is noted."""
        if self._is(event, "STATUS", "CANCELLED") and "RECURRENCE-ID" not in event:
            return False
        if self._is(event, "TRANSP", "TRANSPARENT"):
            return False
        broken = [key for key in _TIMES if key in event and _dt(event, key) is None]
        broken += [key for key in _RULES if not _is_whole(event, key)]
        start = _dt(event, "DTSTART")
        if start is None or broken:
            self._wrong(event, f"has no {(broken or ['DTSTART'])[0]} that can be read")
            return False
        if start.year < EARLIEST_YEAR:
            self._wrong(event, f"begins before {EARLIEST_YEAR}")
            return False
        for rule in _listed(event.get("RRULE")):
            often = [str(one).upper() for one in rule.get("FREQ", ())]
            if not often or often[0] in TOO_OFTEN:
                self._wrong(event, f"repeats {often[0].lower() if often else 'without FREQ'}")
                return False
            if prod(max(1, len(rule.get(key, ()))) for key in _TIMES_OF_DAY) > MOST_A_DAY:
                self._wrong(event, f"repeats more than {MOST_A_DAY} times a day")
                return False
            if any(int(one) < 1 for one in _listed(rule.get("INTERVAL"))):
                self._wrong(event, "repeats at an interval of nothing")
                return False
        if self._is_backwards(event):
            self._wrong(event, "ends before it begins")
            return False
        if isinstance(start, datetime) and start.tzinfo is None:
            self.floating += 1
        return True

    def _is_backwards(self, event: Any) -> bool:
        try:
            begin, end = self._of(event)
        except OverflowError:
            return False
        return end < begin

    @staticmethod
    def _is(event: Any, key: str, value: str) -> bool:
        return str(event.get(key, "")).upper() == value

    def _is_outside(self, series: list[Any]) -> bool:
        """Whether nothing of it can lie between the two moments: by far the most in old files."""
        for event in series:
            if any(key in event for key in ("RRULE", "RDATE", "RECURRENCE-ID")):
                return False
            begin, end = self._of(event)
            if begin < self.end and end > self.begin:
                return False
        return True

    def _expanded(self, calendar: Any, series: list[Any]) -> Iterator[Happening]:
        plain = self._plain(series[0]) if len(series) == 1 else None
        if plain is not None:
            yield from plain
            return
        if len(series) == 1 and not any(key in series[0] for key in ("RRULE", "RDATE")):
            times: Iterable[Any] = series
        else:
            times = self._repeated(calendar, series)
        for event in times:
            if self._is(event, "STATUS", "CANCELLED"):
                continue
            begin, end = self._of(event)
            if begin < self.end and end > self.begin and end > begin:
                what = str(event.get("SUMMARY", ""))[:80]
                yield Happening(_ms(begin), _ms(end), what)

    def _plain(self, event: Any) -> list[Happening] | None:
        """The times of an event that just repeats: by far the most of lectures, and ten times as
        fast as what can do everything. None where it is more than that.
        """
        rules, start = _listed(event.get("RRULE")), _dt(event, "DTSTART")
        if len(rules) != 1 or "RDATE" in event or not isinstance(start, datetime):
            return None
        if set(rules[0]) - {"FREQ", "INTERVAL", "COUNT", "UNTIL", "BYDAY", "WKST"}:
            return None
        zone = start.tzinfo or self.zone
        except_at = [one for one in _exdates(event) if isinstance(one, datetime)]
        if len(except_at) != len(_exdates(event)):
            return None
        skipped = {one.astimezone(zone).replace(tzinfo=None) for one in map(self._aware, except_at)}
        begin, end = self._of(event)
        lasts = end - begin
        first = self.begin.astimezone(zone).replace(tzinfo=None) - lasts
        last = self.end.astimezone(zone).replace(tzinfo=None)
        try:
            rule = _rule(rules[0], start.replace(tzinfo=None), zone, first)
            found = rule.between(first, last, inc=True)
        except (ValueError, TypeError, OverflowError):
            return None
        what = str(event.get("SUMMARY", ""))[:80]
        times = [self._aware(one.replace(tzinfo=zone)) for one in found if one not in skipped]
        return [
            Happening(_ms(one), _ms(one + lasts), what)
            for one in times
            if one < self.end and one + lasts > self.begin and lasts
        ]

    def _repeated(self, calendar: Any, series: list[Any]) -> list[Any]:
        """The times of a series, each as an event of its own."""
        import icalendar
        import recurring_ical_events

        one = icalendar.Calendar()
        for name in ("X-WR-TIMEZONE",):
            if name in calendar:
                one.add(name, calendar[name])
        for event in series:
            one.add_component(event)
        try:
            # A day on either side: times without a zone are looked for as if they were in UTC.
            begin, end = self.begin - timedelta(days=1), self.end + timedelta(days=1)
            return list(recurring_ical_events.of(one).between(begin, end))
        except Exception as error:  # noqa: BLE001 - whatever a hostile file makes a library raise
            why = " ".join(str(error).split())[:120]
            self._wrong(series[0], f"its recurrence can't be read: {why}")
            return []

    def _of(self, event: Any) -> tuple[datetime, datetime]:
        start, ends, lasts = (_dt(event, key) for key in _TIMES)
        if ends is None:
            whole = timedelta(days=1) if not isinstance(start, datetime) else timedelta(0)
            if lasts is None:
                lasts = whole
            if not isinstance(start, datetime):
                # Days are as long as the clocks of the zone make them.
                return self._aware(start), self._aware(start + lasts)
            return self._aware(start), self._aware(start) + lasts
        return self._aware(start), self._aware(ends)

    def _aware(self, at: date | datetime) -> datetime:
        """A moment; a day begins at midnight of the zone."""
        if not isinstance(at, datetime):
            at = datetime.combine(at, time(0))
        return (at.replace(tzinfo=self.zone) if at.tzinfo is None else at).astimezone(UTC)

    def _wrong(self, event: Any, why: str) -> None:
        uid, what = str(event.get("UID", "")), str(event.get("SUMMARY", ""))[:60]
        self.problems.append(
            Problem(
                "calendar/event",
                f"the event `{what or uid or 'without a name'}` {why}",
                "mend it in the calendar it comes from, or take it out",
                file=self.file,
                line=self._line_of(uid),
                column=1,
            )
        )

    def _line_of(self, uid: str) -> int:
        if self._lines is None:
            self._lines = self.text.splitlines()
        wanted = f"UID:{uid}"[:74]
        for number, line in enumerate(self._lines, 1):
            if uid and line.startswith(wanted):
                return number
        return 1


_TIMES = ("DTSTART", "DTEND", "DURATION")
_RULES = ("RRULE", "RDATE", "EXDATE", "RECURRENCE-ID")
_TIMES_OF_DAY = ("BYHOUR", "BYMINUTE", "BYSECOND")


def _is_whole(event: Any, key: str) -> bool:
    """Whether what an event says of its repetition can be read, if it says anything."""
    for one in _listed(event.get(key)):
        try:
            one.get("FREQ") if key == "RRULE" else getattr(one, "dts", None) or one.dt
        except Exception:  # noqa: BLE001 - a broken property raises whatever it met
            return False
    return True


def _dt(event: Any, key: str) -> Any:
    """A time of an event; None where it has none that can be read."""
    try:
        return getattr(event.get(key), "dt", None)
    except Exception:  # noqa: BLE001 - a broken property raises whatever it met
        return None


def _rule(written: Any, start: datetime, zone: tzinfo, first: datetime) -> Any:
    """A rule on local times; one that goes on for ever needn't be counted from its beginning."""
    from dateutil import rrule

    how = str(written["FREQ"][0]).upper()
    every = int(_first(written, "INTERVAL", 1))
    count = _first(written, "COUNT", None)
    until = _first(written, "UNTIL", None)
    if until is not None and not isinstance(until, datetime):
        until = datetime.combine(until, time(23, 59, 59))
    if until is not None and until.tzinfo is not None:
        until = until.astimezone(zone).replace(tzinfo=None)
    days = [rrule.weekday(_DAYS.index(str(one).upper())) for one in written.get("BYDAY", ())]
    begins = _DAYS.index(str(_first(written, "WKST", "MO")).upper())
    if count is None and how in _STEPS:
        step = _STEPS[how] * every
        start += max(0, (first - start) // step - 1) * step
    return rrule.rrule(
        getattr(rrule, how), dtstart=start, interval=every, count=count, until=until,
        byweekday=days or None, wkst=begins, cache=False,
    )  # fmt: skip


_DAYS = ("MO", "TU", "WE", "TH", "FR", "SA", "SU")
_STEPS = {"DAILY": timedelta(days=1), "WEEKLY": timedelta(days=7)}


def _first(written: Any, key: str, default: Any) -> Any:
    found = _listed(written.get(key))
    return found[0] if found else default


def _exdates(event: Any) -> list[Any]:
    found = []
    for one in _listed(event.get("EXDATE")):
        found += [each.dt for each in one.dts]
    return found


def _listed(rules: Any) -> list[Any]:
    if rules is None:
        return []
    return list(rules) if isinstance(rules, list) else [rules]


def _ms(at: datetime) -> int:
    return int(at.timestamp() * 1000)
