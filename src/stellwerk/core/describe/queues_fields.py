"""Readers for what objects of queueing have in common: quantities, lists with a limit, taints."""

from __future__ import annotations

from typing import Any

from stellwerk.core.describe.fields import (
    Reader,
    expected,
    filled_text,
    integer,
    list_of,
    one_of,
    plain,
    read_map,
    text,
)
from stellwerk.core.describe.fleet_amounts import KUBERNETES_HELP, parse_kubernetes
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.placement import Toleration
from stellwerk.core.model.quantity import BadQuantity
from stellwerk.core.model.queueing import NodeTaint

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def quantity(report: Report, node: Node, path: str) -> int | None:
    """A Kubernetes quantity in thousandths; less than nothing is refused in words."""
    value = node.value
    if not isinstance(value, str | int | float) or isinstance(value, bool):
        expected(report, node, path, "a quantity", KUBERNETES_HELP)
        return None
    found = parse_kubernetes(value)
    if not isinstance(found, BadQuantity):
        return found
    message, remedy = found.message, found.help
    if str(value).strip().startswith("-"):
        message, remedy = f"{node.short()} is less than nothing", "a quantity is 0 or more"
    report.problem("spec/value", node, path, f"`{path}`: {message}", remedy)
    return None


def most(count: int, reader: Reader) -> Reader:
    """A list of at most so many entries."""
    inner = list_of(reader)

    def read(report: Report, node: Node, path: str) -> Any:
        if node.kind == "list" and len(node.items) > count:
            message = f"`{path}` has {len(node.items)} entries; {count} may be"
            report.problem("queue/too-many", node, path, message, "divide it")
            return None
        return inner(report, node, path)

    return read


def weight(report: Report, node: Node, path: str) -> float | None:
    """`fairSharing`: a weight of 0 or more, a quantity."""
    found = read_map(report, node, path, {"weight": quantity})
    amount = found.get("weight")
    return 1.0 if amount is None else amount / 1000


def taint(report: Report, node: Node, path: str) -> NodeTaint | None:
    """A taint of nodes."""
    fields = {
        "key": filled_text,
        "value": text,
        "effect": one_of(EFFECTS, keep_case=True),
        "timeAdded": plain,
    }
    found = read_map(report, node, path, fields, required=("key", "effect"))
    if found.get("key") is None or found.get("effect") is None:
        return None
    return NodeTaint(found.get("key"), found.get("effect"), found.get("value", ""))


def toleration(report: Report, node: Node, path: str) -> Toleration | None:
    """A toleration of pods."""
    fields: dict[str, Reader] = {
        "key": text,
        "operator": one_of(("Equal", "Exists"), keep_case=True),
        "value": text,
        "effect": one_of(EFFECTS, keep_case=True),
        "tolerationSeconds": integer(),
    }
    found = read_map(report, node, path, fields)
    key, operator = found.get("key", ""), found.get("operator", "Equal")
    if not key and operator == "Equal":
        message = f"`{path}` has no `key`, so it tolerates nothing"
        report.problem("spec/missing", node, path, message, "name a key, or write `Exists`")
        return None
    return Toleration(key, operator, found.get("value", ""), found.get("effect", ""))
