#!/usr/bin/env python3
"""Measures how long it takes to expand the lecture calendars of 200 rooms over fourteen days.

    bench/calendars.py [--rooms N]

Each has twenty weekly lectures of a term with an exception each. Reading the text (icalendar) is
told apart from expanding it; beside that stands what recurring-ical-events alone takes.
"""

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from zoneinfo import ZoneInfo

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "src"))

import icalendar
import recurring_ical_events

from bench.table import Line, render
from stellwerk.core.data.weekly import horizon_ms
from stellwerk.engine import ical

NOW_MS = 1_796_083_200_000
TARGET_S = 1.0
LECTURES = 20


def a_room(number: int) -> str:
    """The calendar of one room."""
    lines = ["BEGIN:VCALENDAR", "VERSION:2.0", "PRODID:-//bench//"]
    for lecture in range(LECTURES):
        day, hour = 12 + lecture % 5, 8 + 2 * lecture % 10
        lines += [
            "BEGIN:VEVENT",
            f"UID:{number}-{lecture}@campus",
            f"SUMMARY:Lecture {lecture}",
            f"DTSTART;TZID=Europe/Berlin:202610{day}T{hour:02}0000",
            f"DTEND;TZID=Europe/Berlin:202610{day}T{hour + 1:02}3000",
            "RRULE:FREQ=WEEKLY;UNTIL=20270212T225959Z",
            f"EXDATE;TZID=Europe/Berlin:202611{day + 4}T{hour:02}0000",
            "END:VEVENT",
        ]
    return "\r\n".join([*lines, "END:VCALENDAR", ""])


def seconds(work: Callable[[], object]) -> float:
    """CPU time of a piece of work."""
    began = time.process_time()
    work()
    return time.process_time() - began


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rooms", type=int, default=200)
    rooms = [a_room(number) for number in range(parser.parse_args().rooms)]
    zone, until_ms = ZoneInfo("Europe/Berlin"), horizon_ms(NOW_MS)
    begin, end = (time.gmtime(at / 1000)[:6] for at in (NOW_MS, until_ms))
    parsed = [icalendar.Calendar.from_ical(text) for text in rooms]
    reading = seconds(lambda: [icalendar.Calendar.from_ical(text) for text in rooms])
    whole = seconds(lambda: [ical.read(text, "room.ics", zone, NOW_MS, until_ms) for text in rooms])
    peer = seconds(lambda: [recurring_ical_events.of(one).between(begin, end) for one in parsed])
    what = f"expand {len(rooms)} calendars"
    print(
        render(
            [
                Line(what, whole - reading, "s", TARGET_S, None, "the library alone", peer),
                Line("read and expand them", whole, "s"),
            ]
        )
    )
    return int(whole - reading > TARGET_S)


if __name__ == "__main__":
    sys.exit(main())
