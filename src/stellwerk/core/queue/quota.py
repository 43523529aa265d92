"""The quota tree as live work uses it: who holds what, which door work enters by, whom it may stop.

It is kept from cycle to cycle and takes over what changed. Within a cycle more is counted, of runs
that are planned and of promises; `begin` takes that back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

from msgspec import Struct

from stellwerk.core.model.admission import AdmissionCheck
from stellwerk.core.model.holding import Holding
from stellwerk.core.model.ids import RunId, WorkloadId
from stellwerk.core.model.limits import LEAST_RUN_MS
from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.queueing import (
    Admission,
    ClusterQueue,
    LocalQueue,
    QueuedWorkload,
    QueueObjects,
)
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import DEFAULT_QUEUE, Allocation, Shape, named
from stellwerk.core.queue import classical, fair
from stellwerk.core.queue.entries import Holder, QueueState, Verdict, World
from stellwerk.core.queue.live import Queues
from stellwerk.core.queue.options import Option, options_of
from stellwerk.core.queue.shares import Share, share_of
from stellwerk.core.queue.tree import QuotaNode, Usage
from stellwerk.core.queue.victims import Need, Victim

MOST_DOUBLINGS = 6
"""So often a run is spared twice as long as the time before, while its workload is stopped again
and again without anything new to resume from."""

LAST = 1 << 62
"""Orders of submission are counted down from it: of equal holders the newer one goes first."""


class Held(Struct, frozen=True):
    """What a live run holds, as queueing sees it.

    ``since_ms`` is from when on stopping it throws work away: since its last checkpoint, or else
    since it ``began_ms``. It was promised to run for ``protected_ms``, and moving what it saved
    takes it ``copy_ms``. Until ``rests_ms`` it was stopped often enough. ``leaving`` = it has
    notice, and can be reached; ``stuck`` = it can't be, so nobody knows whether it will go.
    """

    workload: WorkloadId
    version: int
    run: RunId
    name: str
    local_queue: str
    priority: int
    order: int
    holding: Holding
    allocation: Allocation
    planned_ms: int
    since_ms: int
    grace_ms: int
    leaving: bool = False
    stuck: bool = False
    preemptions: int = 0
    least_run_ms: int = LEAST_RUN_MS
    began_ms: int = 0
    protected_ms: int = 0
    copy_ms: int = 0
    rests_ms: int = 0
    shape: Shape | None = None

    @property
    def spared_until_ms(self) -> int:
        """Until when it isn't stopped for others."""
        began_ms = self.began_ms or self.since_ms
        least_ms = self.least_run_ms << min(self.preemptions, MOST_DOUBLINGS)
        return max(began_ms + max(least_ms, self.protected_ms), self.rests_ms)

    def lost_ms(self, now_ms: int) -> int:
        """What is lost when it is stopped now, and spent on moving: time of all its devices."""
        return (max(0, now_ms - self.since_ms) + self.copy_ms) * max(1, self.devices)

    @property
    def devices(self) -> int:
        """How many devices it has."""
        return sum(len(part.devices) for part in self.allocation.nodes)

    def alike(self, other: Held) -> bool:
        """Whether it makes no difference to quota which of both it is."""
        return (
            self.run == other.run
            and self.priority == other.priority
            and self.leaving == other.leaving
            and self.stuck == other.stuck
            and self.preemptions == other.preemptions
            and self.since_ms == other.since_ms
            and self.rests_ms == other.rests_ms
        )


class Door(NamedTuple):
    """The cluster queue behind a local queue; a ``reason`` why nothing may enter now."""

    queue: QueueState | None
    reason: Reason | None = None

    @property
    def name(self) -> str:
        """The cluster queue's name, if it is there."""
        return self.queue.name if self.queue is not None else ""


