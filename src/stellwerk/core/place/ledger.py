"""Counts the decisions of all placements by cluster, and gives those of all but one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stellwerk.core.inventory.columns import Bits, FleetColumns
from stellwerk.core.place.scores import Values


class Ledger:
    """Which clusters each placement has been given, and how often each cluster was.

    Clusters that the fleet doesn't know count as well: the most-used one may be among them.
    """

    def __init__(self, columns: FleetColumns) -> None:
        self.columns = columns
        self._of: dict[str, list[str]] = {}
        self._counts: dict[str, int] = {}
        self._rows: Values = np.zeros(columns.size, np.int64)
        self._outside: dict[str, bool] = {}
        self._layout = columns.layout

    def of(self, key: str) -> list[str]:
        """The clusters of a placement (``namespace/name``), best first."""
        return self._of.get(key, [])

    def set(self, key: str, clusters: Iterable[str], *, add: bool = False) -> None:
        """Writes down what a placement was given, instead of or beside what it had."""
        before = self._of.get(key, [])
        if add:
            names = list(clusters)
            for name in names:
                self._count(name, 1)
            now = list(dict.fromkeys([*before, *names]))
        else:
            now = list(dict.fromkeys(clusters))
            for name in before:
                if name not in now:
                    self._count(name, -1)
            for name in now:
                if name not in before:
                    self._count(name, 1)
        if now:
            self._of[key] = now
        else:
            self._of.pop(key, None)

    def others(self, key: str) -> tuple[Values, int]:
        """The decisions of all other placements by row, and the most that any cluster has."""
        counts = self.counts().copy()
        own = self._of.get(key, [])
        for name in own:
            row = self.columns.row.get(name, -1)
            if row >= 0:
                counts[row] -= 1
        return counts, max(int(counts.max(initial=0)), self.most_outside(own))

    def counts(self) -> Values:
        """All decisions by row, to be looked at and not to be changed."""
        self._fit()
        return self._rows

    def most(self) -> int:
        """The most decisions that any cluster has."""
        return max(int(self.counts().max(initial=0)), self.most_outside())

    def most_without(self, chosen: Values) -> tuple[tuple[int, Bits], ...]:
        """What the most is without the decisions of each of some placements, by who has it.

        ``chosen`` has a line of rows for each, -1 = none. It is one less for who has all of the
        most-used clusters.
        """
        counts, most = self.counts(), self.most()
        top = counts == most
        every: Bits = np.ones(len(chosen), np.bool_)
        if not top.any() or self.most_outside() == most:
            return ((most, every),)
        owned = np.append(top, np.zeros(1, np.bool_))[chosen].sum(axis=1)
        all_of_them: Bits = owned == int(top.sum())
        return ((most, ~all_of_them), (most - 1, all_of_them))

    def most_outside(self, own: Iterable[str] = ()) -> int:
        """The most decisions that a cluster has which isn't there, less those of ``own``."""
        mine = dict.fromkeys(own)
        counts = (self._counts.get(name, 0) - (name in mine) for name in self._outside)
        return max(counts, default=0)

    def _count(self, name: str, sign: int) -> None:
        self._counts[name] = self._counts.get(name, 0) + sign
        row = self.columns.row.get(name, -1)
        if row < 0:
            self._outside[name] = True
        elif self._layout == self.columns.layout:
            self._rows[row] += sign

    def _fit(self) -> None:
        """Takes over a fleet whose clusters have become others."""
        if self._layout == self.columns.layout:
            return
        self._layout = self.columns.layout
        self._rows = np.zeros(self.columns.size, np.int64)
        self._outside = {}
        for name, count in self._counts.items():
            row = self.columns.row.get(name, -1)
            if row >= 0:
                self._rows[row] = count
            elif count:
                self._outside[name] = True
