"""Ranks the clusters that passed and picks among them; leaves a chosen one only for a reason.

The order is: those about which everything is known, the total (or the estimate that is the
objective), the name. A cluster that the placement has already stays while it passes, unless another
is better by `move_gain` points for each point of weight (by `move_gain` percent of an estimate)
even if what isn't known of the first were at its best. Balance and Steady alone are no reason to
leave one.
"""

from __future__ import annotations

from math import inf, isfinite
from operator import itemgetter

import numpy as np
from msgspec import Struct

from stellwerk.core.inventory.columns import FleetColumns, Floats
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.placing import Move
from stellwerk.core.model.reasons import Reason
from stellwerk.core.place.admitted import Admitted
from stellwerk.core.place.scores import Values, balance
from stellwerk.core.place.spread import Spread

SOME = 1e-9
"""The least that a move must bring where nothing is asked of it."""

BEHIND = 1 << 40
"""What ranks a cluster of which something is unknown behind all others."""


class Picked(Struct):
    """The rows picked, best first, those kept ready beside them, and the best that wasn't."""

    chosen: list[int]
    standby: list[int]
    next: int = -1
    moves: tuple[Move, ...] = ()
    skipped: dict[int, str] = {}


class Ranking:
    """Totals of one placement over the rows that passed (in the order of names)."""

    __slots__ = ("admitted", "balance", "columns", "cost", "held", "steady", "totals")

    def __init__(
        self, columns: FleetColumns, admitted: Admitted, held: list[int], counts: Values, most: int
    ) -> None:
        """``held`` are rows the placement has; ``counts`` the decisions of others by row."""
        self.columns, self.admitted = columns, admitted
        rows = admitted.rows
        self.held: list[int] = []
        if held and len(rows):
            places = np.minimum(np.searchsorted(rows, held), len(rows) - 1)
            self.held = places[rows[places] == held].tolist()
        totals = admitted.base
        self.balance: Values | None = None
        self.steady: Values | None = None
        for name, weight in admitted.own_scores:
            if name == "Balance":
                self.balance = balance(counts[rows], most)
                totals = totals + weight * self.balance
            else:
                self.steady = np.zeros(len(rows), np.int64)
                self.steady[self.held] = 100
                totals = totals + weight * self.steady
        self.totals: Values = totals
        self.cost: Floats | None = None

    def order(self, most: int) -> Values:
        """The places among those that passed, best first; at least the ``most`` best of them."""
        size = len(self.totals)
        if self.cost is not None or most >= size // 4:
            return self.sorted(np.arange(size))
        key = self._key() * (1 << 20) - np.arange(size)
        return self.sorted(np.argpartition(-key, most)[: most + 1])

    def sorted(self, places: Values) -> Values:
        """Some places, best first."""
        if self.cost is not None:
            cost = np.where(np.isfinite(self.cost), self.cost, np.inf)[places]
            return places[np.lexsort((places, -self.totals[places], cost))]
        return places[np.lexsort((places, -self._key()[places]))]

    def best_but(self, places: list[int]) -> int:
        """The best place that isn't one of these; -1 = there is none."""
        if self.cost is not None or len(places) >= len(self.totals):
            rest = _without(self.sorted(np.arange(len(self.totals))), places)
            return int(rest[0]) if len(rest) else -1
        key = self._key().copy()
        key[places] = np.iinfo(np.int64).min
        return int(key.argmax())

    @property
    def worth(self) -> Values | Floats:
        """How good each is: its total, or its estimate with the sign turned."""
        if self.cost is None:
            return self.totals
        return np.where(np.isfinite(self.cost), -self.cost, -np.inf)

    def totals_of(self, rows: list[int]) -> list[int]:
        """The totals of rows that passed."""
        if not rows:
            return []
        found: list[int] = self.totals[np.searchsorted(self.admitted.rows, rows)].tolist()
        return found

    def _key(self) -> Values:
        if not self.admitted.some_unknown:
            return self.totals
        return self.totals - np.where(self.admitted.unknown > 0, BEHIND, 0)


