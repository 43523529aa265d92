"""Keeps a fleet as columns: one row per cluster, one array per label, claim, amount or score.

A column is made when somebody first asks for it, so labels that no rule reads cost nothing, and a
changed cluster rewrites its row in those that exist. Each column counts its changes (`version`);
what was computed from columns holds as long as their versions are the same.

Rows are always in the order of names, so the columns of a fleet are the same however it came to
be. Where clusters come or go the rows are laid out anew; `rows_since` says which row is which, so
that what was computed of a row needn't be computed again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from math import isnan
from typing import Any

import numpy as np
from numpy.typing import NDArray

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.fleet import ClusterSet, Fleet, SetBinding
from stellwerk.core.model.resources import Allocation

Bits = NDArray[np.bool_]
Rows = NDArray[np.int64]
Floats = NDArray[np.float64]

FACTS = tuple(name for name in Cluster.__struct_fields__ if name != "scores")
NOBODY = Cluster(name="", driver="", nodes=())
LAYOUTS_KEPT = 16
"""So many changes of the layout can be followed; who was away for longer begins anew."""


class Words:
    """One label or claim over all clusters, as small numbers; 0 = the cluster hasn't got it."""

    __slots__ = ("_code", "codes", "read", "version", "words")

    def __init__(self, read: Callable[[Cluster], str | None], clusters: list[Cluster]) -> None:
        self.read = read
        self.words: list[str] = [""]
        self._code: dict[str, int] = {}
        self.codes = np.fromiter(map(self._of, clusters), np.int32, len(clusters))
        self.version = 0

    def _of(self, cluster: Cluster) -> int:
        word = self.read(cluster)
        if word is None:
            return 0
        code = self._code.get(word)
        if code is None:
            code = self._code[word] = len(self.words)
            self.words.append(word)
        return code

    def code(self, word: str) -> int:
        """The number of a word, -1 if no cluster has it."""
        return self._code.get(word, -1)

    def set(self, row: int, cluster: Cluster) -> None:
        """Writes a row anew."""
        code = self._of(cluster)
        if self.codes[row] != code:
            self.codes[row] = code
            self.version += 1

    def lay_out(self, rows: Rows) -> None:
        """Puts rows elsewhere; new ones are empty."""
        self.codes = laid_out(self.codes, rows)


class Numbers:
    """One number over all clusters; NaN = unknown."""

    __slots__ = ("read", "values", "version")

    def __init__(self, read: Callable[[Cluster], float], clusters: list[Cluster]) -> None:
        self.read = read
        self.values = np.fromiter(map(read, clusters), np.float64, len(clusters))
        self.version = 0

    def set(self, row: int, cluster: Cluster) -> None:
        """Writes a row anew."""
        value, old = self.read(cluster), self.values[row]
        if value != old and not (isnan(value) and isnan(old)):
            self.values[row] = value
            self.version += 1

    def lay_out(self, rows: Rows) -> None:
        """Puts rows elsewhere; new ones are empty."""
        self.values = laid_out(self.values, rows, np.nan)


class ScoreNumbers:
    """One score of one score object: its value, until when it holds, and when it was observed."""

    __slots__ = ("name", "observed_ms", "resource", "until_ms", "values", "version")

    def __init__(self, resource: str, name: str, clusters: list[Cluster]) -> None:
        self.resource, self.name = resource, name
        size = len(clusters)
        self.values = np.full(size, np.nan)
        self.until_ms = np.zeros(size, np.int64)
        self.observed_ms = np.zeros(size, np.int64)
        self.version = 0
        for row, cluster in enumerate(clusters):
            if cluster.scores:
                self.set(row, cluster)

    def set(self, row: int, cluster: Cluster) -> None:
        """Writes a row anew."""
        told = cluster.scores.get(self.resource)
        value, until, observed = float("nan"), 0, 0
        if told is not None:
            value = float(told.values.get(self.name, value))
            until, observed = told.valid_until_ms, told.observed_ms
        self.values[row], self.until_ms[row], self.observed_ms[row] = value, until, observed
        self.version += 1

    def lay_out(self, rows: Rows) -> None:
        """Puts rows elsewhere; new ones are empty."""
        self.values = laid_out(self.values, rows, np.nan)
        self.until_ms = laid_out(self.until_ms, rows)
        self.observed_ms = laid_out(self.observed_ms, rows)


