"""Adds up what queues and cohorts held over time, how much of it was borrowed, and who lent it.

At each moment a queue has borrowed what it uses beyond its nominal quota. What is borrowed in a
tree comes from those whose quota isn't in use, each in proportion to how much of it isn't. Counted
is by the quota of now: what it was earlier isn't looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec import Struct

from stellwerk.core.model.queueing import Pair
from stellwerk.core.queueing_quota import QuotaOf


class Span(Struct, frozen=True):
    """What one run held of one pair, in thousandths of its unit, from ``start_ms`` to ``end_ms``.

    ``by`` names the queue.
    """

    by: str
    pair: Pair
    amount: int
    start_ms: int
    end_ms: int


class HeldOver(Struct):
    """Amount times time, in thousandths of a unit times milliseconds."""

    held: float = 0.0
    borrowed: float = 0.0
    lent: float = 0.0


Key = tuple[str, Pair]


def held_over(
    rows: Iterable[QuotaOf], spans: Iterable[Span], since_ms: int, until_ms: int
) -> dict[Key, HeldOver]:
    """What each queue and cohort of the trees held of each pair in a span of time.

    ``rows`` are the trees from their roots down. A cohort has held what is held below it; what it
    lent is of its own quota.
    """
    trees = _trees(list(rows))
    by_tree: dict[tuple[str, Pair], list[tuple[int, str, int]]] = {}
    for one in spans:
        start, end = max(one.start_ms, since_ms), min(one.end_ms, until_ms)
        root = trees.root_of.get(one.by)
        if root is not None and end > start:
            changes = by_tree.setdefault((root, one.pair), [])
            changes += [(start, one.by, one.amount), (end, one.by, -one.amount)]
    found: dict[Key, HeldOver] = {}
    for (root, pair), changes in by_tree.items():
        sweep = _Sweep(trees.nominal.get((root, pair), {}), trees.lends(root))
        for name, part in sweep.run(sorted(changes), until_ms).items():
            own = found.setdefault((name, pair), HeldOver())
            own.held, own.borrowed, own.lent = own.held + part.held, part.borrowed, part.lent
            for above in trees.above.get(name, ()):
                found.setdefault((above, pair), HeldOver()).held += part.held
    return found


class _Trees(Struct):
    root_of: dict[str, str] = {}
    above: dict[str, tuple[str, ...]] = {}
    nominal: dict[tuple[str, Pair], dict[str, int]] = {}
    alone: dict[str, bool] = {}

    def lends(self, root: str) -> bool:
        """Whether there is anybody to lend to."""
        return not self.alone.get(root, False)


def _trees(rows: list[QuotaOf]) -> _Trees:
    found = _Trees()
    way: list[str] = []
    for one in rows:
        way = [*way[: one.depth], one.name]
        root = way[0]
        found.root_of.setdefault(one.name, root)
        found.above[one.name] = tuple(way[:-1])
        if one.depth == 0:
            found.alone[root] = one.kind == "queue"
        for pair in one.pairs:
            key = root, Pair(pair.flavor, pair.resource)
            found.nominal.setdefault(key, {})[one.name] = pair.nominal or 0
    return found


class _Sweep:
    """Goes through the changes of one pair's use in one tree; each costs the same."""

    def __init__(self, nominal: Mapping[str, int], lends: bool) -> None:
        self._nominal = nominal
        self._lends = lends
        self._used: dict[str, int] = {}
        self._since: dict[str, tuple[int, float]] = {}
        self._found: dict[str, HeldOver] = {}
        self._borrowed = 0
        self._unused = sum(nominal.values())
        self._given = 0.0
        self._at_ms = 0

    def run(self, changes: list[tuple[int, str, int]], until_ms: int) -> dict[str, HeldOver]:
        """What each held, borrowed and lent."""
        if not changes:
            return {}
        self._at_ms = changes[0][0]
        for name in self._nominal:
            self._since[name] = self._at_ms, 0.0
        for at_ms, name, change in changes:
            self._go_to(at_ms)
            self._settle(name)
            self._count(name, -1)
            self._used[name] = self._used.get(name, 0) + change
            self._count(name, 1)
        self._go_to(until_ms)
        for name in dict.fromkeys((*self._nominal, *self._used)):
            self._settle(name)
        return self._found

    def _go_to(self, at_ms: int) -> None:
        if self._lends and self._unused > 0:
            part = min(self._borrowed, self._unused) / self._unused
            self._given += part * (at_ms - self._at_ms)
        self._at_ms = at_ms

    def _count(self, name: str, sign: int) -> None:
        beyond = self._used.get(name, 0) - self._nominal.get(name, 0)
        self._borrowed += sign * max(0, beyond)
        self._unused += sign * max(0, -beyond)

    def _settle(self, name: str) -> None:
        since_ms, given = self._since.get(name, (self._at_ms, self._given))
        self._since[name] = self._at_ms, self._given
        used, beyond = self._used.get(name, 0), self._used.get(name, 0) - self._nominal.get(name, 0)
        one = self._found.setdefault(name, HeldOver())
        one.held += used * (self._at_ms - since_ms)
        if self._lends:
            one.borrowed += max(0, beyond) * (self._at_ms - since_ms)
            one.lent += max(0, -beyond) * (self._given - given)
