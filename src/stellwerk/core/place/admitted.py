"""Which clusters a spec admits and how they score, shared by all placements with that spec.

An `Admitted` holds as long as the columns it was made of, and until the first moment at which a
score, a toleration or a window changes by itself.
"""

from __future__ import annotations

import hashlib
from collections.abc import Hashable, Mapping

import msgspec
import numpy as np

from stellwerk.core.inventory.columns import Bits, FleetColumns, laid_out, rows_after
from stellwerk.core.model.fleet import SET_LABEL
from stellwerk.core.model.ids import DIGEST_LENGTH
from stellwerk.core.model.placement import Limits, Placement
from stellwerk.core.model.placing import (
    FilterColumn,
    ScoreColumn,
    SharedExplanation,
    Status,
    Trouble,
)
from stellwerk.core.model.resources import Allocation
from stellwerk.core.place import checks, filters
from stellwerk.core.place.compat import Rules, rules_of, weighted
from stellwerk.core.place.expressions import Expressions
from stellwerk.core.place.filters import NEVER, Memo, Verdict
from stellwerk.core.place.filters_demand import Demands
from stellwerk.core.place.filters_limits import Estimates, limits
from stellwerk.core.place.scores import (
    OF_DECISIONS,
    RESOURCES,
    Score,
    Values,
    add_on,
    allocatable,
    measured,
    packed,
    prefer,
)

OBJECTIVES = {"finish": "Finish", "start": "Start", "cost": "Cost", "weighted": "Cost"}


class Tools:
    """What is kept from answer to answer: it makes them cheaper and changes none."""

    def __init__(self, columns: FleetColumns) -> None:
        self.columns = columns
        self.memo = Memo()
        self.expressions = Expressions()
        self.demands = Demands()


class Admitted:
    """The result of filters and scores for one spec.

    ``rows`` are the clusters that passed, in the order of names; ``base`` and ``unknown`` go with
    them: the weighted sum of all scores but Balance and Steady, and how many points of it nobody
    knows. ``only_new`` may pass if the placement has them already, as it has ``held``.
    """

    __slots__ = (
        "base", "bindings", "candidates", "groups", "held", "now_ms", "only_new", "own_scores",
        "passed", "passed_bits", "rows", "rules", "scores", "sets", "shared", "shared_id",
        "some_unknown", "stamp", "status", "token", "troubles", "unknown", "until_ms", "verdicts",
        "weight",
    )  # fmt: skip

    def __init__(self, rules: Rules, size: int, now_ms: int) -> None:
        self.rules, self.now_ms = rules, now_ms
        self.status = Status()
        self.troubles: tuple[Trouble, ...] = ()
        self.verdicts: list[Verdict] = []
        self.scores: list[Score] = []
        self.own_scores: list[tuple[str, int]] = []
        self.until_ms = NEVER
        self.bindings, self.weight, self.stamp = 0, 0, 0
        self.sets: tuple[str, ...] = ()
        self.candidates: Bits = np.zeros(size, np.bool_)
        self.passed: Bits = np.zeros(size, np.bool_)
        self.only_new: Bits | None = None
        self.rows: Values = np.zeros(0, np.int64)
        self.base: Values = self.rows
        self.unknown: Values = self.rows
        self.some_unknown = False
        self.held: tuple[int, ...] = ()
        self.token: Hashable = None
        self.groups: Hashable = None
        self.passed_bits = b""
        self.shared: SharedExplanation | None = None
        self.shared_id = ""

    @property
    def head(self) -> Hashable:
        """What conditions and groups of a choice follow from, whatever was chosen."""
        return (self.bindings, self.sets, bool(self.candidates.any()), self.groups)

    def lay_out(self, rows: Values) -> None:
        """Takes what is kept by rows along to where these are now."""
        self.passed = laid_out(self.passed, rows)
        if self.broken:
            return
        now = rows_after(rows, int(self.rows.max(initial=-1)))[self.rows]
        there = now >= 0
        self.rows, self.base, self.unknown = now[there], self.base[there], self.unknown[there]

    @property
    def broken(self) -> bool:
        """Whether the spec is wrong, so that nothing follows from it."""
        return self.status.code == "Misconfigured"


