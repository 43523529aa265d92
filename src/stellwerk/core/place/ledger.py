"""Counts the decisions of all placements by cluster, and gives those of all but one."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from stellwerk.core.inventory.columns import FleetColumns
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
        before = [] if add else self._of.get(key, [])
        now = list(clusters)
        for name in before:
            self._count(name, -1)
        for name in now:
            self._count(name, 1)
        if add:
            now = [*self._of.get(key, []), *now]
        if now:
            self._of[key] = list(dict.fromkeys(now))
        else:
            self._of.pop(key, None)

    def others(self, key: str) -> tuple[Values, int]:
        """The decisions of all other placements by row, and the most that any cluster has."""
        self._fit()
        counts = self._rows.copy()
        own = self._of.get(key, [])
        for name in own:
            row = self.columns.row.get(name, -1)
            if row >= 0:
                counts[row] -= 1
        most = int(counts.max(initial=0))
        mine = dict.fromkeys(own, True)
        for name in self._outside:
            most = max(most, self._counts.get(name, 0) - (name in mine))
        return counts, most

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
