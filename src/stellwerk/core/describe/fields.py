"""A small engine for maps with known keys: each key has a reader, every fault is reported.

A reader takes the report, a node and the path to it, and gives the value, or None after having
reported why there is none. `read_map` applies readers to the keys of a map: unknown keys get a
suggestion, keys without a value count as absent, and reading goes on after a fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from itertools import islice
from typing import Any, TypeVar

from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.quantity import (
    SECOND_MS,
    Amount,
    BadQuantity,
    Written,
    parse_duration,
    parse_size,
)

_MOST_COMPARED = 500
IN_QUOTES = "write it in quotes: "
Reader = Callable[[Report, Node, str], Any]
_N = TypeVar("_N", int, float)


class Found:
    """The readable values of a map, by name, and where they and their keys stand."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.values: dict[str, Any] = {}
        self.nodes: dict[str, Node] = {}
        self.keys: dict[str, Node] = {}

    def get(self, name: str, default: Any = None) -> Any:
        """The value under a name; `default` if it is absent or couldn't be read."""
        return self.values.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.nodes

    def place(self, name: str) -> Node:
        """Where a key stands, for a problem with it; the map itself if it is absent."""
        return self.keys.get(name, self.node)


def read_map(
    report: Report,
    node: Node,
    path: str,
    fields: Mapping[str, Reader],
    *,
    hints: Mapping[str, str] | None = None,
    unknown: Callable[[Node, str, Node], None] | None = None,
    required: Iterable[str] = (),
) -> Found:
    """The known keys of a map.

    `hints` says for certain unknown keys what to do; `unknown` takes the others if they are
    allowed (key node, key, value node).
    """
    found = Found(node)
    if node.kind != "map":
        expected(report, node, path, "a map of keys and values")
        return found
    for entry in node.entries:
        reader = fields.get(entry.key)
        where = f"{path}.{entry.key}" if path else entry.key
        if reader is None:
            if unknown is not None and not (hints and entry.key in hints):
                unknown(entry.key_node, entry.key, entry.value)
            else:
                unknown_field(report, entry.key_node, where, entry.key, fields, hints)
            continue
        if entry.value.is_null:
            continue
        found.nodes[entry.key] = entry.value
        found.keys[entry.key] = entry.key_node
        value = read_value(reader, report, entry.value, where)
        if value is not None:
            found.values[entry.key] = value
    for name in required:
        if name not in found:
            message = f"`{path}` needs `{name}`" if path else f"`{name}` is missing"
            report.problem("spec/missing", node, f"{path}.{name}".lstrip("."), message)
    return found


def read_value(reader: Reader, report: Report, node: Node, path: str) -> Any:
    """What a reader makes of a value.

    Where it wants a text, quotes are proposed only if the value would do in quotes: else what it
    has against that is told at once.
    """
    before = len(report.problems)
    value = reader(report, node, path)
    if len(report.problems) > before and node.kind == "scalar" and node.text is None:
        new = report.problems[before:]
        if any(problem.help.startswith(IN_QUOTES) for problem in new):
            aside = Report(report.file)
            reader(aside, node.quoted(), path)
            if aside.problems:
                report.problems[before:] = aside.problems
    return value


def unknown_field(
    report: Report,
    key_node: Node,
    path: str,
    key: str,
    known: Iterable[str],
    hints: Mapping[str, str] | None = None,
) -> None:
    """Report a key that nobody knows, with the most likely one meant."""
    if report.full:
        report.problem("spec/unknown-field", key_node, path, "")
        return
    remedy = (hints or {}).get(key, "") or did_you_mean(key, known)
    report.problem("spec/unknown-field", key_node, path, f"unknown field `{key[:60]}`", remedy)


