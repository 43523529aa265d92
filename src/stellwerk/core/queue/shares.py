"""How much of what others own a queue or cohort uses: the share by which fairness is measured.

The share is the largest, over resources, of what is borrowed in all flavors, in thousandths of what
the parent could lend, divided by the weight. Weight 0 and borrowing is more than any other.
"""

from __future__ import annotations

from typing import NamedTuple

from stellwerk.core.queue.tree import QuotaNode, Usage

NOTHING: Usage = {}


class Share(NamedTuple):
    """Comparable: those of weight 0 come last, and are compared without a weight."""

    endless: bool
    value: float

    @property
    def borrows(self) -> bool:
        """Whether anything is borrowed at all."""
        return self.value > 0


NO_SHARE = Share(False, 0.0)


def share_of(node: QuotaNode) -> Share:
    """The share of a node now; 0 at the top of a tree."""
    parent = node.parent
    if parent is None:
        return NO_SHARE
    borrowed: dict[str, int] = {}
    for pair, usage in node.usage.items():
        beyond = usage - node.subtree.get(pair, 0)
        if beyond > 0:
            borrowed[pair.resource] = borrowed.get(pair.resource, 0) + beyond
    if not borrowed:
        return NO_SHARE
    lendable = dict.fromkeys(borrowed, 0)
    for pair in node.root().subtree:
        if pair.resource in lendable:
            lendable[pair.resource] += parent.potential(pair)
    ratio = max(
        (amount * 1000.0 / lendable[name] for name, amount in borrowed.items() if lendable[name]),
        default=0.0,
    )
    if ratio and not node.weight:
        return Share(True, ratio)
    return Share(False, ratio / node.weight if ratio else 0.0)
