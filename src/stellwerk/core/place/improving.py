"""Asks the members of a class all at once whether a better cluster is there than what they have."""

from __future__ import annotations

import numpy as np

from stellwerk.core.inventory.columns import Bits
from stellwerk.core.place.admitted import Admitted
from stellwerk.core.place.filters import NEVER
from stellwerk.core.place.ledger import Ledger
from stellwerk.core.place.members import Members
from stellwerk.core.place.picking import needed_points
from stellwerk.core.place.scores import Values, balance_steps

MOST_ONE_BY_ONE = 256
"""Beyond so many clusters that rose, it isn't asked of each whether it beats what members have."""


class Asked:
    """What changed for a class, to ask its members whether a better cluster is there now."""

    def __init__(self, group: Members, before: Admitted, now: Admitted, rise: Values) -> None:
        self.group, self.now = group, now
        self._weights = dict(now.own_scores)
        self._must = max(1, needed_points(group.placement, now))
        self._known: Bits = now.unknown == 0
        chosen = group.chosen[: len(group.lines)]
        self.sunk: Bits = np.any(rise[chosen] < 0, axis=1, keepdims=False)
        risen = ((rise[:-1] > 0) | ~before.passed)[now.rows] & self._known
        self.risen: list[int] = np.flatnonzero(risen).tolist()
        if len(self.risen) > MOST_ONE_BY_ONE:
            self.risen = []
            self.sunk = np.ones(len(chosen), np.bool_)

    def ask_all(self) -> None:
        """Has every member asked about all clusters, not only about those that rose."""
        self.sunk = np.ones_like(self.sunk)

    def better(self, ledger: Ledger, lines: Values) -> Bits:
        """For whom of these some cluster is better than one that it has, with the decisions as they
        are: with and without what depends on decisions.
        """
        chosen = self.group.chosen[lines]
        found: Bits = np.zeros(len(lines), np.bool_)
        for most, those in ledger.most_without(chosen):
            if those.any():
                found[those] = self._better(ledger, most, chosen[those])
        return found

    def _better(self, ledger: Ledger, most: int, chosen: Values) -> Bits:
        now, filled = self.now, chosen >= 0
        places = np.minimum(np.searchsorted(now.rows, chosen), max(len(now.rows) - 1, 0))
        base = now.base[places] + now.unknown[places]
        held, total = base + 100 * self._weights.get("Steady", 0), now.base
        weight = self._weights.get("Balance", 0)
        if weight:
            steps, counts = balance_steps(most), ledger.counts()
            held = held + weight * steps[np.clip(counts[chosen] - 1, 0, len(steps) - 1)]
            total = total + weight * steps[np.minimum(counts[now.rows], len(steps) - 1)]
        least_base = np.where(filled, base, NEVER).min(axis=1) + self._must
        least = np.where(filled, held, NEVER).min(axis=1) + self._must
        good = np.flatnonzero(self._known & (now.base >= least_base.min()) & (total >= least.min()))
        better: Bits = np.zeros(len(chosen), np.bool_)
        for place in good.tolist():
            is_better = (least_base <= now.base[place]) & (least <= total[place])
            better |= is_better & ~((places == place) & filled).any(axis=1)
        return better

    def lines(self, ledger: Ledger, lines: Values | None = None) -> Values:
        """Which lines may have a better cluster, with the decisions as they are; some too many."""
        if lines is None:
            lines = np.arange(len(self.sunk))
        now, chosen = self.now, self.group.chosen[lines]
        standing = Standing(ledger, now)
        base, total = standing.worst(chosen)
        must = needed_points(self.group.placement, now) - standing.slack
        beaten: Bits = np.zeros(len(lines), np.bool_)
        for place in self.risen:
            better = (now.base[place] >= base + must) & (standing.total[place] >= total + must)
            if better.any():
                beaten |= better & ~(chosen == int(now.rows[place])).any(axis=1)
        sunk = self.sunk[lines]
        if sunk.any():
            sunk &= _beaten(now.base, now, chosen, base + must)
            beaten |= sunk & _beaten(standing.total, now, chosen, total + must)
        return lines[beaten]


class Standing:
    """How the clusters that passed stand now, with the decisions of all counted.

    ``slack`` is by how much a total may be off: what a placement has itself isn't taken off the
    count of the most-used cluster.
    """

    def __init__(self, ledger: Ledger, now: Admitted) -> None:
        counts, most = ledger.counts(), ledger.most()
        size = len(counts)
        weights = dict(now.own_scores)
        weight, self.slack = weights.get("Balance", 0), 0
        self.total: Values = now.base
        self._base = over_rows(now.base, now.rows, size)
        self._held = self._base + 100 * weights.get("Steady", 0)
        self._held += over_rows(now.unknown, now.rows, size)
        if weight:
            steps = balance_steps(most)
            self.total = now.base + weight * steps[counts[now.rows]]
            self._held[:-1] += weight * steps[np.maximum(counts - 1, 0)]
            self.slack = abs(weight) * (200 // max(most - 1, 1) + 4)
        self._base += over_rows(now.unknown, now.rows, size)

    def worst(self, chosen: Values) -> tuple[Values, Values]:
        """The lowest sum of scores, and the lowest total, among what each member has."""
        filled = chosen >= 0
        base = np.where(filled, self._base[chosen], NEVER).min(axis=1, initial=NEVER)
        return base, np.where(filled, self._held[chosen], NEVER).min(axis=1, initial=NEVER)


def _beaten(worth: Values, now: Admitted, chosen: Values, least: Values) -> Bits:
    """Who hasn't got some cluster that is worth at least so much."""
    known = np.flatnonzero(now.unknown == 0)

    beaten: Bits = np.zeros(len(chosen), np.bool_)
    if not len(known):
        return beaten
    most = min(chosen.shape[1] + 1, len(known))
    best = known[np.argpartition(-worth[known], most - 1)[:most]]
    for place in best.tolist():
        better = worth[place] >= least
        if better.any():
            row = int(now.rows[place])
            beaten |= better & ~(chosen == row).any(axis=1)
    return beaten


def over_rows(values: Values, rows: Values, size: int) -> Values:
    """Values of rows that passed, over all rows and one more, which -1 reads."""
    full = np.zeros(size + 1, np.int64)
    full[rows] = values
    return full
