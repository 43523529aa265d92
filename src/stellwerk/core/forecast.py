"""When a waiting workload could start: the core run forward on a view, with predicted lengths.

Several futures are played with the same ``plan`` that decides live. In each of them all work takes
one of the lengths that are equally likely for it; over all of them each length of a piece of work
comes up equally often. The starts that come of it are spread as far as what is known allows. One
more future has all work take as long as its limit lets it. Nothing is invented: work of which
nothing is known isn't counted on to end, and where a start hangs on it, the start isn't known. A
forecast is for people; it is never an input to ``plan``.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from functools import partial
from heapq import heapify, heappop, heappush
from typing import Literal

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.lengths import OF_THE_SAME
from stellwerk.core.model.actions import StartRun
from stellwerk.core.model.holding import Holding
from stellwerk.core.model.ids import RunId, WorkloadId, digest, run_id
from stellwerk.core.model.lengths import Begun, Length
from stellwerk.core.place.checking import as_if_agreed
from stellwerk.core.place.rooms import Memory
from stellwerk.core.plan import starts
from stellwerk.core.queue.quota import Held
from stellwerk.core.view import Head, ShapeView, View

MOST_STEPS = 5_000
"""Moments that are looked at in all futures together; what lies beyond them isn't known."""

FUTURES = 16
MANY = 5
"""Past runs of the same work from which on its length counts as well known."""

Confidence = Literal["high", "fair", "low", "none"]
"""high: bounded by time limits and well known, or nothing must end first; fair: one of the two;
low: it is known from few runs, or from other work; none: the likely start isn't known."""

NO_ARRIVALS = "nothing that goes first is submitted meanwhile"
NO_FAILURES = "runs end for good, and machines stay as they are"


UNKNOWN = Length()
NEVER = 1 << 62
"""Stands for a start that no future comes to, where starts are compared."""


class Knowledge(Struct, frozen=True):
    """Lengths as far as somebody knows them: of live runs with their beginnings, of the waiting."""

    live: Mapping[RunId, tuple[int, Length]] = {}
    waiting: Mapping[WorkloadId, Length] = {}


class Forecast(Struct, frozen=True, omit_defaults=True):
    """When a workload starts, seen from ``at_ms`` and journal record ``seq``.

    ``likely_ms`` is the median over ``futures`` that were played, ``p90_ms`` what nine of ten of
    them keep, ``latest_ms`` what time limits make of it. A time is None where it isn't known: then
    ``unknown`` counts the pieces of work, running or to run before it, of whose length nothing is
    known. They aren't bounds that nothing could break: hence ``assumes``.
    """

    at_ms: int
    seq: int
    earliest_ms: int | None
    likely_ms: int | None
    latest_ms: int | None
    confidence: Confidence
    unknown: int = 0
    assumes: tuple[str, ...] = (NO_ARRIVALS, NO_FAILURES)
    p90_ms: int | None = None
    futures: int = 1


class Compared(Struct, frozen=True, omit_defaults=True):
    """What a change makes of a start: in ``earlier`` of ``futures`` it comes before, in ``later``
    after what it would be without it. Everything else is the same in the two of each pair.
    """

    before: Forecast | None = None
    after: Forecast | None = None
    earlier: int = 0
    later: int = 0
    futures: int = 0


def forecast(
    view: View, known: Knowledge, wanted: Collection[WorkloadId]
) -> dict[WorkloadId, Forecast]:
    """Forecasts the starts of workloads that wait in a view; of others nothing is said.

    Of each shape a view has the first of those that wait. Where one further back would get its turn
    before a wanted one, what follows isn't known.
    """
    return _Played(view, known, wanted, FUTURES).told()


def compared(
    before: View, after: View, known: Knowledge, wanted: Collection[WorkloadId]
) -> dict[WorkloadId, Compared]:
    """Forecasts starts on a view and on a changed one, by the same futures: a piece of work takes
    as long in the one as in the other.
    """
    one = _Played(before, known, wanted, FUTURES)
    two = _Played(after, known, wanted, len(one.usual))
    del one.usual[len(two.usual) :]
    was, now = one.told(), two.told()
    pairs = list(zip(one.usual, two.usual, strict=True))
    found = {}
    for key in dict.fromkeys((*was, *now)):
        starts = [(a.started.get(key, NEVER), b.started.get(key, NEVER)) for a, b in pairs]
        found[key] = Compared(
            was.get(key),
            now.get(key),
            sum(b < a for a, b in starts),
            sum(b > a for a, b in starts),
            len(pairs),
        )
    return found


class _Played:
    """The futures of a view: the shortest, as many usual ones as the work allows, the longest."""

    def __init__(
        self, view: View, known: Knowledge, wanted: Collection[WorkloadId], most: int
    ) -> None:
        waiting = {head.id for shape in view.shapes for head in shape.heads}
        self.keys = [key for key in wanted if key in waiting]
        self._view = view
        self.soon = _Future(view, known, _shortest, MOST_STEPS).play(self.keys)
        self.usual = _futures(view, known, self.keys, most)
        self.late = _Future(view, known, _longest, MOST_STEPS).play(self.keys)

    def told(self) -> dict[WorkloadId, Forecast]:
        """What they come to, for each that waits."""
        return {key: _told(self._view, key, self.soon, self.usual, self.late) for key in self.keys}


