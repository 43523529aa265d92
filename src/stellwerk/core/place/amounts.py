"""Writes amounts of resources for people, so that what is offered can be asked for as written."""

from math import ceil

from stellwerk.core.model.quantity import show_bytes


def amount(value: int, unit: str, *, down: bool = False) -> str:
    """Writes an amount: ``1.5`` (CPUs), ``16 GiB``, ``2``. ``down`` never writes more than it is.

    CPUs and counts are exact; bytes have three digits.
    """
    if unit == "milli":
        return _trimmed(f"{value // 1000}.{value % 1000:03}")
    if unit == "bytes":
        return show_bytes(value, down=down)
    return str(value)


def apart(wanted: int, less: int, unit: str) -> str:
    """Writes ``wanted`` with as many digits as it takes to differ from ``less`` written down."""
    if unit != "bytes" or wanted == less:
        return amount(wanted, unit)
    for digits in range(3, 20):
        text = show_bytes(wanted, digits)
        if text != show_bytes(less, digits, down=True) and text != show_bytes(less, down=True):
            return text
    return f"{wanted} B"


def _trimmed(number: str) -> str:
    return number.rstrip("0").rstrip(".") if "." in number else number


def digits(value: float) -> str:
    """Writes a number with all of its digits that count: ``9``, ``74.71``, ``1234567.89``."""
    return f"{value:.12g}"


def limit_that_admits(value: float) -> float:
    """The least whole number of cents, or of hundredths, that isn't below a number."""
    hundredths = ceil(value * 100 - 1e-6)
    return hundredths / 100 if hundredths / 100 >= value else (hundredths + 1) / 100
