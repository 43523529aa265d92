"""By what LocalQueues used before, where their queue lets whoever used least come first.

What is begun in a cycle counts in advance, so that LocalQueues take turns within it too.
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

from stellwerk.core.model.holding import Holding
from stellwerk.core.model.resources import Shape
from stellwerk.core.queue.past_use import penalty, weighed
from stellwerk.core.queue.quota import Quota
from stellwerk.core.view import View


class Past(NamedTuple):
    """The queue in which a shape's LocalQueue is ordered by past use, and how much that is now."""

    queue: str
    used: float


class PastOrder:
    """Past use by LocalQueue in one cycle, weighed as the Configuration says."""

    def __init__(self, view: View, quota: Quota) -> None:
        self._past_use = view.past_use
        self._quota = quota
        self._rules = quota.objects.settings.past_use
        self._weighed: dict[str, float] = {}

    @cached_property
    def _by_local_queue(self) -> dict[str, dict[str, float]]:
        """Past use of those that are meant by the names that work gave its queues."""
        found: dict[str, dict[str, float]] = {}
        for name, amounts in self._past_use.items():
            local = self._quota.local_queue(name)
            if local is not None:
                used = found.setdefault(local.key, {})
                for resource, amount in amounts.items():
                    used[resource] = used.get(resource, 0.0) + amount
        return found

    def of(self, shape: Shape) -> Past | None:
        """What its LocalQueue used before; None where its queue doesn't go by that."""
        door = self._quota.door(shape.queue) if self._rules is not None else None
        if self._rules is None or door is None or door.queue is None:
            return None
        local = self._quota.local_queue(shape.queue)
        if local is None or not door.queue.spec.usage_based:
            return None
        found = self._weighed.get(local.key)
        if found is None:
            used = self._by_local_queue.get(local.key, {})
            found = self._weighed[local.key] = weighed(local, used, self._rules)
        return Past(door.queue.name, found)

    def uses(self, shape: Shape, holding: Holding) -> None:
        """A run is begun for a shape."""
        known, local = self.of(shape), self._quota.local_queue(shape.queue)
        if known is not None and local is not None and self._rules is not None:
            more = weighed(local, penalty(holding.amounts, self._rules), self._rules)
            self._weighed[local.key] = known.used + more
