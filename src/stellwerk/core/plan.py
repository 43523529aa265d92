"""``plan(view) -> Plan``: what to start and stop now, and why the rest waits. Pure.

Workloads are looked at in the order of their queue. One that doesn't fit lets others pass into the
room that is left, but only until it has waited ``OVERTAKEN_MS`` since it was queued: from then on
what it needs is kept for it on the nodes nearest to having it, so that large work isn't starved by
small. What is kept leaves to others what it doesn't need.
"""

from heapq import heapify, heappop, heapreplace
from operator import is_not

from stellwerk.core.model.actions import Action, Plan, StartRun, StopRun, TellWaiting
from stellwerk.core.model.decisions import Decision, Inputs
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.place.candidates import avoided, candidates
from stellwerk.core.place.decide import chosen, rank, reasons_of, waiting
from stellwerk.core.place.found import Found
from stellwerk.core.place.lacks import Credit, credit
from stellwerk.core.place.rooms import ClusterRoom, Memory
from stellwerk.core.version import CORE_VERSION
from stellwerk.core.view import Head, ShapeView, View

OVERTAKEN_MS = 10 * 60_000
STARTS_PER_CYCLE = 256
KEPT_AT_ONCE = 8
"""Workloads for which room is kept at a time: the first in the queue, others follow them."""


def plan(view: View, memory: Memory | None = None) -> Plan:
    """Plans one cycle on an immutable view; planning its own result again gives nothing new.

    ``memory`` is what an earlier call found; it saves work and changes no result.
    """
    cycle = _Cycle(view, Memory() if memory is None else memory)
    cycle.start()
    stops: list[Action] = [
        StopRun(stop.workload, stop.version, stop.run, "cancel", stop.grace_ms)
        for stop in view.stops
    ]
    return Plan(
        actions=(*stops, *cycle.actions, *cycle.told()),
        decisions=tuple(cycle.decisions),
        wake_at_ms=cycle.wake_at_ms(),
    )


class _Cycle:
    """The working copy of one cycle: room shrinks as starts are planned."""

    def __init__(self, view: View, memory: Memory) -> None:
        self.view = view
        self.memory = memory
        self.rooms = memory.rooms(view.clusters)
        self.by_name = {room.cluster.name: room for room in self.rooms}
        self.versions = {part.cluster.name: part.version for part in view.clusters}
        self.facts = {part.cluster.name: part.facts for part in view.clusters}
        self.kept = 0
        self.blocked: dict[ShapeId, list[Found]] = {}
        self.looked_at: dict[ShapeId, int] = {}
        self.actions: list[Action] = []
        self.decisions: list[Decision] = []
        self.starts = 0

    def start(self) -> None:
        """Goes through the queue in order; a shape that is blocked blocks all behind it."""
        shapes = self.view.shapes
        heads = [(_place(shape.heads[0]), i, 0) for i, shape in enumerate(shapes)]
        heapify(heads)
        while heads and self.starts < STARTS_PER_CYCLE:
            _, i, at = heads[0]
            shape = shapes[i]
            if self._consider(shape.heads[at], shape) and at + 1 < len(shape.heads):
                heapreplace(heads, (_place(shape.heads[at + 1]), i, at + 1))
            else:
                heappop(heads)

    def _consider(self, head: Head, shape: ShapeView) -> bool:
        """Plans the start of a workload, or finds that it must wait."""
        found = candidates(shape.shape, shape.id, self.rooms)
        ranked = rank(found)
        if not ranked:
            self.blocked[shape.id] = found
            self.looked_at[shape.id] = self.starts
            self._keep_room(head, shape, found)
            return False
        decided = chosen(found, ranked, self._inputs(shape.id))
        assert decided.allocation is not None, "what was chosen holds something"
        cluster = decided.allocation.cluster
        self.decisions.append(decided.decision)
        self.actions.append(
            StartRun(
                head.id,
                head.version,
                self.versions[cluster],
                decided.allocation,
                decided.decision.id,
            )
        )
        self.starts += 1
        self.by_name[cluster].take(decided.allocation)
        return True

    def _inputs(self, shape: ShapeId) -> Inputs:
        return Inputs(
            shape=shape,
            facts=self.facts,
            now_ms=self.view.now_ms,
            seed=self.view.seed,
            core_version=CORE_VERSION,
            seq=self.view.seq,
        )

    def _keep_room(self, head: Head, shape: ShapeView, found: list[Found]) -> None:
        """Keeps what a workload that was overtaken long enough needs, where it is nearest."""
        overtaken = self.view.now_ms - head.queued_ms >= OVERTAKEN_MS
        if not overtaken or self.kept >= KEPT_AT_ONCE:
            return
        avoid = avoided(shape.shape, self.rooms)
        nearest: tuple[tuple[int, int], int, str, Credit, ClusterRoom] | None = None
        for one in found:
            room = self.by_name.get(one.candidate.cluster)
            if one.candidate.verdict != "later" or room is None:
                continue
            request = shape.shape.alternatives[one.candidate.alternative].request
            left = room.without(avoid)
            given = credit(left.open, left.whole, request, shape.shape.num_nodes)
            if given is not None:
                key = (given.far, one.candidate.alternative, one.candidate.cluster)
                if nearest is None or key < nearest[:3]:
                    nearest = (*key, given, room)
        if nearest is not None:
            nearest[4].keep(nearest[3].parts, head.name)
            self.kept += 1

    def told(self) -> list[Action]:
        """Tells the reasons of a shape that waits when they differ in kind from those told before.

        They are those at the end of the cycle: what was started after the shape was looked at
        took room too.
        """
        told: list[Action] = []
        for shape in self.view.shapes:
            found = self.blocked.get(shape.id)
            if found is None:
                continue
            if self.looked_at[shape.id] < self.starts:
                found = candidates(shape.shape, shape.id, self.rooms)
            reasons = self._reasons(shape.id, found)
            if shape.waits is not None and _kind(shape.waits.reasons) == _kind(reasons):
                continue
            decision = waiting(shape.shape, found, self.rooms, reasons, self._inputs(shape.id))
            self.decisions.append(decision)
            told.append(TellWaiting(shape.id, decision.id, reasons))
        self.memory.forget_all_but(len(self.view.shapes))
        return told

    def _reasons(self, shape: ShapeId, found: list[Found]) -> tuple[Reason, ...]:
        """Gives the reasons in what was found: those of the last cycle, if nothing changed."""
        before, reasons = self.memory.reasons.get(shape, ([], ()))
        if len(before) != len(found) or any(map(is_not, before, found)):
            reasons = reasons_of(found)
            self.memory.reasons[shape] = (found, reasons)
        return reasons

    def wake_at_ms(self) -> int:
        """When time alone could change the plan: a back-off ends, a head was overtaken enough."""
        times = [self.view.next_due_ms] if self.view.next_due_ms else []
        for shape in self.view.shapes:
            if shape.id in self.blocked:
                due = shape.heads[0].queued_ms + OVERTAKEN_MS
                if due > self.view.now_ms:
                    times.append(due)
        return min(times, default=0)


def _place(head: Head) -> tuple[int, int]:
    return (-head.priority, head.order)


def _kind(reasons: tuple[Reason, ...]) -> tuple[tuple[str, str, str], ...]:
    """What makes reasons the same to a reader; the numbers may drift without being told again.

    Where many clusters are told as one, it doesn't matter which is the nearest of them.
    """
    kinds = (
        (
            reason.code,
            "" if "others" in reason.params else str(reason.params.get("cluster", "")),
            str(reason.params.get("resource", "")),
        )
        for reason in reasons
    )
    return tuple(sorted(kinds))
