"""``plan(view) -> Plan``: what to start and stop now, and why the rest waits. Pure.

Workloads are looked at in the order of their queue. One that doesn't fit lets others pass into the
room that is left, but only until it has waited ``OVERTAKEN_MS`` since it was queued: from then on
what it needs is kept for it on the nodes nearest to having it, so that large work isn't starved by
small. What is kept leaves to others what it doesn't need, and what is over before it could use it.
"""

from functools import partial

from msgspec.structs import replace

from stellwerk.core.model.actions import Action, ClaimRoom, Plan, StartRun, StopRun
from stellwerk.core.model.decisions import Candidate, Decision, Inputs
from stellwerk.core.model.holding import Claim, Holding
from stellwerk.core.model.ids import ShapeId, WorkloadId
from stellwerk.core.model.resources import NodeAllocation
from stellwerk.core.place.aging import Rising
from stellwerk.core.place.bounded import Bounded
from stellwerk.core.place.by_flavor import ByFlavor, unbound
from stellwerk.core.place.checking import checking
from stellwerk.core.place.decide import Chosen, chosen, rank
from stellwerk.core.place.fewer import at_least, fits_in, most_of
from stellwerk.core.place.found import Found
from stellwerk.core.place.keeping import Keeping
from stellwerk.core.place.kept import Kept, marked
from stellwerk.core.place.limited import Limited, charged
from stellwerk.core.place.preempting import Churn, drained, is_free, promise
from stellwerk.core.place.quotas import NOT_BOUND, Placed, Quotas, quotas_of
from stellwerk.core.place.rooms import Memory
from stellwerk.core.place.staying import stayed
from stellwerk.core.place.telling import Telling
from stellwerk.core.place.turns import turns_of
from stellwerk.core.queue.entries import QueueState
from stellwerk.core.queue.quota import Door
from stellwerk.core.version import CORE_VERSION
from stellwerk.core.view import ClaimView, Head, ShapeView, View

OVERTAKEN_MS = 10 * 60_000
STARTS_PER_CYCLE = 256
KEPT_AT_ONCE = 8
"""Workloads for which room is kept at a time: the first in the queue, others follow them."""

Lenders = dict[str, list[Kept]]
"""Those in whose kept room one may start, by cluster."""


def plan(view: View, memory: Memory | None = None) -> Plan:
    """Plans one cycle on an immutable view; planning its own result again gives nothing new.

    ``memory`` is what an earlier call found; it saves work and changes no result.
    """
    cycle = _Cycle(view, Memory() if memory is None else memory)
    cycle.start()
    told, decisions = cycle.told()
    stops: list[Action] = [
        StopRun(stop.workload, stop.version, stop.run, "cancel", stop.grace_ms)
        for stop in view.stops
    ]
    return Plan(
        actions=(*stops, *cycle.actions, *told),
        decisions=(*cycle.decisions, *decisions),
        wake_at_ms=cycle.wake_at_ms(),
        complete=cycle.complete,
    )


def starts(view: View, memory: Memory) -> tuple[list[StartRun | ClaimRoom], int]:
    """Plans starts and promises of one cycle alone, for looking ahead; with when to look again."""
    cycle = _Cycle(view, memory)
    cycle.start()
    acted = [one for one in cycle.actions if isinstance(one, StartRun | ClaimRoom)]
    return acted, cycle.wake_at_ms()


