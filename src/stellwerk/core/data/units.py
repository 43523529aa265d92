"""Writes amounts of data, spans of time, money and energy for people.

Data counts in powers of 1000, as links and prices do: 1 GB = 10^9 bytes. An amount that was plainly
meant in powers of 1024 (whole MiB and no whole MB) is shown so, with the `i` of `GiB`.
"""

import math

GB = 1_000_000_000

_DECIMAL = ("B", "kB", "MB", "GB", "TB", "PB")
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_MB, _MIB = 1000**2, 1024**2


def show_data(count: float) -> str:
    """`0 B`, `812 kB`, `137.8 GB`, `212 GB`, `450 GiB`; GB are told as such up to 10 TB."""
    value, unit, _ = _scaled(count)
    return f"{_number(value, unit)} {unit}"


def show_share(part: float, whole: float) -> str:
    """`450 of 450 GB`, `171.9 of 322.5 GB`, `0 of 2 GB`: both in the unit of the whole."""
    value, unit, size = _scaled(whole)
    shown = _number(value, unit)
    if not part or part == whole:
        return f"{shown if part else 0} of {shown} {unit}"
    scaled = part / size
    return f"{_trimmed(scaled, 1 if scaled >= 0.1 else 3)} of {shown} {unit}"


def show_span(seconds: float) -> str:
    """`0.4 s`, `43.6 s`, `4 min 36 s`, `27 min`, `2 h 10 min`, `3 d 4 h`: two units, rounded."""
    if seconds < 0:
        return f"-{show_span(-seconds)}"
    if seconds < 59.95:
        return f"{_trimmed(seconds, 1)} s"
    if seconds < 599.5:
        return _two(round(seconds), 60, "min", "s")
    if seconds < 3570:
        return f"{round(seconds / 60)} min"
    if seconds < 86_370:
        return _two(round(seconds / 60), 60, "h", "min")
    return _two(round(seconds / 3600), 24, "d", "h")


def at_least_data(count: float) -> str:
    """An amount that is shown rounded up: so much more is enough."""
    value, unit, _ = _scaled(count)
    step = 1 if unit == "B" or value >= 1000 else 0.1
    return f"{_number(_up(value, step), unit)} {unit}"


def at_least_span(seconds: float) -> str:
    """A span that is shown rounded up: so much shorter or later is enough."""
    for limit, step in ((59.95, 0.1), (599.5, 1), (86_370, 60)):
        if seconds < limit:
            return show_span(_up(seconds, step))
    return show_span(_up(seconds, 3600))


def _up(value: float, step: float) -> float:
    # What is a whole number of steps but for the way numbers are kept stays that.
    return math.ceil(value / step - 1e-6) * step


def show_usd(amount: float) -> str:
    """`0 USD`, `0.004 USD`, `3.20 USD`, `90 USD`, `1,234.50 USD`: cents where there are any."""
    if amount and abs(amount) < 0.01:
        return f"{amount:.1g} USD"
    text = f"{amount:,.2f}"
    return f"{text.removesuffix('.00')} USD"


def show_energy(kilowatt_hours: float) -> str:
    """`0.3 kWh`, `12.5 kWh`, `1,240 kWh`."""
    return f"{_trimmed(kilowatt_hours, 0 if abs(kilowatt_hours) >= 1000 else 2)} kWh"


def show_rate(bits_per_s: float) -> str:
    """`100 Mbit/s`, `2.5 Gbit/s`: powers of 1000, as links are sold."""
    for size, unit in ((1e12, "Tbit/s"), (1e9, "Gbit/s"), (1e6, "Mbit/s"), (1e3, "kbit/s")):
        if abs(bits_per_s) >= size:
            return f"{_trimmed(bits_per_s / size, 1)} {unit}"
    return f"{_trimmed(bits_per_s, 1)} bit/s"


def _two(count: int, per: int, large: str, small: str) -> str:
    whole, rest = divmod(count, per)
    return f"{whole} {large} {rest} {small}" if rest else f"{whole} {large}"


def _trimmed(value: float, digits: int) -> str:
    text = f"{value:,.{digits}f}"
    return text.rstrip("0").rstrip(".") if digits else text


def _scaled(count: float) -> tuple[float, str, float]:
    """A number of a unit, and the bytes of that unit."""
    binary = abs(count) >= _MIB and count % _MIB == 0 and count % _MB != 0
    names, base = (_BINARY, 1024.0) if binary else (_DECIMAL, 1000.0)
    value, size, unit = float(count), 1.0, names[0]
    for unit in names:
        limit = 10_000 if unit in {"GB", "GiB"} else 1000
        if abs(value) < limit or unit == names[-1]:
            break
        value, size = value / base, size * base
    return value, unit, size


def _number(value: float, unit: str) -> str:
    return _trimmed(value, 0 if unit == "B" or abs(value) >= 1000 else 1)
