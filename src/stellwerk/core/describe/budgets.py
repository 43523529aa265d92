"""Decides what the annotation `stellwerk/budget` of a ClusterQueue says."""

import re

from stellwerk.core.describe.aging import ANNOTATION as AGING
from stellwerk.core.describe.derived_quota import ANNOTATION as DERIVED
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.budgets import PERIODS, Budget

OWN = "stellwerk/"
ANNOTATION = f"{OWN}budget"
REMEDY = "write RESOURCE=HOURSh/PERIOD, as in `nvidia.com/gpu=2000h/month, cpu=500h/week`"
MOST_BUDGETS = 8
_ONE = re.compile(r"([A-Za-z0-9._/-]+)\s*=\s*([0-9]{1,12}(?:\.[0-9]{1,3})?)\s*h\s*/\s*([a-z]+)")


def read_budgets(report: Report, node: Node, annotations: dict[str, str]) -> tuple[Budget, ...]:
    """The budgets of a queue, each resource once for a period."""
    place = node.get("metadata") or node
    _others(report, place, annotations)
    text = annotations.get(ANNOTATION, "")
    if not text.strip():
        return ()
    path = f"metadata.annotations.{ANNOTATION}"
    found: list[Budget] = []
    for part in text.split(","):
        match = _ONE.fullmatch(part.strip())
        period = next((one for one in PERIODS if match and one == match[3]), None)
        if match is None or period is None:
            report.problem("queue/budget", place, path, f"`{part.strip()}` is no budget", REMEDY)
        elif any((one.resource, one.period) == (match[1], period) for one in found):
            message = f"{match[1]} has two budgets for a {period}"
            report.problem("queue/budget", place, path, message, "leave one of them")
        else:
            found.append(Budget(match[1], round(float(match[2]) * 1000), period))
    if len(found) > MOST_BUDGETS:
        message = f"a queue has at most {MOST_BUDGETS} budgets"
        report.problem("queue/budget", place, path, message)
    return tuple(found)


def _others(report: Report, place: Node, annotations: dict[str, str]) -> None:
    """Says of a slip in the annotation's name that it has no effect: a budget would be missed."""
    for name in annotations:
        if name.startswith(OWN) and name not in {ANNOTATION, AGING, DERIVED}:
            path, message = f"metadata.annotations.{name}", f"`{name}` has no effect on a queue"
            known = f"`{ANNOTATION}`, `{AGING}` and `{DERIVED}` are known"
            report.notice("queue/annotation", place, path, message, known)
