"""``plan(view) -> Plan``: what to start and stop now, and why the rest waits. Pure.

Workloads are looked at in the order of their queue. One that doesn't fit lets others pass into the
room that is left, but only until it has waited ``OVERTAKEN_MS`` since it was queued: from then on
the room where it could run is kept for it, so that large work isn't starved by small.
"""

from heapq import merge

from stellwerk.core.model.actions import Action, Plan, StartRun, StopRun, TellWaiting
from stellwerk.core.model.decisions import Decision, Inputs
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.place.decide import Decided, decide
from stellwerk.core.place.room import Room
from stellwerk.core.version import CORE_VERSION
from stellwerk.core.view import Head, ShapeView, View

OVERTAKEN_MS = 10 * 60_000
STARTS_PER_CYCLE = 256


def plan(view: View) -> Plan:
    """Plans one cycle on an immutable view; planning its own result again gives nothing new."""
    cycle = _Cycle(view)
    for head, shape in cycle.in_order():
        if cycle.starts >= STARTS_PER_CYCLE:
            break
        cycle.consider(head, shape)
    stops: list[Action] = [
        StopRun(stop.workload, stop.version, stop.run, "cancel", stop.grace_ms)
        for stop in view.stops]
    return Plan(
        actions=(*stops, *cycle.actions, *cycle.told()), decisions=tuple(cycle.decisions),
        wake_at_ms=cycle.wake_at_ms())


class _Cycle:
    """The working copy of one cycle: room shrinks as starts are planned."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.rooms = [
            Room(part.cluster, (allocation for _, allocation in part.allocations))
            for part in view.clusters]
        self.versions = {part.cluster.name: part.version for part in view.clusters}
        self.facts = {part.cluster.name: f"{part.facts}@{part.version}" for part in view.clusters}
        self.kept: dict[str, str] = {}
        self.blocked: dict[ShapeId, tuple[Decided, int]] = {}
        self.actions: list[Action] = []
        self.decisions: list[Decision] = []
        self.starts = 0

    def in_order(self) -> list[tuple[Head, ShapeView]]:
        queues = (
            [((-head.priority, head.order), head, shape) for head in shape.heads]
            for shape in self.view.shapes)
        return [(head, shape) for _, head, shape in merge(*queues, key=lambda item: item[0])]

    def consider(self, head: Head, shape: ShapeView) -> None:
        if shape.id in self.blocked:
            return
        decided = decide(shape.shape, self.rooms, self.kept, self._inputs(shape.id))
        if decided.allocation is None:
            self.blocked[shape.id] = (decided, self.starts)
            self._keep_room(head, decided)
            return
        cluster = decided.allocation.cluster
        self.decisions.append(decided.decision)
        self.actions.append(StartRun(
            head.id, head.version, self.versions[cluster], decided.allocation,
            decided.decision.id))
        self.starts += 1
        for room in self.rooms:
            if room.cluster.name == cluster:
                room.take(decided.allocation)

    def _inputs(self, shape: ShapeId) -> Inputs:
        return Inputs(
            shape=shape, facts=self.facts, now_ms=self.view.now_ms, seed=self.view.seed,
            core_version=CORE_VERSION)

    def _keep_room(self, head: Head, decided: Decided) -> None:
        if self.view.now_ms - head.queued_ms < OVERTAKEN_MS:
            return
        for candidate in decided.decision.candidates:
            if candidate.verdict == "later" and candidate.shortfalls:
                self.kept.setdefault(candidate.cluster, head.name)
                return

    def told(self) -> list[Action]:
        """Tells the reasons of a shape that waits when they differ in kind from those told before.

        They are those at the end of the cycle: what was started after the shape was looked at
        took room too.
        """
        told: list[Action] = []
        for shape in self.view.shapes:
            if shape.id not in self.blocked:
                continue
            decided, starts = self.blocked[shape.id]
            if starts < self.starts:
                decided = decide(shape.shape, self.rooms, self.kept, self._inputs(shape.id))
            reasons = decided.decision.reasons
            if shape.waits is not None and _kind(shape.waits.reasons) == _kind(reasons):
                continue
            self.decisions.append(decided.decision)
            told.append(TellWaiting(shape.id, decided.decision.id, reasons))
        return told

    def wake_at_ms(self) -> int:
        """When time alone could change the plan: a back-off ends, a head was overtaken enough."""
        times = [self.view.next_due_ms] if self.view.next_due_ms else []
        for shape in self.view.shapes:
            if shape.id in self.blocked and shape.heads:
                due = shape.heads[0].queued_ms + OVERTAKEN_MS
                if due > self.view.now_ms:
                    times.append(due)
        return min(times, default=0)


def _kind(reasons: tuple[Reason, ...]) -> tuple[tuple[str, object, object], ...]:
    """What makes reasons the same to a reader; the numbers may drift without being told again."""
    return tuple(
        (reason.code, reason.params.get("cluster"), reason.params.get("resource"))
        for reason in reasons)
