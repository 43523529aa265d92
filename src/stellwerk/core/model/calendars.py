"""When a cluster may be used: where that is written, who made exceptions, and what it comes to."""

from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

FOREVER_MS = 253_402_300_799_000
"""The last moment of the year 9999: a window that ends then isn't known to close."""

DAY_MS = 86_400_000
AHEAD_MS = 14 * DAY_MS
"""So far ahead windows are known."""

MOST_SOURCES = 16
MOST_OVERRIDES = 64
MOST_TEXT = 4 << 20
"""So many characters has what a calendar is made of at most."""

Means = Literal["open", "closed"]
Window = tuple[int, int]


class Source(Struct, frozen=True, omit_defaults=True):
    """Where it is written when a cluster is open, or closed.

    A ``weekly`` one has its rules in ``text``. An ``ical`` one has the blob of what was last read
    whole in ``text``, when that was in ``read_ms``, and where it came from in ``name``: a file, or
    an address that is read again (``private``: also one that isn't on the internet). ``note`` says
    why it can't be read any more, since ``read_ms``. ``nodes`` says of which nodes it speaks, where
    it isn't of all.
    """

    kind: Literal["weekly", "ical"]
    text: str
    means: Means = "closed"
    zone: str = "UTC"
    name: str = ""
    read_ms: int = 0
    note: str = ""
    private: bool = False
    nodes: str = ""


class Override(Struct, frozen=True, omit_defaults=True):
    """Somebody's exception for once; of several that overlap the last one made counts."""

    from_ms: int
    until_ms: int
    means: Means
    actor: str = ""
    why: str = ""
    nodes: str = ""


class NodeWindows(Struct, frozen=True, omit_defaults=True):
    """The windows of those nodes of which something is said beside what is said of all."""

    nodes: str
    windows: tuple[Window, ...] = ()


class Calendar(Struct, frozen=True, omit_defaults=True):
    """The windows of a cluster until ``until_ms`` (UTC milliseconds), and what they follow from.

    One that goes on beyond that ends in ``FOREVER_MS``. ``parts`` are those of some of its nodes,
    what holds of the whole cluster included.
    """

    cluster: str
    windows: tuple[Window, ...] = ()
    until_ms: int = 0
    sources: tuple[Source, ...] = ()
    overrides: tuple[Override, ...] = ()
    parts: tuple[NodeWindows, ...] = ()

    @property
    def spans(self) -> tuple[Window, ...]:
        """The windows as a cluster has them, for which none at all means always."""
        return self.windows or ((0, 0),)


class SourceWish(Struct, frozen=True, forbid_unknown_fields=True):
    """What a calendar is to follow from too: ``rules``, an iCalendar ``text``, or an ``address``.

    One of the same name takes the place of the one before; ``only`` takes that of all. ``nodes``
    are names, ``pc-0*`` or ``LEVEL=VALUE``, apart by commas; none = the whole cluster.
    """

    rules: str = ""
    text: str = ""
    address: str = ""
    name: str = ""
    means: Means = "closed"
    zone: str = "UTC"
    private: bool = False
    only: bool = False
    nodes: str = ""


class OverrideWish(Struct, frozen=True, forbid_unknown_fields=True):
    """An exception for once."""

    from_ms: int
    until_ms: int
    means: Means
    why: str = ""
    nodes: str = ""


class CalendarNow(Struct, frozen=True, omit_defaults=True):
    """A calendar as it stands. ``closes_ms`` is when it closes next, ``opens_ms`` when it opens
    after that, or now that it is closed (0: no closing is known). ``stale`` says which sources
    couldn't be read again, and since when they are as they are.
    """

    calendar: Calendar
    open: bool
    closes_ms: int = 0
    opens_ms: int = 0
    stale: list[str] = []


class CalendarList(Struct, frozen=True):
    """All calendars, by cluster."""

    items: list[CalendarNow]


def next_closure(windows: Sequence[Window], now_ms: int) -> Window | None:
    """From when until when a cluster is closed, the time that goes on or else the next one.

    None = it isn't known ever to close. ``windows`` are sorted and don't touch.
    """
    if not windows:
        return None
    from_ms = now_ms
    for opens_ms, closes_ms in windows:
        if closes_ms <= now_ms:
            continue
        if opens_ms > from_ms:
            return from_ms, opens_ms
        from_ms = closes_ms
        if from_ms >= FOREVER_MS:
            return None
    return from_ms, FOREVER_MS
