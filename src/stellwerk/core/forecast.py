"""When a waiting workload could start: the core run forward on a view, with lengths of past runs.

Three futures are played with the same ``plan`` that decides live: all work as short as it ever was,
as long as it usually is, and as long as it may be. Nothing is invented: work of unknown length is
not counted on to end, and if a start hangs on it, the answer is that it isn't known. A forecast is
for people; it is never an input to ``plan``.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from heapq import heapify, heappop, heappush
from statistics import median_low
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.actions import StartRun
from stellwerk.core.model.holding import Holding
from stellwerk.core.model.ids import RunId, WorkloadId, run_id
from stellwerk.core.place.rooms import Memory
from stellwerk.core.plan import starts
from stellwerk.core.queue.quota import Held
from stellwerk.core.view import ShapeView, View

MOST_STEPS = 5_000
"""Moments of a future that are looked at; what lies beyond them isn't known."""

MANY = 5
"""Past runs from which on a usual length counts as well known."""

Confidence = Literal["high", "fair", "low", "none"]
"""high: bounded by time limits, or nothing must end first; fair: what must end is well known;
low: it is known from few runs; none: the likely start isn't known."""

NO_ARRIVALS = "nothing that goes first is submitted meanwhile"
NO_FAILURES = "runs end for good, and machines stay as they are"


class Length(Struct, frozen=True):
    """What is known of how long a workload runs: how long it ran before, and how long it may.

    ``past_ms`` are the lengths of earlier runs of the same work, ``limit_ms`` (0: none) is its time
    limit with all the grace it would have.
    """

    past_ms: tuple[int, ...] = ()
    limit_ms: int = 0

    def shortest(self, elapsed_ms: int) -> int:
        """As short as it ever was, of what is still possible; at once where nothing is known."""
        return min(self._possible(elapsed_ms), default=elapsed_ms)

    def likely(self, elapsed_ms: int) -> int | None:
        """The median of the past runs that were no shorter than it has taken already."""
        possible = self._possible(elapsed_ms)
        return median_low(possible) if possible else None

    def longest(self, elapsed_ms: int) -> int | None:
        """Its limit; what has outlived it ends at any moment."""
        return max(self.limit_ms, elapsed_ms) if self.limit_ms else None

    def _possible(self, elapsed_ms: int) -> list[int]:
        limit = self.limit_ms or max(self.past_ms, default=0)
        return [min(one, limit) for one in self.past_ms if one >= elapsed_ms]


UNKNOWN = Length()


class Knowledge(Struct, frozen=True):
    """Lengths as far as somebody knows them: of live runs with their beginnings, of the waiting."""

    live: Mapping[RunId, tuple[int, Length]] = {}
    waiting: Mapping[WorkloadId, Length] = {}


class Forecast(Struct, frozen=True, omit_defaults=True):
    """When a workload starts, seen from ``at_ms`` and journal record ``seq``.

    A time is None where it isn't known: then ``unknown`` counts the pieces of work, running or to
    run before it, whose length nobody knows. Times are those of three futures, not bounds that
    nothing could break: hence ``assumes``.
    """

    at_ms: int
    seq: int
    earliest_ms: int | None
    likely_ms: int | None
    latest_ms: int | None
    confidence: Confidence
    unknown: int = 0
    assumes: tuple[str, ...] = (NO_ARRIVALS, NO_FAILURES)


def forecast(
    view: View, known: Knowledge, wanted: Collection[WorkloadId]
) -> dict[WorkloadId, Forecast]:
    """Forecasts the starts of workloads that wait in a view; of others nothing is said.

    Of each shape a view has the first of those that wait. Where one further back would get its turn
    before a wanted one, what follows isn't known.
    """
    waiting = {head.id for shape in view.shapes for head in shape.heads}
    keys = [key for key in wanted if key in waiting]
    soon = _Future(view, known, Length.shortest).play(keys)
    usual = _Future(view, known, Length.likely).play(keys)
    late = _Future(view, known, Length.longest).play(keys)
    return {key: _told(view, key, soon, usual, late) for key in keys}


