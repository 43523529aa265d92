"""Whose turn it is in a cycle: by fair share of queues, then priority, then age.

Where a queue orders its LocalQueues by what they have used before, whoever used least there comes
first in it, whatever the priorities; with other queues it is compared by the one that comes first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heapify, heappop, heapreplace

from stellwerk.core.model.resources import Shape
from stellwerk.core.place.past import Past
from stellwerk.core.place.quotas import Quotas
from stellwerk.core.queue.shares import Share
from stellwerk.core.view import Head, ShapeView

Turn = tuple[tuple[Share, ...], int, int]
Line = tuple[float, int, int, int]
"""Past use, priority, age, and which shape it is."""


Rises = Callable[[Shape, Head], int]


class Turns:
    """The heads of all shapes, one at a time. Shares and past use may grow while it goes on."""

    def __init__(
        self,
        shapes: Sequence[ShapeView],
        share: Callable[[Shape], tuple[Share, ...]],
        past: Callable[[Shape], Past | None],
        rises: Rises,
    ) -> None:
        self._shapes = shapes
        self._share = share
        self._past = past
        self._rises = rises
        self._at = [0] * len(shapes)
        self._lines: list[list[Line]] = []
        by_queue: dict[str, list[Line]] = {}
        for i, shape in enumerate(shapes):
            known = past(shape.shape)
            if known is None:
                self._lines.append([self._line(i, 0.0)])
            else:
                by_queue.setdefault(known.queue, []).append(self._line(i, known.used))
        self._ordered = len(self._lines)
        for line in by_queue.values():
            heapify(line)
            self._lines.append(line)
        self._heap = [(self._turn(line), slot) for slot, line in enumerate(self._lines)]
        heapify(self._heap)

    def __bool__(self) -> bool:
        return bool(self._heap)

    def next(self) -> tuple[int, int]:
        """The shape whose turn it is, and which of its heads."""
        while True:
            turn, slot = self._heap[0]
            line = self._lines[slot]
            if slot >= self._ordered:
                self._bring_forward(line)
            if turn[0] or slot >= self._ordered:
                now = self._turn(line)
                if now != turn:
                    heapreplace(self._heap, (now, slot))
                    continue
            return line[0][3], self._at[line[0][3]]

    def done(self, then: int) -> None:
        """The head whose turn it was is looked at; ``then`` is the next of its shape, 0 = none."""
        _, slot = self._heap[0]
        line = self._lines[slot]
        used, _, _, i = line[0]
        self._at[i] = then
        if then:
            heapreplace(line, self._line(i, used))
        else:
            heappop(line)
        if line:
            heapreplace(self._heap, (self._turn(line), slot))
        else:
            heappop(self._heap)

    def _bring_forward(self, line: list[Line]) -> None:
        """Puts back those whose LocalQueue has used more meanwhile, until the first is the first.

        Past use only grows in a cycle.
        """
        while True:
            used, _, _, i = line[0]
            known = self._past(self._shapes[i].shape)
            if known is None or known.used <= used:
                return
            heapreplace(line, self._line(i, known.used))

    def _line(self, i: int, used: float) -> Line:
        head = self._shapes[i].heads[self._at[i]]
        risen = self._rises(self._shapes[i].shape, head)
        return used, -head.priority - risen, head.order, i

    def _turn(self, line: list[Line]) -> Turn:
        _, priority, order, i = line[0]
        return self._share(self._shapes[i].shape), priority, order


def turns_of(shapes: Sequence[ShapeView], quotas: Quotas | None, rises: Rises) -> Turns:
    """The turns of a cycle; without queues priority and age decide."""
    if quotas is None:
        return Turns(shapes, lambda _: (), lambda _: None, rises)
    return Turns(shapes, quotas.share, quotas.past.of, rises)
