"""Keeps what a workload needs that was overtaken long enough, and says who may pass it even then.

What is kept is on the nodes nearest to having it. Others may use it that are predicted to be over
before what else it waits for is: nine of ten runs of theirs, or their time limit, against every
second run of what holds the room. Who was let pass counts as if it weren't there when a place is
chosen and when it is asked how long that is still held. So the place is the one that would be kept
without them; none is let pass any more once the others have ended; and wrong predictions delay a
workload by one run of one that passed, and never by one after the other.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import NamedTuple

from msgspec.structs import replace

from stellwerk.core.lengths import P50, P90, own_keys, trusted_ms
from stellwerk.core.model.ids import ShapeId, WorkloadId
from stellwerk.core.model.lengths import Begun, Work
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.resources import Allocation, NodeAllocation, Request
from stellwerk.core.place.bounded import Bounded
from stellwerk.core.place.candidates import answering, avoided, cannot, serves
from stellwerk.core.place.closures import (
    change_times,
    closures,
    longest,
    opened,
    told_other,
    told_too_short,
    told_window,
    window_of,
)
from stellwerk.core.place.kept import Kept, inside, is_mine, may_enter, told_reserved
from stellwerk.core.place.lacks import Credit, Far, credit
from stellwerk.core.place.reservable import left_of
from stellwerk.core.place.room import Room, fit
from stellwerk.core.place.rooms import RESERVATION, ClusterRoom, Key, Verdicts
from stellwerk.core.place.staying import REPAIR_MS, stayed, survivors
from stellwerk.core.view import Head, ShapeView, View

HERE = (0, 0)

LOOKED_BEHIND = 64
"""So many behind a blocked one of their shape are asked whether reserved room is for them."""


class Nearest(NamedTuple):
    """Where a workload that can't start comes nearest to it, and what it needs there."""

    far: Far
    alternative: int
    cluster: str
    parts: tuple[NodeAllocation, ...]


