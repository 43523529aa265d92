"""Decides what a selector asks, as Kubernetes objects have it and as text (`tier in (a,b), !old`).

Both ways are the same conditions. What would silently match nothing, or everything, is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

from stellwerk.core.describe.fields import (
    expected,
    filled_text,
    list_of,
    one_of,
    read_map,
    text,
)
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.selectors import Operator, Requirement, Selector

OPERATORS: tuple[Operator, ...] = ("In", "NotIn", "Exists", "DoesNotExist")
SELECTOR_HELP = "write `gdpr`, `!old`, `tier=gold`, `tier!=test` or `compliance in (gdpr,iso27001)`"
_BARE = {"Exists", "DoesNotExist"}
_PART = re.compile(
    r"""\s*(?:
        (?P<absent>!)\s*(?P<absent_key>[^\s!=,()]+)
      | (?P<key>[^\s!=,()]+)\s*
        (?:(?P<sign>!=|==|=)\s*(?P<value>[^\s!=,()]*)
         | \s(?P<word>in|notin)\s*\((?P<values>[^()]*)\)
        )?
    )\s*(?:,|$)""",
    re.VERBOSE,
)


LONGEST_LABEL = 63
"""What Kubernetes allows for the value of a label."""
LONGEST_TEXT = 262_144
"""What Kubernetes allows for all annotations of an object together."""


def labels(report: Report, node: Node, path: str) -> dict[str, str] | None:
    """Labels: a map of texts. One that Kubernetes would refuse is accepted, and that is told."""
    found = texts(report, node, path)
    for entry in node.entries:
        size = len(entry.value.text or "")
        if LONGEST_LABEL < size <= LONGEST_TEXT:
            where = f" (line {entry.value.line})" if entry.value.line else ""
            message = f"`{path}.{entry.key[:80]}`{where} has {size} characters"
            remedy = f"Kubernetes allows {LONGEST_LABEL} in the value of a label"
            report.notice("spec/long-label", entry.value, path, message, remedy)
    return found


def texts(report: Report, node: Node, path: str) -> dict[str, str] | None:
    """A map of texts: labels, claims, annotations. Numbers and switches need quotes."""
    if node.kind != "map":
        expected(report, node, path, "a map of keys and texts")
        return None
    found: dict[str, str] = {}
    for entry in node.entries:
        value = entry.value.value
        if isinstance(value, str) and len(value) > LONGEST_TEXT:
            message = f"`{path}.{entry.key[:80]}` has {len(value):,} characters"
            remedy = f"at most {LONGEST_TEXT:,} may be"
            report.problem("spec/too-large", entry.value, path, message, remedy)
        elif isinstance(value, str):
            found[entry.key] = value
        elif entry.value.is_null:
            found[entry.key] = ""
        else:
            text(report, entry.value, f"{path}.{entry.key}")
    return found


def requirement(report: Report, node: Node, path: str) -> Requirement | None:
    """One entry of `matchExpressions`."""
    found = read_map(
        report,
        node,
        path,
        {
            "key": filled_text,
            "operator": one_of(OPERATORS, keep_case=True),
            "values": list_of(text),
        },
        required=("key", "operator"),
    )
    key, operator, values = found.get("key"), found.get("operator"), found.get("values") or []
    if key is None or operator is None:
        return None
    if operator in _BARE and values:
        message = f"`{path}`: `{operator}` takes no values"
        remedy = "remove `values`, or use `In`"
        report.problem("spec/selector", found.place("values"), path, message, remedy)
        return None
    if operator not in _BARE and not values:
        message = f"`{path}`: `{operator}` needs values"
        remedy = "list them under `values`, or use `Exists`"
        report.problem("spec/selector", found.place("operator"), path, message, remedy)
        return None
    return Requirement(key, operator, tuple(values))


def selector(report: Report, node: Node, path: str) -> Selector | None:
    """A `labelSelector`: `matchLabels` and `matchExpressions`, all of which must hold."""
    fields = {"matchLabels": texts, "matchExpressions": list_of(requirement)}
    found = read_map(report, node, path, fields)
    return Selector(found.get("matchLabels", {}), tuple(found.get("matchExpressions", ())))


def claim_selector(report: Report, node: Node, path: str) -> tuple[Requirement, ...]:
    """A `claimSelector`, which has `matchExpressions` alone."""
    hints = {"matchLabels": "claims are selected by `matchExpressions`"}
    fields = {"matchExpressions": list_of(requirement)}
    found = read_map(report, node, path, fields, hints=hints)
    return tuple(found.get("matchExpressions", ()))


def selector_text(report: Report, node: Node, path: str) -> tuple[Requirement, ...] | None:
    """A selector written as text, in the words of `kubectl -l`."""
    written = filled_text(report, node, path)
    if written is None:
        return None
    found = parse_selector(written)
    if isinstance(found, str):
        report.problem("spec/selector", node, path, f"`{path}`: {found}", SELECTOR_HELP)
        return None
    return found


def parse_selector(written: str) -> tuple[Requirement, ...] | str:
    """The conditions of a text, or what can't be understood in it."""
    found: list[Requirement] = []
    position = 0
    while position < len(written):
        match = _PART.match(written, position)
        if match is None:
            rest = written[position:].strip()[:40]
            return f"`{rest}` isn't a condition"
        found.append(_condition(match))
        position = match.end()
    if not found or written.rstrip().endswith(","):
        return "a condition is missing"
    return tuple(found)


def _condition(match: re.Match[str]) -> Requirement:
    if match["absent"]:
        return Requirement(match["absent_key"], "DoesNotExist")
    key = match["key"]
    if match["word"]:
        values = tuple(value.strip() for value in match["values"].split(","))
        return Requirement(key, "In" if match["word"] == "in" else "NotIn", values)
    if match["sign"]:
        return Requirement(key, "NotIn" if match["sign"] == "!=" else "In", (match["value"],))
    return Requirement(key, "Exists")


def write_selector(requirements: Iterable[Requirement]) -> str:
    """The text that reads back as the same conditions."""
    return ", ".join(_written(each) for each in requirements)


def _written(condition: Requirement) -> str:
    if condition.operator == "Exists":
        return condition.key
    if condition.operator == "DoesNotExist":
        return f"!{condition.key}"
    if len(condition.values) == 1:
        sign = "=" if condition.operator == "In" else "!="
        return f"{condition.key}{sign}{condition.values[0]}"
    word = "in" if condition.operator == "In" else "notin"
    return f"{condition.key} {word} ({','.join(condition.values)})"


def requirement_object(condition: Requirement) -> dict[str, Any]:
    """An entry of `matchExpressions`."""
    given: dict[str, Any] = {"key": condition.key, "operator": condition.operator}
    return given | ({"values": list(condition.values)} if condition.values else {})


def selector_object(given: Selector) -> dict[str, Any]:
    """A `labelSelector`."""
    found: dict[str, Any] = {}
    if given.equal:
        found["matchLabels"] = dict(given.equal)
    if given.requirements:
        found["matchExpressions"] = [requirement_object(each) for each in given.requirements]
    return found


def claims_object(requirements: Iterable[Requirement]) -> dict[str, Any]:
    """A `claimSelector`."""
    return {"matchExpressions": [requirement_object(each) for each in requirements]}
