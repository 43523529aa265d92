"""The order in which the heads of the queues are handled in one cycle."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from stellwerk.core.queue.shares import NO_SHARE, Share, share_of
from stellwerk.core.queue.tree import QuotaNode, Usage

_Rank = tuple[bool, Share, int, int, str]


class Head(NamedTuple):
    """A head with what decides on its turn; ``level`` is how far it would borrow."""

    key: str
    node: QuotaNode
    usage: Usage
    level: int
    priority: int
    queued_ms: int
    uid: str


def arranged(heads: Iterable[Head], *, fair: bool) -> Iterator[Head]:
    """The heads in turn. Under fair sharing the next one is looked for when it is asked for."""
    if not fair:
        yield from sorted(heads, key=lambda one: (one.level, -one.priority, one.queued_ms, one.uid))
        return
    by_root: dict[int, dict[str, Head]] = {}
    roots: dict[int, QuotaNode] = {}
    for head in sorted(heads, key=lambda one: one.node.name):
        root = head.node.root()
        roots[id(root)] = root
        by_root.setdefault(id(root), {})[head.node.name] = head
    for key, waiting in by_root.items():
        while waiting:
            winner = _winner(roots[key], waiting)
            if winner is None:
                break
            del waiting[winner.node.name]
            yield winner


def _winner(root: QuotaNode, waiting: dict[str, Head]) -> Head | None:
    """The head that wins on every level on its way up."""
    if root.is_queue:
        return waiting.get(root.name)
    ranks = _ranks(root, waiting)

    def best(cohort: QuotaNode) -> Head | None:
        found: tuple[_Rank, Head] | None = None
        for child in cohort.children:
            head = waiting.get(child.name) if child.is_queue else best(child)
            if head is None:
                continue
            rank = ranks[id(cohort), head.key]
            if found is None or rank < found[0]:
                found = rank, head
        return None if found is None else found[1]

    return best(root)


def _ranks(root: QuotaNode, waiting: dict[str, Head]) -> dict[tuple[int, str], _Rank]:
    """For each head and cohort above it: does it make that branch borrow, its share then, age."""
    ranks: dict[tuple[int, str], _Rank] = {}
    for head in waiting.values():
        head.node.add(head.usage)
        node = head.node
        while node.parent is not None:
            borrows = not node.is_within(head.usage)
            share = share_of(node) if node is not root else NO_SHARE
            rank = (borrows, share, -head.priority, head.queued_ms, head.uid)
            ranks[id(node.parent), head.key] = rank
            node = node.parent
        head.node.remove(head.usage)
    return ranks