def admit(
    tools: Tools,
    placement: Placement,
    now_ms: int,
    estimates: Estimates,
    own: tuple[Allocation, ...] = (),
    held: tuple[int, ...] = (),
    refused: Mapping[str, tuple[str, ...]] | None = None,
) -> Admitted:
    """Filters and scores; ``held`` are rows that the placement has already.

    ``refused`` are clusters that the estimates rule out, with why.
    """
    columns = tools.columns
    rules = rules_of(placement)
    found = Admitted(rules, columns.size, now_ms)
    found.bindings, names = filters.eligible_sets(columns, placement)
    found.sets = tuple(names)
    found.candidates = filters.member_bits(columns, tools.memo, names)
    if rules.checks_first:
        _break(found, checks.all_troubles(placement, rules, tools.expressions))
    if not found.broken:
        _filter(tools, placement, found, estimates, own, refused or {})
    if not found.broken:
        if found.only_new is not None:
            new = found.only_new
            found.held = tuple(row for row in held if new[row])
            found.passed[list(found.held)] = True
        found.rows = np.flatnonzero(found.passed)
        if not rules.checks_first:
            _break(found, tuple(checks.of_prioritizers(placement, rules))[:1])
    if not found.broken:
        _score(tools, placement, found, estimates)
    found.token, found.stamp = token_of(tools, placement), columns.stamp
    found.groups = groups_token(columns, placement)
    return found


def token_of(tools: Tools, placement: Placement) -> Hashable:
    """The versions of everything that filters and scores of a placement depend on."""
    columns = tools.columns
    parts: list[Hashable] = [columns.shape_version, columns.taints_version]
    for name in filters.eligible_sets(columns, placement)[1]:
        members = columns.sets[name]
        if members.exclusive:
            parts.append(columns.words("labels", SET_LABEL).version)
        elif members.selector is not None:
            parts.append(filters.selector_token(columns, members.selector))
    parts.append(filters.predicates_token(columns, placement.predicates))
    parts.append(groups_token(columns, placement))
    others = bool(placement.demand) or placement.limits != Limits()
    for one in weighted(placement):
        if one.resource:
            parts.append(columns.scores(one.resource, one.name).version)
        elif one.name in RESOURCES:
            resource = RESOURCES[one.name]
            parts.append(columns.amounts("capacity", resource).version)
            parts.append(columns.amounts("allocatable", resource).version)
            parts.append(columns.taken_version)
        elif one.name not in OF_DECISIONS:
            others = True
    if others or placement.objective != "score" or placement.spread:
        parts.append(columns.stamp)
    return tuple(parts)


def groups_token(columns: FleetColumns, placement: Placement) -> Hashable:
    """The versions of what says which decision group a cluster belongs to."""
    rules = placement.groups
    return tuple(filters.selector_token(columns, one.labels, one.claims)[1:] for one in rules)


def _break(found: Admitted, troubles: tuple[Trouble, ...]) -> None:
    if troubles:
        found.troubles = troubles
        found.status = Status("Misconfigured", troubles[0].plugin, troubles[0].message)


def _filter(
    tools: Tools,
    placement: Placement,
    found: Admitted,
    estimates: Estimates,
    own: tuple[Allocation, ...],
    refused: Mapping[str, tuple[str, ...]],
) -> None:
    columns, rules = tools.columns, found.rules
    passed = found.candidates.copy()
    found.passed = np.zeros(columns.size, np.bool_)
    if not rules.checks_first and passed.any():
        _break(found, tuple(checks.of_predicates(placement.predicates, tools.expressions))[:1])
        if found.broken:
            return
    first = filters.predicates(
        columns, tools.memo, placement.predicates, tools.expressions, found.candidates
    )
    found.verdicts.append(first)
    passed &= ~first.failed
    if not rules.checks_first and passed.any():
        _break(found, tuple(checks.of_tolerations(placement))[:1])
        if found.broken:
            return
    found.verdicts.append(filters.taints(columns, placement.tolerations, found.now_ms))
    found.verdicts.append(limits(columns, placement, estimates, found.now_ms))
    if rules.opens:
        found.verdicts.append(filters.windows(columns, found.now_ms))
    if placement.demand is not None:
        request, nodes = placement.demand, placement.num_nodes
        among = found.candidates
        found.verdicts.append(tools.demands.verdict(columns, request, nodes, among, own))
    if refused:
        found.verdicts.append(filters.estimated_out(columns, refused))
    for verdict in found.verdicts:
        passed &= ~verdict.failed
        found.until_ms = min(found.until_ms, verdict.until_ms)
        if verdict.only_new is not None:
            found.only_new = verdict.only_new
    if found.only_new is not None:
        found.only_new = found.only_new & passed
        passed &= ~found.only_new
    found.passed = passed