def _futures(
    view: View, known: Knowledge, keys: Collection[WorkloadId], most: int
) -> list[_Future]:
    """As many as the work allows that it is worth; one, where lengths leave nothing open."""
    lengths = [length for _, length in known.live.values()] + list(known.waiting.values())
    is_open = any(len({*length.likely_ms[:1], *length.likely_ms[-1:]}) > 1 for length in lengths)
    steps, futures = MOST_STEPS, []
    for number in range(min(most, FUTURES if is_open else 1)):
        future = _Future(view, known, partial(_drawn, number), steps).play(keys)
        futures.append(future)
        steps -= future.steps
        if steps <= 0:
            break
    return futures


def _drawn(number: int, key: str, length: Length) -> int | None:
    """The length of a piece of work in a future: each of its lengths comes up once in a round."""
    likely = length.likely_ms
    if not likely:
        return None
    dice = int(digest(key)[:8], 16)
    return likely[(dice // 64 + number * (1 + 2 * (dice % 32))) % len(likely)]


def _shortest(key: str, length: Length) -> int:  # noqa: ARG001  (as it is drawn)
    """At once, where nothing is known."""
    return length.likely_ms[0] if length.likely_ms else 0


def _longest(key: str, length: Length) -> int | None:  # noqa: ARG001  (as it is drawn)
    return length.limit_ms or None


def _told(
    view: View, key: WorkloadId, soon: _Future, usual: list[_Future], late: _Future
) -> Forecast:
    """Puts the futures together; where longer work made a start earlier, times stay in order."""
    times = sorted(future.started[key] for future in usual if key in future.started)
    likely = times[at] if (at := (len(usual) - 1) // 2) < len(times) else None
    p90 = times[at] if (at := math.ceil(0.9 * len(usual)) - 1) < len(times) else None
    latest = late.started.get(key)
    earliest = [*times[:1], *([soon.started[key]] if key in soon.started else [])]
    return Forecast(
        at_ms=view.now_ms,
        seq=view.seq,
        earliest_ms=min(earliest, default=None),
        likely_ms=likely,
        latest_ms=None if latest is None else max(latest, *times, *earliest),
        confidence="none" if likely is None else _confidence(usual, key, latest is not None),
        unknown=max(future.unknown for future in usual) if likely is None else 0,
        p90_ms=p90,
        futures=len(usual),
    )


def _confidence(usual: list[_Future], key: WorkloadId, bounded: bool) -> Confidence:
    fewest = min(future.fewest_known[key] for future in usual if key in future.started)
    if bounded and fewest >= MANY:
        return "high"
    return "fair" if bounded or fewest >= MANY else "low"


class _Future:
    """One way in which things may go on from a view."""

    def __init__(
        self, view: View, known: Knowledge, take: Callable[[str, Length], int | None], most: int
    ) -> None:
        self.started: dict[WorkloadId, int] = {}
        self.fewest_known: dict[WorkloadId, int] = {}
        self.unknown = 0
        self.steps = 0
        self._most = most
        self._view = as_if_agreed(view)
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
        while self.steps < self._most:
            self.steps += 1
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
        name = start.allocation.cluster
        cluster = self._clusters[name]
        run = run_id(start.workload, 0)
        begun = cluster.begun
        for key, shape in self._shapes.items():
            head = next((one for one in shape.heads if one.id == start.workload), None)
            if head is not None:
                held = Begun(now_ms, head.work, head.limit_ms, shape.shape.queue, head.grace_ms)
                begun = {**begun, run: held}
                self._take_head(key, shape, head)
                break
        self._clusters[name] = replace(
            cluster, allocations=(*cluster.allocations, (run, start.allocation)), begun=begun
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

    def _take_head(self, key: str, shape: ShapeView, head: Head) -> None:
        if len(shape.heads) > 1:
            left = tuple(one for one in shape.heads if one is not head)
            self._shapes[key] = replace(shape, heads=left, count=shape.count - 1)
        else:
            del self._shapes[key]

    def _is_cut_off(self) -> bool:
        """Whether somebody whom the view doesn't show would have a turn from here on."""
        return any(unseen and key not in self._shapes for key, unseen in self._unseen.items())

    def _will_end(self, run: RunId, cluster: str, began_ms: int, length: Length) -> None:
        now_ms = max(began_ms, self._view.now_ms)
        lasts_ms = self._take(run, length)
        if lasts_ms is None:
            self.unknown += 1
        else:
            seen = length.seen if length.basis in OF_THE_SAME else min(length.seen, MANY - 1)
            end = (max(began_ms + lasts_ms, now_ms), run, cluster, seen)
            heappush(self._ends, end)

    def _end_until(self, now_ms: int) -> None:
        while self._ends and self._ends[0][0] <= now_ms:
            _, over, name, known_from = heappop(self._ends)
            self._fewest = min(self._fewest, known_from)
            self._held.pop(over, None)
            cluster = self._clusters[name]
            left = tuple((run, held) for run, held in cluster.allocations if run != over)
            self._clusters[name] = replace(cluster, allocations=left)
