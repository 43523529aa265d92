"""The kept state of queueing: the quota tree with its usage, who waits, and who holds what.

Everything here costs what changed: a workload that comes, starts or goes touches its queue and the
cohorts above it. `decide` reads it; `apply` carries out what was decided.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import NamedTuple

import msgspec

from stellwerk.core.model.queueing import (
    Admission,
    LocalQueue,
    Pair,
    PastUse,
    PodSet,
    QueuedWorkload,
    QueueObjects,
)
from stellwerk.core.model.selectors import selects
from stellwerk.core.queue.entries import PODS, Assigned, Holder, QueueState, Waiter, World
from stellwerk.core.queue.outcome import Admitted, Outcome, Waits
from stellwerk.core.queue.past_use import penalty, sampled, weighed
from stellwerk.core.queue.requeue import LIMIT, coming_back
from stellwerk.core.queue.topology import Place, Room
from stellwerk.core.queue.tree import QuotaNode, QuotaTree
from stellwerk.core.queue.victims import Victim
from stellwerk.core.queue.waiting import Waiting

HeadKey = tuple[str, int, int, int, tuple[tuple[tuple[int, int], int], ...]]
"""Queue, shape, priority, age where it counts, and flavors tried: equal ones find the same."""


MOST_SHAPES = 100_000
"""So many pod sets are remembered to be shared by those who ask for the same."""


class Refused(NamedTuple):
    """A workload that isn't in any heap, and why: the reference's reason, and what it is about."""

    workload: QueuedWorkload
    why: str
    note: str


class Queues:
    """All queues of one configuration. Only `compat: kueue` is there."""

    def __init__(self, objects: QueueObjects, *, now_ms: int = 0, compat: str = "kueue") -> None:
        if compat != "kueue":
            raise ValueError(f"there is no policy {compat!r}")
        self.objects = objects
        self.now_ms = now_ms
        self.tree = QuotaTree(objects.queues, objects.cohorts)
        flavors = {one.name: one for one in objects.flavors}
        states = {
            spec.name: QueueState(spec, self.tree.queues[spec.name], flavors)
            for spec in objects.queues
        }
        self.past_use: dict[str, float] = {}
        self.world = World(flavors, _rooms(objects), states, self.past_use, lenders={})
        self.local_queues = {one.key: one for one in objects.local_queues}
        self.consumed: dict[str, dict[str, float]] = {}
        rules = objects.settings.past_use
        self.waiting = {
            name: Waiting(by_past_use=rules is not None and state.spec.usage_based)
            for name, state in states.items()
        }
        for name, state in states.items():
            state.inactive = self._inactive(name)
        if rules is not None:
            for local in objects.local_queues:
                self.consumed[local.key] = {k: float(v) for k, v in local.consumed.items()}
                self._weigh(local)
        stops = [one.stop for one in objects.queues] + [one.stop for one in objects.local_queues]
        self.stopping = any(stop != "None" for stop in stops)
        self._takes: dict[tuple[str, str], bool] = {}
        self.waiters: dict[str, Waiter] = {}
        self.holders: dict[str, Holder] = {}
        self.refused: dict[str, Refused] = {}
        self.found: dict[HeadKey, tuple[tuple[int, int], Assigned, list[Victim]]] = {}
        self.rooms_version = 0
        self._shapes: dict[bytes, tuple[int, tuple[PodSet, ...]]] = {}
        self._shape_count = 0
        self._sampled_ms = now_ms
        self._later: list[tuple[int, str]] = []
        self._stirred: dict[str, QuotaNode] = {}

    def _inactive(self, name: str) -> tuple[str, str] | None:
        """Why a queue takes nothing in, if it doesn't: a reason, and what it is about."""
        state = self.world.queues[name]
        if state.node.broken:
            return "CohortCycle", state.spec.cohort
        if state.spec.stop != "None":
            return "Stopped", state.spec.stop
        for group in state.spec.groups:
            for one in group.flavors:
                flavor = self.world.flavors.get(one.flavor)
                if flavor is None:
                    return "FlavorNotFound", one.flavor
                if flavor.topology and flavor.name not in self.world.rooms:
                    return "TopologyNotFound", flavor.topology
        return None

    def takes(self, queue: QueueState, namespace: str) -> bool:
        """Whether a queue's selector takes work of a namespace; without one it takes none."""
        key = queue.name, namespace
        found = self._takes.get(key)
        if found is None:
            labels = self.objects.namespaces.get(namespace)
            if labels is None:
                labels = {"kubernetes.io/metadata.name": namespace}
            selector = queue.spec.namespaces
            found = self._takes[key] = selector is not None and selects(selector, labels)
        return found

    def local_queue_of(self, workload: QueuedWorkload) -> LocalQueue | None:
        """The local queue of a workload, if it came through one that is there."""
        return self.local_queues.get(f"{workload.namespace}/{workload.local_queue}")

    def queue_of(self, workload: QueuedWorkload) -> QueueState | None:
        """The cluster queue that a workload waits in."""
        local = self.local_queue_of(workload)
        name = workload.cluster_queue if local is None else local.queue
        return self.world.queues.get(name)

    def submit(self, workload: QueuedWorkload) -> None:
        """A workload that wants to start."""
        self.refused.pop(workload.key, None)
        queue = self.queue_of(workload)
        local = self.local_queue_of(workload)
        if queue is None:
            missing = workload.cluster_queue or (local.queue if local else workload.local_queue)
            self.refused[workload.key] = Refused(workload, "Misconfigured", missing)
            return
        stopped = local is not None and local.stop != "None"
        why = "gated" if workload.gated else ""
        if not workload.active:
            limit = self.objects.settings.requeuing.limit
            why = LIMIT if limit is not None and workload.requeues > limit else "inactive"
        why = why or (f"local queue {local.key}" if local is not None and stopped else "")
        if why:
            self.refused[workload.key] = Refused(workload, "Suspended", why)
            return
        waiter = self._waiter(workload, queue)
        self.waiters[workload.key] = waiter
        if workload.requeue_at_ms > self.now_ms:
            heappush(self._later, (workload.requeue_at_ms, workload.key))
        else:
            self.waiting[queue.name].push(waiter)

    def _waiter(self, workload: QueuedWorkload, queue: QueueState) -> Waiter:
        """Workloads of equal pod sets share them: there are many, of few shapes."""
        written = msgspec.msgpack.encode(workload.pod_sets)
        if len(self._shapes) >= MOST_SHAPES:
            self._shapes.clear()
        known = self._shapes.get(written)
        if known is None:
            self._shape_count += 1
            known = self._shapes[written] = (self._shape_count, workload.pod_sets)
        shape, pod_sets = known
        if pod_sets is not workload.pod_sets:
            workload = msgspec.structs.replace(workload, pod_sets=pod_sets)
        return Waiter(workload, queue, shape)

    def hold(self, workload: QueuedWorkload) -> None:
        """A workload that holds quota already, as its admission says."""
        admission = workload.admission
        queue = self.world.queues.get(admission.queue) if admission is not None else None
        if admission is None or queue is None:
            self.refused[workload.key] = Refused(workload, "Misconfigured", workload.cluster_queue)
            return
        usage: dict[Pair, int] = {}
        places: list[Place] = []
        given = {one.name: one for one in admission.pod_sets}
        for pods in workload.pod_sets:
            one = given.get(pods.name)
            if one is None:
                continue
            for resource, amount in queue.requests(pods, one.count).items():
                flavor = one.flavors.get(resource)
                if flavor is not None:
                    pair = Pair(flavor, resource)
                    usage[pair] = usage.get(pair, 0) + amount
            name = next((f for f in one.flavors.values() if f in self.world.rooms), "")
            each = {**pods.requests, PODS: 1000}
            places += [
                Place(name, self.world.rooms[name].whole(tuple(values.split(","))), count, each)
                for values, count in one.domains.items()
                if name
            ]
        holder = Holder(workload, queue, usage, tuple(places))
        self.world.put(holder)
        self._changed(holder)
        queue.holders[workload.key] = self.holders[workload.key] = holder

    def _changed(self, holder: Holder) -> None:
        """What was found for heads of that tree may not hold any more."""
        holder.queue.node.root().version += 1
        if holder.places:
            self.rooms_version += 1

    def advance(self, now_ms: int) -> None:
        """Lets in whose wait after a requeue is over, and samples what local queues use."""
        self.now_ms = now_ms
        rules = self.objects.settings.past_use
        if rules is not None and now_ms - self._sampled_ms >= rules.sampling_ms:
            self._sample(now_ms - self._sampled_ms, rules)
            self._sampled_ms = now_ms
        while self._later and self._later[0][0] <= now_ms:
            _, key = heappop(self._later)
            waiter = self.waiters.get(key)
            if waiter is not None:
                self.waiting[waiter.queue.name].push(waiter)

    def heads(self) -> Iterator[Waiter]:
        """The next workload of each active queue."""
        self._stir_all()
        for name, waiting in self.waiting.items():
            if waiting.active and self.world.queues[name].inactive is None:
                head = waiting.head(self.past_use)
                if head is not None:
                    yield head

    def apply(self, outcome: Outcome, now_ms: int) -> None:
        """Carries a decision out: quota is taken, victims are marked, heads are parked."""
        self._stir_all()
        for admitted in outcome.admitted:
            self._admit(admitted, now_ms)
        for evicted in outcome.evicted:
            holder = self.holders[evicted.key]
            holder.evicted = True
            self._changed(holder)
        for waits in outcome.waits:
            self._requeue(waits)

    def _admit(self, admitted: Admitted, now_ms: int) -> None:
        waiter = self.waiters.pop(admitted.key)
        self.waiting[admitted.queue].remove(waiter)
        admission = Admission(
            admitted.queue, admitted.pod_sets, now_ms, admitted=not admitted.checks
        )
        self.hold(msgspec.structs.replace(waiter.workload, admission=admission))
        rules = self.objects.settings.past_use
        local = self.local_queue_of(waiter.workload)
        if rules is None or local is None:
            return
        total: dict[str, int] = {}
        for pair, amount in self.holders[admitted.key].usage.items():
            total[pair.resource] = total.get(pair.resource, 0) + amount
        consumed = self.consumed[local.key]
        for name, more in penalty(total, rules).items():
            consumed[name] = consumed.get(name, 0.0) + more
        self._weigh(local)

    def _sample(self, elapsed_ms: int, rules: PastUse) -> None:
        """What is used now becomes past use, and what was counted in advance decays with it."""
        now: dict[str, dict[str, float]] = {}
        for holder in self.holders.values():
            local = self.local_queue_of(holder.workload)
            if local is not None:
                used = now.setdefault(local.key, {})
                for pair, amount in holder.usage.items():
                    used[pair.resource] = used.get(pair.resource, 0.0) + amount
        for key, local in self.local_queues.items():
            old = self.consumed.get(key, {})
            self.consumed[key] = sampled(old, now.get(key, {}), elapsed_ms, rules)
            self._weigh(local)

    def _weigh(self, local: LocalQueue) -> None:
        rules = self.objects.settings.past_use
        if rules is not None:
            self.past_use[local.key] = weighed(local, self.consumed[local.key], rules)

    def _requeue(self, waits: Waits) -> None:
        waiter, waiting = self.waiters[waits.key], self.waiting[waits.queue]
        waiter.tried = waits.tried
        sticky = bool(waits.victims) and waits.why == "WaitingForPreemptedWorkloads"
        if waiter.queue.spec.strategy == "StrictFIFO":
            sticky = False
        if waits.parks:
            waiter.stick(False)
            waiting.park(waiter)
        elif sticky != waiter.sticky:
            waiter.stick(sticky)
            waiting.push(waiter)

    def release(self, key: str, *, again: str = "") -> None:
        """A holder is gone: its quota is free, and who was parked in its tree may try again.

        ``again`` = why it was evicted, if it was and so waits anew.
        """
        holder = self.holders.pop(key)
        del holder.queue.holders[key]
        self.world.drop(holder)
        self._changed(holder)
        self.stir(holder.queue.node)
        if again:
            rules = self.objects.settings.requeuing
            self.submit(coming_back(holder.workload, again, self.now_ms, rules))

    def stir(self, node: QuotaNode) -> None:
        """Something changed in a tree: its parked workloads become active, and try all flavors.

        That is done once for all that changes until somebody looks.
        """
        self._stirred[node.top.key] = node.top

    def _stir_all(self) -> None:
        for top in self._stirred.values():
            for queue in top.queues():
                waiting = self.waiting[queue.name]
                for waiter in waiting.parked.values():
                    waiter.tried = {}
                waiting.unpark()
        self._stirred = {}

    def pending(self) -> Iterator[Waiter]:
        """Everybody who waits in a queue, queue by queue, in order."""
        self._stir_all()
        for waiting in self.waiting.values():
            yield from waiting.ordered(self.past_use)


def _rooms(objects: QueueObjects) -> Mapping[str, Room]:
    known = {one.name: one for one in objects.topologies}
    return {
        flavor.name: Room(flavor, known[flavor.topology], objects.nodes)
        for flavor in objects.flavors
        if flavor.topology in known
    }
