"""What calendars are read as: repetitions, zones, clocks that change, and what is wrong there."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.core.data.weekly import BadRule, combined, expand_rules, horizon_ms, parse_rules
from stellwerk.core.model.calendars import FOREVER_MS, Calendar, Override, Source
from stellwerk.core.model.errors import StellwerkError
from stellwerk.engine import ical
from stellwerk.engine.calendar_windows import expanded

BERLIN = ZoneInfo("Europe/Berlin")
HOUR = 3_600_000
DAY = 24 * HOUR


def ms(text: str, zone: ZoneInfo | None = None) -> int:
    """A time as milliseconds."""
    return int(datetime.fromisoformat(text).replace(tzinfo=zone or UTC).timestamp() * 1000)


def a_file(*events: str) -> str:
    """A calendar of events, each as its lines."""
    body = "".join(f"BEGIN:VEVENT\r\n{one.strip()}\r\nEND:VEVENT\r\n" for one in events)
    return f"BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//\r\n{body}END:VCALENDAR\r\n"


def spans(text: str, begin: str, days: int = 14) -> list[tuple[int, int]]:
    """The times in so many days, as Berlin has them."""
    from_ms = ms(begin)
    return ical.read(text, "x.ics", BERLIN, from_ms, from_ms + days * DAY).spans


LECTURE = """UID:db@x
SUMMARY:Databases
DTSTART;TZID=Europe/Berlin:20261012T100000
DTEND;TZID=Europe/Berlin:20261012T113000
RRULE:FREQ=WEEKLY;UNTIL=20270206T225959Z"""


def test_a_lecture_keeps_its_hour_where_clocks_are_put_back() -> None:
    """With exceptions, one that is moved, and one that is cancelled."""
    skipped = f"{LECTURE}\nEXDATE;TZID=Europe/Berlin:20261102T100000"
    moved = """UID:db@x
