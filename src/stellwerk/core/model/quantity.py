"""Decides what a written amount means: milli-CPU, bytes and milliseconds, exactly, as integers.

Both ways of writing are understood: the one of task files (`4+`, `16GB+`, a bare number of memory
is GiB) and the one of Kubernetes (`500m`, `64Gi`). All memory units count in powers of 1024, as
SkyPilot has it: `GB`, `GiB`, `Gi` and `G` are the same. What isn't a whole unit is rounded up, so a
request never shrinks by being read. A text that means nothing gives a `BadQuantity`, a value to be
reported, never an exception.

`write_*` gives the shortest text that reads back as the same amount; `show_*` is for people and
may round.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB
TIB = 1024 * GIB
PIB = 1024 * TIB

SECOND_MS = 1000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS
WEEK_MS = 7 * DAY_MS

LARGEST = 2**60
"""The largest amount in any unit: beyond it a number is a slip of the hand, not a wish."""


class Amount(Struct, frozen=True):
    """A quantity that is meant exactly (`4`) or as a lower bound (`4+`), in integer units."""

    value: int
    at_least: bool = False


class BadQuantity(Struct, frozen=True):
    """Why a text isn't an amount, and how to write one."""

    message: str
    help: str


Written = str | int | float

_BYTES = {"": 0, "b": 1}
for _letter, _size in (("k", KIB), ("m", MIB), ("g", GIB), ("t", TIB), ("p", PIB)):
    for _ending in ("", "b", "i", "ib"):
        _BYTES[_letter + _ending] = _size
_TIMES = {
    "ms": 1,
    "s": SECOND_MS,
    "sec": SECOND_MS,
    "secs": SECOND_MS,
    "second": SECOND_MS,
    "seconds": SECOND_MS,
    "m": MINUTE_MS,
    "min": MINUTE_MS,
    "mins": MINUTE_MS,
    "minute": MINUTE_MS,
    "minutes": MINUTE_MS,
    "h": HOUR_MS,
    "hr": HOUR_MS,
    "hrs": HOUR_MS,
    "hour": HOUR_MS,
    "hours": HOUR_MS,
    "d": DAY_MS,
    "day": DAY_MS,
    "days": DAY_MS,
    "w": WEEK_MS,
    "week": WEEK_MS,
    "weeks": WEEK_MS,
}
_NUMBER = re.compile(r"([0-9]{1,19})(?:\.([0-9]{0,18}))?(?:[eE]([+-]?[0-9]{1,2}))?", re.ASCII)
_WITH_UNIT = re.compile(r"([0-9][0-9.]*(?:[eE][+-]?[0-9]{1,2})?)\s*([A-Za-z]*)", re.ASCII)
_TIME_PART = re.compile(r"([0-9][0-9.]*)\s*([A-Za-z]*)\s*", re.ASCII)

CPUS_HELP = "write a number of CPUs such as `4`, `0.5` or `500m`, or `4+` for at least 4"
MEMORY_HELP = "write `16` (GiB), `16GB` or `64Gi`, or `16+` for at least 16 GiB"
SIZE_HELP = "write `100` (GiB), `100GB` or `1Ti`"
DURATION_HELP = "write `30m`, `2h` or `1d12h`"


def parse_cpus(written: Written) -> Amount | BadQuantity:
    """CPUs in milli-CPU: `4`, `0.5`, `500m`, each with `+` for at least."""
    text, at_least = _without_plus(written)
    number, unit = text, 1000
    if text.endswith("m"):
        number, unit = text[:-1], 1
    return _amount(written, _scaled(number, unit), at_least, "a number of CPUs", CPUS_HELP)


def parse_memory(written: Written, *, bare: int = GIB) -> Amount | BadQuantity:
    """Memory in bytes, with `+` for at least; a number without unit counts in `bare` bytes."""
    text, at_least = _without_plus(written)
    return _amount(written, _bytes(text, bare), at_least, "an amount of memory", MEMORY_HELP)


def parse_size(written: Written, *, bare: int = GIB) -> int | BadQuantity:
    """A size in bytes; a number without unit counts in `bare` bytes."""
    size = _amount(written, _bytes(_text(written), bare), False, "a size", SIZE_HELP)
    return size.value if isinstance(size, Amount) else size


def parse_duration(written: Written, *, bare: int = SECOND_MS) -> int | BadQuantity:
    """A time span in milliseconds: parts add up (`1d12h`); a number alone counts in `bare`."""
    text = _text(written)
    total, position, used = 0, 0, 0
    while match := _TIME_PART.match(text, position):
        number, unit = match.group(1), match.group(2).lower()
        alone = not unit and match.end() == len(text) and position == 0
        scale = bare if alone else _TIMES.get(unit, 0)
        part = _scaled(number, scale) if scale else None
        if part is None:
            break
        total, position, used = total + part, match.end(), used + 1
    if not used or position != len(text):
        return BadQuantity(f"`{_shortened(written)}` isn't a time span", DURATION_HELP)
    if total > LARGEST:
        return BadQuantity(f"`{_shortened(written)}` is too long a time", DURATION_HELP)
    return total


