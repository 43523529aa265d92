"""Whom a workload that can't start may stop, if it then really starts, and what it is promised.

Victims are looked for in the order of the queue's rules until there are quota and a place, and
those that aren't needed for both are spared again. Until a promise is kept it counts beside what
the victims hold.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

from stellwerk.core.model.actions import StopRun
from stellwerk.core.model.decisions import Inputs
from stellwerk.core.model.draining import moment
from stellwerk.core.model.holding import Claim
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.resources import Allocation
from stellwerk.core.place.bounded import Bounded
from stellwerk.core.place.by_flavor import ByFlavor
from stellwerk.core.place.decide import chosen, rank
from stellwerk.core.place.found import Found
from stellwerk.core.place.limited import charged
from stellwerk.core.place.node import can_share, is_whole
from stellwerk.core.place.quotas import Offer, Quotas, where_of
from stellwerk.core.place.rooms import ClusterRoom
from stellwerk.core.queue.entries import QueueState
from stellwerk.core.queue.options import Rank
from stellwerk.core.queue.quota import Quota, as_queued
from stellwerk.core.queue.victims import Victim
from stellwerk.core.view import Head, ShapeView, View

HOUR_MS = 3_600_000
STOPS_USED_UP = "stops_used_up"
PLACE_CHECKS = 100
"""So often a place is looked for while victims are chosen for one workload."""


class Promise(NamedTuple):
    """What a workload gets, and who is stopped for it."""

    claim: Claim
    stops: tuple[StopRun, ...]


class Churn:
    """How many runs may still be stopped on each cluster in this hour."""

    def __init__(self, view: View) -> None:
        self._most = view.limits.stops_per_hour
        self._since_ms = view.now_ms - HOUR_MS
        self._times = {
            name: [one for one in times if one > self._since_ms]
            for name, times in (view.stopped.items() if self._most else ())
        }

    def until_ms(self, clusters: Iterable[str]) -> int:
        """When so many more may be stopped there; 0 = now."""
        if not self._most:
            return 0
        latest = 0
        for name, wanted in Counter(clusters).items():
            times = self._times.get(name, [])
            over = len(times) + wanted - self._most
            if over > 0:
                latest = max(latest, times[min(over, len(times)) - 1] + HOUR_MS if times else 0)
        return latest

    def count(self, clusters: Iterable[str]) -> None:
        """Counts those that are stopped in this cycle."""
        for name in clusters if self._most else ():
            self._times.setdefault(name, []).append(self._since_ms + HOUR_MS)


def promise(
    quotas: Quotas,
    queue: QueueState,
    head: Head,
    shape: ShapeView,
    inputs: Inputs,
    churn: Churn,
    lent: ByFlavor | None = None,
) -> Promise | None:
    """Finds whom to stop for a workload that doesn't fit, by quota or by room.

    ``lent`` are the rooms with what it may use of them although that closes later.
    """
    quota, now_ms = quotas.quota, quotas.view.now_ms
    asked = quotas.asked(queue, shape)
    consulted = bool(asked.fitting)
    if not queue.may_preempt:
        if not consulted and not shape.shape.min_nodes:
            quotas.note_short(queue, head, shape.id)
        return None
    workload = as_queued(head.id, "", head.priority, head.order, 0, None)
    times: list[int] = []
    for offer in sorted(asked.offers, key=lambda one: _turn(one, ordered=shape.shape.ordered)):
        if offer.option.short and not offer.option.stops:
            continue
        trial = _Trial(quotas, shape, offer, lent or quotas.by_flavor)
        victims = quota.victims(queue, workload, offer.option, now_ms, trial.has_place)
        consulted = consulted or trial.checks > 0
        if victims is None:
            consulted = True
            break
        if victims:
            clusters = [quota.held[one.holder.key].allocation.cluster for one in victims]
            until_ms = churn.until_ms(clusters)
            if until_ms:
                times.append(until_ms)
                quotas.memory.resting.setdefault(shape.id, _rests(clusters[0], until_ms))
                consulted = True
                continue
            churn.count(clusters)
            quotas.memory.resting.pop(shape.id, None)
            return _promise(quotas, queue, head, offer, victims, trial, inputs)
    times.append(quota.spared_until_ms(queue, now_ms))
    if any(times):
        quotas.memory.recheck[shape.id] = min(one for one in times if one)
    if not consulted and not shape.shape.min_nodes:
        quotas.note_short(queue, head, shape.id)
    return None


def _rests(cluster: str, until_ms: int) -> Reason:
    return Reason(STOPS_USED_UP, {"cluster": cluster, "until": moment(until_ms)})


def _turn(one: Offer, *, ordered: bool) -> tuple[int, Rank, int]:
    return one.alternative if ordered else 0, one.option.rank_stop, one.alternative


def _promise(
    quotas: Quotas,
    queue: QueueState,
    head: Head,
    offer: Offer,
    victims: list[Victim],
    trial: _Trial,
    inputs: Inputs,
) -> Promise:
    with quotas.quota.without(one.holder for one in victims):
        allocation = trial.allocation(inputs)
    stops = []
    for one in sorted(victims, key=lambda victim: victim.holder.key):
        held = quotas.quota.held[one.holder.key]
        why: dict[str, Param] = {"name": head.name, "queue": queue.name, "why": one.reason}
        reason = Reason("queue_preempted", why)
        stops.append(
            StopRun(held.workload, held.version, held.run, "preempt", held.grace_ms, reason)
        )
    holding = offer.option.holding(queue.name)
    claim = Claim(
        allocation=allocation,
        holding=holding,
        victims=tuple(stop.run for stop in stops),
        checks=quotas.quota.checks_of(queue, holding),
    )
    return Promise(claim, tuple(stops))


def drained(quota: Quota) -> list[StopRun]:
    """Notice to what runs in queues that give it up."""
    found = []
    for held, name in list(quota.drained()):
        reason = Reason("queue_drained", {"queue": name})
        found.append(
            StopRun(held.workload, held.version, held.run, "preempt", held.grace_ms, reason)
        )
        quota.leave(held.workload)
    return found


class _Trial:
    """The rooms of an offer as they are without the holders that a search acts as if gone."""

    def __init__(self, quotas: Quotas, shape: ShapeView, offer: Offer, by_flavor: ByFlavor) -> None:
        self._quotas = quotas
        self._shape = shape
        self._offer = offer
        self._bounded = by_flavor.bounded(where_of(offer.option, shape))
        self.checks = 0

    def has_place(self) -> bool:
        """Whether there is a place now."""
        self.checks += 1
        if self.checks > PLACE_CHECKS:
            return False
        shape = self._shape
        return bool(self._of_offer(self._rooms().fitting(shape.shape, shape.id)))

    def allocation(self, inputs: Inputs) -> Allocation:
        """The best place now."""
        shape = self._shape
        found = self._of_offer(self._rooms().candidates(shape.shape, shape.id))
        return charged(chosen(found, rank(found), inputs).allocation, shape.shape)

    def _of_offer(self, found: Iterable[Found]) -> list[Found]:
        return [one for one in found if one.candidate.alternative == self._offer.alternative]

    def _rooms(self) -> Bounded:
        held = self._quotas.quota.held
        given: dict[str, list[Allocation]] = {}
        for key in self._quotas.quota.gone:
            allocation = held[key].allocation
            given.setdefault(allocation.cluster, []).append(allocation)
        rooms = []
        for room in self._bounded.rooms:
            back = given.get(room.cluster.name)
            rooms.append(room if back is None else _with(room, back))
        return self._bounded.on(rooms)


def _with(room: ClusterRoom, back: Iterable[Allocation]) -> ClusterRoom:
    free = room.open.copy()
    for allocation in back:
        free.take(allocation, -1)
    return ClusterRoom(free, room.whole)


def is_free(room: ClusterRoom, allocation: Allocation) -> bool:
    """Whether exactly what was promised is there now."""
    left = room.open.copy()
    for part in allocation.nodes:
        node = left.nodes.get(part.node)
        if node is None or node.node.state != "ready":
            return False
        devices = {device.index: device for device in node.node.devices}
        for share in part.devices:
            device = devices.get(share.index)
            if device is None:
                return False
            whole = share.memory_bytes >= device.usable_bytes
            shared = can_share(node, device, share.memory_bytes)
            if not (is_whole(node, device) if whole else shared):
                return False
        node.take(part)
        if (part.cpus_milli and node.cpus_milli < 0) or (
            part.memory_bytes and node.memory_bytes < 0
        ):
            return False
        if part.disk_bytes and node.disk_bytes < 0:
            return False
    return True
