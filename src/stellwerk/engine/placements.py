"""Keeps the decisions of placements up to date: what changed goes to a worker thread, answers back.

Nothing of it is loaded or done before there is a declared fleet or a placement. Facts change in
memory alone; what follows from them is journaled when a decision changes.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from importlib import import_module
from itertools import islice
from typing import TYPE_CHECKING

from msgspec.structs import replace

from stellwerk.core.inventory.live import FleetFacts, Inventory
from stellwerk.core.inventory.merge import Source
from stellwerk.core.model import events as ev
from stellwerk.core.model.fleet import Contradiction, Fleet
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.standing import Declared, FactRow, Standing
from stellwerk.core.standing import Answer, OwnMade
from stellwerk.core.state import State
from stellwerk.engine.clock import Clock
from stellwerk.engine.kept_facts import needed_parts
from stellwerk.engine.own_work import Held, OwnWork
from stellwerk.engine.scoring import ScoreKeeper
from stellwerk.engine.standing_work import Seen, Work, read_facts, wished
from stellwerk.store import Store, StoreError

if TYPE_CHECKING:
    from stellwerk.engine.deciding import Decider, Made
    from stellwerk.engine.own_placements import OwnDecider

Deliver = Callable[["list[Made | OwnMade]"], None]
"""Takes answers, for standing placements and for own ones, back onto the loop."""

log = logging.getLogger("stellwerk.engine")

ANSWERS_AT_ONCE = 512
"""So many answers become durable together."""
DAY_MS = 86_400_000
RETRY_S = 5.0
FIRST_SCORES_S = 3.0
PAUSE_S = 0.25
"""Between two looks as much time passes as the first one took, but at most this long: where much
changes, it is looked at together.
"""


class Placements:
    """The placements of one engine. ``deliver`` takes answers back onto the loop."""

    def __init__(self, store: Store, clock: Clock, deliver: "Deliver") -> None:
        self._store = store
        self._clock = clock
        self._deliver = deliver
        self._lock = threading.Lock()
        self._inventory = Inventory()
        self._decider: Decider | None = None
        self._own_decider: OwnDecider | None = None
        self._placements: dict[str, Placement] = {}
        self._read: dict[str, Declared] = {}
        self._asked = asyncio.Event()
        self._quiet = asyncio.Event()
        self._due_ms = 0
        self._is_active = False
        self._declared_changed = False
        self._dirty: dict[str, None] = {}
        self._cluster_of: dict[RunId, str] = {}
        self._own_work = OwnWork()
        self._own: Held = {}
        self._told: dict[str, Source | None] = {}
        self._put: dict[str, None] = {}
        self._used: dict[str, None] = {}
        self._state = State()
        self._delivered = self._landed = 0
        self._scores = ScoreKeeper(self._clock, self.tell)

    # on the loop

    def adopt(self, state: State) -> None:
        """Takes over everything that stands, as after a start."""
        self._state = state
        self._put = dict.fromkeys(state.standing.placements)
        self._declared_changed = bool(state.standing.declared)
        standing = state.standing
        self._is_active = bool(standing.placements or standing.declared or wished(state))
        self._dirty = dict.fromkeys(state.clusters)
        self._cluster_of = {run: name for name, runs in state.allocations.items() for run in runs}
        self._own_work.adopt(state)
        self._look_at_used()
        self._wake()

    def keep_up(self, events: Iterable[ev.Event], now_ms: int) -> None:
        """Notes what has changed, and whether it is time to look again."""
        changed = False
        for event in events:
            changed = self._note(event) or changed
        if changed or (self._due_ms and now_ms >= self._due_ms):
            self._look_at_used()
            self._wake()

    def _note(self, event: ev.Event) -> bool:
        match event:
            case ev.FleetDeclared():
                self._declared_changed = self._is_active = True
            case ev.PlacementApplied():
                self._put[event.placement.key] = None
                self._is_active = True
            case ev.PlacementDeleted():
                self._put[event.key] = None
            case ev.ClusterObserved():
                self._dirty[event.cluster.name] = None
            case ev.NodeQuarantined() | ev.NodeResumed() | ev.CalendarRemoved():
                self._dirty[event.cluster] = None
            case ev.ClusterDrained() | ev.ClusterResumed() | ev.ClusterRemoved():
                self._dirty[event.cluster] = None
            case ev.CalendarSet():
                self._dirty[event.calendar.cluster] = None
            case ev.RunPlanned():
                self._cluster_of[event.run] = event.allocation.cluster
                self._dirty[event.allocation.cluster] = None
                self._own_work.planned(self._state, event)
            case ev.RunEnded():
                self._dirty[self._cluster_of.pop(event.run)] = None
                self._own_work.ended(event.run)
            case ev.Submitted() if event.submit.shape.wishes is not None:
                self._is_active = True
            case ev.Requeued() if event.shape is not None and event.shape.wishes is not None:
                return True
            case ev.Submitted() if event.submit.shape.placement:
                return event.submit.shape.placement not in self._used
            case _:
                return False
        return True

    def tell(self, key: str, source: Source | None) -> None:
        """Takes what a source of scores says now; None = nothing any more."""
        self._told[key] = source
        self._wake()

    def _look_at_used(self) -> None:
        found = (queue.shape.placement for queue in self._state.shapes.values())
        self._used = dict.fromkeys(sorted(key for key in found if key))

    def _wake(self) -> None:
        if self._is_active:
            self._quiet.clear()
            self._asked.set()
        else:
            self._quiet.set()

    def landed(self, answers: int) -> None:
        """So many answers that were delivered are durable, or were passed over."""
        self._landed += answers

    async def quiet(self) -> None:
        """Waits until everything that is known has been looked at."""
        await self._quiet.wait()

    async def run(self) -> None:
        """Gives the worker what changed, for ever."""
        try:
            await self._run()
        finally:
            self._scores.close()

    async def _run(self) -> None:
        while True:
            wait_s = (
                max(0.0, (self._due_ms - self._clock.now_ms()) / 1000) if self._due_ms else None
            )
            with suppress(TimeoutError):
                await asyncio.wait_for(self._asked.wait(), wait_s)
            self._asked.clear()
            self._due_ms = 0
            if self._declared_changed:
                await self._ask_for_scores()
            work, loop = self._work(), asyncio.get_running_loop()

            def deliver(
                made: "list[Made | OwnMade]", loop: asyncio.AbstractEventLoop = loop
            ) -> None:
                loop.call_soon_threadsafe(self._deliver, made)

            begun = loop.time()
            try:
                self._due_ms = await asyncio.to_thread(self._decide, work, deliver)
            except StoreError as error:
                log.error("placements can't be decided now: %s", error)  # noqa: TRY400
                self._again(work)
                await asyncio.sleep(RETRY_S)
                self._asked.set()
                continue
            except Exception:
                log.exception("placements can't be decided; what was decided last stays")
                self._again(work)
                self._begin_anew()
            if not self._asked.is_set():
                self._quiet.set()
            await asyncio.sleep(min(loop.time() - begun, PAUSE_S))

    async def _ask_for_scores(self) -> None:
        """Asks the sources that are declared now, and waits a while for what they say first."""
        hashes = [one.facts for one in self._state.standing.declared.values()]
        get = self._store.blobs.get
        try:
            read = await asyncio.to_thread(lambda: [read_facts(get(one)) for one in hashes])
        except StoreError as error:
            log.error("score sources can't be read now: %s", error)  # noqa: TRY400
            return
        sources = {one.name: one for facts in read for one in facts.score_sources}
        self._scores.keep(sources.values())
        await self._scores.first_answers(FIRST_SCORES_S)

    def _work(self) -> Work:
        standing, clusters = self._state.standing, self._state.clusters
        names = [name for name in self._dirty if name in clusters]
        work = Work(
            declared=tuple(standing.declared.values()) if self._declared_changed else None,
            seen=tuple(
                Seen(clusters[name], tuple(self._state.allocations.get(name, {}).values()))
                for name in names
            ),
            told=tuple(self._told.items()),
            gone=tuple(name for name in self._dirty if name not in clusters),
            own=self._own_work.changes(),
            put=tuple(standing.placements[k] for k in self._put if k in standing.placements),
            dropped=tuple(k for k in self._put if k not in standing.placements),
            used=tuple(self._used),
            here=tuple(clusters),
            wished=wished(self._state),
            known=dict(standing.own),
        )
        self._declared_changed = False
        self._dirty, self._told, self._put = {}, {}, {}
        return work

    def _again(self, work: Work) -> None:
        """What couldn't be looked at is looked at again."""
        self._declared_changed |= work.declared is not None
        self._dirty.update((one.cluster.name, None) for one in work.seen)
        self._dirty.update(dict.fromkeys(work.gone))
        for key, source in work.told:
            self._told.setdefault(key, source)
        self._own_work.again(work.own)
        self._put.update((one.placement.key, None) for one in work.put)
        self._put.update(dict.fromkeys(work.dropped))

    def _begin_anew(self) -> None:
        """With the next change everything is looked at, as after a start."""
        with self._lock:
            self._decider = self._own_decider = None
        self._put.update(dict.fromkeys(self._state.standing.placements))

    # in the worker

    def _decide(self, work: Work, deliver: Deliver) -> int:
        now_ms = self._clock.now_ms()
        with self._lock:
            self._take(work, now_ms)
            made = self._answers(work, now_ms)
            while chunk := list(islice(made, ANSWERS_AT_ONCE)):
                self._delivered += len(chunk)
                deliver(chunk)
            times = [one.requeue_at_ms() for one in (self._decider, self._own_decider) if one]
            due_ms = min((at_ms for at_ms in times if at_ms), default=0)
            return min(due_ms, now_ms + DAY_MS) if due_ms else 0

    def _answers(self, work: Work, now_ms: int) -> "Iterator[Made | OwnMade]":
        if self._decider is None and work.put:
            self._decider = import_module("stellwerk.engine.deciding").Decider(self._inventory)
            self._decider.hold(self._own)
        if self._decider is not None:
            self._decider.apply(work.put, work.dropped, work.here)
            self._decider.hold(work.own)
            yield from self._decider.answers(now_ms, work.used)
        if self._own_decider is not None or work.wished:
            try:
                own = self._for_wishes()
                own.apply(work.wished, work.known, self._placements, work.here)
                yield from own.answers(now_ms)
            except Exception:
                log.exception("wishes can't be decided; what was decided last stays")

    def _for_wishes(self) -> "OwnDecider":
        if self._own_decider is None:
            module = import_module("stellwerk.engine.own_placements")
            self._own_decider = module.OwnDecider(self._inventory)
        return self._own_decider

    def _take(self, work: Work, now_ms: int) -> None:
        if work.declared is not None:
            self._declare(work.declared)
        for seen in work.seen:
            self._inventory.probed(seen.cluster, seen.taken, now_ms)
        for name in work.gone:
            self._inventory.say(f"probe/{name}", None)
        for key, source in work.told:
            self._inventory.say(f"told/{key}", source)
        self._own = {key: held for key, held in {**self._own, **work.own}.items() if held}
        for key in work.dropped:
            self._placements.pop(key, None)
        self._placements.update((one.placement.key, one.placement) for one in work.put)
        self._inventory.refresh()

    def _declare(self, declared: Iterable[Declared]) -> None:
        """Reads the files that say something new."""
        for one in declared:
            before = self._read.get(one.name)
            if before is not None and before.facts == one.facts:
                continue
            read = read_facts(self._store.blobs.get(one.facts))
            self._inventory.say_file(one.name, read.sources)
            self._read[one.name] = one

    # asked by others, in a thread

    def fleet(self, namespaces: Iterable[str] = ()) -> Fleet:
        """The fleet as it is believed to be now."""
        with self._lock:
            self._look()
            return self._inventory.fleet(namespaces)

    def wishes_of(self, shape: Shape) -> OwnDecided | None:
        """What would be decided for work with wishes that nobody has submitted."""
        with self._lock:
            self._look()
            here, now_ms = tuple(self._state.clusters), self._clock.now_ms()
            return self._for_wishes().once(shape, self._placements, here, now_ms)

    def own(self, key: str) -> tuple[Allocation, ...]:
        """What the work of a placement holds, as it was taken into the fleet."""
        with self._lock:
            return self._own.get(key, ())

    def _look(self) -> None:
        """Where nothing stands the inventory isn't kept up to date, so it is asked for now."""
        if not self._is_active:
            for name in [one for one in self._dirty if one not in self._state.clusters]:
                self._inventory.say(f"probe/{name}", None)
            for cluster in list(self._state.clusters.values()):
                self._inventory.probed(cluster, (), self._clock.now_ms())
        self._inventory.at(self._clock.now_ms())
        self._inventory.refresh()

    def what_if_applied(
        self, name: str, facts: FleetFacts, placements: Iterable[Placement]
    ) -> list[Answer]:
        """What would be decided otherwise if a file were applied."""
        with self._lock:
            twin, own = self._inventory.copy(), dict(self._own)
        twin.say_file(name, facts.sources)
        twin.refresh()
        standing = {one.placement.key: one for one in self._store.placements()}
        for placement in placements:
            before = standing.get(placement.key) or Standing(placement)
            standing[placement.key] = replace(before, placement=placement)
        decider: Decider = import_module("stellwerk.engine.deciding").Decider(twin)
        decider.hold(own)
        decider.apply(standing.values(), (), ())
        return [one.answer for one in decider.answers(self._clock.now_ms())]

    def prune(self, before_ms: int) -> int:
        """Removes decisions from before an instant that nothing needs, and what only they referred
        to; gives how many. While decisions are on their way to the disk nothing is removed.
        """
        with self._lock:
            if self._delivered != self._landed:
                return 0
            gone = self._store.drop_old_placed(before_ms)
            if gone:
                needed = needed_parts(self._store, self._store.placed_data())
                left = [id for id in self._store.part_ids() if id not in needed]
                self._store.drop_parts(left)
                if self._decider is not None:
                    self._decider.store_anew()
            return gone

    def rows(self) -> dict[str, FactRow]:
        """What is known of all clusters, by name."""
        with self._lock:
            self._look()
            return dict(self._inventory.rows)

    def row(self, name: str) -> tuple[FactRow, tuple[Contradiction, ...]] | None:
        """What is known of one cluster."""
        with self._lock:
            self._look()
            row = self._inventory.rows.get(name)
            return None if row is None else (row, self._inventory.contradictions.get(name, ()))