class Keeping:
    """What is kept in one cycle. ``by_name`` are its rooms."""

    def __init__(self, view: View, by_name: dict[str, ClusterRoom]) -> None:
        self.kept: list[Kept] = []
        self.reserved: list[Kept] = []
        self._tried: dict[ShapeId, dict[tuple[str, ...], None]] = {}
        self._may: dict[tuple[object, ...], tuple[str, ...]] = {}
        self._view = view
        self._by_name = by_name
        self._parts = {one.cluster.name: one for one in view.clusters}
        self._given_up_ms: list[int] = []
        self._started: dict[str, list[tuple[Allocation, Begun]]] = {}
        self._keys: dict[Work, tuple[str, ...]] = {}
        self._lent: dict[tuple[str, int], tuple[Verdicts, ClusterRoom]] = {}

    @cached_property
    def _passers(self) -> dict[str, list[Allocation]]:
        """What runs that was let pass somebody, by cluster."""
        found: dict[str, list[Allocation]] = {}
        for part in self._view.clusters:
            for _, one in part.allocations:
                if one.passed:
                    found.setdefault(part.cluster.name, []).append(one)
        return found

    def started(self, allocation: Allocation, head: Head, queue: str) -> None:
        """Notes what this cycle starts: it holds room as what ran before does."""
        if allocation.passed:
            self._passers.setdefault(allocation.cluster, []).append(allocation)
        begun = Begun(self._view.now_ms, head.work, head.limit_ms, queue)
        self._started.setdefault(allocation.cluster, []).append((allocation, begun))

    def reserve(self) -> list[Kept]:
        """Keeps what is closed, and what was promised to people, less what they have of it."""
        now_ms = self._view.now_ms
        self.reserved += closures(self._view, self._by_name)
        for one in self._view.reservations:
            span, room = one.at(now_ms), self._by_name.get(one.cluster)
            if span is None or room is None:
                continue
            mine = [held for held, begun in self._runs(one.cluster) if is_mine(one, held, begun)]
            parts = left_of(one.parts, mine)
            until_ms = span.from_ms if span.from_ms > now_ms else 0
            name = f"{RESERVATION}{one.name}"
            kept = Kept(WorkloadId(name), name, one.cluster, parts, until_ms, one)
            self.reserved.append(kept)
            room.keep(parts, name)
        return self.reserved

    @property
    def any_kept(self) -> bool:
        """Whether anything is kept for anybody."""
        return bool(self.kept or self.reserved)

    def ways(
        self,
        head: Head,
        shape: ShapeView,
        rooms: list[ClusterRoom],
        lenders: dict[str, list[Kept]] | None = None,
    ) -> Iterator[tuple[list[ClusterRoom] | None, dict[str, list[Kept]] | None]]:
        """The rooms in which a workload may start, in the order of trying, and in whose kept room.

        What is reserved for it comes first, then what is free (None: just the rooms) with clusters
        that stay open for long enough, then what others lend it.
        """
        queue = shape.shape.queue
        own = self.own_rooms(head, queue) if self.reserved else {}
        if own:
            yield inside(own, self._by_name, self.reserved), own
        lenders = self.lenders(head, queue) if lenders is None else lenders
        still_open = opened(lenders)
        yield (self.lent(rooms, still_open), still_open) if still_open else (None, None)
        if lenders != still_open:
            yield self.lent(rooms, lenders), lenders

    def next_own(self, shape: ShapeView, at: int) -> int:
        """The next workload of a blocked shape that may enter what is reserved otherwise than those
        before it: it is its own, or over in time; 0 = none.
        """
        if not self.reserved:
            return 0
        tried = self._tried.setdefault(shape.id, {})
        tried[self._entered(shape.heads[at], shape)] = None
        for number, head in enumerate(shape.heads[at + 1 : at + 1 + LOOKED_BEHIND], at + 1):
            entered = self._entered(head, shape)
            if entered and entered not in tried:
                return number
        return 0

    def _entered(self, head: Head, shape: ShapeView) -> tuple[str, ...]:
        """The reservations in whose room a workload may start."""
        key = (shape.id, head.work, head.limit_ms, head.goes_on, head.grace_ms, head.protected_ms)
        known = self._may.get(key)
        if known is None:
            now_ms, queue = self._view.now_ms, shape.shape.queue
            known = self._may[key] = tuple(
                one.name
                for one in self.reserved
                if may_enter(one, head, queue, self.lasts_ms, now_ms)
            )
        return known

    def own_rooms(self, head: Head, queue: str) -> dict[str, list[Kept]]:
        """What is reserved now for a workload, by cluster: it starts there first."""
        found: dict[str, list[Kept]] = {}
        for one in self.reserved:
            mine = one.reservation
            if not one.until_ms and mine is not None and mine.holder.owns(head.work, queue):
                found.setdefault(one.cluster, []).append(one)
        for one in self.reserved:
            if one.closed and one.cluster in found and self._may_enter(one, head, queue):
                found[one.cluster].append(one)
        return found

    def _may_enter(self, one: Kept, head: Head, queue: str) -> bool:
        return may_enter(one, head, queue, self.lasts_ms, self._view.now_ms)

    def in_window(self, head: Head, promised: Allocation) -> Allocation | None:
        """What was promised to a workload, with when that closes; None = it can't be over, or be
        stopped, before, or that is closed.
        """
        kept = window_of(self._parts[promised.cluster].cluster, promised, self._view.now_ms)
        if kept is None:
            return promised
        if not self._may_enter(kept, head, ""):
            return None
        return replace(promised, closes_ms=kept.until_ms)

    def keep(self, head: Head, shape: ShapeView, bounded: Bounded) -> Kept | None:
        """Keeps what a workload needs where it is nearest; None where it could never run."""
        found = self._nearest(head, shape, bounded) or self._survivors(head, shape)
        if found is None:
            return None
        until_ms = self._held_until_ms(head, shape, found) if found.far != HERE else 0
        room, alternative = self._by_name[found.cluster], found.alternative
        parts = stayed(found.parts, head.last, room.open, shape.shape, alternative)
        self.kept.append(kept := Kept(head.id, head.name, found.cluster, parts, until_ms))
        room.keep(parts, head.name)
        return kept

    def _survivors(self, head: Head, shape: ShapeView) -> Nearest | None:
        """What is left of a gang that has lost a machine, where no other is there for it yet."""
        last, until_ms = head.last, head.queued_ms + REPAIR_MS
        if last is None or not last.repairs or until_ms <= self._view.now_ms:
            return None
        self._given_up_ms.append(until_ms)
        parts = survivors(last, self._by_name, shape.shape)
        return Nearest(HERE, last.alternative, last.cluster, parts) if parts else None

    def _nearest(self, head: Head, shape: ShapeView, bounded: Bounded) -> Nearest | None:
        found: Nearest | None = None
        rooms = bounded.allowed(shape.shape, shape.id)
        replicas, avoid = shape.shape.num_nodes, avoided(shape.shape, rooms)
        for index, alternative, room in answering(shape.shape, rooms):
            if cannot(room.cluster, alternative) or not serves(room.cluster, shape.shape.person):
                continue
            if not bounded.may(shape.shape, shape.id, room.cluster.name, index):
                continue
            key = (shape.id, index, bool(avoid))
            given = self._credit(room, head, key, alternative.request, replicas, avoid)
            if given is not None:
                one = Nearest(given.far, index, room.cluster.name, given.parts)
                if found is None or one[:3] < found[:3]:
                    found = one
        return found

    def _credit(
        self,
        room: ClusterRoom,
        head: Head,
        key: Key,
        request: Request,
        replicas: int,
        avoid: tuple[str, ...],
    ) -> Credit | None:
        """What a workload lacks least on a cluster; it holds while the room does."""
        known, left = room.verdicts.credits, room.without(avoid)
        free = self._without_passers(left.open, head.id)
        is_as_open = free is left.open
        if is_as_open and key in known:
            return known[key]
        can = left.whole.can(key, request, replicas)
        found = credit(free, left.whole.room, request, replicas, can)
        if is_as_open:
            known[key] = found
        return found

    def _without_passers(self, room: Room, id: WorkloadId) -> Room:
        """The room as it would be if nobody had passed a workload."""
        passers = self._passers.get(room.cluster.name)
        passed = [one for one in passers if id in one.passed] if passers else []
        if not passed:
            return room
        free = room.copy()
        for one in passed:
            free.take(one, -1)
        return free

    def _runs(self, cluster: str) -> Iterable[tuple[Allocation, Begun | None]]:
        """What runs on a cluster, and what this cycle starts there."""
        part = self._parts[cluster]
        for run, allocation in part.allocations:
            yield allocation, part.begun.get(run)
        yield from self._started.get(cluster, ())

    def _held_until_ms(self, head: Head, shape: ShapeView, found: Nearest) -> int:
        """When enough of what holds the kept nodes is expected to be over; 0 if nobody knows.

        Each is taken at its median: the last of several ends later than that more often than not.
        """
        room = self._by_name[found.cluster].open
        names = {part.node for part in found.parts}
        others = {f"{found.cluster}/{name}" for name in room.nodes if name not in names}
        free = self._without_passers(room.without(others).copy(), head.id)
        request = shape.shape.alternatives[found.alternative].request
        ends = []
        for number, (allocation, begun) in enumerate(self._runs(found.cluster)):
            if head.id in allocation.passed or all(n.node not in names for n in allocation.nodes):
                continue
            end_ms = self._end_ms(begun)
            if end_ms is not None:
                ends.append((end_ms, number, allocation))
        for end_ms, _, allocation in sorted(ends, key=lambda one: one[:2]):
            free.take(allocation, -1)
            if fit(free, request, shape.shape.num_nodes) is not None:
                return end_ms
        return 0

    def _end_ms(self, begun: Begun | None) -> int | None:
        """When a run is expected to be over, one time in two."""
        if begun is None:
            return None
        elapsed_ms = max(0, self._view.now_ms - begun.planned_ms)
        lasts_ms = trusted_ms(self._view.lengths, self._own(begun.work), P50, elapsed_ms)
        if lasts_ms is None:
            return None
        if begun.limit_ms:
            lasts_ms = min(lasts_ms, begun.limit_ms)
        return max(begun.planned_ms + lasts_ms, self._view.now_ms)

    def lasts_ms(self, head: Head) -> int | None:
        """How long a waiting workload runs at most, nine times in ten."""
        known = trusted_ms(self._view.lengths, self._own(head.work), P90)
        if known is None:
            return head.limit_ms or None
        return min(known, head.limit_ms) if head.limit_ms else known

    def _own(self, work: Work) -> tuple[str, ...]:
        keys = self._keys.get(work)
        if keys is None:
            keys = self._keys[work] = own_keys(work)
        return keys

    def lenders(self, head: Head, queue: str = "") -> dict[str, list[Kept]]:
        """Whose kept room a workload may use, since it is over before they could: by cluster."""
        found: dict[str, list[Kept]] = {}
        for one in self.reserved:
            if self._may_enter(one, head, queue):
                found.setdefault(one.cluster, []).append(one)
        if not any(one.until_ms > self._view.now_ms for one in self.kept):
            return found
        lasts_ms = self.lasts_ms(head)
        if lasts_ms is None:
            return found
        for one in self.kept:
            if one.until_ms >= self._view.now_ms + lasts_ms:
                found.setdefault(one.cluster, []).append(one)
        return found

    def lent(self, rooms: list[ClusterRoom], lenders: dict[str, list[Kept]]) -> list[ClusterRoom]:
        """The same rooms, with what is kept for the lenders given back."""
        return [
            self._given_back(room, lenders[room.cluster.name])
            if room.cluster.name in lenders
            else room
            for room in rooms
        ]

    def _given_back(self, room: ClusterRoom, kept: list[Kept]) -> ClusterRoom:
        key = (room.cluster.name, hash(tuple(one.id for one in kept)))
        known = self._lent.get(key)
        if known is None or known[0] is not room.verdicts:
            free = room.open.copy()
            for one in kept:
                for part in one.parts:
                    free.take_part(part, -1)
            given = ClusterRoom(free, room.whole)
            given.kept_for = room.kept_for
            known = self._lent[key] = room.verdicts, given
        return known[1]

    def told(self, head: Head, reason: Reason) -> Reason:
        """Why a workload may not use what is kept, with the times that this follows from."""
        name, cluster = reason.params.get("name"), reason.params.get("cluster")
        if reason.code == "window_closes":
            return self._told_window(head, str(cluster))
        if reason.code == "room_reserved":
            return told_reserved(self.reserved, reason, self.lasts_ms(head), self._view.now_ms)
        kept = next((one for one in self.kept if (one.name, one.cluster) == (name, cluster)), None)
        if reason.code != "room_kept" or kept is None:
            return reason
        params: dict[str, Param] = dict(reason.params)
        lasts_ms = self.lasts_ms(head)
        needed_ms = max(0, kept.until_ms - self._view.now_ms)
        if kept.until_ms and lasts_ms is not None and lasts_ms > needed_ms:
            params["lasts_ms"], params["needed_ms"] = lasts_ms, needed_ms
        elif lasts_ms is None:
            params["unknown"] = "it"
        elif not kept.until_ms:
            params["unknown"] = "what else is there"
        return Reason(reason.code, params)

    def _told_window(self, head: Head, cluster: str) -> Reason:
        there = [one for one in (*self.reserved, *self.kept) if one.cluster == cluster]
        lent = self.lenders(head).get(cluster, [])
        kept = next((one for one in there if one not in lent), there[0])
        if kept.closed is None:
            return self.told(head, told_other(kept))
        now_ms, lasts_ms = self._view.now_ms, self.lasts_ms(head)
        at_best = longest(kept, self._parts[cluster].cluster, now_ms)
        if at_best.until_ms > now_ms and not self._may_enter(at_best, head, ""):
            return told_too_short(at_best, lasts_ms, now_ms)
        return told_window(kept, lasts_ms, now_ms)

    def wake_at_ms(self) -> int:
        """When what is expected to have ended hasn't: then more may be known (0: never)."""
        now_ms = self._view.now_ms
        times = [one.until_ms for one in self.kept] + self._given_up_ms
        for one in self._view.reservations:
            span = one.at(now_ms)
            times += [span.from_ms, span.until_ms] if span is not None else []
        times += change_times(self.reserved)
        return min((at_ms for at_ms in times if at_ms > now_ms), default=0)
