"""Says what the waiting wait for by the numbers of now, at the moment somebody asks.

The journal holds a reason when its kind changes, and its numbers may drift after that. Here the
planner looks at the present view once more; nothing of it is written and nothing decides by it.
"""

import threading
import time
from collections.abc import Iterable

from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.place.rooms import Memory
from stellwerk.core.preview import waiting_now
from stellwerk.core.view import View

MOST = 256
"""So many shapes are looked at again at a time; what else waits is told with the stored numbers."""

FRESH_MS = 1_000
"""For so long an answer may be given again where nothing has happened but that time passed."""

CHEAP_MS = 5.0
TIMES_ITS_COST = 20
"""What costs more than that is given again for so many times as long, whatever happened since."""


class Waiting:
    """Remembers what it found for a state and for a moment; may be asked in any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._memory = Memory()
        self._seq = -1
        self._at_ms = 0
        self._cost_ms = 0.0
        self._found: dict[ShapeId, Decision] = {}
        self._asked: dict[ShapeId, None] = {}

    def now(self, view: View, shapes: Iterable[ShapeId]) -> dict[ShapeId, Decision]:
        """The decision on each shape that waits as things are; none for one that needn't wait."""
        wanted = dict.fromkeys(list(dict.fromkeys(shapes))[:MOST])
        if not wanted:
            return {}
        with self._lock:
            if self._is_old(view) or not wanted.keys() <= self._asked.keys():
                began = time.thread_time()
                self._found = waiting_now(view, wanted, self._memory)
                self._cost_ms = (time.thread_time() - began) * 1000
                self._seq, self._at_ms, self._asked = view.seq, view.now_ms, wanted
            return self._found

    def _is_old(self, view: View) -> bool:
        age_ms = abs(view.now_ms - self._at_ms)
        if self._seq == view.seq:
            return age_ms > FRESH_MS
        return self._cost_ms < CHEAP_MS or age_ms > TIMES_ITS_COST * self._cost_ms
