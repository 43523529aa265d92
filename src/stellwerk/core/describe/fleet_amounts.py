"""Decides what amounts in a fleet file mean: Kubernetes quantities, rates, latencies, moments.

Kubernetes' own units are exact here (`1k` is 1000, `1Ki` 1024), because scores are computed from
them. Sizes of data are as exact (`412GB` is 412 thousand million bytes, `412GiB` more), as links
and prices are; memory and disk of nodes (`64GB`) are read as in task files.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

from stellwerk.core.describe.fields import Reader, expected
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.quantity import BadQuantity, Written

KUBERNETES_HELP = "write a Kubernetes quantity such as `500m`, `4` or `64Gi`"
RATE_HELP = "write `10Gbit/s` (bits) or `1.2GB/s` (bytes)"
SIZE_HELP = "write `412GB` (10^9 bytes), `384GiB` (2^30) or a number of GB"
LATENCY_HELP = "write `12ms` or `1.5s`"
MOMENT_HELP = "write `2026-12-01T18:00:00Z`, or with an offset such as `+01:00`"
_QUANTITY = re.compile(r"\+?([0-9]{1,25}(?:\.[0-9]{0,12})?|\.[0-9]{1,12})(.{0,4})")
_EXPONENT = re.compile(r"[eE]([+-]?[0-9]{1,2})")
_POWERS = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 1, "Mi": 2, "Gi": 3, "Ti": 4, "Pi": 5, "Ei": 6}
_RATE = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)\s*([kMGT]?)(bit/?s|bps|b/s|B/s|Bps)")
_SCALES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_LATENCY = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,6})?)\s*(ms|s|us)")
_LATENCIES = {"us": 0.001, "ms": 1.0, "s": 1000.0}
_SIZE = re.compile(r"([0-9]{1,19}(?:\.[0-9]{0,12})?)\s*(?:([kmgtp]?)(i?)b?)", re.IGNORECASE)
_MOST_BYTES = 2**60
_PERCENT = re.compile(r"([0-9]{1,3}(?:\.[0-9]{1,6})?)\s*%")
_MOST_MILLI = 2**80


def parse_kubernetes(written: Written) -> int | BadQuantity:
    """A Kubernetes quantity in thousandths, rounded up: `500m` is 500, `1Ki` is 1,024,000."""
    text = written.strip() if isinstance(written, str) else repr(written)
    wrong = BadQuantity(f"`{text[:40]}` isn't a quantity", KUBERNETES_HELP)
    match = _QUANTITY.fullmatch(text)
    if match is None:
        return wrong
    whole, _, part = match[1].partition(".")
    number, down = int((whole or "0") + part), 10 ** len(part)
    up, suffix = 1000, match[2]
    exponent = _EXPONENT.fullmatch(suffix)
    power = int(exponent[1]) if exponent else _POWERS.get(suffix)
    if suffix in _BINARY:
        up *= 1024 ** _BINARY[suffix]
    elif power is None:
        return wrong
    else:
        up, down = up * 10 ** max(power, 0), down * 10 ** max(-power, 0)
    milli: int = -(-number * up // down)
    return milli if milli <= _MOST_MILLI else wrong


def write_kubernetes(milli: int) -> str:
    """The shortest quantity that reads back as so many thousandths."""
    if milli % 1000:
        return f"{milli}m"
    whole = milli // 1000
    for name, power in reversed(_BINARY.items()):
        if whole and whole % 1024**power == 0:
            return f"{whole // 1024**power}{name}"
    return str(whole)


def quantity(report: Report, node: Node, path: str) -> int | None:
    """A reader of Kubernetes quantities, in thousandths."""
    value = node.value
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        expected(report, node, path, "a quantity", KUBERNETES_HELP)
        return None
    return _told(report, node, path, parse_kubernetes(value))


def rate(report: Report, node: Node, path: str) -> float | None:
    """Bits a second."""
    match = _RATE.fullmatch(node.text.strip()) if node.text else None
    if match is None or float(match[1]) == 0:
        _refused(report, node, path, f"{node.short()} isn't a rate", RATE_HELP)
        return None
    unit = 8.0 if match[3].startswith("B") else 1.0
    return float(match[1]) * _SCALES[match[2]] * unit


def write_rate(bits_per_s: float) -> str:
    """The text that reads back as the same rate, to six digits."""
    for name, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if bits_per_s >= scale:
            return f"{bits_per_s / scale:.6g}{name}bit/s"
    return f"{bits_per_s:.6g}bit/s"


def latency(report: Report, node: Node, path: str) -> float | None:
    """Milliseconds."""
    match = _LATENCY.fullmatch(node.text.strip()) if node.text else None
    if match is None:
        _refused(report, node, path, f"{node.short()} isn't a latency", LATENCY_HELP)
        return None
    return float(match[1]) * _LATENCIES[match[2]]


def data_size(report: Report, node: Node, path: str) -> int | None:
    """Bytes of data: `412GB` by powers of 1000, `384GiB` of 1024; a number alone counts in GB."""
    written = node.value
    is_text = isinstance(written, str | int | float) and not isinstance(written, bool)
    found = parse_data_size(str(written).strip()) if is_text else None
    if found is None:
        _refused(report, node, path, f"{node.short()} isn't a size", SIZE_HELP)
    elif found == 0:
        _refused(report, node, path, f"{node.short()} is nothing", SIZE_HELP)
    elif found > _MOST_BYTES:
        _refused(report, node, path, f"{node.short()} is too much", SIZE_HELP)
    else:
        return found
    return None


def parse_data_size(text: str) -> int | None:
    """A size of data in bytes, rounded up; None if it isn't one."""
    match = _SIZE.fullmatch(text)
    if match is None or (match[3] and not match[2]):
        return None
    whole, _, rest = match[1].partition(".")
    bare = text == match[1]
    power = "bkmgtp".index("g" if bare else match[2].lower() or "b")
    unit: int = (1024 if match[3] else 1000) ** power
    size: int = -(-int(whole + rest) * unit // 10 ** len(rest))
    return size


def part(report: Report, node: Node, path: str) -> float | None:
    """A part of a whole, 0 to 1: `0.98` or `98%`."""
    value = node.value
    if node.text and (match := _PERCENT.fullmatch(node.text.strip())):
        value = float(match[1]) / 100
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    _refused(report, node, path, f"{node.short()} isn't a part of a whole", "write `0.98` or `98%`")
    return None


def moment(report: Report, node: Node, path: str) -> int | None:
    """A moment in milliseconds since 1970, UTC; one without a zone could mean any."""
    value = node.value
    if isinstance(value, str):
        value = parse_moment(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return round(value.timestamp() * 1000)
    if isinstance(value, date):
        _refused(report, node, path, f"{node.short()} has no time zone", MOMENT_HELP)
        return None
    _refused(report, node, path, f"{node.short()} isn't a moment", MOMENT_HELP)
    return None


def parse_moment(written: str) -> datetime | None:
    """A moment as RFC 3339 has it."""
    try:
        return datetime.fromisoformat(written.strip())
    except ValueError:
        return None


def write_moment(at_ms: int) -> str:
    """`2026-12-01T18:00:00Z`, with thousandths where there are any."""
    whole = datetime.fromtimestamp(at_ms // 1000, UTC).strftime("%Y-%m-%dT%H:%M:%S")
    return f"{whole}.{at_ms % 1000:03d}Z" if at_ms % 1000 else f"{whole}Z"


def from_text(reader: Reader) -> Reader:
    """A reader for annotations: their values are texts, numbers included."""

    def read(report: Report, node: Node, path: str) -> object:
        if node.text is None:
            expected(report, node, path, "text", f'write it in quotes: "{node.value}"')
            return None
        written = node.text.strip()
        number = _number(written)
        plain = Node("scalar", node.line, node.column, written if number is None else number)
        return reader(report, plain, path)

    return read


def _number(written: str) -> int | float | None:
    try:
        return int(written) if written.lstrip("+-").isdigit() else float(written)
    except ValueError:
        return None


def _told(report: Report, node: Node, path: str, found: int | BadQuantity) -> int | None:
    if isinstance(found, BadQuantity):
        _refused(report, node, path, found.message, found.help)
        return None
    return found


def _refused(report: Report, node: Node, path: str, message: str, remedy: str) -> None:
    report.problem("spec/value", node, path, f"`{path}`: {message}", remedy)
