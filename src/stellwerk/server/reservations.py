"""Makes, shows and gives up reservations, with what each comes to for those who run there."""

from collections.abc import Mapping

from stellwerk.core.model.commands import CancelReservation, MakeReservation
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.model.ids import RunId, workload_of
from stellwerk.core.model.lengths import Work
from stellwerk.core.model.reservations import (
    Reservation,
    ReservationNow,
    ReservationWish,
)
from stellwerk.core.place.reservable import Ask, chosen, in_the_way, is_in
from stellwerk.core.reservations import places_in, slips
from stellwerk.core.view import View
from stellwerk.server.handlers.workloads import EFFECT_S
from stellwerk.server.services import Services

ANOTHER_NAME = "take another name, or `stw reserve cancel` that one first"
IN_ITS_BOUNDS = "`stw reserve make --help` says what may be asked for"
NOBODYS = Work("", "", "", "")
ELSEWHERE = "ask for less, or for another time or cluster; `stw reserve list` shows who has what"


async def make(services: Services, wish: ReservationWish, actor: str, key: str) -> ReservationNow:
    """Promises room. Raises StellwerkError where that can't be kept, with the numbers."""
    spans = tuple(sorted(wish.spans, key=lambda one: one.from_ms))
    command = MakeReservation(wish.name, wish.holder, wish.wanted, spans, wish.release_ms)
    view = services.engine.view()
    known = next((one for one in view.reservations if one.name == wish.name), None)
    if known is not None and _is_same(known, command):
        return _now(view, known)
    wrong = [_slip(one) for one in slips(command, view.now_ms, view.reservations)]
    clusters = [one.cluster.name for one in view.clusters]
    missing = [one for one in wish.wanted.clusters if one not in clusters]
    there = ", ".join(clusters) or "none"
    wrong += [
        Problem("spec/reservation", f"there is no cluster `{one[:80]}`", f"there is: {there}")
        for one in missing
    ]
    if not wrong:
        ask = Ask(wish.wanted, spans, view.reservations, view.now_ms)
        found = chosen(ask, places_in(view, wish.holder))
        wrong = [Problem("spec/reservation", found, ELSEWHERE)] if isinstance(found, str) else []
    if wrong:
        raise StellwerkError(wrong)
    await services.order(command, actor, key)
    await services.settled(EFFECT_S)
    return one_of(services, wish.name)


def _slip(message: str) -> Problem:
    help = ANOTHER_NAME if message.startswith("there is a reservation") else IN_ITS_BOUNDS
    return Problem("spec/reservation", message, help)


def _is_same(known: Reservation, asked: MakeReservation) -> bool:
    mine = (known.holder, known.wanted, known.spans, known.release_ms)
    return mine == (asked.holder, asked.wanted, asked.spans, asked.release_ms)


async def cancel(services: Services, name: str, actor: str, key: str) -> ReservationNow:
    """Gives a reservation up; what runs in it goes on."""
    found = one_of(services, name)
    await services.order(CancelReservation(name), actor, key)
    await services.settled(EFFECT_S)
    return found


def all_of(services: Services) -> list[ReservationNow]:
    """Every reservation."""
    view = services.engine.view()
    return [_now(view, one) for one in view.reservations]


def one_of(services: Services, name: str) -> ReservationNow:
    """One by its name; raises StellwerkError where there is none."""
    found = {one.reservation.name: one for one in all_of(services)}
    if name not in found:
        there = ", ".join(found) or "none"
        raise StellwerkError.of(
            "find/reservation", f"there is no reservation `{name[:80]}`", f"there is: {there}"
        )
    return found[name]


def _now(view: View, one: Reservation) -> ReservationNow:
    place = next(
        (part for part in places_in(view, one.holder) if part.cluster.name == one.cluster), None
    )
    if place is None:
        return ReservationNow(one, one.open_at(view.now_ms), note=_note(view, one))
    names = _names(view, one.cluster)
    running = [
        names[taken.run]
        for taken in place.taken
        if (taken.mine or taken.allocation.reserved == one.name)
        and is_in(taken.allocation, one.parts)
    ]
    leaving = [names[taken.run] for taken in in_the_way(place, one.parts)]
    return ReservationNow(one, one.open_at(view.now_ms), running, leaving, _note(view, one))


def _note(view: View, one: Reservation) -> str:
    """That the queue it is for isn't there; people and projects needn't be known beforehand."""
    if one.holder.kind != "queue":
        return ""
    doors = view.queueing.local_queues if view.queueing is not None else ()
    names = ["", *(f"{door.namespace}/{door.name}" for door in doors)]
    if any(one.holder.owns(NOBODYS, name) for name in names):
        return ""
    return f"there is no LocalQueue {one.holder.name}: no work can start in it until there is"


def _names(view: View, cluster: str) -> Mapping[RunId, str]:
    part = next(one for one in view.clusters if one.cluster.name == cluster)
    begun = part.begun
    return {
        run: begun[run].work.name if run in begun else str(workload_of(run))
        for run, _ in part.allocations
    }