def pick(placement: Placement, ranking: Ranking, names: list[str]) -> Picked:
    """Picks the clusters of a placement; ``names`` are those that it has had, best first."""
    rows, rules = ranking.admitted.rows, ranking.admitted.rules
    size = len(rows)
    wanted = size if placement.count is None else max(0, min(placement.count, size))
    spreads = rules.spreads and bool(placement.spread)
    stays = rules.stays and bool(ranking.held) and placement.count is not None
    if stays and not spreads and len(ranking.held) == wanted and not placement.standby:
        return _staying(placement, ranking, names)
    if stays or spreads:
        return _carefully(placement, ranking, names, wanted)
    more = min(size, wanted + (placement.standby if rules.stays else 0))
    order = ranking.order(more + 1)
    chosen = rows[order[:wanted]].tolist()
    standby = rows[order[wanted:more]].tolist()
    after = int(rows[order[more]]) if more < len(order) else -1
    moves = moves_between(ranking, names, chosen) if rules.stays else ()
    return Picked(chosen, standby, after, moves)


def _staying(placement: Placement, ranking: Ranking, names: list[str]) -> Picked:
    """Keeps what is held, as many as are wanted, and exchanges what pays: the most common case."""
    rows, chosen = ranking.admitted.rows, list(ranking.held)
    swapped = _exchange(placement, ranking, Spread(ranking.columns, (), rows), chosen)
    chosen = ranking.sorted(np.array(chosen, np.int64)).tolist()
    picked = rows[chosen].tolist()
    best = ranking.best_but(chosen)
    moves = moves_between(ranking, names, picked, swapped)
    return Picked(picked, [], int(rows[best]) if best >= 0 else -1, moves)


def _carefully(placement: Placement, ranking: Ranking, names: list[str], wanted: int) -> Picked:
    """Picks with what is held first, under spread constraints, and then exchanges what pays."""
    rows, rules = ranking.admitted.rows, ranking.admitted.rules
    constraints = placement.spread if rules.spreads else ()
    spread = Spread(ranking.columns, constraints, rows)
    held = dict.fromkeys(ranking.held, True) if rules.stays else {}
    size = len(rows) if constraints else wanted + len(held) + placement.standby + 1
    order = ranking.order(size)
    chosen: list[int] = []
    if held:
        mine = ranking.sorted(np.array(list(held), np.int64))
        chosen = _take(spread, mine, wanted)
    chosen += _take(spread, _without(order, chosen), wanted - len(chosen))
    swapped = _exchange(placement, ranking, spread, chosen) if held else {}
    others = _without(order, chosen)
    standby = _take(spread, others, placement.standby)
    after = _without(others, standby)
    chosen = ranking.sorted(np.array(chosen, np.int64)).tolist()
    skipped: dict[int, str] = {}
    for place in after[:1000].tolist() if constraints else ():
        key = spread.refusing(place)
        if key:
            skipped[int(rows[place])] = key
    picked = rows[chosen].tolist()
    return Picked(
        chosen=picked,
        standby=rows[standby].tolist(),
        next=int(rows[after[0]]) if len(after) else -1,
        moves=moves_between(ranking, names, picked, swapped),
        skipped=skipped,
    )


def _take(spread: Spread, ranked: Values, count: int) -> list[int]:
    """Chooses places, best ranked first, under the constraints."""
    if count <= 0 or not len(ranked):
        return []
    if spread.domains:
        return spread.take(ranked, count)
    best: list[int] = ranked[:count].tolist()
    return best


def _without(order: Values, places: list[int]) -> Values:
    if not places:
        return order
    taken = dict.fromkeys(places, True)
    return order[[place not in taken for place in order.tolist()]]


