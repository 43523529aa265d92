"""What waits rises with time: by so many points of priority an hour, up to a most.

It counts for the order in which work is looked at, and for nothing else: whom a workload may stop
follows from its priority as it was given. Since all of a queue rises alike, whoever waits is passed
by new work only for a time; between two that wait the order changes when one has risen its most.
"""

from __future__ import annotations

from msgspec.structs import replace

from stellwerk.core.model.limits import Aging
from stellwerk.core.model.resources import Shape
from stellwerk.core.place.quotas import Quotas
from stellwerk.core.place.rooms import Memory
from stellwerk.core.queue.entries import QueueState
from stellwerk.core.view import Head, ShapeView, View

MINUTE_MS = 60_000
"""Risen points are counted anew so often, so that an order holds for a while."""


def aging_of(view: View, queue: QueueState | None) -> Aging:
    """How work of a queue rises: as its object says, or else as the settings do."""
    own = queue.spec.aging if queue is not None else None
    return view.limits.aging if own is None else own


def risen(aging: Aging, head: Head, now_ms: int) -> int:
    """How many points a waiting workload has gained."""
    if not aging.per_hour:
        return 0
    minutes = max(0, now_ms - head.queued_ms) // MINUTE_MS
    return min(aging.most, aging.per_hour * minutes // 60)


def turn_of(aging: Aging, head: Head, now_ms: int) -> tuple[int, int]:
    """Sorts those that wait: by priority as it has risen, then by age."""
    return -head.priority - risen(aging, head, now_ms), head.order


class Rising:
    """How the work of a view rises; ``quotas`` says to which queue each shape belongs."""

    def __init__(self, view: View, quotas: Quotas | None) -> None:
        self._view = view
        self._quotas = quotas
        queues = view.queueing.queues if view.queueing is not None else ()
        self.any = bool(view.limits.aging.per_hour) or any(one.aging for one in queues)

    def aging(self, shape: Shape) -> Aging:
        """How work of a shape rises."""
        door = self._quotas.door(shape) if self._quotas is not None else None
        return aging_of(self._view, door.queue if door is not None else None)

    def risen(self, shape: Shape, head: Head) -> int:
        """How many points one of them has gained, as of this minute."""
        if not self.any:
            return 0
        return risen(self.aging(shape), head, self._view.now_ms // MINUTE_MS * MINUTE_MS)

    def shapes(self, memory: Memory) -> tuple[ShapeView, ...]:
        """The shapes with the heads of each in the order of their turn now."""
        if not self.any:
            return self._view.shapes
        return tuple(
            shape
            if shape.heads[0].priority == shape.heads[-1].priority
            else _in_turn(shape, memory, self.aging(shape.shape), self._view.now_ms)
            for shape in self._view.shapes
        )


def _in_turn(shape: ShapeView, memory: Memory, aging: Aging, now_ms: int) -> ShapeView:
    if not aging.per_hour:
        return shape
    minute = now_ms // MINUTE_MS
    known = memory.aged.get(shape.id)
    if known is not None and known[0] is shape and known[1:3] == (minute, aging):
        return known[3]
    at_ms = minute * MINUTE_MS
    heads = tuple(sorted(shape.heads, key=lambda one: turn_of(aging, one, at_ms)))
    found = replace(shape, heads=heads)
    memory.aged[shape.id] = shape, minute, aging, found
    return found
