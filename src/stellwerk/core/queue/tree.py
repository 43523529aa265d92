"""The quota tree: how much a queue may use now, how much it ever could, and how far it borrows.

Five formulas, per pair of flavor and resource, on every node (n) of the tree:

- private(n) = what n doesn't lend; nothing if it has no lending limit
- subtree(queue) = nominal; subtree(cohort) = nominal + the sum of its children's subtree - private
- usage(cohort) = the sum of what its children use beyond their private part
- available(root) = subtree - usage; available(n) = the free private part + what the parent has
  available, at most up to n's borrowing limit
- potential(n) = the same with nothing used

Usage of a cohort follows from that of its children alone, so taking away undoes adding, in any
order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from stellwerk.core.model.queueing import ClusterQueue, Cohort, Pair, Quota, ResourceGroup

Usage = Mapping[Pair, int]


class QuotaNode:
    """A cohort or a queue in the tree; ``height`` 0 = a queue.

    ``over`` holds, by pair, the children that use more than they have, so that whoever claims
    something back looks at those alone. ``version`` of a root counts what changed for good in it.
    """

    __slots__ = (
        "borrowing", "broken", "children", "height", "is_queue", "key", "lending", "name",
        "nominal", "over", "parent", "private", "subtree", "top", "usage", "version", "weight",
    )  # fmt: skip

    def __init__(self, name: str, groups: Iterable[ResourceGroup], weight: float, queue: bool):
        self.name = name
        self.key = f"{'queue' if queue else 'cohort'}/{name}"
        self.is_queue = queue
        self.weight = weight
        self.parent: QuotaNode | None = None
        self.top: QuotaNode = self
        self.children: list[QuotaNode] = []
        self.height = 0
        self.broken = False
        self.nominal: dict[Pair, int] = {}
        self.borrowing: dict[Pair, int] = {}
        self.lending: dict[Pair, int] = {}
        self.subtree: dict[Pair, int] = {}
        self.private: dict[Pair, int] = {}
        self.usage: dict[Pair, int] = {}
        self.over: dict[Pair, dict[str, QuotaNode]] = {}
        self.version = 0
        for pair, quota in pairs_of(groups):
            self.nominal[pair] = quota.nominal
            if quota.borrowing is not None:
                self.borrowing[pair] = quota.borrowing
            if quota.lending is not None:
                self.lending[pair] = quota.lending

    def available(self, pair: Pair) -> int:
        """What can be used more now; negative where more is used than there is."""
        subtree, usage = self.subtree.get(pair, 0), self.usage.get(pair, 0)
        parent = self.parent
        if parent is None:
            return subtree - usage
        private = self.private.get(pair, 0)
        lent = parent.available(pair)
        limit = self.borrowing.get(pair)
        if limit is not None:
            lent = min(lent, subtree - private - max(0, usage - private) + limit)
        return max(0, private - usage) + lent

    def potential(self, pair: Pair) -> int:
        """What could be used if nothing were."""
        subtree = self.subtree.get(pair, 0)
        if self.parent is None:
            return subtree
        most = self.private.get(pair, 0) + self.parent.potential(pair)
        limit = self.borrowing.get(pair)
        return most if limit is None else min(most, subtree + limit)

    def free_private(self, pair: Pair) -> int:
        """What is left of the part that isn't lent."""
        return max(0, self.private.get(pair, 0) - self.usage.get(pair, 0))

    def borrows_with(self, pair: Pair, more: int) -> bool:
        """Whether it would use more than it has, with so much more."""
        return self.usage.get(pair, 0) + more > self.subtree.get(pair, 0)

    def is_within(self, pairs: Iterable[Pair]) -> bool:
        """Whether it uses no more than it has of each pair."""
        usage, subtree = self.usage, self.subtree
        return all(usage.get(pair, 0) <= subtree.get(pair, 0) for pair in pairs)

    def add(self, usage: Usage) -> None:
        """Counts use here and, beyond the private part, above."""
        for pair, amount in usage.items():
            self._add(pair, amount)

    def _add(self, pair: Pair, amount: int) -> None:
        node: QuotaNode | None = self
        while node is not None and amount:
            usage = node.usage.get(pair, 0)
            free = max(0, node.private.get(pair, 0) - usage)
            usage = node.usage[pair] = usage + amount
            if node.parent is not None and usage > node.subtree.get(pair, 0):
                node.parent.over.setdefault(pair, {})[node.key] = node
            amount = max(0, amount - free)
            node = node.parent

    def remove(self, usage: Usage) -> None:
        """Takes use away that was added before."""
        for pair, amount in usage.items():
            self._remove(pair, amount)

    def _remove(self, pair: Pair, amount: int) -> None:
        node: QuotaNode | None = self
        while node is not None and amount > 0:
            used = node.usage.get(pair, 0)
            beyond = used - node.private.get(pair, 0)
            used = node.usage[pair] = used - amount
            if node.parent is not None and used <= node.subtree.get(pair, 0):
                node.parent.over.get(pair, {}).pop(node.key, None)
            amount = min(amount, max(0, beyond))
            node = node.parent

    def borrowing_children(self, pairs: Iterable[Pair]) -> Iterator[QuotaNode]:
        """The children that use more than they have of one of the pairs."""
        over = [self.over[pair] for pair in pairs if self.over.get(pair)]
        if len(over) == 1:
            return iter(over[0].values())
        return iter({key: node for found in over for key, node in found.items()}.values())

    def above(self) -> Iterator[QuotaNode]:
        """The cohorts from its parent to the root."""
        node = self.parent
        while node is not None:
            yield node
            node = node.parent

    def root(self) -> QuotaNode:
        """The top of its tree; itself without a cohort."""
        return self.top

    def queues(self) -> Iterator[QuotaNode]:
        """The queues below it, or itself."""
        if self.is_queue:
            yield self
        for child in self.children:
            yield from child.queues()

    def borrowing_queues(self, pairs: Iterable[Pair]) -> Iterator[QuotaNode]:
        """The queues anywhere below it that use more than they have of one of the pairs."""
        for child in self.borrowing_children(pairs):
            if child.is_queue:
                yield child
        for child in self.children:
            if not child.is_queue:
                yield from child.borrowing_queues(pairs)


