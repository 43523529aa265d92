"""Chooses clusters for placements: sets, filters, scores, spread, count, groups, conditions.

`choose` answers for one placement. A `Placer` answers for many: placements with equal specs share
filters, scores and the explanation of both, and `replan` looks again only at those whose inputs
changed. What is kept makes answers cheaper and changes none.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np

from stellwerk.core.inventory.columns import FleetColumns, Floats
from stellwerk.core.model.placement import DecisionGroup, Placement
from stellwerk.core.model.placing import (
    Choice,
    Explanation,
    PlacingContext,
    ScoreColumn,
    Status,
)
from stellwerk.core.place import checks
from stellwerk.core.place.admitted import (
    OBJECTIVES,
    Admitted,
    Tools,
    admit,
    explanation_of,
)
from stellwerk.core.place.filters import NEVER, tolerations_end
from stellwerk.core.place.filters_limits import WEIGHTED, Estimates, estimated
from stellwerk.core.place.groups import divide
from stellwerk.core.place.ledger import Ledger
from stellwerk.core.place.outcome import Counts, conditions
from stellwerk.core.place.picking import Picked, Ranking, pick
from stellwerk.core.place.scores import packed, raw_numbers

CLASSES_KEPT = 20_000


def choose(
    placement: Placement, columns: FleetColumns, context: PlacingContext, tools: Tools | None = None
) -> Choice:
    """Answers for one placement; ``tools`` may be handed in again to spare work."""
    ledger = Ledger(columns)
    for one in context.existing:
        ledger.set(f"{one.namespace}/{one.placement}", one.clusters, add=True)
    tools = tools or Tools(columns)
    held = held_rows(columns, ledger.of(placement.key))
    found = admit(
        tools, placement, context.now_ms, context.estimates, context.own, held, context.refused
    )
    return decide(tools, placement, found, ledger, context.estimates, context.now_ms)


def held_rows(columns: FleetColumns, names: Iterable[str]) -> tuple[int, ...]:
    """The rows of clusters that are still there."""
    return tuple(columns.row[name] for name in names if name in columns.row)


def decide(
    tools: Tools,
    placement: Placement,
    found: Admitted,
    ledger: Ledger,
    estimates: Estimates,
    now_ms: int,
) -> Choice:
    """Picks among what is admitted, and says everything that follows."""
    columns, names = tools.columns, ledger.of(placement.key)
    if placement.external:
        return Choice(placement.key, tuple(names))
    if found.broken:
        return _broken(tools, placement, found, names)
    held = list(held_rows(columns, names))
    counts, most = ledger.others(placement.key)
    ranking = Ranking(columns, found, held, counts, most)
    if placement.objective in OBJECTIVES:
        ranking.cost = objective_numbers(columns, placement, estimates)[found.rows]
    picked = pick(placement, ranking, names)
    unscheduled = 0 if placement.count is None else placement.count - len(picked.chosen)
    groups, status = _groups(columns, placement, found, picked.chosen)
    told = Counts(
        found.bindings,
        found.sets,
        int(found.candidates.sum()),
        len(picked.chosen),
        unscheduled,
    )
    return Choice(
        placement=placement.key,
        clusters=tuple(columns.clusters[row].name for row in picked.chosen),
        totals=tuple(ranking.totals_of(picked.chosen)),
        standby=tuple(columns.clusters[row].name for row in picked.standby),
        groups=groups,
        conditions=conditions(placement, told, status),
        unscheduled=unscheduled,
        requeue_at_ms=_requeue(columns, placement, found, held, picked, now_ms),
        moves=picked.moves,
        status=status,
        troubles=found.troubles,
        explanation=_explanation(columns, found, ranking, picked),
    )


def objective_numbers(columns: FleetColumns, placement: Placement, estimates: Estimates) -> Floats:
    """The estimates that are the objective of a placement: what is lower is better."""
    name = OBJECTIVES[placement.objective]
    if placement.objective == "weighted" and WEIGHTED in estimates:
        return estimated(columns, estimates, WEIGHTED)
    numbers, _ = raw_numbers(columns, name, placement, estimates)
    if placement.objective == "weighted":
        start, _ = raw_numbers(columns, "Start", placement, estimates)
        known = np.where(np.isfinite(start), start, np.nan)
        numbers = numbers + placement.usd_per_hour_of_waiting * known / 3600
    return numbers


def _groups(
    columns: FleetColumns, placement: Placement, found: Admitted, chosen: list[int]
) -> tuple[tuple[DecisionGroup, ...], Status]:
    if not found.rules.checks_first:
        trouble = next(iter(checks.of_groups(placement)), None)
        if trouble is not None:
            return (), Status("Misconfigured", "", trouble.message)
    clusters = [columns.clusters[row] for row in chosen]
    return divide(placement, clusters, keeps_rank=found.rules.keeps_rank) or (), found.status


def _broken(tools: Tools, placement: Placement, found: Admitted, names: list[str]) -> Choice:
    """A spec that makes no sense: the last good decision stays, or as in the reference none."""
    columns, rules = tools.columns, found.rules
    kept = [
        name
        for name in (names if rules.keeps_last else ())
        if name in columns.row and not columns.clusters[columns.row[name]].deleting
    ]
    clusters = [columns.clusters[columns.row[name]] for name in kept]
    groups = divide(placement, clusters, keeps_rank=rules.keeps_rank) or divide(
        msgspec.structs.replace(placement, clusters_per_group="", groups=()),
        clusters,
        keeps_rank=rules.keeps_rank,
    )
    missing = 0 if placement.count is None else max(0, placement.count - len(kept))
    told = Counts(found.bindings, found.sets, int(found.candidates.sum()), len(kept), missing)
    explanation = Explanation()
    if found.verdicts:
        shared_id, shared = explanation_of(columns, found)
        explanation = Explanation(shared_id, shared)
    return Choice(
        placement=placement.key,
        clusters=tuple(kept),
        groups=groups or (),
        conditions=conditions(placement, told, found.status),
        unscheduled=missing,
        status=found.status,
        troubles=found.troubles,
        kept=rules.keeps_last,
        explanation=explanation,
    )


def _requeue(
    columns: FleetColumns,
    placement: Placement,
    found: Admitted,
    held: list[int],
    picked: Picked,
    now_ms: int,
) -> int:
    """When to look again: at the end of a toleration, of a score's validity, or of a window."""
    rows = held if not found.rules.knows_unknown else dict.fromkeys([*held, *picked.chosen])
    first = tolerations_end(columns, rows, placement.tolerations, now_ms) or NEVER
    if found.rules.knows_unknown:
        first = min(first, found.until_ms)
    return 0 if first == NEVER else first


def _explanation(
    columns: FleetColumns, found: Admitted, ranking: Ranking, picked: Picked
) -> Explanation:
    shared_id, shared = explanation_of(columns, found)
    own = []
    for name, weight in found.own_scores:
        values = ranking.balance if name == "Balance" else ranking.steady
        if values is not None:
            own.append(ScoreColumn(name, weight, packed(values)))
    margin, tied = None, 0
    if picked.chosen and picked.next >= 0:
        last, following = ranking.totals_of([picked.chosen[-1], picked.next])
        margin = last - following
        tied = int((ranking.totals == last).sum()) if margin == 0 else 0
    after = (picked.next,) if picked.next >= 0 else ()
    return Explanation(
        shared_id=shared_id,
        shared=shared,
        passed=found.passed_bits,
        scores=tuple(own),
        ranked=(*picked.chosen, *picked.standby, *after),
        margin=margin,
        tied=tied,
        skipped=picked.skipped,
    )


def stored(choice: Choice) -> Choice:
    """The choice with the shared part of its explanation named, not contained."""
    explanation = msgspec.structs.replace(choice.explanation, shared=None)
    return msgspec.structs.replace(choice, explanation=explanation)