class Quota:
    """The tree with all usage. ``changed`` counts what was taken over."""

    def __init__(self, objects: QueueObjects) -> None:
        self.objects = objects
        self._queues = Queues(objects)
        known = self._queues.world
        self.gone: dict[str, Holder] = {}
        self.world = World(known.flavors, {}, known.queues, {}, self.gone)
        self.fair = objects.settings.fair_sharing
        self._checks = {one.name: one for one in objects.checks}
        self._levels = {one.name: one.levels for one in objects.topologies}
        self.held: dict[str, Held] = {}
        self.holders: dict[str, Holder] = {}
        self.leaving: dict[str, Holder] = {}
        self._left: list[Holder] = []
        self._added: list[tuple[QuotaNode, Usage]] = []
        self._doors: dict[str, Door | None] = {}
        self._states: dict[str, int] = {}
        self._soonest: dict[str, int] = {}
        self._open: dict[str, None] = {}
        self._refreshed_ms = -1

    def begin(self, held: Iterable[Held]) -> bool:
        """Takes back what the last cycle counted, and takes over who holds what now.

        Gives whether anything changed.
        """
        while self._added:
            node, usage = self._added.pop()
            node.remove(usage)
        for holder in self._left:
            self.leaving.pop(holder.key, None)
            holder.evicted = False
        self._left, self._states, self._soonest, self._refreshed_ms = [], {}, {}, -1
        now = {one.workload: one for one in held}
        changed = False
        for key, known in list(self.held.items()):
            same = now.get(WorkloadId(key))
            if same is None or not same.alike(known):
                self._drop(key)
                changed = True
        for key, one in now.items():
            if key not in self.held:
                self._put(one)
                changed = True
            self.held[key] = one
        return changed

    def _drop(self, key: str) -> None:
        del self.held[key]
        self.leaving.pop(key, None)
        holder = self.holders.pop(key, None)
        if holder is not None:
            holder.queue.node.remove(holder.usage)
            holder.queue.holders.pop(holder.key, None)
            holder.queue.node.top.version += 1

    def _put(self, one: Held) -> None:
        queue = self.world.queues.get(one.holding.queue)
        if queue is None:
            return
        workload = as_queued(
            one.workload, one.local_queue, one.priority, one.order, one.planned_ms, one.holding
        )
        holder = Holder(workload, queue, one.holding.usage, ())
        holder.key = one.workload
        holder.uid = f"{LAST - one.order:020d}"
        holder.evicted = one.leaving
        queue.node.add(holder.usage)
        queue.node.top.version += 1
        queue.holders[holder.key] = self.holders[holder.key] = holder
        if one.leaving:
            self.leaving[holder.key] = holder

    def door(self, queue: str) -> Door | None:
        """Where work of a shape's queue enters; None = no quota binds it."""
        if queue not in self._doors:
            self._doors[queue] = self._door(*named(queue))
        return self._doors[queue]

    def local_queue(self, queue: str) -> LocalQueue | None:
        """The LocalQueue that a shape's queue means: of its own namespace, or of `default`."""
        namespace, name = named(queue)
        known = self._queues.local_queues
        return known.get(f"{namespace}/{name}") or known.get(f"{DEFAULT_QUEUE}/{name}")

    def _door(self, namespace: str, name: str) -> Door | None:
        local = self.local_queue(f"{namespace}/{name}")
        if local is None:
            missing = Door(None, Reason("queue_missing", {"queue": f"{namespace}/{name}"}))
            return None if name == DEFAULT_QUEUE else missing
        queue = self.world.queues.get(local.queue)
        if queue is None:
            return Door(None, Reason("queue_missing", {"queue": local.queue}))
        if local.stop != "None":
            return Door(queue, Reason("queue_stopped", {"queue": local.key, "note": local.stop}))
        if queue.inactive is not None:
            why, about = queue.inactive
            if why == "Stopped":
                return Door(queue, Reason("queue_stopped", {"queue": queue.name, "note": about}))
            note = f"{why} ({about})"
            return Door(queue, Reason("queue_inactive", {"queue": queue.name, "note": note}))
        if (unchecked := closed_by_check(queue.spec, self._checks)) is not None:
            params = {"queue": queue.name, "note": "{} ({})".format(*unchecked)}
            return Door(queue, Reason("queue_inactive", {**params}))
        if not self._queues.takes(queue, local.namespace):
            params = {"queue": queue.name, "name": local.namespace}
            return Door(queue, Reason("queue_namespace", {**params}))
        return Door(queue)

    def checks_of(self, queue: QueueState, holding: Holding) -> tuple[str, ...]:
        """The checks that must agree before work with such flavors starts."""
        flavors = holding.flavors.values()
        return tuple(
            rule.name
            for rule in queue.spec.checks
            if not rule.flavors or any(name in rule.flavors for name in flavors)
        )

    def options(
        self,
        queue: QueueState,
        requests: Mapping[str, int],
        count: int,
        near: TopologyRequest | None = None,
    ) -> tuple[list[Option], list[Verdict]]:
        """The choices of flavors for a request, and what each flavor said."""
        known, levels = self.world.flavors, self._levels
        return options_of(
            queue, known, requests, count, fair=self.fair, topologies=levels, near=near
        )

    def count(self, queue: QueueState, usage: Usage) -> None:
        """Counts what is planned, promised or kept, until the next cycle begins."""
        before = self.state_of(queue)
        queue.node.add(usage)
        self._added.append((queue.node, usage))
        self._states[queue.node.top.key] = hash((before, queue.name, tuple(usage.items())))

    def state_of(self, queue: QueueState) -> int:
        """Equal for equal states of a queue's tree, as long as the objects are the same."""
        top = queue.node.top
        known = self._states.get(top.key)
        return hash((top.key, top.version)) if known is None else known

    def is_counted(self, top: QuotaNode) -> bool:
        """Whether anything was counted in a tree in this cycle."""
        return top.key in self._states

    def counted_tops(self) -> dict[str, None]:
        """The trees in which anything was counted by now."""
        return dict.fromkeys(self._states)

    def leave(self, key: str) -> None:
        """One is stopped in this cycle."""
        holder = self.holders[key]
        before = self.state_of(holder.queue)
        holder.evicted = True
        self.leaving[key] = holder
        self._left.append(holder)
        self._states[holder.queue.node.top.key] = hash((before, key))

    def fits(self, queue: QueueState, usage: Usage) -> bool:
        """Whether there is quota for so much now."""
        return all(amount <= max(0, queue.node.available(pair)) for pair, amount in usage.items())

    def share(self, queue: QueueState) -> tuple[Share, ...]:
        """The shares from just below the root down to a queue: under fair sharing lowest first."""
        if not self.fair:
            return ()
        above = [node for node in queue.node.above() if node.parent is not None]
        return tuple(share_of(node) for node in (*reversed(above), queue.node))

    def spared_until_ms(self, queue: QueueState, now_ms: int) -> int:
        """When the next run in a queue's tree may be stopped that may not now; 0 = none."""
        self._refresh(now_ms)
        return self._soonest.get(queue.node.top.key, 0)

    def _refresh(self, now_ms: int) -> None:
        """Who may be stopped now, and what each would lose: once in a cycle, if at all."""
        if self._refreshed_ms == now_ms:
            return
        self._refreshed_ms, self._soonest, self._open = now_ms, {}, {}
        for key, holder in self.holders.items():
            one = self.held[key]
            until_ms = one.spared_until_ms
            holder.spared = one.stuck or until_ms > now_ms
            holder.lost = one.lost_ms(now_ms)
            if not (holder.spared or one.leaving):
                self._open[holder.queue.node.top.key] = None
            if holder.spared and not (one.leaving or one.stuck):
                top = holder.queue.node.top.key
                self._soonest[top] = min(self._soonest.get(top, until_ms), until_ms)

    def victims(
        self,
        queue: QueueState,
        workload: QueuedWorkload,
        option: Option,
        now_ms: int,
        also: Callable[[], bool] | None,
    ) -> list[Victim] | None:
        """Whom to stop so that there are quota and what else must hold; [] = nobody helps.

        None = nobody need be: those who leave already are enough.
        """
        self._refresh(now_ms)
        short = option.short or dict.fromkeys(option.usage)
        need = Need(self.world, queue, workload, option.usage, short, also=also)
        leaving = list(self.leaving.values())
        spared = [one.spared for one in leaving]
        for one in leaving:
            one.spared = True
            self.world.drop(one)
        found = None if need.fits(borrow=True) else self._search(need)
        for one, was in zip(leaving, spared, strict=True):
            one.spared = was
            self.world.put(one)
        return found

    def _search(self, need: Need) -> list[Victim]:
        if not need.queue.may_preempt or need.queue.node.top.key not in self._open:
            return []
        if self.fair:
            return fair.victims_of(need, self.objects.settings.strategies)
        return classical.victims_of(need)

    @contextmanager
    def without(self, victims: Iterable[Holder]) -> Iterator[None]:
        """Acts as if these and all who leave were gone."""
        gone = {**self.leaving, **{one.key: one for one in victims}}
        for one in gone.values():
            self.world.drop(one)
        yield
        for one in gone.values():
            self.world.put(one)

    def drained(self) -> Iterator[tuple[Held, str]]:
        """The runs of queues that are stopped and give up what runs, with the queue's name."""
        for key, holder in sorted(self.holders.items()):
            if holder.evicted or self.held[key].stuck:
                continue
            local = self._queues.local_queues.get(holder.workload.local_queue)
            if holder.queue.spec.stop == "HoldAndDrain":
                yield self.held[key], holder.queue.name
            elif local is not None and local.stop == "HoldAndDrain":
                yield self.held[key], local.key


def closed_by_check(
    queue: ClusterQueue, checks: Mapping[str, AdmissionCheck]
) -> tuple[str, str] | None:
    """Why nothing can pass a queue's checks, in the reference's word, and which one that is."""
    for rule in queue.checks:
        check = checks.get(rule.name)
        if check is None:
            return "AdmissionCheckNotFound", rule.name
        if not check.is_served:
            return "AdmissionCheckInactive", f"{rule.name}: nobody here is {check.controller}"
    return None


def as_queued(
    id: str, local_queue: str, priority: int, order: int, planned_ms: int, holding: Holding | None
) -> QueuedWorkload:
    """A workload as the rules see it; its age is its place in the order of submission."""
    admission = Admission(holding.queue, (), planned_ms) if holding is not None else None
    return QueuedWorkload(
        namespace="",
        name=id,
        pod_sets=(),
        local_queue=local_queue,
        priority=priority,
        queued_ms=order + 1,
        uid=id,
        admission=admission,
    )
