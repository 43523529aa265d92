"""Decides what a rollout strategy (cluster.open-cluster-management.io/v1alpha1) says.

Its three types have one and the same settings, each below a key of its own; those of another type
than the one that is asked for don't count, and are still read, so that their faults are told.
"""

from __future__ import annotations

import re
from typing import Any

from stellwerk.core.describe.bounds import Bounds
from stellwerk.core.describe.fields import (
    Found,
    Reader,
    expected,
    integer,
    list_of,
    one_of,
    read_map,
    text,
)
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.reader import read_documents
from stellwerk.core.model.errors import SpecError
from stellwerk.core.model.quantity import BadQuantity, parse_duration
from stellwerk.core.model.rollout import MandatoryGroup, Portion, RolloutStrategy

TYPES = {
    "All": "all",
    "Progressive": "progressive",
    "ProgressivePerGroup": "progressivePerGroup",
}
NEVER = "None"
_BOUNDS = Bounds(what="a rollout strategy", remedy="a strategy is a few lines")
_FILE_HELP = "`type: Progressive` and its settings below `progressive:`"
_PERCENT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)%")
_SPAN = re.compile(r"(\d+(\.\d*)?(h|m|s|ms))+|0")
_SPAN_HELP = "write it like `5m`, `90s` or `1h30m`"


def read_rollout_strategy(text_: str, *, file: str = "") -> RolloutStrategy:
    """The strategy that a file holds. Raises SpecError with all problems."""
    report = Report(file)
    documents = [node for node in read_documents(text_, report, _BOUNDS) if not node.is_null]
    found = None
    if len(documents) == 1:
        found = rollout_strategy(report, documents[0], "")
    elif not report.problems:
        at = documents[1] if documents else Node("scalar", 1, 1)
        report.problem("spec/value", at, "", "the file holds one strategy", _FILE_HELP)
    report.finish()
    if found is None:
        raise SpecError.of("spec/value", "this isn't a rollout strategy")
    return found


def rollout_strategy(report: Report, node: Node, path: str) -> RolloutStrategy | None:
    """Reads a strategy; None after having reported why it can't be read."""
    before = len(report.problems)
    fields: dict[str, Reader] = {"type": one_of(tuple(TYPES))}
    fields |= dict.fromkeys(TYPES.values(), _settings)
    found = read_map(report, node, path, fields, required=("type",))
    if len(report.problems) > before:
        return None
    kind = found.get("type")
    settings: dict[str, Any] = found.get(TYPES[kind]) or {}
    return RolloutStrategy(type=kind, **settings)


def _settings(report: Report, node: Node, path: str) -> dict[str, Any]:
    found = read_map(
        report,
        node,
        path,
        {
            "mandatoryDecisionGroups": list_of(_mandatory),
            "maxConcurrency": _portion,
            "maxFailures": _portion,
            "minSuccessTime": _span,
            "progressDeadline": _deadline,
        },
    )
    named = {
        "mandatory": "mandatoryDecisionGroups",
        "max_concurrency": "maxConcurrency",
        "max_failures": "maxFailures",
        "soak_ms": "minSuccessTime",
    }
    settings = {own: found.get(key) for own, key in named.items() if found.get(key) is not None}
    if "mandatory" in settings:
        settings["mandatory"] = tuple(settings["mandatory"])
    deadline = found.get("progressDeadline")
    if deadline is not None and deadline != NEVER:
        settings["deadline_ms"] = deadline
    return settings


def _mandatory(report: Report, node: Node, path: str) -> MandatoryGroup:
    found: Found = read_map(report, node, path, {"groupName": text, "groupIndex": integer(0)})
    return MandatoryGroup(found.get("groupName", ""), found.get("groupIndex", 0))


def _portion(report: Report, node: Node, path: str) -> Portion | None:
    value = node.value
    if isinstance(value, int) and not isinstance(value, bool):
        return Portion(count=value)
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        return Portion(percent=float(value[:-1]))
    expected(report, node, path, "a number of clusters or a portion like `25%`")
    return None


def _span(report: Report, node: Node, path: str) -> int | None:
    value = str(node.value)
    parsed = parse_duration(value) if _SPAN.fullmatch(value) else BadQuantity("", _SPAN_HELP)
    if isinstance(parsed, BadQuantity):
        expected(report, node, path, f"a time span ({_SPAN_HELP})")
        return None
    return parsed


def _deadline(report: Report, node: Node, path: str) -> int | str | None:
    return NEVER if node.value in (NEVER, "") else _span(report, node, path)
