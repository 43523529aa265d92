"""Leaves out of iCalendar text what says nothing about time, before anything costly reads it.

A calendar as systems export it is descriptions, people and events of past years for the most part.
"""

import re
from datetime import UTC, datetime, timedelta

KEPT = (
    "BEGIN", "END", "VERSION", "UID", "SUMMARY", "DTSTART", "DTEND", "DURATION", "RRULE", "RDATE",
    "EXRULE", "EXDATE", "RECURRENCE-ID", "STATUS", "TRANSP", "SEQUENCE", "X-WR-TIMEZONE",
)  # fmt: skip
"""Properties of events that are read."""

_NAME = re.compile(r"[A-Za-z0-9-]*")
_TIME = re.compile(r"(DTSTART|DTEND)(;[A-Z]+=[^:;\"]+)*:(\d{8})(T\d{6}Z?)?\s*", re.IGNORECASE)
_REPEATS = ("RRULE", "RDATE", "RECURRENCE-ID", "DURATION", "EXRULE", "EXDATE")
_A_DAY = timedelta(days=2)


def shortened(text: str, begin: datetime, end: datetime) -> str:
    """The same calendar without what can't matter between two moments; what is broken stays."""
    found: list[str] = []
    event: list[str] | None = None
    keeps = True
    for line in text.replace("\r\n", "\n").split("\n"):
        if line[:1] in {" ", "\t"}:
            if keeps:
                (found if event is None else event).append(line)
            continue
        upper = line.rstrip().upper()
        if upper == "BEGIN:VEVENT":
            found += event or ()
            event = []
        keeps = event is None or _name(line) in KEPT
        if keeps:
            (found if event is None else event).append(line)
        if upper == "END:VEVENT" and event is not None:
            if not _is_outside(event, begin, end):
                found += event
            event = None
    return "\n".join([*found, *(event or ())])


def _name(line: str) -> str:
    match = _NAME.match(line)
    name = match.group().upper() if match else ""
    # What isn't a property at all is broken, and stays so that this is said.
    return name if line[len(name) : len(name) + 1] in {":", ";"} else "BEGIN"


def _is_outside(event: list[str], begin: datetime, end: datetime) -> bool:
    """Whether it takes place once, at a time that is written plainly, and not between these."""
    days: dict[str, datetime] = {}
    for line in event:
        if _name(line) in _REPEATS or line[:1] in {" ", "\t"}:
            return False
        match = _TIME.fullmatch(line)
        if match is None:
            if _name(line) in {"DTSTART", "DTEND"}:
                return False
            continue
        try:
            at = datetime.fromisoformat(f"{match.group(3)}{(match.group(4) or 'T000000')[:7]}")
            days[match.group(1).upper()] = at.replace(tzinfo=UTC)
        except ValueError:
            return False
    if len(days) != 2 or days["DTSTART"].year < 1970:
        return False
    # Two days more on either side: whatever zone it is in, it can't be further off than that.
    before = days["DTEND"] + _A_DAY < begin
    return before or days["DTSTART"] - _A_DAY > end
