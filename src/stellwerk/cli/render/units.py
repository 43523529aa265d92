"""Writes amounts and times the way people read them."""

from datetime import UTC, datetime

from stellwerk.core.model.quantity import show_bytes


def size(count: float) -> str:
    """`0 B`, `812 KiB`, `1.54 GiB`: in powers of 1024, as everywhere."""
    return show_bytes(round(count))


def duration(ms: float) -> str:
    """`80 ms`, `4.2 s`, `3 min 10 s`, `2 h 05 min`, `3 d 4 h`: the two largest units."""
    if ms < 0:
        return f"-{duration(-ms)}"
    if ms < 1000:
        return f"{ms:.0f} ms"
    seconds = ms / 1000
    if seconds < 60:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    minutes, second = divmod(whole, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    if days:
        return f"{days} d {hour} h" if hour else f"{days} d"
    if hours:
        return f"{hours} h {minute:02} min"
    return f"{minutes} min {second:02} s" if minutes < 10 and second else f"{minutes} min"


def age(then_ms: int | None, now_ms: int) -> str:
    """How long ago, coarsely, for a column of a list; `-` for what hasn't happened."""
    if not then_ms:
        return "-"
    seconds = max(0, now_ms - then_ms) // 1000
    for limit, divisor, unit in ((60, 1, "s"), (3600, 60, "min"), (86_400, 3600, "h")):
        if seconds < limit:
            return f"{seconds // divisor} {unit}"
    return f"{seconds // 86_400} d"


def clock(at_ms: int, now_ms: int) -> str:
    """Local time of day; with the date when it isn't today's."""
    at, now = _local(at_ms), _local(now_ms)
    return at.strftime("%H:%M:%S") if at.date() == now.date() else at.strftime("%Y-%m-%d %H:%M:%S")


def rfc3339(at_ms: int) -> str:
    """`2026-11-30T16:45:01.123Z`."""
    at = datetime.fromtimestamp(at_ms / 1000, UTC)
    return at.strftime("%Y-%m-%dT%H:%M:%S.") + f"{at_ms % 1000:03d}Z"


def plural(count: int, one: str, many: str = "") -> str:
    """`1 file`, `3 files`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def _local(at_ms: int) -> datetime:
    return datetime.fromtimestamp(at_ms / 1000, UTC).astimezone()
