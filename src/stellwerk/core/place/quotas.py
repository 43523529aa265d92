"""Quota and place in one step: which flavors a shape may have, and where on their nodes it fits.

The working copy of one cycle. What is planned, promised or kept counts until the next one begins.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import NamedTuple

from stellwerk.core.model.decisions import Candidate, QuotaSaid
from stellwerk.core.model.holding import Claim, Holding
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.queueing import Pair
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.place.bounded import Bounded
from stellwerk.core.place.by_flavor import ByFlavor
from stellwerk.core.place.decide import reasons_of
from stellwerk.core.place.found import Found
from stellwerk.core.place.near import Nearness, Where
from stellwerk.core.place.past import PastOrder
from stellwerk.core.place.rooms import Memory
from stellwerk.core.queue.asked import requests_of
from stellwerk.core.queue.entries import QueueState, Verdict
from stellwerk.core.queue.options import Option, Rank
from stellwerk.core.queue.quota import Door, Quota
from stellwerk.core.queue.reasons import quota_reasons, told_of
from stellwerk.core.queue.shares import Share
from stellwerk.core.view import Head, ShapeView, View

NOT_BOUND = QuotaSaid()


class Offer(NamedTuple):
    """A choice of flavors for one alternative of a shape."""

    alternative: int
    option: Option


class Placed(NamedTuple):
    """Where a shape fits by quota and by room: the flavors' rooms, and the offers among them.

    The ``shape`` may be one of fewer nodes than were asked for.
    """

    bounded: Bounded
    offers: tuple[Offer, ...]
    shape: ShapeView

    def option(self, alternative: int) -> Option:
        """The flavors of an alternative."""
        return next(one.option for one in self.offers if one.alternative == alternative)

    def only(self, found: Iterable[Found]) -> list[Found]:
        """Those candidates that fit by quota too; what fits by room alone isn't one."""
        asked = {one.alternative for one in self.offers}
        return [
            one
            for one in found
            if one.candidate.verdict != "fits" or one.candidate.alternative in asked
        ]


class Asked(NamedTuple):
    """What quota says to a shape in one state of its tree."""

    offers: tuple[Offer, ...]
    verdicts: tuple[tuple[int, tuple[Verdict, ...]], ...]

    @property
    def fitting(self) -> list[Offer]:
        """The offers that quota allows now."""
        return [one for one in self.offers if one.option.fits]

    @property
    def all_verdicts(self) -> list[Verdict]:
        """What was said to any alternative."""
        return [one for _, said in self.verdicts for one in said]


class Why(NamedTuple):
    """Why a shape waits; candidates and what the queue said are made when they are asked for.

    ``state`` is what all that follows from, where quota binds it.
    """

    reasons: tuple[Reason, ...]
    found: Callable[[], list[Found]]
    said: Callable[[], QuotaSaid | None]
    state: tuple[object, ...] | None = None


class Kept(NamedTuple):
    """What is kept for the head of a queue, with what that was told before it was counted."""

    shape: ShapeId
    state: int
    asked: Asked
    usage: dict[Pair, int]


