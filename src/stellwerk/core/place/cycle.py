"""The working copy of one cycle: what is free and may be used shrinks as starts and promises are
planned in it. Who gets what is decided in ``core.plan``; here is what follows from it.
"""

from __future__ import annotations

from msgspec.structs import replace

from stellwerk.core.model.actions import Action, ClaimRoom, StartRun, StopRun
from stellwerk.core.model.decisions import Decision, Inputs
from stellwerk.core.model.holding import Claim, Holding
from stellwerk.core.model.ids import ShapeId, WorkloadId
from stellwerk.core.model.resources import NodeAllocation
from stellwerk.core.place.asleep import Drowsy
from stellwerk.core.place.bounded import Bounded
from stellwerk.core.place.by_flavor import ByFlavor
from stellwerk.core.place.checking import checking
from stellwerk.core.place.decide import Chosen
from stellwerk.core.place.keeping import Keeping
from stellwerk.core.place.kept import Kept, marked
from stellwerk.core.place.limited import Limited, charged
from stellwerk.core.place.preempting import Churn, drained
from stellwerk.core.place.quotas import quotas_of
from stellwerk.core.place.rooms import Memory
from stellwerk.core.place.staying import stayed
from stellwerk.core.place.telling import Telling
from stellwerk.core.queue.entries import QueueState
from stellwerk.core.version import CORE_VERSION
from stellwerk.core.view import ClaimView, Head, ShapeView, View

OVERTAKEN_MS = 10 * 60_000
KEPT_AT_ONCE = 8
"""Workloads for which room is kept at a time: the first in the queue, others follow them."""

Lenders = dict[str, list[Kept]]
"""Those in whose kept room one may start, by cluster."""


