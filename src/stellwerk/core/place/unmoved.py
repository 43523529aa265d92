"""Says of many placements with one spec at once who would be given again exactly what it has.

This is for rules by which nothing stays but by its rank (`compat: ocm`): a placement's clusters are
the best ones with the decisions of all others counted. Whoever has them, in order, needn't be asked
one by one. The answer is exact for the ledger as it is.
"""

from __future__ import annotations

import numpy as np

from stellwerk.core.inventory.columns import Bits
from stellwerk.core.place.admitted import Admitted
from stellwerk.core.place.ledger import Ledger
from stellwerk.core.place.members import Members
from stellwerk.core.place.scores import Values, balance_steps


def unmoved(group: Members, now: Admitted, ledger: Ledger, lines: Values) -> Bits:
    """Which of these lines have the best clusters, best first."""
    chosen = group.chosen[lines]
    width = min(group.placement.count or 0, len(now.rows))
    same: Bits = np.equal((chosen >= 0).sum(axis=1), width)
    passes = np.append(now.passed, np.ones(1, np.bool_))
    same &= passes[chosen].all(axis=1)
    if not width:
        return same
    for most, those in ledger.most_without(chosen):
        asked = np.flatnonzero(same & those)
        if len(asked):
            table = _Table(now, ledger.counts(), most)
            same[asked] = table.best(chosen[asked, :width])
    return same


class _Table:
    """What each cluster is worth to who hasn't got it, and to who has."""

    def __init__(self, now: Admitted, counts: Values, most: int) -> None:
        self.rows, weights = now.rows, dict(now.own_scores)
        free = now.base
        held = now.base + 100 * weights.get("Steady", 0)
        weight = weights.get("Balance", 0)
        if weight:
            # A count beyond the most is one of the asker's own, which isn't counted for it.
            steps, mine = balance_steps(most), counts[now.rows]
            free = free + weight * steps[np.minimum(mine, len(steps) - 1)]
            held = held + weight * steps[np.clip(mine - 1, 0, len(steps) - 1)]
        self.free, self.held = free, held

    def best(self, chosen: Values) -> Bits:
        """Which lines hold the best, in order."""
        width = chosen.shape[1]
        places = np.searchsorted(self.rows, chosen)
        totals = self.held[places]
        ordered = (totals[:, :-1] > totals[:, 1:]) | (
            (totals[:, :-1] == totals[:, 1:]) & (places[:, :-1] < places[:, 1:])
        )
        found: Bits = ordered.all(axis=1)
        last, at = totals[:, -1], places[:, -1]
        open_: Bits = found.copy()
        for place in self._top(width + 1):
            if not open_.any():
                break
            outside = open_ & ~(places == place).any(axis=1)
            worth = int(self.free[place])
            found[outside] &= ((last > worth) | ((last == worth) & (at < place)))[outside]
            open_ &= ~outside
        return found

    def _top(self, count: int) -> list[int]:
        """The best places for who has none of them."""
        size = len(self.free)
        key = self.free * (1 << 20) - np.arange(size)
        best = np.argpartition(-key, count)[:count] if count < size else np.arange(size)
        order: list[int] = best[np.argsort(-key[best])].tolist()
        return order
