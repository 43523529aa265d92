"""THE loop: takes commands and reports, folds what follows, plans, journals it all, then acts.

One cycle is one transaction: the facts, the decisions, the rows that people read and the position
in the inbox are durable together before anything is carried out.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from stellwerk.core.gates import settle
from stellwerk.core.intake import (
    missing_runs,
    on_command,
    on_lost,
    on_plan,
    on_report,
    stray_runs,
)
from stellwerk.core.inventory.facts import material_change
from stellwerk.core.lengths import History
from stellwerk.core.model import events as ev
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.limits import NO_LIMITS, Limits
from stellwerk.core.model.reports import (
    ClusterReport,
    Inventory,
    Reachability,
    Report,
    RunReport,
    RunSample,
)
from stellwerk.core.model.telemetry import Telemetry, Usage
from stellwerk.core.place.rooms import Memory
from stellwerk.core.plan import plan
from stellwerk.core.state import IMAGE_SCHEMA, State, fold
from stellwerk.core.timers import TIMERS, next_time_ms
from stellwerk.core.version import CORE_VERSION
from stellwerk.core.view import View, Viewer
from stellwerk.drivers.base import Driver
from stellwerk.engine.apply import Hands
from stellwerk.engine.batch import batch_of, project_of
from stellwerk.engine.clock import Clock, SteadyClock
from stellwerk.engine.ended import informed
from stellwerk.engine.happened import Happened, Status
from stellwerk.engine.measure import Measures
from stellwerk.engine.placements import Placements
from stellwerk.engine.taking_over import load_state, orders_to_repeat
from stellwerk.engine.watch import UNSERVED, Watch
from stellwerk.store import PASSING, Store, StoreError

if TYPE_CHECKING:
    from stellwerk.core.standing import OwnMade
    from stellwerk.engine.deciding import Made

log = logging.getLogger("stellwerk.engine")

COMMANDS_PER_CYCLE = 2_000
PLANS_PER_CYCLE = 8
IMAGE_EVERY = 20_000
RETRY_FIRST_S = 0.2
RETRY_MOST_S = 10.0
ENGINE = "engine"


class Engine:
    """The one engine of a state: it alone turns commands and reports into facts."""

    def __init__(
        self,
        store: Store,
        drivers: Sequence[Driver],
        clock: Clock,
        *,
        limits: Limits = NO_LIMITS,
        marked: Callable[[Cluster], Cluster] = lambda cluster: cluster,
    ) -> None:
        """``marked`` says of a cluster whose it is, and whom it serves."""
        self.store = store
        self._limits = limits
        self._marked = marked
        self.drivers = {driver.cluster: driver for driver in drivers}
        self.state = State()
        self._clock = SteadyClock(clock)
        self._viewer = Viewer(self.state, self._limits)
        self._memory = Memory()
        self._reports: asyncio.Queue[Report] = asyncio.Queue()
        self._wake = asyncio.Event()
        self._stopping = False
        self._advanced = asyncio.Event()
        self._durable_seq = 0
        self._inbox_seq = 0
        self._inbox_has_more = True
        self._image_seq = 0
        self._hands = Hands(store, self.drivers, self._report)
        self.watch = Watch(self.drivers, self._report, clock)
        self._measures = Measures(self.drivers, self._report, clock)
        self._made: list[Made | OwnMade] = []
        self.placements = Placements(store, self._clock, self._take_made)

    @property
    def seq(self) -> int:
        """The newest durable fact."""
        return self._durable_seq

    @property
    def epoch(self) -> int:
        """Which leader this engine is."""
        return self.state.epoch

    def notify(self) -> None:
        """Says that there are commands in the inbox."""
        self._inbox_has_more = True
        self._wake.set()

    def look_again(self, cluster: str) -> None:
        """Takes a cluster as it was last seen once more: somebody said something new of it."""
        seen = self.state.observed.get(cluster)
        if seen is not None:
            self._report(ClusterReport(seen))

    def stop(self) -> None:
        """Ends ``run`` after the present cycle; what runs on the clusters goes on."""
        self._stopping = True
        self._wake.set()

    def driver(self, cluster: str) -> Driver | None:
        """Gives the driver of a cluster."""
        return self.drivers.get(cluster)

    def view(self) -> View:
        """An immutable cut of what is known now, as the next cycle would see it."""
        return self._viewer.take(self._now())

    @property
    def lengths(self) -> History:
        """What is known of how long work runs; any thread may ask it."""
        return self.state.lengths

    @property
    def measures(self) -> Measures:
        """What live runs tell of themselves."""
        return self._measures

    def usage(self, run: RunId) -> Usage | None:
        """What a live run uses, as last sampled."""
        return self._measures.usage(run)

    async def telemetry(self, run: RunId, cluster: str) -> Telemetry:
        """What a run tells of itself, or told."""
        return await self._measures.telemetry(run, cluster)

    def status(self) -> Status:
        """Counts what is alive."""
        waiting = sum(len(queue.entries) for queue in self.state.shapes.values())
        return Status(
            epoch=self.state.epoch,
            seq=self._durable_seq,
            live=len(self.state.workloads),
            pending=waiting + len(self.state.delayed) + len(self.state.gates.shut),
            running=len(self.state.running),
            facts_ms=dict(self.watch.seen_ms),
        )

    async def changed(self, after_seq: int, timeout_s: float) -> int:
        """Waits until the journal is past ``after_seq`` (or the time is over); gives its seq."""
        if self._durable_seq <= after_seq:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._advanced.wait(), timeout_s)
        return self._durable_seq

    async def load(self) -> None:
        """Becomes the leader, so that nobody else writes, then brings the state back."""
        at_least = self._clock.now_ms() // 1000
        epoch = await asyncio.to_thread(self.store.raise_epoch, CORE_VERSION, at_least)
        self.state, self._image_seq = await asyncio.to_thread(load_state, self.store)
        self._viewer = Viewer(self.state, self._limits)
        self._memory = Memory()
        self.placements.adopt(self.state)
        self._durable_seq = self.state.seq
        self._inbox_seq = await asyncio.to_thread(self.store.inbox_upto)
        self.state.epoch = epoch
        happened = Happened()
        self._fold(happened, [ev.LeaderChanged(epoch, CORE_VERSION)], ENGINE)
        for name in sorted(set(self.state.clusters) - set(self.drivers)):
            gone = Reachability(name, "unreachable", UNSERVED)
            self._fold(happened, on_report(self.state, gone, self._now()), ENGINE)
        await self._commit(happened)

    async def run(self) -> None:
        """Runs until ``stop``; an error here ends the server, loudly."""
        if not self.state.epoch:
            await self.load()
        async with asyncio.TaskGroup() as group:
            self._measures.adopt(self.state)
            self.watch.start(group)
            watching = [self._measures.start(group)]
            watching.append(group.create_task(self.placements.run(), name="placements"))
            self._hands.start(group)
            try:
                await self._loop()
            finally:
                self.watch.stop()
                for task in watching:
                    task.cancel()
                await self._hands.close()
        for driver in self.drivers.values():
            await driver.close()
        await self._save_image()

    async def _loop(self) -> None:
        wake_at_ms = self._clock.now_ms()
        while not self._stopping:
            wait_s = max(0.0, (wake_at_ms - self._clock.now_ms()) / 1000) if wake_at_ms else None
            # Not `wait_for`: in Python 3.11 it loses a cancellation that comes with the wake-up.
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()
            self._wake.clear()
            if not self._stopping:
                wake_at_ms = await self._cycle()

    async def _cycle(self) -> int:
        happened = Happened()
        await self._take_commands(happened)
        self._take_reports(happened)
        self._take_answers(happened)
        while opened := settle(self.state):
            self._fold(happened, opened, ENGINE)
        for follows in TIMERS:
            self._fold(happened, follows(self.state, self._now()), ENGINE)
        wake_at_ms = next_time_ms(self.state, self._now(), await self._plan(happened))
        if happened.records or happened.made or happened.inbox_upto is not None:
            await self._commit(happened)
            self.placements.landed(happened.answers)
            events = [record.event for record in happened.records]
            self._hands.carry_out(events, self.state)
            self._measures.keep_up(events, self.state)
        else:
            events = []
        self.placements.keep_up(events, self._clock.now_ms())
        self._hands.carry_out(happened.again, self.state)
        if self.state.seq - self._image_seq >= IMAGE_EVERY:
            await self._save_image()
        return wake_at_ms

    async def _take_commands(self, happened: Happened) -> None:
        if not self._inbox_has_more:
            return
        self._inbox_has_more = False
        envelopes = await asyncio.to_thread(self.store.take, self._inbox_seq, COMMANDS_PER_CYCLE)
        for envelope in envelopes:
            command = informed(self.store, self.state, envelope.command)
            facts = on_command(self.state, command, envelope.actor, self._now())
            self._fold(happened, facts, envelope.actor)
            self._inbox_seq = happened.inbox_upto = envelope.seq
        if len(envelopes) == COMMANDS_PER_CYCLE:
            self.notify()

    def _report(self, report: Report) -> None:
        """Takes what was seen: telemetry at once, everything else in the next cycle."""
        if isinstance(report, RunSample):
            self._measures.take(report)
            return
        if isinstance(report, ClusterReport):
            report = ClusterReport(self._marked(report.cluster))
        self._reports.put_nowait(report)
        self._wake.set()

    def _take_reports(self, happened: Happened) -> None:
        while not self._reports.empty():
            report = self._reports.get_nowait()
            if isinstance(report, Inventory):
                self._reconcile(happened, report)
            elif not self._is_old_news(report):
                self._take_report(happened, report)

    def _take_made(self, made: "list[Made | OwnMade]") -> None:
        """Takes answers for placements, for the next cycle."""
        self._made += made
        self._wake.set()

    def _take_answers(self, happened: Happened) -> None:
        made, self._made = self._made, []
        self._fold(happened, happened.answered(self.state, made), ENGINE)

    async def decided(self, timeout_s: float) -> None:
        """Waits until all placements have been decided on what is known, and that is durable."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                await self.placements.quiet()
                while self._made or self._durable_seq < self.state.seq:
                    await self._advanced.wait()
                    await self.placements.quiet()

    def _is_old_news(self, report: Report) -> bool:
        """A probe that found what is known already, give or take some disk, is no fact; nor is
        one of a cluster that was removed meanwhile.
        """
        if not isinstance(report, ClusterReport):
            return False
        if report.cluster.name not in self.drivers:
            return True
        known = self.state.observed.get(report.cluster.name)
        return not material_change(known, report.cluster)

    def _take_report(self, happened: Happened, report: Report) -> None:
        if isinstance(report, RunReport):
            report = self._measures.complete(report)
        self._fold(happened, on_report(self.state, report, self._now()), ENGINE)

    def _reconcile(self, happened: Happened, inventory: Inventory) -> None:
        """After a (re)connection: adopts what runs, starts what never was, ends what is gone."""
        for report in inventory.runs:
            self._take_report(happened, report)
        happened.again.extend(orders_to_repeat(self.state, inventory))
        for stray in stray_runs(self.state, inventory):
            self._hands.kill(stray.cluster, stray.run)
        for run in missing_runs(self.state, inventory)[1]:
            self._fold(
                happened,
                on_lost(self.state, run, "the machine has no record of it", self._now()),
                ENGINE,
            )

    async def _plan(self, happened: Happened) -> int:
        """Plans until there is nothing more to do now; gives when time alone could change that."""
        for _ in range(PLANS_PER_CYCLE):
            now = self._now()
            view = self._viewer.take(now)
            if not (view.shapes or view.stops or (view.queueing and view.held)):
                return view.next_due_ms
            planned = await asyncio.to_thread(plan, view, self._memory)
            if not planned.actions:
                return planned.wake_at_ms
            happened.decisions.extend((decision, now) for decision in planned.decisions)
            events = on_plan(self.state, planned)
            self._fold(happened, events, ENGINE)
            dropped = any(isinstance(event, ev.ActionDropped) for event in events)
            if planned.complete and not dropped:
                return planned.wake_at_ms
        self._wake.set()
        return planned.wake_at_ms

    def _now(self) -> int:
        self._clock.not_before(self.state.at_ms)
        return self._clock.now_ms()

    def _fold(self, happened: Happened, events: Iterable[ev.Event], actor: str) -> None:
        for event in events:
            record = ev.Record(
                seq=self.state.seq + 1,
                at_ms=self._now(),
                epoch=self.state.epoch,
                actor=actor,
                project=project_of(self.state, event),
                event=event,
            )
            fold(self.state, record)
            happened.records.append(record)

    async def _commit(self, happened: Happened) -> None:
        """Makes a cycle durable; while the disk is full it says so, waits and acts on nothing."""
        batch = batch_of(
            self.state, happened.records, happened.decisions, happened.made, self._inbox_seq
        )
        delay = RETRY_FIRST_S
        while True:
            try:
                await asyncio.wrap_future(self.store.append(batch))
            except StoreError as error:
                if error.code not in PASSING:
                    raise
                log.error("cannot write the journal, trying again: %s", error)  # noqa: TRY400
                await asyncio.sleep(delay)
                delay = min(delay * 2, RETRY_MOST_S)
            else:
                break
        if happened.records:
            self._durable_seq = happened.records[-1].seq
        advanced, self._advanced = self._advanced, asyncio.Event()
        advanced.set()

    async def _save_image(self) -> None:
        """Takes the image here, where nothing else changes the state, and writes it apart."""
        image = self.state.image()
        self._image_seq = image.seq

        def save() -> None:
            self.store.save_image(image.seq, IMAGE_SCHEMA, msgspec.json.encode(image))

        try:
            await asyncio.to_thread(save)
        except StoreError as error:
            log.warning("the state image was not saved, the journal has all of it: %s", error)
