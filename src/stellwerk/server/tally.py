"""Counts what happens while the server runs: waits, preemptions, and how right forecasts were.

All of it is in memory and begins anew with the server, as counters of that kind do; the stop and
the end of what was started by a server before it aren't counted by queue.
"""

from bisect import bisect_left
from collections.abc import Callable, Sequence

from msgspec import Struct

from stellwerk.core.forecast import Forecast
from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import WorkloadId, workload_of
from stellwerk.core.model.workload import Workload

BUCKETS_S = (1, 5, 10, 30, 60, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600)
"""Upper bounds of waits that are told apart; what waits longer is in none of them."""

MOST_FORECASTS = 5_000
"""So many forecasts are remembered; those that were asked for first are forgotten first."""

AT_ONCE_MS = 1_000
"""What starts within a second of its forecast starts at it: a cycle takes its time."""

Find = Callable[[WorkloadId], Workload | None]


class Waits(Struct):
    """How long some waited: by bucket, all of them, and in all."""

    buckets: list[int]
    count: int = 0
    sum_s: float = 0.0

    def add(self, ms: int) -> None:
        """One more."""
        at = bisect_left(BUCKETS_S, ms / 1000)
        if at < len(self.buckets):
            self.buckets[at] += 1
        self.count += 1
        self.sum_s += ms / 1000


class ForecastTally(Struct):
    """How starts came that had been forecast: what was told first is compared with what came.

    ``unknown`` had been told that nobody knows. ``early_ms`` and ``late_ms`` add up by how much
    starts came before or after the median; ``ahead_ms`` how long before a start it was told.
    """

    starts: int = 0
    within_p50: int = 0
    within_p90: int = 0
    unknown: int = 0
    early_ms: int = 0
    late_ms: int = 0
    ahead_ms: int = 0


class Tally:
    """Takes every new record; ``find`` gives a workload as it is, or was."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._told: dict[WorkloadId, Forecast] = {}
        self._queues: dict[WorkloadId, str] = {}
        self._asked: dict[WorkloadId, int] = {}
        self.reserved: dict[str, Waits] = {}
        self.checked: dict[str, Waits] = {}
        self.waits: dict[str, Waits] = {}
        self.preempted: dict[tuple[str, str], int] = {}
        self.evicted: dict[str, int] = {}
        self.finished: dict[str, int] = {}
        self.forecasts = ForecastTally()

    def forecast(self, id: WorkloadId, told: Forecast) -> None:
        """Remembers what was told of a start, if nothing was before."""
        if id in self._told:
            return
        self._told[id] = told
        while len(self._told) > MOST_FORECASTS:
            del self._told[next(iter(self._told))]

    def take(self, records: Sequence[ev.Record]) -> None:
        """Counts what new records say."""
        for record in records:
            match record.event:
                case ev.RunPlanned() as event:
                    self._planned(event, record.at_ms)
                case ev.RoomClaimed() as event:
                    self._reserved(event, record.at_ms)
                case ev.NoticeGiven() as event if event.why == "preempt":
                    self._stopped(event)
                case ev.WorkloadEnded() as event:
                    self._told.pop(event.id, None)
                    self._asked.pop(event.id, None)
                    self._ended(event)
                case _:
                    continue

    def _planned(self, event: ev.RunPlanned, at_ms: int) -> None:
        told = self._told.pop(event.workload, None)
        if told is not None:
            self._compare(told, at_ms)
        if event.holding is None:
            return
        self._queues[event.workload] = event.holding.queue
        workload = self._find(event.workload)
        if workload is None:
            return
        queue, since_ms = event.holding.queue, workload.queued_ms or workload.submitted_ms
        _of(self.waits, queue).add(max(0, at_ms - since_ms))
        asked_ms = self._asked.pop(event.workload, None)
        if asked_ms is None:
            _of(self.reserved, queue).add(max(0, at_ms - since_ms))
        else:
            _of(self.checked, queue).add(max(0, at_ms - asked_ms))

    def _reserved(self, event: ev.RoomClaimed, at_ms: int) -> None:
        """Work that has its quota before checks have agreed; or that has lost it again."""
        self._asked.pop(event.id, None)
        workload = self._find(event.id)
        if event.claim is not None and event.claim.checks and workload is not None:
            self._asked[event.id] = at_ms
            since_ms = workload.queued_ms or workload.submitted_ms
            _of(self.reserved, event.claim.holding.queue).add(max(0, at_ms - since_ms))

    def _compare(self, told: Forecast, at_ms: int) -> None:
        tally = self.forecasts
        if told.likely_ms is None:
            tally.unknown += 1
            return
        late_ms = at_ms - told.likely_ms
        tally.starts += 1
        tally.within_p50 += late_ms <= AT_ONCE_MS
        tally.within_p90 += at_ms - (told.p90_ms or told.likely_ms) <= AT_ONCE_MS
        tally.late_ms += max(0, late_ms)
        tally.early_ms += max(0, -late_ms)
        tally.ahead_ms += max(0, at_ms - told.at_ms)

    def _stopped(self, event: ev.NoticeGiven) -> None:
        queue = self._queues.get(workload_of(event.run), "")
        if queue:
            self.evicted[queue] = self.evicted.get(queue, 0) + 1
        reason = event.reason
        if reason is not None and reason.code == "queue_preempted":
            key = str(reason.params.get("queue", "")), str(reason.params.get("why", ""))
            self.preempted[key] = self.preempted.get(key, 0) + 1

    def _ended(self, event: ev.WorkloadEnded) -> None:
        queue = self._queues.pop(event.id, "")
        if queue:
            self.finished[queue] = self.finished.get(queue, 0) + 1


def _of(waits: dict[str, Waits], queue: str) -> Waits:
    return waits.setdefault(queue, Waits([0] * len(BUCKETS_S)))
