"""One candidate of a workload: what fails there, what would let it in, its nodes and scores."""

import shlex

from stellwerk.cli.render.explain import MEANINGS, would_take
from stellwerk.cli.render.placement import names, score_line
from stellwerk.cli.render.reasons import in_full
from stellwerk.cli.render.units import age, clock, plural
from stellwerk.cli.terminal import Terminal
from stellwerk.client.explains import AlternativeOn, ChangeOf, InPlacement, OnCluster
from stellwerk.client.placements import CandidateOf

NODES = 20
HERE = ("chosen", "fits")
OF_ROOM = {
    "console_in_use",
    "drained",
    "has_none",
    "infra_differs",
    "never_fits",
    "no_images",
    "no_namespaces",
    "no_room",
    "not_ready",
    "quarantined",
}
"""Reasons that more room, or to ask for less, turns."""


def lines_of(found: OnCluster, terminal: Terminal, now_ms: int) -> list[str]:
    """The whole answer."""
    lines = [_headline(found, terminal, now_ms)]
    for one in found.alternatives:
        indent = "  "
        if len(found.alternatives) > 1:
            lines.append(f"  for {one.wants}: {one.verdict}")
            indent = "    "
        lines += [f"{indent}{line}" for line in _alternative(found, one)]
    if not found.alternatives:
        lines.append("  it isn't among the clusters that a driver here reaches")
    if found.chosen is None and any(one.verdict in HERE for one in found.alternatives):
        lines += ["  it waits all the same", *in_full(found.reasons, "    ", name=found.name)]
    if found.placement is not None:
        lines += [f"  {line}" for line in _standing(found.cluster, found.placement, now_ms)]
    return lines


def _headline(found: OnCluster, terminal: Terminal, now_ms: int) -> str:
    verdicts = list(dict.fromkeys(one.verdict for one in found.alternatives))
    said = ", ".join(verdicts) or "no candidate here"
    what = terminal.style(f"{found.name} on {found.cluster}", "strong")
    if not found.decision:
        return f"{what}: {said} (as of {clock(found.at_ms, now_ms)})"
    run = f"run {found.run}, " if found.run else ""
    made = f"made {clock(found.at_ms, now_ms)}, {age(found.at_ms, now_ms)} ago"
    return f"{what}: {said} ({run}decision {found.decision}, {made})"


def _alternative(found: OnCluster, one: AlternativeOn) -> list[str]:
    lines = []
    if one.verdict in HERE:
        lines.append(_score(found, one))
        lines += [f"it would take: {would_take(one.figures)}"] if one.figures else []
    if found.placement is None or not any(r.code == "not_chosen" for r in one.reasons):
        lines += in_full(one.reasons, "", name=found.name)
        lines += [] if one.nodes else [f"  {short.text}" for short in one.shortfalls]
    for number, way in enumerate(one.ways):
        lines.append(_would(one) if number == 0 else "or if")
        lines += [f"  {_change(change)}" for change in way]
    if one.nodes:
        width = max(len(node.node) for node in one.nodes[:NODES])
        for node in one.nodes[:NODES]:
            fits = "fits" if node.fits == 1 else f"fits {node.fits} times"
            lines.append(f"node {node.node:<{width}}  {node.why or fits}")
        more = len(one.nodes) - len(one.nodes[:NODES]) + one.more_nodes
        lines += [f"and {plural(more, 'node')} more"] if more else []
    return lines


def _would(one: AlternativeOn) -> str:
    """Room is not all where a placement, a quota or somebody in line keeps it off too."""
    only_room = all(reason.code in OF_ROOM for reason in one.reasons)
    return "it could start there if" if only_room else "it would have room there if"


def _score(found: OnCluster, one: AlternativeOn) -> str:
    parts = [f"{name} {points}" for name, points in one.scores.items()]
    line = f"scores {', '.join(parts)} = {one.total}"
    if one.verdict == "fits" and one.behind is not None:
        by = f"{one.behind} less than" if one.behind else "as many as"
        line += f", {by} {found.chosen}"
    meant = [f"{name}: {MEANINGS[name]}" for name in one.scores if name in MEANINGS]
    return f"{line}  ({'; '.join(meant)})" if meant else line


def _change(change: ChangeOf) -> str:
    if not change.change_if:
        return change.text
    return f"{change.text}  (--if {shlex.quote(change.change_if)})"


def _standing(cluster: str, one: InPlacement, now_ms: int) -> list[str]:
    at = f"decision {one.decision}, {age(one.at_ms, now_ms)} ago"
    lines = [f"placement {one.placement} chose {names(one.clusters)} ({at})"]
    if one.candidate is None:
        return [*lines, f"  {cluster} wasn't in the fleet then"]
    return [*lines, *(f"  {line}" for line in _candidate(one.candidate, one.changes))]


def _candidate(one: CandidateOf, changes: list[str]) -> list[str]:
    head = f"{one.cluster} {one.verdict}"
    if one.total is not None:
        head += f", place {one.rank}, total {one.total}"
    if one.margin is not None:
        head += f" ({one.margin:+})"
    lines = [head + (f": {one.note}" if one.note else "")]
    lines += [f"  {score_line(score)}" for score in one.scores]
    for rule, change_if in zip(one.failed, [*changes, *[""] * len(one.failed)], strict=False):
        aside = "" if rule.needed else "  (another predicate is nearer)"
        lines.append(f"  fails {rule.filter}: {rule.rule}, and {rule.found}{aside}")
        if rule.change is not None:
            lines.append(f"    -> {_change(ChangeOf(rule.change.text, change_if))}")
    return lines
