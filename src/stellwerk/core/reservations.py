"""Decides what follows when somebody is promised room for a time to come, and as that time comes.

A promise that can't be kept is refused when it is made. Later, other nodes are looked for in the
place of those that are lost; what is in the way gets notice with its own grace in time, and a time
that nobody uses is given up.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import pairwise

from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.draining import moment
from stellwerk.core.model.ids import WorkloadId, workload_of
from stellwerk.core.model.lengths import Work
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.reservations import (
    LONGEST_MS,
    MOST_AHEAD_MS,
    MOST_RESERVATIONS,
    MOST_SPANS,
    Holder,
    Reservation,
    Span,
)
from stellwerk.core.model.resources import named
from stellwerk.core.model.workload import Workload, safe_until_ms
from stellwerk.core.place.reservable import Ask, Chosen, Place, Taken, chosen, in_the_way, is_in
from stellwerk.core.state import State
from stellwerk.core.view import View

MARGIN_MS = 30_000
"""So much earlier than its grace asks for is what is in the way told to go."""

MOVES_FROM_MS = 24 * 3_600_000
"""So long before it begins other nodes are looked for; earlier a machine may well come back."""


NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
LONGEST_HOLDER = 253

FAR_MS = 48 * 3_600_000
"""What begins later isn't looked at yet: no machine that is lost by now matters so early."""


def slips(command: cmd.MakeReservation, now_ms: int, known: Iterable[Reservation]) -> list[str]:
    """What speaks against a reservation before anybody looks for room: all of it."""
    found, names = list(_slips_of_names(command)), [one.name for one in known]
    wanted, spans = command.wanted, command.spans
    asked = [one for one in (wanted.nodes, wanted.gpus, wanted.cpus_milli) if one]
    if len(asked) != 1 or asked[0] < 0:
        found.append("one of nodes, GPUs or CPUs must be named, and more than none")
    if not spans or any(one.until_ms <= one.from_ms for one in spans):
        found.append("it must end after it begins")
    if any(one.until_ms <= now_ms for one in spans):
        found.append("its time is over already")
    if any(one.until_ms - one.from_ms > LONGEST_MS for one in spans):
        found.append(f"it lasts longer than {LONGEST_MS // 86_400_000} days")
    if any(one.from_ms - now_ms > MOST_AHEAD_MS for one in spans):
        found.append(f"it begins in more than {MOST_AHEAD_MS // 86_400_000} days")
    if len(spans) > MOST_SPANS:
        found.append(f"it comes more than {MOST_SPANS} times")
    in_order = sorted(spans, key=lambda one: one.from_ms)
    if any(a.meets(b) for a, b in pairwise(in_order)):
        found.append("its times overlap")
    if command.release_ms < 0:
        found.append("it can't be given up before it begins")
    if command.name in names:
        found.append(f"there is a reservation `{command.name}` already")
    if len(names) >= MOST_RESERVATIONS:
        found.append(f"there are {MOST_RESERVATIONS} reservations already, and no more can be kept")
    return found


def _slips_of_names(command: cmd.MakeReservation) -> Iterator[str]:
    if not NAME.fullmatch(command.name):
        yield "its name must be of letters, digits, `.`, `_` and `-`, at most 63"
    whose = command.holder.name
    if not whose or len(whose) > LONGEST_HOLDER or not whose.isprintable():
        yield "somebody must be named whose work may use it"


def places_in(view: View, holder: Holder) -> list[Place]:
    """What a reservation is chosen from, as a view has it."""
    found = []
    for part in view.clusters:
        taken = []
        for run, allocation in part.allocations:
            begun = part.begun.get(run)
            if begun is None:
                taken.append(Taken(run, allocation))
                continue
            mine = holder.owns(begun.work, begun.queue)
            taken.append(Taken(run, allocation, mine, begun.safe_ms, begun.planned_ms))
        found.append(Place(part.cluster, tuple(taken)))
    return found


def on_make(state: State, command: cmd.MakeReservation, actor: str, now_ms: int) -> list[ev.Event]:
    """Promises room, or says why it can't be."""
    spans = tuple(sorted(command.spans, key=lambda one: one.from_ms))
    wrong = slips(command, now_ms, state.reservations.all())
    if wrong:
        return [_refused("make-reservation", command.name, "; ".join(wrong))]
    one = Reservation(
        command.name, actor, command.holder, command.wanted, "", (), spans, command.release_ms
    )
    found = _chosen(state, one, now_ms)
    if isinstance(found, str):
        return [_refused("make-reservation", command.name, found)]
    made = Reservation(
        one.name, actor, one.holder, one.wanted, found.cluster, found.parts, spans, one.release_ms
    )
    return [ev.ReservationMade(made)]


def on_cancel(state: State, command: cmd.CancelReservation) -> list[ev.Event]:
    """Gives a reservation up; what runs in it goes on."""
    if command.name not in state.reservations.kept:
        return []
    return [ev.ReservationOver(command.name, "cancelled")]


def _refused(command: str, name: str, note: str) -> ev.CommandRefused:
    return ev.CommandRefused(
        command, WorkloadId(""), Reason("reservation_refused", {"name": name, "note": note})
    )


def _chosen(state: State, one: Reservation, now_ms: int) -> Chosen | str:
    others = tuple(other for other in state.reservations.all() if other.name != one.name)
    places = [_place(state, name, one) for name in sorted(state.clusters)]
    return chosen(Ask(one.wanted, one.spans, others, now_ms), places)


