"""Decides what an entry of a placement's `tolerations` says."""

from __future__ import annotations

from stellwerk.core.describe.fields import integer, one_of, read_map, text
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.placement import Toleration

EFFECTS = ("NoSelect", "PreferNoSelect", "NoSelectIfNew")


def loose_toleration(report: Report, node: Node, path: str) -> Toleration:
    """As it is written, whether it makes sense or not."""
    fields = {
        "key": text,
        "operator": one_of(("Equal", "Exists"), keep_case=True),
        "value": text,
        "effect": one_of(EFFECTS, keep_case=True),
        "tolerationSeconds": integer(),
    }
    found = read_map(report, node, path, fields)
    return Toleration(
        found.get("key", ""),
        found.get("operator") or "Equal",
        found.get("value", ""),
        found.get("effect", ""),
        found.get("tolerationSeconds"),
    )


def toleration(report: Report, node: Node, path: str) -> Toleration | None:
    """One that makes sense."""
    found = loose_toleration(report, node, path)
    if found.seconds is not None and found.seconds < 0:
        where = f"{path}.tolerationSeconds"
        message = f"`{where}` is {found.seconds}: nothing is tolerated so shortly"
        remedy = "write 0 or more, or leave it out to tolerate the taint for good"
        report.problem("spec/toleration", node.get("tolerationSeconds"), where, message, remedy)
        return None
    if found.operator == "Exists" and found.value:
        message = f"`{path}`: `Exists` takes no value, and `{found.value[:60]}` is given"
        remedy = "remove `value`, or write `operator: Equal`"
        report.problem("spec/toleration", node.get("value") or node, path, message, remedy)
        return None
    if found.operator != "Exists" and not found.key:
        message = f"`{path}`: `Equal` needs a key"
        remedy = "name the taint under `key`, or write `operator: Exists` to tolerate every taint"
        report.problem("spec/toleration", node, path, message, remedy)
        return None
    return found