RECURRENCE-ID;TZID=Europe/Berlin:20261026T100000
DTSTART;TZID=Europe/Berlin:20261027T140000
DTEND;TZID=Europe/Berlin:20261027T150000"""
    plain = spans(a_file(LECTURE), "2026-10-19")
    assert plain == [
        (ms("2026-10-19T08:00"), ms("2026-10-19T09:30")),
        (ms("2026-10-26T09:00"), ms("2026-10-26T10:30")),
    ]
    assert spans(a_file(skipped, moved), "2026-10-19", 21) == [
        plain[0],
        (ms("2026-10-27T13:00"), ms("2026-10-27T14:00")),
    ]
    assert spans(a_file(f"{LECTURE}\nSTATUS:CANCELLED"), "2026-10-19") == []
    assert spans(a_file(f"{LECTURE}\nTRANSP:TRANSPARENT"), "2026-10-19") == []


def test_whole_days_and_floating_times_are_those_of_the_zone_that_is_given() -> None:
    """Which is said."""
    holiday = "UID:h\nSUMMARY:Closed\nDTSTART;VALUE=DATE:20261224\nDTEND;VALUE=DATE:20261227"
    floating = "UID:f\nDTSTART:20261201T100000\nDURATION:PT1H"
    begin = ms("2026-11-30")
    found = ical.read(a_file(holiday, floating), "x", BERLIN, begin, begin + 30 * DAY)
    assert found.spans == [
        (ms("2026-12-01T10:00", BERLIN), ms("2026-12-01T11:00", BERLIN)),
        (ms("2026-12-24", BERLIN), ms("2026-12-27", BERLIN)),
    ]
    assert found.notes == ("1 events name no time zone that is known: Europe/Berlin was taken",)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 400), st.integers(0, 23), st.integers(1, 30), st.integers(1, 3),
    st.sampled_from(("DAILY", "WEEKLY")), st.sets(st.integers(0, 9), max_size=3),
)  # fmt: skip
def test_what_merely_repeats_is_expanded_as_a_naive_walk_does(
    day: int, hour: int, lasts: int, every: int, how: str, out: set[int]
) -> None:
    """Day by day, over both changes of the clocks of a year."""
    first = datetime.fromisoformat(f"2026-01-01T{hour:02}:00") + timedelta(days=day)
    step = timedelta(days=every * (7 if how == "WEEKLY" else 1))
    starts = [first + number * step for number in range(40) if number not in out]
    skipped = ",".join(f"{first + n * step:%Y%m%dT%H%M%S}" for n in sorted(out))
    event = (
        f"UID:x\nDTSTART;TZID=Europe/Berlin:{first:%Y%m%dT%H%M%S}\nDURATION:PT{lasts}H\n"
        f"RRULE:FREQ={how};INTERVAL={every};COUNT=40"
        + (f"\nEXDATE;TZID=Europe/Berlin:{skipped}" if out else "")
    )
    begin = ms("2026-10-19")
    expected = []
    for one in starts:
        from_ms = int(one.replace(tzinfo=BERLIN).timestamp() * 1000)
        if from_ms + lasts * HOUR > begin and from_ms < begin + 14 * DAY:
            expected.append((from_ms, from_ms + lasts * HOUR))
    found = ical.read(a_file(event), "x", BERLIN, begin, begin + 14 * DAY).happenings
    assert [(one.from_ms, one.until_ms) for one in found] == sorted(expected)


RULES = (
    "FREQ=WEEKLY;BYDAY=MO,WE", "FREQ=WEEKLY;INTERVAL=2;BYDAY=TU,SU;WKST=SU", "FREQ=MONTHLY",
    "FREQ=MONTHLY;BYDAY=2TU", "FREQ=DAILY;INTERVAL=3", "FREQ=WEEKLY;UNTIL=20261103",
)  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_what_merely_repeats_is_what_the_library_makes_of_it(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both ways of expanding an event come to the same."""
    event = LECTURE.replace("FREQ=WEEKLY;UNTIL=20270206T225959Z", rule)
    fast = spans(a_file(event), "2026-10-19", 30)
    monkeypatch.setattr(ical._Reader, "_plain", lambda _self, _event: None)
    assert spans(a_file(event), "2026-10-19", 30) == fast
    assert fast


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no BEGIN:VCALENDAR"),
        ("BEGIN:VCALENDAR\r\n" + "x" * (5 << 20), "more than 4 MiB"),
        (a_file(*["UID:1"] * 20_001), "more than 20000 events"),
        (a_file("UID:a\nDTSTART:20261201T080000\nRRULE:FREQ=SECONDLY"), "repeats secondly"),
        (a_file("UID:a\nDTSTART:20261201T080000\nRRULE:FREQ=DAILY;INTERVAL=0"), "of nothing"),
        (a_file("UID:a\nDTSTART:2026xx01T080000"), "no DTSTART that can be read"),
        (a_file("UID:a\nDTSTART:20261201T080000\nDTEND:never"), "no DTEND that can be read"),
        (a_file("UID:a\nDTSTART:00010101T080000\nRRULE:FREQ=DAILY"), "begins before 1970"),
        (a_file(f"{LECTURE.replace('WEEKLY', 'SOMETIMES')}"), "no RRULE that can be read"),
        (a_file(f"{LECTURE}\nEXDATE:never"), "no EXDATE that can be read"),
        (a_file(f"{LECTURE};BYHOUR=1,2,3,4,5;BYMINUTE=1,2,3,4,5"), "more than 24 times a day"),
        (
            a_file("UID:a\nDTSTART:20261201T080000Z\nDTEND:20261201T070000Z"),
            "ends before it begins",
        ),
        (a_file("UID:a\nDTSTART:20260101T080000Z\nDURATION:P9999999D"), "beyond the year 9999"),
        (a_file(LECTURE)[:-30], "breaks off"),
    ],
)
def test_what_cannot_be_read_is_told_with_its_place(text: str, said: str) -> None:
    """All of it, and never as a traceback."""
    with pytest.raises(StellwerkError) as caught:
        spans(text, "2026-12-01")
    assert said in caught.value.problems[0].message
    if "event" in caught.value.problems[0].code:
        assert caught.value.problems[0].place == "x.ics:5:1"