def _place(state: State, name: str, one: Reservation) -> Place:
    taken = []
    for run, allocation in sorted(state.allocations.get(name, {}).items()):
        workload = state.workloads[workload_of(run)]
        taken.append(
            Taken(
                run, allocation, allocation.reserved == one.name or _is_mine(state, workload, one),
                safe_until_ms(workload), workload.runs[-1].planned_ms,
            )
        )  # fmt: skip
    return Place(state.clusters[name], tuple(taken))


def _is_mine(state: State, workload: Workload, one: Reservation) -> bool:
    work = Work(workload.project, workload.owner, workload.name, workload.task)
    queue = "/".join(named(state.shapes[workload.shape].shape.queue))
    return one.holder.owns(work, queue)


def due(state: State, now_ms: int) -> list[ev.Event]:
    """What follows for all reservations as time goes on; asked again, nothing more does."""
    found: list[ev.Event] = []
    for one in state.reservations.all():
        over = [span for span in one.spans if span.until_ms <= now_ms]
        if over:
            found += [ev.ReservationOver(one.name, "expired", span.from_ms) for span in over]
            continue
        span = one.at(now_ms)
        if span is None or span.from_ms - now_ms > FAR_MS:
            continue
        place = _place(state, one.cluster, one) if one.cluster in state.clusters else None
        if place is not None and _is_unused(one, span, place, now_ms):
            found.append(ev.ReservationOver(one.name, "unused", span.from_ms))
            continue
        moved = _moved(state, one, span, place, now_ms)
        if moved is not None:
            found.append(moved)
        elif place is not None and not one.broken:
            found += _notices(state, one, span, place, now_ms)
    return found


def _is_unused(one: Reservation, span: Span, place: Place, now_ms: int) -> bool:
    if not one.release_ms or now_ms < span.from_ms + one.release_ms:
        return False
    if one.used_ms >= span.from_ms:
        return False
    return not any(run.mine and is_in(run.allocation, one.parts) for run in place.taken)


def _moved(
    state: State, one: Reservation, span: Span, place: Place | None, now_ms: int
) -> ev.ReservationMoved | None:
    """Other nodes in the place of lost ones, or that there are none; None where nothing changed."""
    lost = _lost(one, place)
    if not lost:
        return ev.ReservationMoved(one.name) if one.broken else None
    if span.from_ms - now_ms <= MOVES_FROM_MS:
        found = _chosen(state, one, now_ms)
        if not isinstance(found, str) and found.cluster == one.cluster:
            return ev.ReservationMoved(one.name, found.parts)
        if isinstance(found, str):
            lost = f"{lost}, and {found}"
    return ev.ReservationMoved(one.name, (), lost) if lost != one.broken else None


def _lost(one: Reservation, place: Place | None) -> str:
    """What of a reservation can't be counted on now."""
    if place is None:
        return f"{one.cluster} is gone"
    nodes = {node.name: node for node in place.cluster.nodes}
    for part in one.parts:
        node = nodes.get(part.node)
        if node is None:
            return f"{one.cluster}/{part.node} is gone"
        if node.state != "ready":
            return f"{one.cluster}/{part.node} is {node.state}"
        cards = {device.index: device for device in node.devices}
        for share in part.devices:
            card = cards.get(share.index)
            if card is None or card.fault:
                return f"GPU {share.index} of {one.cluster}/{part.node} can't be used"
    return ""


def _notices(
    state: State, one: Reservation, span: Span, place: Place, now_ms: int
) -> Iterator[ev.Event]:
    """Those in its way whose time to go has come."""
    for taken in in_the_way(_staying(state, place), one.parts):
        workload = state.workloads[workload_of(taken.run)]
        if now_ms >= _told_at_ms(workload, taken, span):
            params: dict[str, Param] = {
                "name": one.name,
                "holder": str(one.holder),
                "cluster": one.cluster,
                "opens": moment(span.from_ms),
            }
            reason = Reason("reservation_begins", params)
            yield ev.NoticeGiven(
                taken.run, "preempt", workload.policies.grace_ms, reason, workload.runs[-1].copy_ms
            )


def _told_at_ms(workload: Workload, taken: Taken, span: Span) -> int:
    """When a run in the way gets notice: its grace earlier, but never before its promise ends."""
    needs_ms = workload.policies.grace_ms + workload.runs[-1].copy_ms + MARGIN_MS
    return max(taken.safe_ms, span.from_ms - needs_ms)


def _staying(state: State, place: Place) -> Place:
    """A cluster without those that have notice, or can't be told."""
    taken = []
    for one in place.taken:
        run = state.workloads[workload_of(one.run)].live_run
        leaves = run is not None and (run.notice or not run.reachable)
        if not leaves and not state.workloads[workload_of(one.run)].cancelling:
            taken.append(one)
    return Place(place.cluster, tuple(taken))


def next_due_ms(state: State, now_ms: int) -> int:
    """When the next reservation asks for something by itself; 0 = none does."""
    times = []
    for one in state.reservations.all():
        span = one.at(now_ms)
        if span is None or one.cluster not in state.clusters:
            continue
        times += [span.from_ms - FAR_MS, span.from_ms - MOVES_FROM_MS, span.from_ms, span.until_ms]
        if span.from_ms - now_ms > FAR_MS:
            continue
        if one.release_ms:
            times.append(span.from_ms + one.release_ms)
        for taken in _place(state, one.cluster, one).taken:
            workload = state.workloads[workload_of(taken.run)]
            if not taken.mine and is_in(taken.allocation, one.parts):
                times.append(_told_at_ms(workload, taken, span))
    return min((at for at in times if at > now_ms), default=0)