def pairs_of(groups: Iterable[ResourceGroup]) -> Iterator[tuple[Pair, Quota]]:
    """Every pair with its quota."""
    for group in groups:
        for one in group.flavors:
            for resource, quota in one.quotas.items():
                yield Pair(one.flavor, resource), quota


class QuotaTree:
    """All nodes by name; queues and cohorts have names of their own kinds."""

    def __init__(self, queues: Iterable[ClusterQueue], cohorts: Iterable[Cohort]) -> None:
        self.cohorts: dict[str, QuotaNode] = {}
        self.queues: dict[str, QuotaNode] = {}
        parents: dict[str, str] = {}
        for cohort in sorted(cohorts, key=lambda one: one.name):
            node = QuotaNode(cohort.name, cohort.groups, cohort.weight, queue=False)
            self.cohorts[cohort.name] = node
            parents[cohort.name] = cohort.parent
        for parent in sorted(parents.values()):
            self._cohort(parent)
        for queue in sorted(queues, key=lambda one: one.name):
            node = QuotaNode(queue.name, queue.groups, queue.weight, queue=True)
            self.queues[queue.name] = node
            self._put_under(node, queue.cohort)
        looping = self._looping(parents)
        for name, parent in parents.items():
            if name in looping:
                self.cohorts[name].broken = True
            else:
                self._put_under(self.cohorts[name], parent)
        for name in parents:
            self._break_below(self.cohorts[name])
        for node in (*self.cohorts.values(), *self.queues.values()):
            if node.parent is None:
                _sum_up(node)

    def _cohort(self, name: str) -> QuotaNode | None:
        """A cohort; one that is only named is there, and empty."""
        if name and name not in self.cohorts:
            self.cohorts[name] = QuotaNode(name, (), 1.0, queue=False)
        return self.cohorts.get(name)

    def _put_under(self, node: QuotaNode, parent: str) -> None:
        node.parent = self._cohort(parent)
        if node.parent is not None:
            node.parent.children.append(node)

    @staticmethod
    def _looping(parents: Mapping[str, str]) -> dict[str, None]:
        """The cohorts that are above themselves."""
        found: dict[str, None] = {}
        done: dict[str, None] = {}
        for start in parents:
            trail: dict[str, None] = {}
            name = start
            while name in parents and name not in done and name not in trail:
                trail[name] = None
                name = parents[name]
            if name in trail:
                way = list(trail)
                found.update(dict.fromkeys(way[way.index(name) :]))
            done.update(trail)
        return found

    @staticmethod
    def _break_below(node: QuotaNode) -> None:
        if node.broken:
            stack = list(node.children)
            while stack:
                child = stack.pop()
                child.broken = True
                stack += child.children


def _sum_up(top: QuotaNode) -> None:
    """Fills in what follows from nominal quotas and limits, children first."""
    order, stack = [], [top]
    while stack:
        node = stack.pop()
        node.top = top
        order.append(node)
        stack += node.children
    for node in reversed(order):
        node.subtree = dict(node.nominal)
        for child in node.children:
            for pair, amount in child.subtree.items():
                lent = amount - child.private.get(pair, 0)
                node.subtree[pair] = node.subtree.get(pair, 0) + lent
            node.height = max(node.height, child.height + 1)
        for pair, limit in node.lending.items():
            node.private[pair] = max(0, node.subtree.get(pair, 0) - limit)
        if not node.is_queue:
            node.height = max(node.height, 1)


def level_that_fits(queue: QuotaNode, pair: Pair, amount: int) -> tuple[int, bool]:
    """How far it borrows: the height of the smallest subtree that has so much more.

    0 = its own nominal quota. Also whether that subtree is a part of a larger one, so that what was
    lent out of it can be claimed back.
    """
    if queue.parent is None or not queue.borrows_with(pair, amount):
        return 0, queue.parent is not None
    left = amount - queue.free_private(pair)
    top = queue.parent
    for node in queue.above():
        if not node.borrows_with(pair, left):
            return node.height, node.parent is not None
        left -= node.free_private(pair)
        top = node
    return top.height, False