def test_events_that_are_over_are_many_and_do_no_harm() -> None:
    """Those that are over cost little more than reading them."""
    events = [f"UID:{n}\nDTSTART:2020{n % 12 + 1:02}01T080000\nDURATION:PT1H" for n in range(1_000)]
    assert spans(a_file(*events, LECTURE), "2026-10-19")


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 23), st.integers(0, 24)),
        min_size=1, max_size=3,
    ),
    st.sampled_from(("2026-03-23", "2026-10-19", "2026-12-01")),
)  # fmt: skip
def test_weekly_rules_are_what_the_clock_on_the_wall_shows(
    rules: list[tuple[int, int, int, int]], begin: str
) -> None:
    """Asked at every half hour, over nights and over both changes of the clocks."""
    days = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
    text = ", ".join(f"{days[a]}-{days[b]} {h:02}:00-{k:02}:00" for a, b, h, k in rules)
    from_ms = ms(begin)
    found = expand_rules(parse_rules(text), BERLIN, from_ms, from_ms + 9 * DAY)
    for at_ms in range(from_ms, from_ms + 9 * DAY, HOUR // 2):
        local = datetime.fromtimestamp(at_ms / 1000, BERLIN)
        said = any(_is_in(local, *one) for one in rules)
        assert said == any(a <= at_ms < b for a, b in found), local


def _is_in(local: datetime, first: int, last: int, begins: int, ends: int) -> bool:
    days = [(first + n) % 7 for n in range((last - first) % 7 + 1)]
    today, yesterday = local.weekday(), (local.weekday() - 1) % 7
    if ends > begins:
        return today in days and begins <= local.hour < ends
    return (today in days and local.hour >= begins) or (yesterday in days and local.hour < ends)


@pytest.mark.parametrize("text", ["", "mon 8", "xyz 08:00-09:00", "mon 25:00-26:00", "mon 8:99-9"])
def test_a_rule_that_cannot_be_read_is_refused(text: str) -> None:
    """In words."""
    with pytest.raises(BadRule):
        parse_rules(text)


def test_sources_add_up_and_the_last_exception_counts() -> None:
    """Open by rules, less lectures, less and more by exceptions; the far end stays open."""
    now_ms = ms("2026-10-19")
    busy = [(now_ms + 2 * HOUR, now_ms + 3 * HOUR)]
    shut = Override(now_ms, now_ms + 5 * HOUR, "closed")
    again = Override(now_ms + 2 * HOUR, now_ms + 4 * HOUR, "open")
    windows, until_ms = combined(None, busy, [], now_ms)
    assert windows == ((now_ms, busy[0][0]), (busy[0][1], FOREVER_MS))
    assert until_ms == horizon_ms(now_ms)
    windows, _ = combined(None, busy, [shut, again], now_ms)
    assert windows == ((now_ms + 2 * HOUR, now_ms + 4 * HOUR), (now_ms + 5 * HOUR, FOREVER_MS))
    rules = Source("weekly", "mon-fri 18:00-08:00", "open", "Europe/Berlin", "weekly")
    lectures = Source("ical", "blob", "closed", "Europe/Berlin", "x.ics")
    late = LECTURE.replace("T10", "T19").replace("T11", "T20")
    calendar = expanded(Calendar("lab", sources=(rules, lectures)), lambda _: a_file(late), now_ms)
    assert calendar.windows[:2] == (
        (ms("2026-10-19T16:00"), ms("2026-10-19T17:00")),
        (ms("2026-10-19T18:30"), ms("2026-10-20T06:00")),
    )
    assert expanded(calendar, lambda _: a_file(late), now_ms + HOUR) == calendar


def test_nodes_are_open_where_their_rules_and_those_of_all_say_so() -> None:
    """Lectures on some nodes close those alone; an exception of one part changes no other."""
    now_ms = ms("2026-10-19")
    rules = Source("weekly", "daily 06:00-20:00", "open", "UTC", "weekly")
    row = Source("weekly", "daily 08:00-23:00", "open", "UTC", "weekly", nodes="row=a")
    exam = Source("weekly", "mon 10:00-11:00", "closed", "UTC", "exam", nodes="pc-01")
    shut = Override(now_ms + 12 * HOUR, now_ms + 13 * HOUR, "closed", nodes="pc-01")
    calendar = Calendar("lab", sources=(rules, row, exam), overrides=(shut,))
    found = expanded(calendar, lambda _: "", now_ms)
    assert found.windows[0] == (now_ms + 6 * HOUR, now_ms + 20 * HOUR)
    parts = {one.nodes: [(at - now_ms) // HOUR for span in one.windows[:3] for at in span]
             for one in found.parts}  # fmt: skip
    assert parts == {"pc-01": [6, 10, 11, 12, 13, 20], "row=a": [8, 20, 32, 44, 56, 68]}
    assert expanded(found, lambda _: "", now_ms + HOUR) == found


EXPORTED = """UID:{n}
DTSTAMP:20260901T000000Z
DESCRIPTION:Room: K017\\, bring your own
  DTSTART:20261020T080000Z
ATTENDEE;CN="Doe: Jane":mailto:jane@example.edu
SUMMARY:a{n}
{when}
BEGIN:VALARM
ACTION:DISPLAY
TRIGGER:-PT15M
END:VALARM"""


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.integers(-20, 40), st.integers(0, 23), st.integers(0, 70),
            st.sampled_from(("", "Z", ";TZID=Europe/Berlin", ";VALUE=DATE")),
            st.sampled_from(("", "", "\nRRULE:FREQ=WEEKLY", "\nRDATE:20261021T090000Z")),
        ),
        max_size=8,
    )
)  # fmt: skip
def test_what_is_left_out_before_reading_changes_nothing(
    events: list[tuple[int, int, int, str, str]],
) -> None:
    """Descriptions, people, alarms and events of other times: what takes place stays the same."""
    written = []
    for n, (day, hour, lasts, zone, repeats) in enumerate(events):
        begin = datetime.fromisoformat(f"2026-10-19T{hour:02}:00") + timedelta(days=day)
        how, z = ("", zone) if zone == "Z" else (zone, "")
        shape = "%Y%m%d" if zone == ";VALUE=DATE" else "%Y%m%dT%H%M%S"
        ends = begin + timedelta(hours=lasts)
        when = f"DTSTART{how}:{begin:{shape}}{z}\nDTEND{how}:{ends:{shape}}{z}"
        written.append(EXPORTED.format(n=n, when=when + (repeats if z or how else "")))
    text, from_ms = a_file(*written), ms("2026-10-19")
    short = ical.read(text, "x.ics", BERLIN, from_ms, from_ms + 14 * DAY).happenings
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ical, "shortened", lambda text, *_between: text)
        whole = ical.read(text, "x.ics", BERLIN, from_ms, from_ms + 14 * DAY).happenings
    assert short == whole