class FleetColumns:
    """A fleet in columns. ``stamp`` counts updates; ``facts_at`` and ``taken_at`` say at which of
    them a cluster (less its scores), or what is in use on it, last changed, ``scores_at`` the same
    by score object. Of clusters with one name the last counts.
    """

    def __init__(self, fleet: Fleet) -> None:
        unique = {cluster.name: cluster for cluster in fleet.clusters}
        self.clusters: list[Cluster] = [unique[name] for name in sorted(unique)]
        self.row: dict[str, int] = {one.name: row for row, one in enumerate(self.clusters)}
        self.stamp = self.layout = 0
        size = len(self.clusters)
        self.facts_at: Rows = np.ones(size, np.int64)
        self.taken_at: Rows = np.ones(size, np.int64)
        self.taints_version = self.shape_version = self.taken_version = 0
        self.scores_at: dict[str, Rows] = {}
        self._words: dict[tuple[str, str], Words] = {}
        self._numbers: dict[tuple[str, str], Numbers] = {}
        self._scores: dict[tuple[str, str], ScoreNumbers] = {}
        self.tainted: dict[int, bool] = {}
        self.deleting: dict[int, bool] = {}
        self.windowed: dict[int, bool] = {}
        for row, cluster in enumerate(self.clusters):
            self._note(row, cluster)
        self.taken: dict[str, tuple[Allocation, ...]] = _by_cluster(fleet.taken)
        self.around(fleet)
        self._roster_id = ""
        self._laid_out: list[Rows] = []

    def around(self, fleet: Fleet) -> None:
        """Takes over everything of a fleet but its clusters and what is taken: it is small."""
        self.sets: dict[str, ClusterSet] = {one.name: one for one in fleet.sets}
        self.bound: dict[str, list[SetBinding]] = {}
        for binding in fleet.bindings:
            self.bound.setdefault(binding.namespace, []).append(binding)
        self.somebody_bound = not all(binding.implied for binding in fleet.bindings)
        self.latency: dict[str, dict[str, float]] = {}
        for one in fleet.latencies:
            self.latency.setdefault(one.client_region, {})[one.cluster] = one.ms
        self.stamp += 1
        self.shape_version += 1

    @property
    def size(self) -> int:
        """The number of rows."""
        return len(self.clusters)

    @property
    def roster_id(self) -> str:
        """What identifies the names of the rows."""
        if not self._roster_id:
            text = "\0".join(one.name for one in self.clusters).encode()
            self._roster_id = hashlib.sha256(text).hexdigest()[:16]
        return self._roster_id

    def rows_since(self, layout: int) -> Rows | None:
        """For each row the one that it was at an earlier ``layout``, -1 = it is new.

        None: that is too long ago to be known.
        """
        if layout == self.layout:
            return np.arange(self.size)
        if self.layout - layout > len(self._laid_out):
            return None
        *earlier, rows = self._laid_out[len(self._laid_out) - (self.layout - layout) :]
        for before in reversed(earlier):
            rows = laid_out(before, rows, -1)
        return rows

    def words(self, part: str, key: str) -> Words:
        """The column of a label (``labels``) or claim (``claims``)."""
        column = self._words.get((part, key))
        if column is None:
            labels = part == "labels"

            def read(cluster: Cluster) -> str | None:
                return (cluster.labels if labels else cluster.claims).get(key)

            column = self._words[part, key] = Words(read, self.clusters)
        return column

    def amounts(self, part: str, resource: str) -> Numbers:
        """The column of an amount of ``capacity`` or ``allocatable``, in thousandths."""
        whole = part == "capacity"

        def read(cluster: Cluster) -> float:
            value = (cluster.capacity if whole else cluster.allocatable).get(resource)
            return float("nan") if value is None else float(value)

        return self.numbers(part, resource, read)

    def numbers(self, part: str, name: str, read: Callable[[Cluster], float]) -> Numbers:
        """A column of numbers that ``read`` finds in a cluster, kept by part and name."""
        column = self._numbers.get((part, name))
        if column is None:
            column = self._numbers[part, name] = Numbers(read, self.clusters)
        return column

    def scores(self, resource: str, name: str) -> ScoreNumbers:
        """The column of one score of a score object."""
        column = self._scores.get((resource, name))
        if column is None:
            column = self._scores[resource, name] = ScoreNumbers(resource, name, self.clusters)
        return column

    def scores_of(self, resource: str) -> Rows:
        """When a score object last changed, by row."""
        at = self.scores_at.get(resource)
        if at is None:
            at = self.scores_at[resource] = np.full(self.size, self.stamp, np.int64)
        return at

    def update(self, changed: Iterable[Cluster] = (), gone: Iterable[str] = ()) -> None:
        """Takes over clusters that are new or changed, and drops those that are gone.

        Of clusters with one name the last counts.
        """
        self.stamp += 1
        unique = {one.name: one for one in changed}
        added = sorted(name for name in unique if name not in self.row)
        left = dict.fromkeys(name for name in gone if name in self.row and name not in unique)
        if added or left:
            self._lay_out(added, left)
        for one in unique.values():
            self._write(self.row[one.name], one)

    def take(self, taken: Mapping[str, tuple[Allocation, ...]]) -> None:
        """Takes over what is in use on some clusters, by name."""
        self.stamp += 1
        self.taken_version += 1
        for name, allocations in taken.items():
            self.taken[name] = allocations
            if name in self.row:
                self.taken_at[self.row[name]] = self.stamp

    def _write(self, row: int, cluster: Cluster) -> None:
        old = self.clusters[row]
        self.clusters[row] = cluster
        if old.scores != cluster.scores:
            self._rescore(row, old, cluster)
        if all(getattr(old, name) == getattr(cluster, name) for name in FACTS):
            return
        self.facts_at[row] = self.stamp
        for words in self._words.values():
            words.set(row, cluster)
        for numbers in self._numbers.values():
            numbers.set(row, cluster)
        if old.taints != cluster.taints:
            self.taints_version += 1
        if old.nodes != cluster.nodes or old.kind != cluster.kind:
            self.taken_version += 1
        self._note(row, cluster)

    def _rescore(self, row: int, old: Cluster, cluster: Cluster) -> None:
        for (resource, _), column in self._scores.items():
            if old.scores.get(resource) != cluster.scores.get(resource):
                column.set(row, cluster)
        for resource, at in self.scores_at.items():
            if old.scores.get(resource) != cluster.scores.get(resource):
                at[row] = self.stamp

    def _note(self, row: int, cluster: Cluster) -> None:
        """Remembers which rows have something that few have."""
        for rows, has in (
            (self.tainted, bool(cluster.taints)),
            (self.deleting, cluster.deleting),
            (self.windowed, bool(cluster.windows)),
        ):
            if has:
                rows[row] = True
                self.shape_version += rows is not self.tainted
            elif rows.pop(row, False):
                self.shape_version += rows is not self.tainted

    def _lay_out(self, added: list[str], left: dict[str, None]) -> None:
        """Makes room for new clusters, in the order of names, and none for those that left."""
        stay = [one.name for one in self.clusters if one.name not in left]
        names = sorted([*stay, *added])
        rows = np.fromiter((self.row.get(name, -1) for name in names), np.int64, len(names))
        for name in left:
            self.taken.pop(name, None)
        was = rows.tolist()
        self.clusters = [self.clusters[row] if row >= 0 else NOBODY for row in was]
        self.row = {name: row for row, name in enumerate(names)}
        now = {old: row for row, old in enumerate(was)}
        self.tainted, self.deleting, self.windowed = (
            {now[row]: True for row in few if row in now}
            for few in (self.tainted, self.deleting, self.windowed)
        )
        self.facts_at = laid_out(self.facts_at, rows, self.stamp)
        self.taken_at = laid_out(self.taken_at, rows, self.stamp)
        self.scores_at = {key: laid_out(at, rows, self.stamp) for key, at in self.scores_at.items()}
        columns: list[Words | Numbers] = [*self._words.values(), *self._numbers.values()]
        for column in (*columns, *self._scores.values()):
            column.lay_out(rows)
        self.layout += 1
        self.shape_version += 1
        self.taints_version += 1
        self.taken_version += 1
        self._roster_id = ""
        self._laid_out = [*self._laid_out[1 - LAYOUTS_KEPT :], rows]


def _by_cluster(taken: Iterable[Allocation]) -> dict[str, tuple[Allocation, ...]]:
    found: dict[str, list[Allocation]] = {}
    for one in taken:
        found.setdefault(one.cluster, []).append(one)
    return {name: tuple(held) for name, held in found.items()}


def laid_out(array: NDArray[Any], rows: Rows, value: float = 0) -> NDArray[Any]:
    """An array by rows after these were laid out anew; ``value`` stands in new rows."""
    if not len(array):
        return np.full(len(rows), value, array.dtype)
    found = array[rows]
    found[rows < 0] = value
    return found


def rows_after(rows: Rows, most: int) -> Rows:
    """Where each earlier row is now (-1 = nowhere), of rows up to ``most`` and of -1."""
    now = np.full(max(int(rows.max(initial=-1)), most) + 2, -1, np.int64)
    there = rows >= 0
    now[rows[there]] = np.flatnonzero(there)
    return now