class _Cycle:
    """The working copy of one cycle: room shrinks as starts are planned."""

    def __init__(self, view: View, memory: Memory) -> None:
        self.view = view
        self.memory = memory
        self.rooms = memory.rooms(view.clusters)
        memory.placements(view.placements)
        held = (one for part in view.clusters for _, one in part.allocations)
        self.bounded = Bounded(view.placements, self.rooms, Limited(view.limits, held), view.own)
        self.anywhere = ByFlavor(self.bounded)
        self.quotas = quotas_of(view, memory, self.bounded)
        self.claimed: dict[WorkloadId, None] = {}
        self.promises = 0
        self.churn = Churn(view)
        self.searched: dict[ShapeId, None] = {}
        self.by_name = {room.cluster.name: room for room in self.rooms}
        self.versions = {part.cluster.name: part.version for part in view.clusters}
        self.facts = {part.cluster.name: part.facts for part in view.clusters}
        self.keeping = Keeping(view, self.by_name)
        self.blocked: dict[ShapeId, None] = {}
        self.actions: list[Action] = []
        self.decisions: list[Decision] = []
        self.starts = 0
        self.complete = False
        self.again = False
        self.room_state = memory.generation
        self.promised: dict[ShapeId, tuple[str, ...]] = {}

    def start(self) -> None:
        """Goes through the queue in order; a shape that is blocked blocks all behind it."""
        self._drain()
        self._keep_promises()
        for kept in self.keeping.reserve():
            self._changes(kept.cluster, kept.parts, kept.name)
        rising = Rising(self.view, self.quotas)
        shapes = rising.shapes(self.memory)
        self.view = replace(self.view, shapes=shapes)
        turns, more = turns_of(shapes, self.quotas, rising.risen), False
        while turns and self.starts < STARTS_PER_CYCLE:
            i, at = turns.next()
            shape = shapes[i]
            starts = self._consider(shape.heads[at], shape)
            then = at + 1 if starts else self.keeping.next_own(shape, at)
            if then >= len(shape.heads):
                more = more or (starts and then < shape.count)
                then = 0
            turns.done(then)
        self.complete = not turns and not more and not self.again

    def _consider(self, head: Head, shape: ShapeView) -> bool:
        """Plans the start of a workload, or finds that it must wait."""
        door = self.quotas.door(shape.shape) if self.quotas is not None else None
        if self.quotas is not None and door is not None:
            return self._consider_bound(self.quotas, door, head, shape)
        bounded = unbound(self.anywhere, shape.shape)
        for rooms, whose in self.keeping.ways(head, shape, self.rooms):
            if rooms is None and self._is_known_to_wait(shape.id):
                continue
            there = bounded
            if rooms is not None:
                there = unbound(ByFlavor(self.bounded.on(rooms)), shape.shape)
            size = most_of(shape, partial(fits_in, there))
            if size is not None:
                self._start(head, shape, size[0], there, whose)
                return True
        self._block(shape)
        self._keep_room(head, shape, bounded)
        return False

    def _block(self, shape: ShapeView) -> None:
        self.blocked[shape.id] = None
        if not self._touched:
            self.memory.blocked[shape.id] = self.memory.generation

    def _consider_bound(self, quotas: Quotas, door: Door, head: Head, shape: ShapeView) -> bool:
        """The same for one that quota binds; who was promised a place is handled already."""
        queue = door.queue
        if head.id in self.claimed:
            self.blocked[shape.id] = None
            return True
        if queue is None or door.reason is not None:
            self.blocked[shape.id] = None
            return False
        if queue.name in quotas.closed:
            self.blocked[shape.id] = None
            quotas.behind[shape.id] = quotas.closed[queue.name]
            return False
        self.searched[shape.id] = None
        lenders = self.keeping.lenders(head, shape.shape.queue)
        names = [(name, *(one.id for one in kept)) for name, kept in lenders.items()]
        room_state = hash((self.room_state, *names)) if names else self.room_state
        if not quotas.is_known(queue, head, shape.id, room_state):
            for rooms, whose in self.keeping.ways(head, shape, self.rooms, lenders):
                there = self.bounded.on(rooms) if rooms is not None else None
                size = most_of(shape, partial(quotas.place, queue, bounded=there))
                if size is not None:
                    self._start_bound(quotas, queue, head, shape, size[1], whose)
                    return True
            may_promise = self.promises < self.view.limits.promises
            if may_promise and self._promise(quotas, queue, head, shape):
                return True
            quotas.note(queue, head, shape.id, room_state)
        self.blocked[shape.id] = None
        overtaken = self._is_overtaken(head)
        allowed = quotas.wheres(queue, shape)[:1] if overtaken else []
        if quotas.keep(queue, shape, overtaken=overtaken):
            for where in allowed:
                self._keep_room(head, shape, quotas.by_flavor.bounded(where))
        if queue.spec.strategy == "StrictFIFO":
            quotas.closed[queue.name] = head.name
        return False

    def _start_bound(
        self,
        quotas: Quotas,
        queue: QueueState,
        head: Head,
        shape: ShapeView,
        placed: Placed,
        lenders: Lenders | None = None,
    ) -> None:
        sized = placed.shape
        found = placed.only(placed.bounded.candidates(sized.shape, sized.id))
        ranked = rank(found)
        found += quotas.not_of(placed)
        said = quotas.said(queue, sized)
        decided = chosen(found, ranked, self._inputs(shape.id), said)
        holding = placed.option(decided.allocation.alternative).holding(queue.name)
        checks = quotas.quota.checks_of(queue, holding)
        if not checks:
            self._plan_start(head, shape, decided, holding, lenders)
            quotas.take(queue, holding, shape.shape)
            return
        self.decisions.append(decided.decision)
        claim = Claim(charged(decided.allocation, shape.shape), holding, checks=checks)
        self.actions.append(ClaimRoom(head.id, head.version, claim, (), self.view.queueing_version))
        self._count(quotas, queue, head.name, claim)
        quotas.checking[shape.id] = checking(claim, checks, self.view)
        self.claimed[head.id] = self.blocked[shape.id] = None
        self.starts += 1

    def _promise(self, quotas: Quotas, queue: QueueState, head: Head, shape: ShapeView) -> bool:
        """Stops others for a workload, if it then really starts."""
        inputs, least = self._inputs(shape.id), at_least(shape)
        found = promise(quotas, queue, head, shape, inputs, self.churn)
        if found is None and least is not None:
            found = promise(quotas, queue, head, least, inputs, self.churn)
        if found is None:
            return False
        claim = ClaimRoom(
            head.id, head.version, found.claim, found.stops, self.view.queueing_version
        )
        self.actions.append(claim)
        for stop in found.stops:
            quotas.quota.leave(stop.workload)
        self._count(quotas, queue, head.name, found.claim)
        self.promises += 1
        self.claimed[head.id] = None
        self.promised[shape.id] = tuple(quotas.quota.held[one.workload].name for one in found.stops)
        self.blocked[shape.id] = None
        return True

    def _count(self, quotas: Quotas, queue: QueueState, name: str, claim: Claim) -> None:
        """Counts a promise beside what those hold who are in its way."""
        quotas.take(queue, claim.holding)
        self._changes(claim.allocation.cluster, claim.allocation.nodes, name)
        self.by_name[claim.allocation.cluster].keep(claim.allocation.nodes, name)

    def _changes(self, cluster: str, parts: tuple[NodeAllocation, ...], kept: str = "") -> None:
        """Notes what was done to the rooms, so that equal states of them are seen to be equal."""
        self.room_state = hash((self.room_state, cluster, parts, kept))

    def _keep_promises(self) -> None:
        """Starts who was promised a place that is free now; who can't have it waits as before."""
        for one in self.view.claims:
            quotas, claim, cluster = self.quotas, one.claim, one.claim.allocation.cluster
            queue = quotas.open_queue(one.shape.shape, claim) if quotas is not None else None
            room = self.by_name.get(cluster)
            self.claimed[one.id] = None
            if (
                quotas is None
                or queue is None
                or room is None
                or one.broken
                or quotas.quota.checks_of(queue, claim.holding) != claim.checks
            ):
                self._take_back(one)
            elif one.live or one.checks:
                self._count(quotas, queue, one.name, claim)
                if one.live:
                    self.promises += 1
                    self.promised[one.shape.id] = one.live
                else:
                    quotas.checking[one.shape.id] = checking(claim, one.checks, self.view)
            elif (
                quotas.quota.fits(queue, claim.holding.usage)
                and is_free(room, claim.allocation)
                and self.bounded.lets(one.shape.shape, one.shape.id, claim.allocation)
            ):
                found = [Found(Candidate(cluster, claim.allocation.alternative, "fits"))]
                said = quotas.said(queue, one.shape)
                decided = chosen(found, [0], self._inputs(one.shape.id), said)
                decided = replace(decided, allocation=claim.allocation)
                self._plan_start(one.shape.heads[0], one.shape, decided, claim.holding)
                quotas.take(queue, claim.holding)
            else:
                self._take_back(one)

    def _drain(self) -> None:
        """Stops what runs in queues that give it up."""
        if self.quotas is not None:
            self.actions += drained(self.quotas.quota)

    def _take_back(self, one: ClaimView) -> None:
        self.actions.append(ClaimRoom(one.id, one.version, None))
        self.again = True

    def _is_known_to_wait(self, shape: ShapeId) -> bool:
        """Where no room has changed since it fitted nowhere, it still fits nowhere."""
        return self.memory.blocked.get(shape) == self.memory.generation and not self._touched

    @property
    def _touched(self) -> bool:
        return bool(self.starts or self.keeping.any_kept or self.promised)

    def _start(
        self,
        head: Head,
        shape: ShapeView,
        sized: ShapeView,
        bounded: Bounded,
        lenders: Lenders | None = None,
    ) -> None:
        found = bounded.candidates(sized.shape, sized.id)
        said = NOT_BOUND if self.quotas is not None else None
        decided = chosen(found, rank(found), self._inputs(shape.id), said)
        self._plan_start(head, shape, decided, None, lenders)

    def _plan_start(
        self,
        head: Head,
        shape: ShapeView,
        decided: Chosen,
        holding: Holding | None,
        lenders: Lenders | None = None,
    ) -> None:
        cluster, given = decided.allocation.cluster, decided.allocation
        if head.last is not None and head.last.holding == holding and not lenders:
            room, alternative = self.by_name[cluster].open, given.alternative
            nodes = stayed(given.nodes, head.last, room, shape.shape, alternative)
            given = replace(given, nodes=nodes)
        allocation = charged(given, shape.shape)
        if lenders and cluster in lenders:
            queue = shape.shape.queue
            allocation = marked(allocation, lenders[cluster], head, queue)
        self.decisions.append(decided.decision)
        self.actions.append(
            StartRun(
                head.id,
                head.version,
                self.versions[cluster],
                allocation,
                decided.decision.id,
                holding,
                self.view.queueing_version if holding is not None else 0,
            )
        )
        self.starts += 1
        self._changes(cluster, allocation.nodes)
        self.by_name[cluster].take(allocation)
        self.bounded.limited.take(allocation)
        self.keeping.started(allocation, head, shape.shape.queue)

    def _inputs(self, shape: ShapeId) -> Inputs:
        return Inputs(
            shape=shape,
            facts=self.facts,
            now_ms=self.view.now_ms,
            seed=self.view.seed,
            core_version=CORE_VERSION,
            seq=self.view.seq,
        )

    def _keep_room(self, head: Head, shape: ShapeView, bounded: Bounded) -> None:
        """Keeps what a workload that was overtaken long enough needs, where it is nearest."""
        full = len(self.keeping.kept) >= KEPT_AT_ONCE
        if not self._is_overtaken(head) or full or bounded.limited.full(shape.shape):
            return
        kept = self.keeping.keep(head, shape, bounded)
        if kept is not None:
            self._changes(kept.cluster, kept.parts, kept.name)

    def _is_overtaken(self, head: Head) -> bool:
        """Whether it has waited long enough; one that has lost a machine keeps its others."""
        repairs = head.last is not None and head.last.repairs
        return repairs or self.view.now_ms - head.queued_ms >= OVERTAKEN_MS

    def told(self) -> tuple[list[Action], list[Decision]]:
        """Tells the reasons of shapes that wait, where they differ in kind from those told before.

        They are those at the end of the cycle: what was started after the shape was looked at
        took room too.
        """
        generation = -1 if self._touched else self.memory.generation
        known = self.memory.resting
        resting = {id: known[id] for id in self.searched if id in known}
        telling = Telling(
            self.view, self.anywhere, self.quotas, self.keeping, self.promised, self.room_state,
            resting,
        )  # fmt: skip
        return telling.tell(self.memory, self.blocked, generation, self._inputs)

    def wake_at_ms(self) -> int:
        """When time alone could change the plan: a back-off ends, a head was overtaken enough."""
        times = [one for one in (self.view.next_due_ms, self.keeping.wake_at_ms()) if one]
        now_ms, recheck, searched = self.view.now_ms, self.memory.recheck, self.searched
        for shape in self.view.shapes:
            if shape.id in self.blocked:
                again_ms = recheck.get(shape.id, 0) if shape.id in searched else 0
                due = (shape.heads[0].queued_ms + OVERTAKEN_MS, again_ms)
                times += [one for one in due if one > now_ms]
        return min(times, default=0)
