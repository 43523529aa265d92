"""Chooses by rank under spread constraints: counts per domain differ by at most the skew.

The domains are those of the clusters that passed the filters. Under DoNotSchedule a cluster that
would widen the difference beyond the skew, or that is in no domain, isn't taken; under
ScheduleAnyway those that keep it are preferred. What can't be taken now may be later, when others
have filled the emptier domains.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from stellwerk.core.inventory.columns import Bits, FleetColumns, Rows
from stellwerk.core.model.placement import SpreadConstraint


class Domains:
    """One constraint, and how many chosen clusters each of its domains has."""

    __slots__ = ("codes", "constraint", "counts", "hard", "present")

    def __init__(self, columns: FleetColumns, one: SpreadConstraint, rows: Rows) -> None:
        part = "labels" if one.key_type == "Label" else "claims"
        words = columns.words(part, one.topology_key)
        self.constraint = one
        self.hard = one.when_unsatisfiable == "DoNotSchedule"
        self.codes = words.codes[rows]
        self.counts: Rows = np.zeros(len(words.words), np.int64)
        self.present: Bits = np.zeros(len(words.words), np.bool_)
        self.present[self.codes] = True
        self.present[0] = False

    def allowed(self) -> Bits:
        """Which domains may take one more."""
        if not self.present.any():
            return self.present
        least = self.counts[self.present].min()
        close: Bits = self.counts + 1 - least <= self.constraint.max_skew
        return np.logical_and(self.present, close)

    def even(self) -> bool:
        """Whether the counts are within the skew."""
        counts = self.counts[self.present]
        return not len(counts) or int(counts.max() - counts.min()) <= self.constraint.max_skew

    def add(self, place: int, sign: int = 1) -> None:
        """Counts a cluster, or with ``sign=-1`` no longer."""
        self.counts[self.codes[place]] += sign


class Spread:
    """The constraints of a placement while clusters are chosen."""

    def __init__(
        self, columns: FleetColumns, constraints: tuple[SpreadConstraint, ...], rows: Rows
    ) -> None:
        """``rows`` are the clusters that passed; all else speaks of places among them."""
        self.domains = [Domains(columns, one, rows) for one in constraints]

    def take(self, ranked: NDArray[np.int64], count: int) -> list[int]:
        """Chooses up to ``count`` places, best ranked first, and counts them.

        Of places in equal domains the next is always the best ranked of them, so each step looks at
        one place for each combination of domains.
        """
        chosen: list[int] = []
        kinds, members = self._alike(ranked)
        over = len(ranked)
        first = np.array([places.pop() for places in members], np.int64)
        while len(chosen) < count:
            may = np.less(first, over)
            better = may.copy()
            for one, codes in zip(self.domains, kinds, strict=True):
                allowed = one.allowed()[codes]
                better &= allowed
                if one.hard:
                    may &= allowed
            better &= may
            wanted = better if better.any() else may
            if not wanted.any():
                break
            kind = int(np.where(wanted, first, over).argmin())
            chosen.append(int(ranked[first[kind]]))
            first[kind] = members[kind].pop() if members[kind] else over
            for one in self.domains:
                one.add(chosen[-1])
        return chosen

    def _alike(self, ranked: NDArray[np.int64]) -> tuple[NDArray[np.int32], list[list[int]]]:
        """Which combinations of domains there are, and the places in each, the best ranked last."""
        codes = np.stack([one.codes[ranked] for one in self.domains])
        kinds, kind = np.unique(codes, axis=1, return_inverse=True)
        members: list[list[int]] = [[] for _ in range(kinds.shape[1])]
        for place, which in reversed(list(enumerate(kind.reshape(-1).tolist()))):
            members[which].append(place)
        return kinds, members

    def swaps(self, left: int, taken: int) -> bool:
        """Exchanges one chosen cluster for another if the hard constraints still hold then."""
        for one in self.domains:
            one.add(left, -1)
            one.add(taken)
        if all(one.even() and one.codes[taken] > 0 for one in self.domains if one.hard):
            return True
        for one in self.domains:
            one.add(left)
            one.add(taken, -1)
        return False

    def refusing(self, place: int) -> str:
        """The constraint that keeps a cluster from being taken now; "" = none does."""
        for one in self.domains:
            if one.hard and not one.allowed()[one.codes[place]]:
                return one.constraint.topology_key
        return ""
