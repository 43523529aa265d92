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
from collections.abc import Collection
from functools import partial
from typing import Literal

from msgspec import Struct

from stellwerk.core.future import MANY, Future, Knowledge
from stellwerk.core.model.ids import WorkloadId, digest
from stellwerk.core.model.lengths import Length
from stellwerk.core.view import View

MOST_STEPS = 5_000
"""Moments that are looked at in all futures together; what lies beyond them isn't known."""

FUTURES = 16

Confidence = Literal["high", "fair", "low", "none"]
"""high: bounded by time limits and well known, or nothing must end first; fair: one of the two;
low: it is known from few runs, or from other work; none: the likely start isn't known."""

NO_ARRIVALS = "nothing that goes first is submitted meanwhile"
NO_FAILURES = "runs end for good, and machines stay as they are"


NEVER = 1 << 62
"""Stands for a start that no future comes to, where starts are compared."""


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
        self.soon = Future(view, known, _shortest, MOST_STEPS).play(self.keys)
        self.usual = _futures(view, known, self.keys, most)
        self.late = Future(view, known, _longest, MOST_STEPS).play(self.keys)

    def told(self) -> dict[WorkloadId, Forecast]:
        """What they come to, for each that waits."""
        return {key: _told(self._view, key, self.soon, self.usual, self.late) for key in self.keys}


def _futures(view: View, known: Knowledge, keys: Collection[WorkloadId], most: int) -> list[Future]:
    """As many as the work allows that it is worth; one, where lengths leave nothing open."""
    lengths = [length for _, length in known.live.values()] + list(known.waiting.values())
    is_open = any(len({*length.likely_ms[:1], *length.likely_ms[-1:]}) > 1 for length in lengths)
    steps, futures = MOST_STEPS, []
    for number in range(min(most, FUTURES if is_open else 1)):
        future = Future(view, known, partial(_drawn, number), steps).play(keys)
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


def _told(view: View, key: WorkloadId, soon: Future, usual: list[Future], late: Future) -> Forecast:
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


def _confidence(usual: list[Future], key: WorkloadId, bounded: bool) -> Confidence:
    fewest = min(future.fewest_known[key] for future in usual if key in future.started)
    if bounded and fewest >= MANY:
        return "high"
    return "fair" if bounded or fewest >= MANY else "low"