def _score(tools: Tools, placement: Placement, found: Admitted, estimates: Estimates) -> None:
    columns, rules, passed, now_ms = tools.columns, found.rules, found.passed, found.now_ms
    heaviest = 1
    for one in weighted(placement):
        heaviest = max(heaviest, abs(one.weight))
        if one.resource:
            score = add_on(columns, one, passed, now_ms, rules)
        elif one.name in OF_DECISIONS:
            found.own_scores.append((one.name, one.weight))
            continue
        elif one.name in RESOURCES:
            score = allocatable(columns, one, passed, rules)
        else:
            score = measured(columns, one, placement, passed, estimates)
        found.weight += abs(one.weight)
        found.scores.append(score)
    if rules.prefer_lowers:
        avoided = prefer(columns, placement, heaviest, passed, now_ms)
        if avoided is not None:
            found.scores.append(avoided)
    rows = found.rows
    base: Values = np.zeros(len(rows), np.int64)
    unknown: Values = np.zeros(len(rows), np.int64)
    for score in found.scores:
        base += score.weight * score.values[rows]
        found.until_ms = min(found.until_ms, score.until_ms)
        if score.unknown is not None:
            unknown += 100 * abs(score.weight) * score.unknown[rows]
        if score.warning:
            found.status = Status("Warning", score.title, score.warning)
    found.base, found.unknown, found.some_unknown = base, unknown, bool(unknown.any())


def explanation_of(columns: FleetColumns, found: Admitted) -> tuple[str, SharedExplanation]:
    """The shared part of the explanation, packed once."""
    if found.shared is None:
        found.shared = SharedExplanation(
            roster=columns.roster_id,
            size=columns.size,
            candidates=bits(found.candidates),
            filters=tuple(_filter_column(one, found) for one in found.verdicts),
            scores=tuple(_score_column(one, found.rows) for one in found.scores),
            now_ms=found.now_ms,
        )
        found.passed_bits = bits(found.passed)
        packed_up = msgspec.msgpack.encode(found.shared)
        found.shared_id = hashlib.sha256(packed_up).hexdigest()[:DIGEST_LENGTH]
    return found.shared_id, found.shared


def _filter_column(verdict: Verdict, found: Admitted) -> FilterColumn:
    failed = verdict.failed
    if verdict.only_new is not None:
        new = verdict.only_new.copy()
        new[list(found.held)] = False
        failed = failed | new
    return FilterColumn(verdict.name, bits(failed & found.candidates), verdict.details)


def _score_column(score: Score, rows: Values) -> ScoreColumn:
    observed = None if score.observed_ms is None else score.observed_ms[rows]
    raw = None if score.raw is None else score.raw[rows]
    values = score.values[rows]
    plain = raw is None or (not score.unit and bool(np.all((raw == values) | np.isnan(raw))))
    return ScoreColumn(
        title=score.title,
        weight=score.weight,
        values=packed(values),
        unit=score.unit,
        raw=None if plain or raw is None else packed(raw),
        unknown=_some(score.unknown, rows),
        stale=_some(score.stale, rows),
        observed_ms=None if observed is None or not observed.any() else packed(observed),
    )


def bits(values: Bits) -> bytes:
    """Packs bits, the first in the lowest bit of the first byte."""
    return np.packbits(values, bitorder="little").tobytes()


def _some(values: Bits | None, rows: Values) -> bytes:
    if values is None:
        return b""
    chosen = values[rows]
    return bits(chosen) if chosen.any() else b""