def write_cpus(milli: int) -> str:
    """`4` or `1500m`: reads back as the same amount."""
    return f"{milli}m" if milli % 1000 else str(milli // 1000)


def write_bytes(size: int) -> str:
    """`18Gi`, or smaller units as far as needed: reads back as the same amount."""
    for unit, name in ((PIB, "Pi"), (TIB, "Ti"), (GIB, "Gi"), (MIB, "Mi"), (KIB, "Ki")):
        if size and size % unit == 0:
            return f"{size // unit}{name}"
    return f"{size}b"


def write_duration(span_ms: int) -> str:
    """`1d12h`: reads back as the same amount."""
    if span_ms == 0:
        return "0s"
    text, rest = "", span_ms
    parts = ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "m"), (SECOND_MS, "s"), (1, "ms"))
    for unit, name in parts:
        count, rest = divmod(rest, unit)
        if count:
            text += f"{count}{name}"
    return text


def write_amount(amount: Amount, write: Callable[[int], str]) -> str:
    """An amount with its `+` where it is a lower bound."""
    return write(amount.value) + ("+" if amount.at_least else "")


def show_cpus(milli: int) -> str:
    """`4` or `1.5`, for people."""
    return _rounded(milli, 1000, 3)


def show_bytes(size: int, digits: int = 3, *, down: bool = False) -> str:
    """`17.5 GiB`, for people: three digits, or all before the point. ``down`` never tells more than
    it is.
    """
    units = ((PIB, "PiB"), (TIB, "TiB"), (GIB, "GiB"), (MIB, "MiB"), (KIB, "KiB"))
    unit, name = next((one for one in units if abs(size) >= one[0]), (1, "B"))
    places = max(0, digits - len(str(abs(size) // unit)))
    return f"{_rounded(size, unit, places, down=down)} {name}"


def show_duration(span_ms: int) -> str:
    """`1 d 12 h`, `2 h 10 min`, `45 s`, for people: the two largest units."""
    parts = ((DAY_MS, "d"), (HOUR_MS, "h"), (MINUTE_MS, "min"), (SECOND_MS, "s"), (1, "ms"))
    for place, (unit, name) in enumerate(parts):
        if span_ms < unit:
            continue
        count, rest = divmod(span_ms, unit)
        text = f"{count} {name}"
        if place + 1 < len(parts) - 1:
            smaller, smaller_name = parts[place + 1]
            if rest // smaller:
                text += f" {rest // smaller} {smaller_name}"
        return text
    return "0 s"


def _text(written: Written) -> str:
    return written.strip() if isinstance(written, str) else repr(written)


def _shortened(written: Written) -> str:
    text = str(written)
    return text if len(text) <= 40 else text[:37] + "…"


def _without_plus(written: Written) -> tuple[str, bool]:
    text = _text(written)
    return (text[:-1].rstrip(), True) if text.endswith("+") else (text, False)


def _scaled(number: str, unit: int) -> int | None:
    """A decimal number times a unit, rounded up; None if it isn't a plain number."""
    match = _NUMBER.fullmatch(number)
    if match is None:
        return None
    whole, part, exponent = match.group(1), match.group(2) or "", int(match.group(3) or 0)
    up: int = 10 ** max(exponent, 0)
    down: int = 10 ** (len(part) + max(-exponent, 0))
    return -(-int(whole + part) * unit * up // down)


def _bytes(text: str, bare: int) -> int | None:
    match = _WITH_UNIT.fullmatch(text)
    unit = _BYTES.get(match.group(2).lower()) if match else None
    if match is None or unit is None:
        return None
    return _scaled(match.group(1), unit or bare)


def _amount(
    written: Written, value: int | None, at_least: bool, what: str, help: str
) -> Amount | BadQuantity:
    if value is None:
        return BadQuantity(f"`{_shortened(written)}` isn't {what}", help)
    if value == 0:
        return BadQuantity(f"`{_shortened(written)}` is nothing: {what} must be more than 0", help)
    if value > LARGEST:
        return BadQuantity(f"`{_shortened(written)}` is too much to be {what}", help)
    return Amount(value, at_least)


def _rounded(value: int, unit: int, digits: int, *, down: bool = False) -> str:
    if value < 0:
        return f"-{_rounded(-value, unit, digits)}"
    scaled = (value * 10**digits * 2 + (0 if down else unit)) // (unit * 2)
    whole, part = divmod(scaled, 10**digits)
    fraction = str(part).rjust(digits, "0").rstrip("0") if digits else ""
    return f"{whole}.{fraction}" if fraction else str(whole)
