"""Renders the columns of an explanation: for each cluster its verdict, failed rules and scores.

Which filters a cluster failed and how it scored comes from the explanation. Which rules of them,
with which numbers and what would turn each, is found again from the facts and the placement.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from stellwerk.core.inventory.columns import FleetColumns, Floats
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.placing import (
    Choice,
    Explained,
    FailedRule,
    PlacingContext,
    ScoreColumn,
    ScoreLine,
)
from stellwerk.core.place.admitted import OBJECTIVES
from stellwerk.core.place.failures import Facts, failures
from stellwerk.core.place.placing import objective_numbers
from stellwerk.core.place.scores import unpacked


def explain(
    placement: Placement,
    choice: Choice,
    columns: FleetColumns,
    context: PlacingContext,
    clusters: Iterable[str] = (),
) -> tuple[Explained, ...]:
    """Renders all clusters in the order of rank, or those that are named.

    Of a placement that is broken nothing is known but its troubles.
    """
    if choice.status.code == "Misconfigured" and not choice.explanation.passed:
        return ()
    cost = None
    if placement.objective in OBJECTIVES:
        cost = objective_numbers(columns, placement, context.estimates)
    table = _Table(choice, columns, cost)
    facts = Facts(placement, columns, context)
    wanted = list(clusters) or [columns.clusters[row].name for row in table.order()]
    return tuple(_one(table, facts, columns.row[name]) for name in wanted if name in columns.row)


class _Table:
    """An explanation, unpacked. ``cost`` is the estimate that was the objective, if one was."""

    def __init__(self, choice: Choice, columns: FleetColumns, cost: Floats | None) -> None:
        explanation = choice.explanation
        shared = explanation.shared
        if shared is None or shared.roster != columns.roster_id:
            raise ValueError("the explanation is of other clusters than those at hand")
        self.choice, self.columns = choice, columns
        size = shared.size
        self.candidates = unpacked_bits(shared.candidates, size)
        self.filters = [(one, unpacked_bits(one.failed, size)) for one in shared.filters]
        self.passed = unpacked_bits(explanation.passed, size)
        self.rows = np.flatnonzero(self.passed)
        self.place = {int(row): place for place, row in enumerate(self.rows)}
        self.scores = [
            _Unpacked(one, len(self.rows)) for one in (*shared.scores, *explanation.scores)
        ]
        self.totals: Any = np.zeros(len(self.rows), np.int64)
        unknown = np.zeros(len(self.rows), np.bool_)
        for one in self.scores:
            self.totals = self.totals + one.weight * one.values
            unknown |= one.unknown
        self.by_points = cost is None
        first = unknown
        if cost is not None:
            first = np.where(np.isfinite(cost), cost, np.inf)[self.rows]
        self.ranked = np.lexsort((np.arange(len(self.rows)), -self.totals, first))
        self.rank = {int(self.rows[place]): n for n, place in enumerate(self.ranked, 1)}

        self.chosen = dict.fromkeys(choice.clusters, True)
        ranked = self.rows[self.ranked].tolist()
        inside = [row for row in ranked if columns.clusters[row].name in self.chosen]
        outside = (row for row in ranked if columns.clusters[row].name not in self.chosen)
        self.last_inside = int(inside[-1]) if inside else -1
        self.best_outside = int(next(outside, -1))

    def order(self) -> list[int]:
        """All rows: those that passed by rank, the others by name."""
        passed: list[int] = self.rows[self.ranked].tolist()
        return passed + [row for row in range(self.columns.size) if row not in self.place]


class _Unpacked:
    """One score, unpacked."""

    def __init__(self, one: ScoreColumn, size: int) -> None:
        self.title, self.weight, self.unit = one.title, one.weight, one.unit
        self.values = unpacked(one.values)
        self.raw = None if one.raw is None else unpacked(one.raw)
        self.unknown = unpacked_bits(one.unknown, size)
        self.stale = unpacked_bits(one.stale, size)
        self.observed_ms = None if one.observed_ms is None else unpacked(one.observed_ms)

    def line(self, place: int, now_ms: int) -> ScoreLine:
        """The score of one cluster."""
        unknown, stale = bool(self.unknown[place]), bool(self.stale[place])
        raw = None if self.raw is None else float(self.raw[place])
        age = None
        if self.observed_ms is not None and self.observed_ms[place]:
            age = now_ms - int(self.observed_ms[place])
        value = int(self.values[place])
        note = "its validity is over, so it isn't used" if stale else ""
        if unknown and not stale:
            note = "nobody told it"
        return ScoreLine(
            title=self.title,
            weight=self.weight,
            value=None if unknown else value,
            contribution=self.weight * value,
            raw=None if unknown and not stale else raw,
            unit=self.unit,
            age_ms=age,
            note=note,
        )


def _one(table: _Table, facts: Facts, row: int) -> Explained:
    name = table.columns.clusters[row].name
    place = table.place.get(row)
    if place is None:
        return Explained(name, "refused", _failed(table, facts, row))
    now_ms = facts.context.now_ms
    total = int(table.totals[place])
    verdict, note = "passed", ""
    if name in table.chosen:
        verdict = "chosen"
    elif name in table.choice.standby:
        verdict = "standby"
    elif row in table.choice.explanation.skipped:
        key = table.choice.explanation.skipped[row]
        note = f"the skew of {key} would be more than allowed"
    margin, other = _margin(table, name)
    if margin is not None and margin == 0 and not note:
        note = f"as good as {other}: the name decides"
    return Explained(
        cluster=name,
        verdict=verdict,  # type: ignore[arg-type]
        scores=tuple(one.line(place, now_ms) for one in table.scores),
        total=total,
        rank=table.rank[row],
        margin=margin,
        note=note,
    )


def _margin(table: _Table, name: str) -> tuple[int | None, str]:
    """The points to the one on the other side of the line, and who that is; none where points
    weren't what was compared.
    """
    other = table.best_outside if name in table.chosen else table.last_inside
    if other < 0 or not table.by_points:
        return None, ""
    clusters = table.columns.clusters
    total = table.totals[table.place[table.columns.row[name]]]
    return int(total - table.totals[table.place[other]]), clusters[other].name


def _failed(table: _Table, facts: Facts, row: int) -> tuple[FailedRule, ...]:
    failed = [] if table.candidates[row] else list(facts.membership(row))
    for column, bits in table.filters:
        if not table.candidates[row] or bits[row]:
            failed += failures(facts, row, column.name, column.details.get(row, ()))
    if not failed:
        names = ", ".join(column.name for column, bits in table.filters if bits[row])
        return (FailedRule(names, names, "it would pass as things are now"),)
    return tuple(failed)


def unpacked_bits(data: bytes, size: int) -> Any:
    """Reads packed bits; none = all False."""
    if not data:
        return np.zeros(size, np.bool_)
    packed = np.frombuffer(data, np.uint8)
    return np.unpackbits(packed, bitorder="little", count=size).astype(np.bool_)