def _told(view: View, key: WorkloadId, soon: _Future, usual: _Future, late: _Future) -> Forecast:
    """Puts the three futures together; where shorter work made a start later, they are swapped."""
    likely, latest = usual.started.get(key), late.started.get(key)
    times = sorted(time for time in (soon.started.get(key), likely, latest) if time is not None)
    return Forecast(
        at_ms=view.now_ms,
        seq=view.seq,
        earliest_ms=times[0] if times else None,
        likely_ms=None if likely is None else times[len(times) // 2],
        latest_ms=None if latest is None else times[-1],
        confidence=_confidence(usual, key, bounded=latest is not None),
        unknown=usual.unknown if likely is None else 0,
    )


def _confidence(usual: _Future, key: WorkloadId, *, bounded: bool) -> Confidence:
    if key not in usual.started:
        return "none"
    fewest = usual.fewest_known[key]
    if bounded and fewest >= MANY:
        return "high"
    return "fair" if bounded or fewest >= MANY else "low"


class _Future:
    """One way in which things may go on from a view."""

    def __init__(
        self, view: View, known: Knowledge, take: Callable[[Length, int], int | None]
    ) -> None:
        self.started: dict[WorkloadId, int] = {}
        self.fewest_known: dict[WorkloadId, int] = {}
        self.unknown = 0
        self._view = view
        self._known = known
        self._take = take
        self._memory = Memory()
        self._fewest = 1 << 30
        self._clusters = {one.cluster.name: one for one in view.clusters}
        self._shapes: dict[str, ShapeView] = {shape.id: shape for shape in view.shapes}
        self._unseen = {shape.id: shape.count - len(shape.heads) for shape in view.shapes}
        self._held = {one.run: one for one in view.held}
        self._ends: list[tuple[int, RunId, str, int]] = []
        for name, cluster in self._clusters.items():
            for run, _ in cluster.allocations:
                began_ms, length = known.live.get(run, (view.now_ms, UNKNOWN))
                self._will_end(run, name, began_ms, length)
        heapify(self._ends)

    def play(self, wanted: Collection[WorkloadId]) -> _Future:
        """Goes on until all that is wanted has started, or nothing more can be said."""
        now_ms = self._view.now_ms
        for _ in range(MOST_STEPS):
            planned, wake_ms = starts(self._seen_at(now_ms), self._memory)
            for start in planned:
                self._start(start, now_ms)
            if all(key in self.started for key in wanted) or self._is_cut_off():
                break
            if planned:
                continue
            times = [end for end, *_ in self._ends[:1]] + ([wake_ms] if wake_ms else [])
            if not times:
                break
            now_ms = max(now_ms, min(times))
            self._end_until(now_ms)
        return self

    def _seen_at(self, now_ms: int) -> View:
        return replace(
            self._view,
            now_ms=now_ms,
            clusters=tuple(self._clusters.values()),
            shapes=tuple(self._shapes.values()),
            stops=(),
            next_due_ms=0,
            held=tuple(self._held.values()),
            claims=(),
        )

    def _start(self, start: StartRun, now_ms: int) -> None:
        self.started[start.workload] = now_ms
        self.fewest_known[start.workload] = self._fewest
        for key, shape in self._shapes.items():
            if any(head.id == start.workload for head in shape.heads[:1]):
                self._take_head(key, shape)
                break
        name = start.allocation.cluster
        cluster = self._clusters[name]
        run = run_id(start.workload, 0)
        self._clusters[name] = replace(
            cluster, allocations=(*cluster.allocations, (run, start.allocation))
        )
        if start.holding is not None:
            self._hold(start, start.holding, run, now_ms)
        self._will_end(run, name, now_ms, self._known.waiting.get(start.workload, UNKNOWN))

    def _hold(self, start: StartRun, holding: Holding, run: RunId, now_ms: int) -> None:
        """Counts its quota; nobody is stopped in a future, so it doesn't matter whose it is."""
        self._held[run] = Held(
            workload=start.workload,
            version=start.workload_version,
            run=run,
            name="",
            local_queue="",
            priority=0,
            order=0,
            holding=holding,
            allocation=start.allocation,
            planned_ms=now_ms,
            since_ms=now_ms,
            grace_ms=0,
            stuck=True,
        )

    def _take_head(self, key: str, shape: ShapeView) -> None:
        if len(shape.heads) > 1:
            self._shapes[key] = replace(shape, heads=shape.heads[1:], count=shape.count - 1)
        else:
            del self._shapes[key]

    def _is_cut_off(self) -> bool:
        """Whether somebody whom the view doesn't show would have a turn from here on."""
        return any(unseen and key not in self._shapes for key, unseen in self._unseen.items())

    def _will_end(self, run: RunId, cluster: str, began_ms: int, length: Length) -> None:
        now_ms = max(began_ms, self._view.now_ms)
        lasts_ms = self._take(length, now_ms - began_ms)
        if lasts_ms is None:
            self.unknown += 1
        else:
            end = (max(began_ms + lasts_ms, now_ms), run, cluster, len(length.past_ms))
            heappush(self._ends, end)

    def _end_until(self, now_ms: int) -> None:
        while self._ends and self._ends[0][0] <= now_ms:
            _, over, name, known_from = heappop(self._ends)
            self._fewest = min(self._fewest, known_from)
            self._held.pop(over, None)
            cluster = self._clusters[name]
            left = tuple((run, held) for run, held in cluster.allocations if run != over)
            self._clusters[name] = replace(cluster, allocations=left)
