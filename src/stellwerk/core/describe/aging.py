"""Decides what the annotation `stellwerk/aging` of a ClusterQueue says."""

import re

from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.limits import Aging

ANNOTATION = "stellwerk/aging"
REMEDY = "write POINTS/h, at most POINTS, as in `2/h, at most 100`; `0/h` for none"
MOST_POINTS = 1000
_WRITTEN = re.compile(r"([0-9]{1,4})\s*/\s*h(?:\s*,\s*at most\s+([0-9]{1,4}))?")


def read_aging(report: Report, node: Node, annotations: dict[str, str]) -> Aging | None:
    """How the priority of a queue's waiting work rises; None where it isn't said."""
    text = annotations.get(ANNOTATION, "").strip()
    if not text:
        return None
    match = _WRITTEN.fullmatch(text)
    points = [int(one or MOST_POINTS) for one in match.groups()] if match is not None else []
    if not points or max(points) > MOST_POINTS:
        place, path = node.get("metadata") or node, f"metadata.annotations.{ANNOTATION}"
        report.problem("queue/aging", place, path, f"`{text}` doesn't say how work rises", REMEDY)
        return None
    return Aging(points[0], points[1])