def test_a_whole_day_is_as_long_as_the_clocks_make_it() -> None:
    """Midnight to midnight where clocks are put back, however its end is written; no time is none.

    Two events of one name, which shouldn't be, both count.
    """
    day = [(ms("2026-10-25", BERLIN), ms("2026-10-26", BERLIN))]
    for end in ("", "\nDURATION:P1D", "\nDTEND;VALUE=DATE:20261026"):
        assert spans(a_file(f"UID:a\nDTSTART;VALUE=DATE:20261025{end}"), "2026-10-19") == day
    none = "UID:a\nDTSTART:20261020T080000Z\nDTEND:20261020T080000Z"
    assert spans(a_file(none), "2026-10-19") == []
    twice = a_file(LECTURE, "UID:db@x\nDTSTART:20261028T080000Z\nDURATION:PT1H")
    assert len(spans(twice, "2026-10-19")) == 3


def test_exceptions_may_be_written_in_other_zones() -> None:
    """Also as whole days and times of no zone, and for all that follows."""
    for skipped in (":20261026T090000Z", ";TZID=America/New_York:20261026T050000",
                    ":20261026T100000", ";VALUE=DATE:20261026"):  # fmt: skip
        assert len(spans(a_file(f"{LECTURE}\nEXDATE{skipped}"), "2026-10-19")) == 1
    later = """UID:db@x
RECURRENCE-ID;RANGE=THISANDFUTURE;TZID=Europe/Berlin:20261026T100000
DTSTART;TZID=Europe/Berlin:20261026T140000
DURATION:PT1H"""
    found = spans(a_file(LECTURE, later), "2026-10-26", 14)
    assert [datetime.fromtimestamp(one[0] / 1000, BERLIN).hour for one in found] == [14, 14]
