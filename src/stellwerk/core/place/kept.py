"""What is kept for whom, for a workload or by a reservation, and who may use it meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from msgspec.structs import replace

from stellwerk.core.model.calendars import Window
from stellwerk.core.model.draining import moment
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.lengths import Begun
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.reservations import Reservation
from stellwerk.core.model.resources import Allocation, NodeAllocation
from stellwerk.core.place.reservable import is_in
from stellwerk.core.place.rooms import RESERVATION, ClusterRoom, Whole
from stellwerk.core.view import Head

STOP_MS = 60_000
"""So much longer than its grace must be left before a reservation for one that is stopped then."""
MOVED_MS = 10 * 60_000
"""So long work must be able to run before it is worth starting it, only to be stopped."""
UNKNOWN_MS = 24 * 3_600_000
"""So long before a reservation work still starts in its room of which no length is known."""


class Kept(NamedTuple):
    """What is kept for a workload, until when at least it can't use it (0: nobody knows).

    Or for a reservation, until its next time begins (0: it goes on). Or for nobody, while all of a
    cluster is ``closed``: from when until when.
    """

    id: WorkloadId
    name: str
    cluster: str
    parts: tuple[NodeAllocation, ...]
    until_ms: int
    reservation: Reservation | None = None
    closed: Window | None = None


def may_enter(
    one: Kept, head: Head, queue: str, lasts: Callable[[Head], int | None], now_ms: int
) -> bool:
    """Whether what is reserved is for a workload, or it is over, or can be stopped, in time."""
    reservation, left_ms = one.reservation, one.until_ms - now_ms
    if reservation is None and one.closed is None:
        return False
    if reservation is not None and reservation.holder.owns(head.work, queue):
        return True
    if left_ms <= 0:
        return False
    if head.goes_on and max(head.protected_ms, MOVED_MS) + head.grace_ms + STOP_MS <= left_ms:
        return True
    lasts_ms = lasts(head)
    return left_ms > UNKNOWN_MS if lasts_ms is None else lasts_ms <= left_ms


def inside(
    own: Mapping[str, list[Kept]], by_name: Mapping[str, ClusterRoom], reserved: list[Kept]
) -> list[ClusterRoom]:
    """The rooms of the nodes that are reserved for a workload, and no other."""
    found = []
    for name, mine in own.items():
        room = by_name[name]
        nodes = {part.node: True for one in mine if not one.closed for part in one.parts}
        others = {f"{name}/{node}": True for node in room.free.nodes if node not in nodes}
        free = room.free.without(others).copy()
        for one in reserved:
            if one.cluster == name and one not in mine:
                for part in one.parts:
                    free.take_part(part)
        found.append(ClusterRoom(free, Whole(room.whole.room.without(others))))
    return found


def marked(allocation: Allocation, kept: list[Kept], head: Head, queue: str) -> Allocation:
    """An allocation with whom it passes, for whom something on its nodes is kept; and with the
    reservation of its own in which it is.
    """
    nodes = {part.node for part in allocation.nodes}
    passed = tuple(
        one.id
        for one in kept
        if one.reservation is None
        and one.closed is None
        and any(part.node in nodes for part in one.parts)
    )
    mine = (
        one.reservation.name
        for one in kept
        if one.reservation is not None
        and one.reservation.holder.owns(head.work, queue)
        and is_in(allocation, one.parts)
    )
    closes_ms = min(
        (
            one.closed[0]
            for one in kept
            if one.closed and any(part.node in nodes for part in one.parts)
        ),
        default=0,
    )
    return replace(allocation, passed=passed, reserved=next(mine, ""), closes_ms=closes_ms)


def told_reserved(
    reserved: Iterable[Kept], reason: Reason, lasts_ms: int | None, now_ms: int
) -> Reason:
    """Whose room it is and when, and what keeps a workload from going in before."""
    name = f"{RESERVATION}{reason.params.get('name')}"
    kept = next((one for one in reserved if one.name == name), None)
    if kept is None or kept.reservation is None:
        return reason
    params: dict[str, Param] = {**reason.params, "holder": str(kept.reservation.holder)}
    span = kept.reservation.at(now_ms)
    if span is not None:
        params["opens"], params["until"] = moment(span.from_ms), moment(span.until_ms)
    if kept.until_ms:
        params["needed_ms"] = kept.until_ms - now_ms
        if lasts_ms is None:
            params["unknown"] = "it"
        else:
            params["lasts_ms"] = lasts_ms
    return Reason(reason.code, params)


def is_mine(one: Reservation, held: Allocation, begun: Begun | None) -> bool:
    """Whether a run is its holder's."""
    if held.reserved == one.name:
        return True
    return begun is not None and one.holder.owns(begun.work, begun.queue)
