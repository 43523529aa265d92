"""Follows what live runs tell of themselves, at little cost, and asks their abort rules.

Metrics are read from the run's file by offset, a bounded number of bytes at a time, often while
something comes and seldom while nothing does; samples come from the drivers. None of it is
journaled: after a restart the files are read again. Of ended runs the newest stay at hand. Of a
file that is larger than any should be, the middle is left out.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.core.model.reports import Report, RuleHeld, RunReport, RunSample
from stellwerk.core.model.task import AbortRule
from stellwerk.core.model.telemetry import GpusHeld, Telemetry, Usage
from stellwerk.core.model.workload import Run, RunEnd, Workload
from stellwerk.core.recover.abort import should_abort
from stellwerk.core.state import State
from stellwerk.drivers.base import Driver, DriverError
from stellwerk.engine.clock import Clock
from stellwerk.engine.gpu_watch import GpuWatch
from stellwerk.telemetry.gpu_history import GpuHistory
from stellwerk.telemetry.record import RunRecord

log = logging.getLogger("stellwerk.engine")

TICK_S = 0.5
LOOK_BYTES = 512 * 1024
LOOKS_AT_ONCE = 8
LOOK_S = 10.0
ASKED_LOOK_S = 1.0
"""Who asks what a run tells waits no longer than this for a fresh look."""

SOONEST_MS = 1_000
LATEST_MS = 10_000
PAST_BYTES = 64 << 20
PAST_KEPT = 256
NOTHING = Telemetry()


class _Followed:
    """A live run: where to look, when, and what its rules are."""

    def __init__(self, workload: Workload, run: Run) -> None:
        self.run = run.id
        self.generation = run.generation
        self.cluster = run.allocation.cluster
        self.rules: tuple[AbortRule, ...] = workload.policies.abort_when
        devices = {share.index for part in run.allocation.nodes for share in part.devices}
        self.record = RunRecord(sorted(devices))
        self.reading = asyncio.Lock()
        self.is_running = False
        self.has_ended = False
        self.has_told = False
        self.due_ms = 0
        self.pause_ms = SOONEST_MS

    def pace(self, now_ms: int, *, found: bool, has_more: bool) -> None:
        """Looks again at once for what is left, soon after something came, else ever later."""
        self.pause_ms = SOONEST_MS if found else min(LATEST_MS, self.pause_ms * 3 // 2)
        self.due_ms = now_ms if has_more else now_ms + self.pause_ms


class Measures:
    """The telemetry of all live runs, and of the newest that have ended."""

    def __init__(
        self, drivers: Mapping[str, Driver], report: Callable[[Report], None], clock: Clock
    ) -> None:
        self._drivers = drivers
        self._report = report
        self._clock = clock
        self._live: dict[RunId, _Followed] = {}
        self._past: OrderedDict[RunId, Telemetry] = OrderedDict()
        self._some = asyncio.Event()
        self._gpus = GpuWatch(report)
        self.gpu_history = GpuHistory()

    def start(self, group: asyncio.TaskGroup) -> asyncio.Task[None]:
        """Starts following; cancel the task to end it."""
        return group.create_task(self._follow(), name="telemetry")

    def adopt(self, state: State) -> None:
        """Follows all runs that are live, as after a restart."""
        for run in state.running.values():
            self._notice(run, state)

    def keep_up(self, events: Iterable[ev.Event], state: State) -> None:
        """Follows what has begun, and lets go of what has ended."""
        for event in events:
            if isinstance(event, ev.RunProgressed | ev.NoticeGiven | ev.NoticeWithdrawn):
                self._notice(event.run, state)
            elif isinstance(event, ev.RunEnded):
                self._end(event.run, state)

    def _notice(self, run_id: RunId, state: State) -> None:
        workload = state.workloads.get(workload_of(run_id))
        run = workload.live_run if workload is not None else None
        if workload is None or run is None or run.id != run_id or not run.started_ms:
            return
        followed = self._live.get(run_id)
        if followed is None:
            followed = self._live[run_id] = _Followed(workload, run)
            cluster = state.clusters.get(run.allocation.cluster)
            self._gpus.begin(run, workload.name, cluster)
            self.gpu_history.begin(run, cluster)
            self._some.set()
        is_running = run.phase == "Running" and not run.notice
        if is_running and not followed.is_running:
            followed.has_told = False
        followed.is_running = is_running

    def _end(self, run_id: RunId, state: State) -> None:
        followed = self._live.get(run_id)
        if followed is None:
            # One that began and ended between two looks: what was read of it before isn't all.
            self._past.pop(run_id, None)
            workload = state.workloads.get(workload_of(run_id))
            runs = workload.runs if workload is not None else ()
            run = next((one for one in runs if one.id == run_id and one.started_ms), None)
            if workload is None or run is None:
                return
            followed = self._live[run_id] = _Followed(workload, run)
            self._some.set()
        self._gpus.end(run_id)
        self.gpu_history.end(run_id)
        followed.has_ended = True
        followed.due_ms = 0

    # what is known

    def take(self, sample: RunSample) -> None:
        """Takes what a driver sampled of a run."""
        followed = self._live.get(sample.run)
        if followed is not None and followed.cluster == sample.cluster:
            followed.record.take(sample, is_running=followed.is_running)
            self._ask_rules(followed)
            self._gpus.take(sample)
            self.gpu_history.take(sample)

    def usage(self, run: RunId) -> Usage | None:
        """What a live run uses, or used last; None for one that isn't followed."""
        followed = self._live.get(run)
        return followed.record.usage if followed is not None else None

    def gpus(self, run: RunId) -> GpusHeld | None:
        """What a live run was last seen to hold of each GPU of its machine."""
        followed = self._live.get(run)
        return followed.record.gpus if followed is not None else None

    async def telemetry(self, run: RunId, cluster: str) -> Telemetry:
        """All that a run told until now; of one that ended before this server began, its file is
        read now.
        """
        followed = self._live.get(run)
        if followed is None and run not in self._past:
            told = await self._read_past(run, cluster)
            # It may have begun or ended meanwhile, and then this isn't all of it.
            followed = self._live.get(run)
            if followed is None and run not in self._past:
                self._keep(run, told)
        if followed is None:
            return self._past[run]
        with suppress(TimeoutError):
            async with asyncio.timeout(ASKED_LOOK_S):
                await self._look(followed)
        return followed.record.telemetry()

    def complete(self, report: RunReport) -> RunReport:
        """Gives the report of an end the peaks that were seen while the run went on."""
        followed = self._live.get(report.run)
        if report.end is None or followed is None or followed.generation != report.generation:
            return report
        usage = followed.record.usage
        return report if usage is None else replace(report, end=with_peaks(report.end, usage))

    # following

    async def _follow(self) -> None:
        while True:
            await self._some.wait()
            now_ms = self._clock.now_ms()
            due = [one for one in self._live.values() if one.due_ms <= now_ms]
            for start in range(0, len(due), LOOKS_AT_ONCE):
                batch = due[start : start + LOOKS_AT_ONCE]
                await asyncio.gather(*(self._look(one) for one in batch))
            if not self._live:
                self._some.clear()
            await asyncio.sleep(TICK_S)

    async def _look(self, one: _Followed) -> None:
        """Reads what is new of a run's metrics, of one that has ended all that is left."""
        async with one.reading:
            if one.run not in self._live:
                return
            left = await self._read_on(one)
            self._ask_rules(one)
            if not one.has_ended:
                return
            while left:
                _skip_what_is_too_much(one.record, left)
                left = await self._read_on(one)
            del self._live[one.run]
            self._keep(one.run, one.record.telemetry())

    async def _read_on(self, one: _Followed) -> int:
        driver = self._drivers.get(one.cluster)
        try:
            if driver is None:
                raise DriverError("no-driver", "no driver serves this cluster now", final=False)
            reading = driver.read_log(one.run, "metrics", 0, one.record.offset, LOOK_BYTES)
            chunk = await asyncio.wait_for(reading, LOOK_S)
        except (DriverError, TimeoutError) as error:
            log.debug("the metrics of %s can't be read now: %s", one.run, _why(error))
            one.record.look_failed()
            one.pace(self._clock.now_ms(), found=False, has_more=False)
            return 0
        now_ms = self._clock.now_ms()
        left = one.record.read(chunk.data, chunk.size, now_ms, is_running=one.is_running)
        one.pace(now_ms, found=bool(chunk.data), has_more=left > 0)
        return left

    def _ask_rules(self, one: _Followed) -> None:
        if not one.rules or one.has_told or not one.is_running or one.has_ended:
            return
        reason = should_abort(one.rules, one.record.telemetry())
        if reason is not None:
            one.has_told = True
            self._report(RuleHeld(one.cluster, one.run, one.generation, reason))

    async def _read_past(self, run: RunId, cluster: str) -> Telemetry:
        driver = self._drivers.get(cluster)
        if driver is None:
            return NOTHING
        record, left = RunRecord(), 1
        try:
            while left:
                reading = driver.read_log(run, "metrics", 0, record.offset, LOOK_BYTES)
                chunk = await asyncio.wait_for(reading, LOOK_S)
                now_ms = self._clock.now_ms()
                left = record.read(chunk.data, chunk.size, now_ms, is_running=False)
                _skip_what_is_too_much(record, left)
        except (DriverError, TimeoutError) as error:
            log.info("the metrics of %s can't be read: %s", run, _why(error))
            return NOTHING
        return record.telemetry()

    def _keep(self, run: RunId, told: Telemetry) -> None:
        self._past[run] = told
        self._past.move_to_end(run)
        while len(self._past) > PAST_KEPT:
            self._past.popitem(last=False)


def _skip_what_is_too_much(record: RunRecord, left: int) -> None:
    """Goes on with the end of a file of which enough has been read."""
    if record.offset >= PAST_BYTES and left > LOOK_BYTES:
        record.skip(left - LOOK_BYTES)


def with_peaks(end: RunEnd, usage: Usage) -> RunEnd:
    """The end of a run with the highest that was seen of what it used."""
    return replace(
        end,
        peak_memory_bytes=max(end.peak_memory_bytes, usage.peak_memory_bytes),
        peak_processes=max(end.peak_processes, usage.peak_processes),
        peak_gpu_memory_bytes=max(end.peak_gpu_memory_bytes, usage.peak_gpu_memory_bytes or 0),
        peak_gpu_card_bytes=max(end.peak_gpu_card_bytes, usage.peak_gpu_card_bytes or 0),
        cpu_ms=max(end.cpu_ms, usage.cpu_ms),
    )


def _why(error: Exception) -> str:
    """A time limit says nothing by itself."""
    return str(error) or f"no answer in {LOOK_S:g} s"
