"""Keeps what waits in one queue in order: a heap, or where past use counts one per local queue.

The order is kept, never sorted anew. What was taken out stays in its heap until it comes up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

from stellwerk.core.queue.entries import Waiter

_Entry = tuple[tuple[int, int, int, str], str, int]


class Waiting:
    """The waiting workloads of one queue; those that are parked are kept aside."""

    def __init__(self, *, by_past_use: bool) -> None:
        self.by_past_use = by_past_use
        self.active: dict[str, Waiter] = {}
        self.parked: dict[str, Waiter] = {}
        self._heaps: dict[str, list[_Entry]] = {}
        self._numbers: dict[str, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self.active) + len(self.parked)

    def push(self, one: Waiter) -> None:
        """Puts a workload in, or back at the place of its order."""
        self.parked.pop(one.key, None)
        one.parked = False
        self.active[one.key] = one
        self._count += 1
        self._numbers[one.key] = self._count
        heap = self._heaps.setdefault(self._name(one), [])
        heappush(heap, (one.order, one.key, self._count))

    def _name(self, one: Waiter) -> str:
        return one.local_queue if self.by_past_use else ""

    def park(self, one: Waiter) -> None:
        """Keeps a workload aside until something changes that may help it."""
        if self.active.pop(one.key, None) is not None:
            one.parked = True
            self._numbers.pop(one.key, None)
            self.parked[one.key] = one

    def remove(self, one: Waiter) -> None:
        """Takes a workload out."""
        self.active.pop(one.key, None)
        self.parked.pop(one.key, None)
        self._numbers.pop(one.key, None)

    def unpark(self) -> int:
        """Lets all that are parked try again; how many."""
        count = len(self.parked)
        for one in list(self.parked.values()):
            self.push(one)
        return count

    def head(self, past_use: Mapping[str, float]) -> Waiter | None:
        """Who is next; it stays in its place."""
        best: tuple[float, _Entry] | None = None
        for name in list(self._heaps):
            heap = self._heaps[name]
            while heap and self._numbers.get(heap[0][1]) != heap[0][2]:
                heappop(heap)
            if not heap:
                del self._heaps[name]
                continue
            key = (past_use.get(name, 0.0) if self.by_past_use else 0.0, heap[0])
            if best is None or key < best:
                best = key
        return None if best is None else self.active[best[1][1]]

    def ordered(self, past_use: Mapping[str, float]) -> Iterator[Waiter]:
        """All of them in their order, the parked ones in their places; for people, it sorts."""
        everyone = [*self.active.values(), *self.parked.values()]
        return iter(sorted(everyone, key=lambda one: (self._used(one, past_use), one.order)))

    def _used(self, one: Waiter, past_use: Mapping[str, float]) -> float:
        return past_use.get(one.local_queue, 0.0) if self.by_past_use else 0.0