class Quotas:
    """Quota in one cycle."""

    def __init__(self, view: View, quota: Quota, memory: Memory, bounded: Bounded) -> None:
        self.view = view
        self.quota = quota
        self.memory = memory
        self.bounded = bounded
        self.by_flavor = ByFlavor(bounded)
        self.closed: dict[str, str] = {}
        self.behind: dict[ShapeId, str] = {}
        self.checking: dict[ShapeId, Reason] = {}
        self._kept: dict[str, Kept] = {}
        self.past = PastOrder(view, quota)

    def door(self, shape: Shape) -> Door | None:
        """Where a shape's work enters; None = no quota binds it."""
        door = self.quota.door(shape.queue)
        if door is None or not self.view.used_up:
            return door
        spent = self.view.used_up.get(door.name)
        return door if spent is None or door.reason is not None else Door(door.queue, spent)

    def share(self, shape: Shape) -> tuple[Share, ...]:
        """What comes before priority in the order of heads: nothing, or the shares of its queue."""
        door = self.quota.door(shape.queue)
        return () if door is None or door.queue is None else self.quota.share(door.queue)

    def asked(self, queue: QueueState, shape: ShapeView) -> Asked:
        """The offers for a shape now."""
        state = self.quota.state_of(queue)
        known = self.memory.asked.get(shape.id)
        if known is not None and known[0] == state and isinstance(known[1], Asked):
            return known[1]
        offers: list[Offer] = []
        verdicts = []
        for index, alternative in enumerate(shape.shape.alternatives):
            requests = requests_of(alternative.request, queue.group_of)
            options, said = self.quota.options(
                queue, requests, shape.shape.num_nodes, shape.shape.topology
            )
            offers += [Offer(index, one) for one in options]
            verdicts.append((index, tuple(said)))
        found = Asked(tuple(offers), tuple(verdicts))
        self.memory.asked[shape.id] = state, found
        return found

    def place(
        self, queue: QueueState, shape: ShapeView, bounded: Bounded | None = None
    ) -> Placed | None:
        """The first flavors that quota allows and on whose nodes there is room now.

        ``bounded`` are other rooms to look at than those that are free.
        """
        by_flavor = self.by_flavor if bounded is None else ByFlavor(bounded)
        ordered = shape.shape.ordered

        def turn(one: Offer) -> tuple[int, Rank, Where]:
            return one.alternative if ordered else 0, one.option.rank, where_of(one.option, shape)

        fitting = sorted(self.asked(queue, shape).fitting, key=lambda one: turn(one)[:2])
        for (_, _, where), group in groupby(fitting, key=turn):
            placed = Placed(by_flavor.bounded(where), tuple(group), shape)
            asked = {one.alternative for one in placed.offers}
            found = placed.bounded.fitting(shape.shape, shape.id)
            if any(one.candidate.alternative in asked for one in found):
                return placed
        return None

    def take(self, queue: QueueState, holding: Holding, shape: Shape | None = None) -> None:
        """Counts a run that is planned, or a promise; with its ``shape`` as use in advance too."""
        if shape is not None:
            self.past.uses(shape, holding)
        self.quota.count(queue, holding.usage)

    def said(self, queue: QueueState, shape: ShapeView) -> QuotaSaid:
        """What the queue said, with every level, as it is stored with a decision."""
        verdicts = self._as_seen(queue, shape).verdicts
        kept = self._kept.get(queue.name)
        own = kept.usage if kept is not None and kept.shape == shape.id else {}
        queue.node.remove(own)
        flavors = [one for index, said in verdicts for one in told_of(queue, index, said)]
        queue.node.add(own)
        return QuotaSaid(queue.name, tuple(flavors))

    def not_of(self, placed: Placed) -> list[Found]:
        """The clusters that have none of the flavors that were given."""
        names = {room.cluster.name for room in placed.bounded.rooms}
        flavors = ", ".join(sorted(set(placed.offers[0].option.flavors.values())))
        return [
            Found(_not_asked(room.cluster.name, flavors))
            for room in self.bounded.rooms
            if room.cluster.name not in names
        ]

    def is_known(self, queue: QueueState, head: Head, id: ShapeId, room_state: int) -> bool:
        """Whether it was found before, in an equal state, that a head can't start.

        If it wasn't, what was found is forgotten.
        """
        memory, state = self.memory, self.quota.state_of(queue)
        turn = (head.priority, head.order)
        same = memory.bound.get(id) == (state, room_state, *turn)
        known = same or memory.short.get(id) == (state, *turn)
        due_ms = memory.recheck.get(id, 0)
        if known and not 0 < due_ms <= self.view.now_ms:
            return True
        for found in (memory.bound, memory.short, memory.recheck, memory.resting):
            found.pop(id, None)
        return False

    def is_short(self, queue: QueueState, head: Head, id: ShapeId) -> bool:
        """Whether quota alone keeps a head, as it is now; time can change that at a recheck."""
        turn = (self.quota.state_of(queue), head.priority, head.order)
        return self.memory.short.get(id) == turn

    def note(self, queue: QueueState, head: Head, id: ShapeId, room_state: int) -> None:
        """Remembers that a head can't start."""
        turn = (head.priority, head.order)
        self.memory.bound[id] = (self.quota.state_of(queue), room_state, *turn)

    def note_short(self, queue: QueueState, head: Head, id: ShapeId) -> None:
        """Remembers that quota alone keeps a head, and nobody can be stopped for it."""
        turn = (head.priority, head.order)
        self.memory.short[id] = (self.quota.state_of(queue), *turn)

    def is_told(self, door: Door, id: ShapeId, stopped: tuple[str, ...], room_state: int) -> bool:
        """Whether nothing changed since nothing new was to be told of a shape."""
        known = self.memory.told_bound.get(id)
        if known is None or door.queue is None or door.reason is not None:
            return known == (str(door.reason),)
        about = (self._state_seen(door.queue, id), stopped, self._aside(id))
        return known in (about, (*about, room_state))

    def keep(self, queue: QueueState, shape: ShapeView, *, overtaken: bool) -> bool:
        """Keeps what a blocked head waits for of its quota; whether its room is to be kept too.

        That is so for the first head of a queue that lets nobody pass, or that was passed for long.
        """
        strict = queue.spec.strategy == "StrictFIFO"
        if not (strict or overtaken):
            return False
        asked = self.asked(queue, shape)
        has_quota = bool(asked.fitting) and overtaken
        if queue.name in self._kept or not asked.offers:
            return has_quota
        best = min(asked.offers, key=lambda one: (one.alternative, one.option.rank))
        usage = dict(_kept(queue, best.option))
        self._kept[queue.name] = Kept(shape.id, self.quota.state_of(queue), asked, usage)
        if usage:
            self.quota.count(queue, usage)
        return has_quota

    def _as_seen(self, queue: QueueState, shape: ShapeView) -> Asked:
        """The offers for a shape; for the one whose wants are kept, as they were without that."""
        kept = self._kept.get(queue.name)
        if kept is None or kept.shape != shape.id:
            return self.asked(queue, shape)
        return kept.asked

    def _state_seen(self, queue: QueueState, id: ShapeId) -> int:
        """The state of the quota from which it follows what a shape is told."""
        kept = self._kept.get(queue.name)
        return self.quota.state_of(queue) if kept is None or kept.shape != id else kept.state

    def wheres(self, queue: QueueState, shape: ShapeView) -> list[Where]:
        """Where the flavors are that quota allows now, in the order of trying."""
        fitting = self.asked(queue, shape).fitting
        return list(dict.fromkeys(where_of(one.option, shape) for one in fitting))

    def _aside(self, id: ShapeId) -> str:
        """What of a shape is told that doesn't follow from quota."""
        return f"{self.behind.get(id, '')} {self.checking.get(id, '')}"

    def open_queue(self, shape: Shape, claim: Claim) -> QueueState | None:
        """The queue of a promise, if work may enter it still."""
        door = self.door(shape)
        if door is None or door.reason is not None or door.name != claim.holding.queue:
            return None
        return door.queue

    def why(self, door: Door, shape: ShapeView, stopped: tuple[str, ...], room_state: int) -> Why:
        """Why a shape doesn't start, as it is now; ``stopped`` are those stopped for its head."""
        queue = door.queue
        if queue is None or door.reason is not None:
            refused = () if door.reason is None else (door.reason,)
            return Why(refused, list, lambda: QuotaSaid(door.name), (str(door.reason),))
        seen = self._as_seen(queue, shape)
        offers, fitting = seen.offers, seen.fitting

        about = (self._state_seen(queue, shape.id), stopped, self._aside(shape.id))

        def said() -> QuotaSaid:
            return self.said(queue, shape)

        def instead(reason: tuple[Reason, ...]) -> Why:
            return Why(reason, lambda: self._candidates(list(offers), shape, reason), said, about)

        if shape.id in self.checking and not stopped:
            return instead((self.checking[shape.id],))
        if shape.id in self.behind:
            params: dict[str, Param] = {"name": self.behind[shape.id], "queue": queue.name}
            return instead((Reason("queue_strict", params),))
        if stopped:
            params = {"name": stopped[0]}
            if len(stopped) > 1:
                params["others"] = len(stopped) - 1
            return instead((Reason("queue_victims", params),))
        if not fitting:
            return instead(quota_reasons(queue, seen.all_verdicts))
        found = self._candidates(fitting, shape)
        reasons = reasons_of(found) or (Reason("queue_passed"),)
        if not any(self.by_flavor.rooms(where_of(one.option, shape)) for one in fitting):
            reasons = (_no_cluster(queue, fitting[0].option),)
        return Why(reasons, lambda: found, said, (*about, room_state))

    def _candidates(
        self, offers: list[Offer], shape: ShapeView, instead: tuple[Reason, ...] = ()
    ) -> list[Found]:
        """Every cluster that carries the labels of an offer, each once for an alternative.

        Where there is room, what keeps it is what is said ``instead``.
        """
        found: dict[tuple[str, int], Found] = {}
        wheres = [where_of(one.option, shape) for one in offers]
        for where in dict.fromkeys(wheres):
            pairs = zip(offers, wheres, strict=True)
            asked = {one.alternative for one, its in pairs if its == where}
            bounded = self.by_flavor.bounded(where)
            if not bounded.rooms:
                continue
            for one in bounded.candidates(shape.shape, shape.id):
                pair = (one.candidate.cluster, one.candidate.alternative)
                if pair[1] not in asked:
                    continue
                if one.candidate.verdict != "fits":
                    found.setdefault(pair, one)
                elif instead:
                    found.setdefault(pair, Found(Candidate(*pair, "later", instead)))
        return list(found.values())