def did_you_mean(word: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """`did you mean `x`?` for the most similar of the known words, or nothing."""
    # Loaded only where something is wrong: it costs more than reading a file.
    from difflib import get_close_matches

    first = islice(known, _MOST_COMPARED)
    by_lower = {name.lower(): name for name in first if not name.startswith("_")}
    close = get_close_matches(word.lower()[:60], by_lower, n=1, cutoff=cutoff)
    return f"did you mean `{by_lower[close[0]]}`?" if close else ""


def expected(report: Report, node: Node, path: str, what: str, remedy: str = "") -> None:
    """Report that a value is of the wrong kind."""
    message = f"`{path}` takes {what}, not {node.short()}" if path else f"this takes {what}"
    report.problem("spec/type", node, path, message, remedy)


def text(report: Report, node: Node, path: str) -> str | None:
    """A text; numbers and dates need quotes."""
    if node.text is None:
        remedy = "" if node.kind != "scalar" else f'{IN_QUOTES}"{node.as_text()}"'
        expected(report, node, path, "text", remedy)
    return node.text


def filled_text(report: Report, node: Node, path: str) -> str | None:
    """A text that isn't empty."""
    value = text(report, node, path)
    if value is not None and not value.strip():
        report.problem("spec/value", node, path, f"`{path}` is empty")
        return None
    return value


def boolean(report: Report, node: Node, path: str) -> bool | None:
    """`true` or `false`."""
    if isinstance(node.value, bool):
        return node.value
    expected(report, node, path, "`true` or `false`")
    return None


def integer(least: int | None = None, most: int | None = None) -> Reader:
    """A whole number within bounds."""

    def read(report: Report, node: Node, path: str) -> int | None:
        value = node.value
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if not isinstance(value, int) or isinstance(value, bool):
            expected(report, node, path, "a whole number")
            return None
        return _bounded(report, node, path, value, least, most)

    return read


def number(least: float | None = None, *, above: float | None = None) -> Reader:
    """A finite number, whole or not, of at least `least` or more than `above`."""

    def read(report: Report, node: Node, path: str) -> float | None:
        value = node.value
        if not isinstance(value, int | float) or isinstance(value, bool):
            expected(report, node, path, "a number")
            return None
        if value != value or value in {float("inf"), -float("inf")}:  # noqa: PLR0124  (NaN)
            report.problem("spec/value", node, path, f"`{path}` must be a finite number")
            return None
        if above is not None and value <= above:
            report.problem("spec/value", node, path, f"`{path}` must be more than {above}")
            return None
        return _bounded(report, node, path, value, least, None)

    return read


def _bounded(
    report: Report, node: Node, path: str, value: _N, least: float | None, most: float | None
) -> _N | None:
    if least is not None and value < least:
        message = f"`{path}` is {node.short()}, it must be at least {least}"
    elif most is not None and value > most:
        message = f"`{path}` is {node.short()}, it may be at most {most}"
    else:
        return value
    report.problem("spec/value", node, path, message)
    return None


def one_of(names: Iterable[str], *, keep_case: bool = False) -> Reader:
    """One of some words; unless `keep_case`, in any case, and given back as listed."""
    listed = tuple(names)
    known = {name if keep_case else name.lower(): name for name in listed}

    def read(report: Report, node: Node, path: str) -> str | None:
        value = text(report, node, path)
        if value is None:
            return None
        name = known.get(value if keep_case else value.lower())
        if name is None:
            choices = ", ".join(f"`{name}`" for name in listed)
            remedy = did_you_mean(value, listed) or f"one of {choices}"
            message = f"`{path}` can't be {node.short()}"
            report.problem("spec/value", node, path, message, remedy)
        return name

    return read


def list_of(reader: Reader) -> Reader:
    """A list, every entry read by `reader`; unreadable entries are left out."""

    def read(report: Report, node: Node, path: str) -> list[Any] | None:
        if node.kind != "list":
            expected(report, node, path, "a list")
            return None
        values = (
            read_value(reader, report, item, f"{path}[{i}]") for i, item in enumerate(node.items)
        )
        return [value for value in values if value is not None]

    return read


def map_of(reader: Reader) -> Reader:
    """A map with free keys, every value read by `reader`; unreadable ones are left out."""

    def read(report: Report, node: Node, path: str) -> dict[str, Any] | None:
        if node.kind != "map":
            expected(report, node, path, "a map of keys and values")
            return None
        values = (
            (e.key, read_value(reader, report, e.value, f"{path}.{e.key}")) for e in node.entries
        )
        return {key: value for key, value in values if value is not None}

    return read


def plain(report: Report, node: Node, path: str) -> Any:  # noqa: ARG001  (a reader)
    """Any value, as plain data."""
    return node.plain()


def plain_map(report: Report, node: Node, path: str) -> dict[str, Any] | None:
    """A map with anything in it, as plain data."""
    if node.kind != "map":
        expected(report, node, path, "a map of keys and values")
        return None
    value: dict[str, Any] = node.plain()
    return value


def amount(parse: Callable[[Written], Amount | BadQuantity]) -> Reader:
    """A quantity that may be a lower bound."""

    def read(report: Report, node: Node, path: str) -> Amount | None:
        found = parse(node.value) if _written(report, node, path) else None
        if isinstance(found, BadQuantity):
            report.problem("spec/value", node, path, f"`{path}`: {found.message}", found.help)
            return None
        return found

    return read


def duration(bare: int = SECOND_MS) -> Reader:
    """A time span in milliseconds; a number alone counts in `bare` milliseconds."""

    def read(report: Report, node: Node, path: str) -> int | None:
        found = parse_duration(node.value, bare=bare) if _written(report, node, path) else None
        if isinstance(found, BadQuantity):
            report.problem("spec/value", node, path, f"`{path}`: {found.message}", found.help)
            return None
        return found

    return read


def size(report: Report, node: Node, path: str) -> int | None:
    """A size in bytes; a number alone counts in GiB."""
    found = parse_size(node.value) if _written(report, node, path) else None
    if isinstance(found, BadQuantity):
        report.problem("spec/value", node, path, f"`{path}`: {found.message}", found.help)
        return None
    return found


def _written(report: Report, node: Node, path: str) -> bool:
    if isinstance(node.value, str | int | float) and not isinstance(node.value, bool):
        return True
    expected(report, node, path, "a number or a text such as `4+`")
    return False