class Cycle:
    """What is known and planned so far.

    ``claimed`` are the workloads that have a claim, ``blocked`` the shapes whose head waits,
    ``searched`` those for which it was looked for whom to stop, and ``promised`` those for whom
    others go. ``room_state`` is the same where all that was done to the rooms is. ``again`` says
    that something was given back, so that another cycle must look.
    """

    def __init__(self, view: View, memory: Memory) -> None:
        self.view = view
        self.memory = memory
        self.rooms = memory.rooms(view.clusters)
        memory.placements(view.placements)
        held = (one for part in view.clusters for _, one in part.allocations)
        self.bounded = Bounded(view.placements, self.rooms, Limited(view.limits, held), view.own)
        self.anywhere = ByFlavor(self.bounded)
        self.quotas = quotas_of(view, memory, self.bounded)
        self.by_name = {room.cluster.name: room for room in self.rooms}
        self.keeping = Keeping(view, self.by_name)
        self.churn = Churn(view)
        self.claimed: dict[WorkloadId, None] = {}
        self.blocked: dict[ShapeId, None] = {}
        self.searched: dict[ShapeId, None] = {}
        self.promised: dict[ShapeId, tuple[str, ...]] = {}
        self.promises = 0
        self.starts = 0
        self.actions: list[Action] = []
        self.decisions: list[Decision] = []
        self.again = False
        self.room_state = memory.generation
        self.drowsy = Drowsy(view, memory.asleep)
        self._is_claimed = False
        self._versions = {part.cluster.name: part.version for part in view.clusters}
        self._facts = {part.cluster.name: part.facts for part in view.clusters}

    @property
    def touched(self) -> bool:
        """Whether the rooms are no longer those of the view."""
        return bool(self.starts or self.keeping.any_kept or self._is_claimed)

    def drain(self) -> None:
        """Stops what runs in queues that give it up."""
        if self.quotas is not None:
            self.actions += drained(self.quotas.quota)

    def reserve(self) -> None:
        """Keeps what is promised for a time that is near, or has begun."""
        for kept in self.keeping.reserve():
            self._note(kept.cluster, kept.parts, kept.name)

    def rest(self, *, steady: bool) -> None:
        """Looks no more at the work of trees in which nothing can have changed."""
        quota = self.quotas.quota if self.quotas is not None else None
        shapes = self.drowsy.awake(quota, steady=steady)
        self.view = replace(self.view, shapes=shapes)

    def start(
        self,
        head: Head,
        shape: ShapeView,
        decided: Chosen,
        holding: Holding | None,
        lenders: Lenders | None = None,
    ) -> None:
        """Plans a start, where its last run was if that is as good."""
        cluster, given = decided.allocation.cluster, decided.allocation
        if head.last is not None and head.last.holding == holding and not lenders:
            room, alternative = self.by_name[cluster].open, given.alternative
            nodes = stayed(given.nodes, head.last, room, shape.shape, alternative)
            given = replace(given, nodes=nodes)
        allocation = charged(given, shape.shape)
        if lenders and cluster in lenders:
            allocation = marked(allocation, lenders[cluster], head, shape.shape.queue)
        queueing_version = self.view.queueing_version if holding is not None else 0
        self.decisions.append(decided.decision)
        self.actions.append(
            StartRun(
                head.id, head.version, self._versions[cluster], allocation, decided.decision.id,
                holding, queueing_version,
            )
        )  # fmt: skip
        self.starts += 1
        self._note(cluster, allocation.nodes)
        self.by_name[cluster].take(allocation)
        self.bounded.limited.take(allocation)
        self.keeping.started(allocation, head, shape.shape.queue)

    def claim(
        self, queue: QueueState, head: Head, claim: Claim, stops: tuple[StopRun, ...] = ()
    ) -> None:
        """Plans a promise; until it is kept it counts beside what those hold who go for it."""
        version = self.view.queueing_version
        self.actions.append(ClaimRoom(head.id, head.version, claim, stops, version))
        if self.quotas is not None:
            for stop in stops:
                self.quotas.quota.leave(stop.workload)
        self.claimed[head.id] = None
        self.count(queue, head.name, claim)

    def count(self, queue: QueueState, name: str, claim: Claim) -> None:
        """Counts a promise beside what those hold who are in its way."""
        self._is_claimed = True
        if self.quotas is not None:
            self.quotas.take(queue, claim.holding)
        cluster, nodes = claim.allocation.cluster, claim.allocation.nodes
        self._note(cluster, nodes, name)
        self.by_name[cluster].keep(nodes, name)

    def ask(self, shape: ShapeView, claim: Claim, pending: tuple[str, ...]) -> None:
        """Notes that a shape's head has its place and quota, and waits for checks."""
        if self.quotas is not None:
            self.quotas.checking[shape.id] = checking(claim, pending, self.view)

    def take_back(self, one: ClaimView) -> None:
        """Plans that a promise which can't be kept is none any more."""
        self.actions.append(ClaimRoom(one.id, one.version, None))
        self.again = True

    def block(self, shape: ShapeView) -> None:
        """Notes that a shape's head waits for room, and so all of its shape does."""
        self.blocked[shape.id] = None
        if not self.touched:
            self.memory.blocked[shape.id] = self.memory.generation

    def is_known_to_wait(self, shape: ShapeId) -> bool:
        """Where no room has changed since it fitted nowhere, it still fits nowhere."""
        return self.memory.blocked.get(shape) == self.memory.generation and not self.touched

    def is_overtaken(self, head: Head) -> bool:
        """Whether it has waited long enough; one that has lost a machine keeps its others."""
        repairs = head.last is not None and head.last.repairs
        return repairs or self.view.now_ms - head.queued_ms >= OVERTAKEN_MS

    def keep_room(self, head: Head, shape: ShapeView, bounded: Bounded) -> None:
        """Keeps what a workload that was overtaken long enough needs, where it is nearest."""
        full = len(self.keeping.kept) >= KEPT_AT_ONCE
        if not self.is_overtaken(head) or full or bounded.limited.full(shape.shape):
            return
        kept = self.keeping.keep(head, shape, bounded)
        if kept is not None:
            self._note(kept.cluster, kept.parts, kept.name)

    def inputs(self, shape: ShapeId) -> Inputs:
        """What a decision about a shape is made from."""
        return Inputs(
            shape=shape,
            facts=self._facts,
            now_ms=self.view.now_ms,
            seed=self.view.seed,
            core_version=CORE_VERSION,
            seq=self.view.seq,
        )

    def told(self) -> tuple[list[Action], list[Decision]]:
        """Tells the reasons of shapes that wait, where they differ in kind from those told before.

        They are those at the end of the cycle: what was started after the shape was looked at
        took room too.
        """
        generation = -1 if self.touched else self.memory.generation
        known = self.memory.resting
        resting = {id: known[id] for id in self.searched if id in known}
        telling = Telling(
            self.view, self.anywhere, self.quotas, self.keeping, self.promised, self.room_state,
            resting,
        )  # fmt: skip
        told, decisions = telling.tell(self.memory, self.blocked, generation, self.inputs)
        self.drowsy.told(told)
        return told, decisions

    def wake_at_ms(self) -> int:
        """When time alone could change the plan: a back-off ends, a head was overtaken enough."""
        times = [one for one in (self.view.next_due_ms, self.keeping.wake_at_ms()) if one]
        times += self.drowsy.wake_times()
        now_ms, recheck = self.view.now_ms, self.memory.recheck
        soonest: dict[ShapeId, int] = {}
        for shape in self.view.shapes:
            if shape.id in self.blocked:
                again_ms = recheck.get(shape.id, 0) if shape.id in self.searched else 0
                due = (shape.heads[0].queued_ms + OVERTAKEN_MS, again_ms)
                later = [one for one in due if one > now_ms]
                if later:
                    soonest[shape.id] = min(later)
        self.drowsy.settle(soonest)
        return min((*times, *soonest.values()), default=0)

    def _note(self, cluster: str, parts: tuple[NodeAllocation, ...], kept: str = "") -> None:
        """Notes what was done to the rooms, so that equal states of them are seen to be equal."""
        self.room_state = hash((self.room_state, cluster, parts, kept))