def where_of(option: Option, shape: ShapeView) -> Where:
    """The nodes that may be used for a shape with such flavors."""
    asked = shape.shape.topology
    near = Nearness(option.levels, asked) if asked is not None and option.levels else None
    return Where(option.labels, near)


def quotas_of(view: View, memory: Memory, bounded: Bounded) -> Quotas | None:
    """The quota of a view's queues; None where there are none."""
    objects = view.queueing
    if objects is None:
        if memory.quota is not None:
            memory.quota = None
            memory.generation += 1
            memory.forget_bound()
        return None
    objects = memory.deriving.of(objects, [one.cluster for one in view.clusters])
    if memory.quota is None or memory.quota.objects is not objects:
        memory.quota = Quota(objects)
        memory.generation += 1
        memory.forget_bound()
    memory.quota.begin(view.held)
    if view.now_ms < memory.now_ms:
        memory.forget_bound()
    memory.now_ms = view.now_ms
    return Quotas(view, memory.quota, memory, bounded)


def _not_asked(cluster: str, flavors: str) -> Candidate:
    reason = Reason("queue_not_of_flavor", {"cluster": cluster, "flavor": flavors})
    return Candidate(cluster, 0, "not asked", (reason,))


def _no_cluster(queue: QueueState, option: Option) -> Reason:
    labels = ", ".join((*(f"{key}={value}" for key, value in option.labels), *option.levels))
    flavors = ", ".join(sorted(set(option.flavors.values())))
    return Reason("queue_no_cluster", {"flavor": flavors, "note": labels, "queue": queue.name})


def _kept(queue: QueueState, option: Option) -> Iterator[tuple[Pair, int]]:
    """Up to its nominal quota, or, where it must borrow, up to its limit."""
    node = queue.node
    for pair, amount in option.usage.items():
        left = node.nominal.get(pair, 0) - node.usage.get(pair, 0)
        limit = node.borrowing.get(pair)
        kept = amount
        if not option.level:
            kept = min(amount, left)
        elif limit is not None:
            kept = min(amount, left + limit)
        if kept > 0:
            yield pair, kept
