"""One cluster with all that is known of it: from whom, how old, and where sources contradict."""

from collections.abc import Sequence
from typing import TypeVar

from stellwerk.cli.render.clusters import free, kind_of, total, when, window
from stellwerk.cli.render.phases import phase_cell
from stellwerk.cli.render.table import Column, table
from stellwerk.cli.render.units import age, duration, size
from stellwerk.cli.terminal import Terminal
from stellwerk.client.fleet import (
    ClusterFacts,
    ClusterPage,
    ClusterView,
    FactView,
    HeldView,
    NodeView,
    ScoreView,
)
from stellwerk.core.data.units import show_data

T = TypeVar("T")
NODES = 40


def lines_of(page: ClusterPage, terminal: Terminal, now_ms: int) -> list[str]:
    """The whole page."""
    one, facts = page.cluster, page.facts
    name = terminal.style(one.name, "strong")
    state = terminal.style(one.state, phase_cell(one.state).style)
    lines = [f"{name}  {state}  {kind_of(one)}"]
    if one.state == "declared":
        lines.append("  no driver here reaches it, so it can't run work yet")
    if said := window(one, now_ms):
        lines.append(f"  {said}: stw calendar show {one.name}")
    lines += [f"  {label:<12}{text}" for label, text in _head(page, facts, now_ms) if text]
    narrow = terminal._replace(width=max(0, terminal.width - 2))
    for title, rows in (
        ("nodes", _table(_node_columns(one, now_ms), one.nodes[:NODES], narrow)),
        ("facts", _table(_fact_columns(), facts.facts, narrow)),
        ("scores", _table(_score_columns(now_ms), facts.scores, narrow)),
        ("data", _table(_held_columns(), facts.held, narrow)),
    ):
        if rows:
            lines += ["", title, *rows]
    if len(one.nodes) > NODES:
        lines.append(f"  and {len(one.nodes) - NODES} more nodes: -o json")
    if facts.contradictions:
        lines += ["", "contradictions"]
    for each in facts.contradictions:
        said = ", ".join(f"{value} ({source})" for source, value in each.said)
        lines.append(f"  {each.fact}: {said}; {each.used} is believed")
    return lines


def _head(page: ClusterPage, facts: ClusterFacts, now_ms: int) -> list[tuple[str, str]]:
    one = page.cluster
    taints = [
        f"{each.key}{f'={each.value}' if each.value else ''}:{each.effect}"
        + (f" since {age(each.since_ms, now_ms)}" if each.since_ms else "")
        for each in facts.taints
    ]
    links = [
        f"{each.source} -> {each.target} {each.bits_per_s / 1e9:g} Gbit/s"
        + (f" at {each.usd_per_gb:g} usd/GB" if each.usd_per_gb else "")
        for each in facts.links
    ]
    return [
        ("free", free(one)),
        ("of", total(one)),
        ("sets", ", ".join(facts.sets)),
        ("taints", ", ".join(taints)),
        ("chosen by", ", ".join(facts.placements)),
        ("runs", ", ".join(one.runs)),
        ("links", "; ".join(links)),
    ]


def _table(columns: Sequence[Column[T]], rows: Sequence[T], terminal: Terminal) -> list[str]:
    return [f"  {line}" for line in table(columns, rows, terminal)] if rows else []


def _node_columns(cluster: ClusterView, now_ms: int) -> list[Column[NodeView]]:
    columns: list[Column[NodeView]] = [
        Column("name", "NODE", lambda one: one.name),
        Column("state", "STATE", lambda one: phase_cell(one.state)),
        Column("cpus", "CPUS", lambda one: f"{one.cpus_free:g} of {one.cpus:g}", right=True),
        Column(
            "memory",
            "MEMORY",
            lambda one: f"{size(one.memory_free_bytes)} of {size(one.memory_bytes)}",
            right=True,
        ),
        Column("devices", "GPUS", _devices),
        Column("note", "NOTE", lambda one: one.note, grows=True),
    ]
    if any(one.windows for one in cluster.nodes):
        # Only where nodes differ: otherwise it stands above the table, once.
        at = Column[NodeView]("window", "WINDOW", lambda one: _window(one, cluster, now_ms))
        columns.insert(2, at)
    return columns


def _window(one: NodeView, cluster: ClusterView, now_ms: int) -> str:
    return when(one.windows or cluster.windows, now_ms) or "open"


def _devices(one: NodeView) -> str:
    if not one.devices:
        return "-"
    free = sum(not (each.held_bytes or each.foreign_bytes) for each in one.devices)
    return f"{free} of {len(one.devices)}x{one.devices[0].kind}"


def _fact_columns() -> list[Column[FactView]]:
    return [
        Column("fact", "FACT", lambda one: one.fact),
        Column("value", "VALUE", lambda one: one.value),
        Column("age", "AGE", lambda one: _age(one.age_ms), right=True),
        Column("source", "SOURCE", lambda one: one.source or "-", grows=True),
    ]


def _score_columns(now_ms: int) -> list[Column[ScoreView]]:
    return [
        Column("name", "SCORE", lambda one: one.name),
        Column("value", "VALUE", lambda one: str(one.value), right=True),
        Column("age", "AGE", lambda one: _age(one.age_ms), right=True),
        Column("valid", "VALID", lambda one: _valid(one, now_ms)),
        Column("source", "SOURCE", lambda one: one.source or "-", grows=True),
    ]


def _held_columns() -> list[Column[HeldView]]:
    return [
        Column("data", "DATA", lambda one: one.data),
        Column("bytes", "BYTES", lambda one: "?" if one.bytes is None else show_data(one.bytes)),
        Column("age", "AGE", lambda one: _age(one.age_ms), right=True),
        Column("source", "SOURCE", lambda one: one.source or "-", grows=True),
    ]


def _valid(one: ScoreView, now_ms: int) -> str:
    if one.stale:
        return "over, so it isn't used"
    if not one.valid_until_ms:
        return "for ever"
    return f"for {duration(one.valid_until_ms - now_ms)}"


def _age(age_ms: int | None) -> str:
    return "-" if age_ms is None else duration(age_ms) if age_ms >= 1000 else "now"
