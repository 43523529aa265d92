"""Decides what `kind: ScoreSource` of a fleet file says: whom to ask for scores, and how often."""

from __future__ import annotations

from collections.abc import Iterator

from stellwerk.core.describe.fields import (
    Found,
    Reader,
    duration,
    filled_text,
    list_of,
    number,
    plain,
    read_map,
)
from stellwerk.core.describe.fleet_gather import Gathered
from stellwerk.core.describe.fleet_short import HINTS
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.scoring import MINUTE_MS, ScoreSource

SOONEST_MS = 1_000
LONGEST_MS = 60_000
WAYS = ("command", "http", "prometheus")


def _http(report: Report, node: Node, path: str) -> Found | None:
    fields: dict[str, Reader] = {"url": _url, "at": filled_text}
    return read_map(report, node, path, fields, required=("url",))


def _prometheus(report: Report, node: Node, path: str) -> Found | None:
    fields: dict[str, Reader] = {"url": _url, "query": filled_text}
    return read_map(report, node, path, fields, required=("url", "query"))


def _url(report: Report, node: Node, path: str) -> str | None:
    found = filled_text(report, node, path)
    if found is not None and not found.startswith(("http://", "https://")):
        message = f"`{path}`: {node.short()} is no address"
        report.problem("spec/value", node, path, message, "begin with `http://` or `https://`")
        return None
    return found


def _scale(report: Report, node: Node, path: str) -> tuple[float, float] | None:
    found = list_of(number())(report, node, path)
    if found is None:
        return None
    if len(found) != 2 or found[0] == found[1]:
        message = f"`{path}` takes two different numbers"
        remedy = "such as `scale: [0, 1]`: these become -100 and 100"
        report.problem("spec/value", node, path, message, remedy)
        return None
    return found[0], found[1]


FIELDS: dict[str, Reader] = {
    "apiVersion": plain,
    "kind": plain,
    "name": filled_text,
    "command": list_of(filled_text),
    "http": _http,
    "prometheus": _prometheus,
    "label": filled_text,
    "score": filled_text,
    "every": duration(),
    "valid": duration(),
    "timeout": duration(),
    "scale": _scale,
}


def score_source(gathered: Gathered, report: Report, node: Node) -> None:
    """`kind: ScoreSource`: one that is asked."""
    found = read_map(report, node, "", FIELDS, hints=HINTS, required=("name",))
    ways = [way for way in WAYS if way in found]
    if len(ways) != 1:
        message = f"a score source has one of {', '.join(WAYS)}, this one has {len(ways)}"
        remedy = "such as `command: [./free-gpus]`, `http: {url: …}`, `prometheus: {url, query}`"
        report.problem("spec/missing", node, "", message, remedy)
    for problem_at, message in _times(found):
        report.problem("spec/value", found.place(problem_at), problem_at, message, "such as `1m`")
    name = found.get("name")
    if name is None or len(ways) != 1:
        return
    asked: Found | None = found.get("http") or found.get("prometheus")
    every = found.get("every", MINUTE_MS)
    gathered.first("ScoreSource", name, node=node)
    gathered.score_sources[name] = ScoreSource(
        name=name,
        command=tuple(found.get("command", ())),
        url=asked.get("url", "") if asked is not None else "",
        query=asked.get("query", "") if asked is not None else "",
        at=asked.get("at", "") if asked is not None else "",
        label=found.get("label", "cluster"),
        score=found.get("score", "value"),
        every_ms=every,
        valid_ms=found.get("valid", 5 * every),
        timeout_ms=found.get("timeout", min(10_000, every)),
        scale=found.get("scale"),
    )


def _times(found: Found) -> Iterator[tuple[str, str]]:
    every = found.get("every", MINUTE_MS)
    if every < SOONEST_MS:
        yield "every", "`every` is less than a second"
    if found.get("valid", 5 * every) < every:
        yield "valid", "`valid` is shorter than `every`, so scores would be stale in between"
    if not 0 < found.get("timeout", 1) <= LONGEST_MS:
        yield "timeout", "`timeout` isn't more than nothing and at most a minute"
