"""One cycle: who starts, who is evicted, and why the others wait. It changes nothing.

One head of each queue; flavors and victims for each against the state at the start; then one head
after the other against what those before it left. What is tried on the tree is taken back.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal, NamedTuple

from stellwerk.core.model.queueing import Pair, QueuedWorkload, QueueObjects, QueueSettings
from stellwerk.core.queue import classical, fair
from stellwerk.core.queue.assign import Assigner
from stellwerk.core.queue.entries import Assigned, Holder, Mode, QueueState, Tried, Verdict, Waiter
from stellwerk.core.queue.heads import Head, arranged
from stellwerk.core.queue.live import Queues
from stellwerk.core.queue.outcome import LOST_RACE, Admitted, Evicted, Outcome, Waits, worst_of
from stellwerk.core.queue.shrink import largest
from stellwerk.core.queue.topology import Place
from stellwerk.core.queue.tree import QuotaNode, Usage, level_that_fits
from stellwerk.core.queue.victims import Need, Victim

Compat = Literal["kueue"]
MOST_REMEMBERED = 50_000
"""So many findings for shapes of heads are kept; each holds as long as its tree is the same."""


def cycle(
    objects: QueueObjects,
    pending: Iterable[QueuedWorkload],
    admitted: Iterable[QueuedWorkload],
    now_ms: int,
    compat: Compat = "kueue",
) -> Outcome:
    """Decides once on objects alone; ``admitted`` workloads carry their admission."""
    queues = Queues(objects, now_ms=now_ms, compat=compat)
    for workload in admitted:
        queues.hold(workload)
    for workload in pending:
        queues.submit(workload)
    return decide(queues, now_ms)


def decide(queues: Queues, now_ms: int) -> Outcome:
    """One cycle on a kept state, which is afterwards as it was before."""
    return _Cycle(queues, now_ms).run()


class _Nominated(NamedTuple):
    """A head with what was found for it."""

    waiter: Waiter
    assigned: Assigned
    victims: list[Victim]


class _Cycle:
    """The working parts of one cycle; ``undo`` takes back what it counted on the tree."""

    def __init__(self, queues: Queues, now_ms: int) -> None:
        self.queues = queues
        self.world = queues.world
        self.settings: QueueSettings = queues.objects.settings
        self.now_ms = now_ms
        self.outcome = Outcome()
        self.taken: dict[str, Holder] = {}
        self.added: list[tuple[QuotaNode, Usage]] = []
        self.placed: list[Place] = []
        self.going: dict[str, None] = {}
        self.simulated: dict[tuple[str, Pair, int], list[Victim]] = {}

    def run(self) -> Outcome:
        """Heads, flavors, order, and one after the other."""
        if self.queues.stopping:
            self.drain()
        heads: list[Head] = []
        found: dict[str, _Nominated] = {}
        for waiter in self.queues.heads():
            if not self.may_enter(waiter):
                continue
            nominated = self.nominated(waiter)
            found[waiter.key] = nominated
            heads.append(_head(nominated))
        for head in arranged(heads, fair=self.settings.fair_sharing):
            self.process(found[head.key])
        self.undo()
        return self.outcome

    def drain(self) -> None:
        """Queues that are stopped give up what waits for checks, or all that they hold."""
        for name, queue in self.queues.world.queues.items():
            for holder in queue.holders.values():
                if holder.evicted:
                    continue
                stop, reason = queue.spec.stop, "ClusterQueueStopped"
                if stop == "None":
                    local = self.queues.local_queue_of(holder.workload)
                    stop = local.stop if local is not None else "None"
                    reason = "LocalQueueStopped"
                admission = holder.workload.admission
                reserved = admission is not None and not admission.admitted
                if stop == "HoldAndDrain" or (stop == "Hold" and reserved):
                    self.mark(holder, name, reason, "")

    def mark(self, holder: Holder, queue: str, reason: str, by: str) -> None:
        """Somebody must go; who does already isn't told again."""
        if not holder.evicted and holder.key not in self.going:
            self.going[holder.key] = None
            self.outcome.evicted.append(Evicted(holder.key, queue, reason, by))

    def may_enter(self, waiter: Waiter) -> bool:
        """Whether the queue takes work of that namespace at all."""
        if self.queues.takes(waiter.queue, waiter.workload.namespace):
            return True
        self.wait(waiter, "Misconfigured", None, parks=True, note="namespace")
        return False

    def nominated(self, waiter: Waiter) -> _Nominated:
        """What was found for an equal head in an equal state, or is found now."""
        key = (*waiter.alike, tuple(waiter.tried.items()) if waiter.tried else ())
        version = waiter.queue.node.top.version, self.queues.rooms_version
        known = self.queues.found.get(key)
        if known is not None and known[0] == version:
            return _Nominated(waiter, *known[1:])
        found = self.nominate(waiter)
        if self.settings.past_use is None:
            if len(self.queues.found) >= MOST_REMEMBERED:
                self.queues.found.clear()
            self.queues.found[key] = (version, found.assigned, found.victims)
        return found

    def nominate(self, waiter: Waiter) -> _Nominated:
        """The best that can be had against the state at the start."""
        workload = waiter.workload
        assigner = Assigner(
            self.world,
            waiter.queue,
            workload,
            lambda pair, amount: self.simulate(waiter, pair, amount),
            fair=self.settings.fair_sharing,
            tried=waiter.tried,
        )

        def at(counts: list[int]) -> tuple[Assigned, list[Victim]]:
            assigned = assigner.assign(counts)
            return assigned, self.victims(waiter, assigned)

        assigned, victims = at([pods.count for pods in workload.pod_sets])
        if assigned.mode is Mode.FIT or victims:
            return _Nominated(waiter, assigned, victims)
        smaller = largest(workload.pod_sets, lambda counts: _good(at(counts)))
        return _Nominated(waiter, *(smaller or (assigned, [])))

    def victims(self, waiter: Waiter, assigned: Assigned) -> list[Victim]:
        """Whom to evict for an assignment that doesn't fit without."""
        if not Mode.NO_FIT < assigned.mode < Mode.FIT:
            return []
        if (
            assigned.mode is Mode.NO_CANDIDATES
            and len(assigned.usage) == 1
            and not self.world.rooms
        ):
            # That nobody can be evicted for this pair was found when its flavor was looked at.
            return []
        if len(assigned.usage) == 1 and not self.world.rooms:
            (pair, amount), *_ = assigned.usage.items()
            known = self.simulated.get((waiter.key, pair, amount))
            if known is not None:
                return known
        need = Need(
            self.world, waiter.queue, waiter.workload, assigned.usage, assigned.short, assigned
        )
        return self._victims(need)

    def _victims(self, need: Need) -> list[Victim]:
        if not need.queue.may_preempt:
            return []
        if self.settings.fair_sharing:
            return fair.victims_of(need, self.settings.strategies)
        return classical.victims_of(need)

    def simulate(self, waiter: Waiter, pair: Pair, amount: int) -> tuple[Mode, int]:
        """What evicting for one pair alone would come to, and how far it would borrow then."""
        queue = waiter.queue
        need = Need(self.world, queue, waiter.workload, {pair: amount}, {pair: None})
        victims = self._victims(need)
        if not self.world.rooms:
            self.simulated[waiter.key, pair, amount] = victims
        if not victims:
            return Mode.NO_CANDIDATES, level_that_fits(queue.node, pair, amount)[0]
        for victim in victims:
            self.world.drop(victim.holder)
        level = level_that_fits(queue.node, pair, amount)[0]
        for victim in victims:
            self.world.put(victim.holder)
        own = any(victim.holder.queue is queue for victim in victims)
        return Mode.PREEMPT if own else Mode.RECLAIM, level

    def process(self, one: _Nominated) -> None:
        """Handles one head against what those before it left."""
        waiter, assigned, victims = one
        queue = waiter.queue
        if assigned.mode is Mode.NO_FIT:
            self.wait(waiter, "", one, parks=not assigned.tried)
        elif assigned.mode is not Mode.FIT and not victims:
            if queue.spec.preemption.reclaim != "Any":
                self.add(queue.node, _reserved(queue, assigned))
            self.wait(waiter, "", one, parks=not assigned.tried)
        elif self.wants_taken(victims) or not self.still_fits(assigned, victims):
            self.wait(waiter, LOST_RACE, one, parks=False)
        else:
            self.taken.update((victim.holder.key, victim.holder) for victim in victims)
            self.add(queue.node, assigned.usage)
            if assigned.mode is Mode.FIT:
                self.admit(waiter, assigned)
            else:
                self.evict(waiter, one)

    def wants_taken(self, victims: list[Victim]) -> bool:
        """Whether one before it in this cycle evicts the same holder."""
        return any(victim.holder.key in self.taken for victim in victims)

    def still_fits(self, assigned: Assigned, victims: list[Victim]) -> bool:
        """Whether there is room now, with everybody gone who was evicted in this cycle."""
        gone = {**self.taken, **{one.holder.key: one.holder for one in victims}}
        for holder in gone.values():
            self.world.drop(holder)
        node = assigned.queue.node
        fits = all(
            amount <= max(0, node.available(pair)) for pair, amount in assigned.usage.items()
        )
        fits = fits and all(self.world.rooms[one.flavor].has_room(one) for one in assigned.places)
        for holder in gone.values():
            self.world.put(holder)
        return fits

    def add(self, node: QuotaNode, usage: Usage) -> None:
        """Counts use until the end of the cycle."""
        node.add(usage)
        self.added.append((node, usage))

    def undo(self) -> None:
        """Leaves the state as it was."""
        for node, usage in self.added:
            node.remove(usage)
        for place in self.placed:
            self.world.rooms[place.flavor].take(place, -1)

    def admit(self, waiter: Waiter, assigned: Assigned) -> None:
        """Quota for a head; with checks to pass it is only reserved."""
        for place in assigned.places:
            self.world.rooms[place.flavor].take(place)
            self.placed.append(place)
        flavors = {pair.flavor: None for pair in assigned.usage}
        checks = tuple(
            rule.name
            for rule in waiter.queue.spec.checks
            if not rule.flavors or any(name in flavors for name in rule.flavors)
        )
        pod_sets = tuple(one.assignment(self.world.rooms) for one in assigned.pod_sets)
        self.outcome.admitted.append(
            Admitted(waiter.key, waiter.queue.name, pod_sets, assigned.level, checks)
        )

    def evict(self, waiter: Waiter, one: _Nominated) -> None:
        """Marks the victims; the head waits until they are gone."""
        for victim in one.victims:
            self.mark(victim.holder, victim.holder.queue.name, victim.reason, waiter.key)
        self.wait(waiter, "WaitingForPreemptedWorkloads", one, parks=False)

    def wait(
        self, waiter: Waiter, why: str, one: _Nominated | None, *, parks: bool, note: str = ""
    ) -> None:
        """Tells why a head goes on waiting; StrictFIFO keeps its head in front."""
        strict = waiter.queue.spec.strategy == "StrictFIFO" and why != "Misconfigured"
        tried: Tried = {}
        said: tuple[Verdict, ...] = ()
        victims: tuple[str, ...] = ()
        if one is not None:
            assigned = one.assigned
            if assigned.said is None:
                assigned.said = tuple(assigned.verdicts), worst_of(assigned.verdicts)
            said, found = assigned.said
            if not why:
                why, tried = found, assigned.tried
            if one.victims:
                victims = tuple(victim.holder.key for victim in one.victims)
        self.outcome.waits.append(
            Waits(
                waiter.key, waiter.queue.name, why, parks and not strict, tried, said, victims, note
            )
        )


def _good(found: tuple[Assigned, list[Victim]]) -> tuple[Assigned, list[Victim]] | None:
    assigned, victims = found
    return found if assigned.mode is Mode.FIT or victims else None


def _head(one: _Nominated) -> Head:
    workload = one.waiter.workload
    return Head(
        key=one.waiter.key,
        node=one.waiter.queue.node,
        usage=one.assigned.usage,
        level=one.assigned.level,
        priority=workload.priority,
        queued_ms=workload.queued_ms or workload.created_ms,
        uid=workload.uid or workload.key,
    )


def _reserved(queue: QueueState, assigned: Assigned) -> dict[Pair, int]:
    """What a head without victims keeps: up to nominal, or up to its limit if it must borrow."""
    node, kept = queue.node, {}
    for pair, amount in assigned.usage.items():
        left = node.nominal.get(pair, 0) - node.usage.get(pair, 0)
        limit = node.borrowing.get(pair)
        if not assigned.level:
            kept[pair] = max(0, min(amount, left))
        elif limit is None:
            kept[pair] = amount
        else:
            kept[pair] = max(0, min(amount, left + limit))
    return kept