def _exchange(
    placement: Placement, ranking: Ranking, spread: Spread, chosen: list[int]
) -> dict[int, tuple[int, float]]:
    """Leaves chosen clusters for clearly better ones; gives what was taken for what, and the gain.

    Only what was held is left: what is new was the best there is. Another must be better with and
    without what depends on decisions: an emptier cluster is no reason to move, and a fuller one is
    a reason to stay.
    """
    rows, admitted, worth = ranking.admitted.rows, ranking.admitted, ranking.worth
    base = admitted.base if ranking.cost is None else worth
    taken = dict.fromkeys(chosen, True)
    held = [place for place in ranking.held if place in taken]
    if ranking.cost is None:
        bar = max(needed_points(placement, admitted), SOME)
        bars = (bar + admitted.unknown[held]).tolist()
    else:
        bars = [max(needed(placement, ranking.cost, old), SOME) for old in held]
    worths = worth[held].tolist()
    order = [one for one in zip(worths, held, bars, strict=True) if isfinite(one[0])]
    order.sort(key=itemgetter(0))
    lowest = min((one + bar for one, _, bar in order), default=inf)
    swapped: dict[int, tuple[int, float]] = {}
    good = np.flatnonzero(worth >= lowest)
    good = good[admitted.unknown[good] == 0]
    good = good[[place not in taken for place in good.tolist()]] if len(good) else good
    good = good[np.argsort(-worth[good], kind="stable")]
    for _, old, bar in order if len(good) else ():
        better = (worth[good] >= worth[old] + bar) & (base[good] >= base[old] + bar)
        for place in good[better].tolist():
            if spread.swaps(old, place):
                chosen[chosen.index(old)] = place
                gain = min(worth[place] - worth[old], base[place] - base[old])
                swapped[int(rows[place])] = (int(rows[old]), float(gain))
                good = good[good != place]
                break
    return swapped


def needed(placement: Placement, cost: Floats, old: int) -> float:
    """What a move must bring of the estimate that is the objective."""
    return abs(float(cost[old])) * placement.move_gain / 100


def needed_points(placement: Placement, admitted: Admitted) -> int:
    """How many points of the total a move must bring."""
    return placement.move_gain * max(1, admitted.weight)


def moves_between(
    ranking: Ranking,
    names: list[str],
    chosen: list[int],
    swapped: dict[int, tuple[int, float]] | None = None,
) -> tuple[Move, ...]:
    """Says of every change why: a better one, one that no longer passes, more or fewer wanted."""
    columns, swapped = ranking.columns, swapped or {}
    now = {columns.clusters[row].name: row for row in chosen}
    before = dict.fromkeys(names, True)
    gained = [name for name in now if name not in before]
    lost = [name for name in names if name not in now]
    moves = []
    for name in list(gained):
        old, gain = swapped.get(now[name], (-1, 0.0))
        left = columns.clusters[old].name if old >= 0 else ""
        if left in lost:
            better = Reason(
                "better_cluster", {"cluster": name, "left": left, "gain": round(gain, 3)}
            )
            moves.append(Move(left, name, better))
            gained.remove(name)
            lost.remove(left)
    for left in lost:
        name = gained.pop(0) if gained else ""
        moves.append(Move(left, name, _why_left(ranking, left)))
    if names:
        moves += [Move("", name, Reason("more_wanted", {"cluster": name})) for name in gained]
    return tuple(moves)


def _why_left(ranking: Ranking, left: str) -> Reason:
    columns = ranking.columns
    row = columns.row.get(left, -1)
    if row < 0:
        return Reason("cluster_gone", {"cluster": left})
    if not ranking.admitted.candidates[row]:
        return _why_no_candidate(ranking.admitted, columns.clusters[row])
    for verdict in ranking.admitted.verdicts:
        if verdict.failed[row]:
            return Reason("no_longer_passes", {"cluster": left, "filter": verdict.name})
    return Reason("fewer_wanted", {"cluster": left})


def _why_no_candidate(admitted: Admitted, cluster: Cluster) -> Reason:
    if cluster.deleting:
        return Reason("not_in_sets", {"cluster": cluster.name})
    if not admitted.sets:
        return Reason("no_binding", {"cluster": cluster.name})
    return Reason("not_in_bound_sets", {"cluster": cluster.name, "sets": ", ".join(admitted.sets)})
