"""The part of the live state that says who was promised room, and when."""

from collections.abc import Iterable

from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.reservations import Reservation

ReservationEvent = ev.ReservationMade | ev.ReservationMoved | ev.ReservationOver


class Reservations:
    """All reservations by name. ``version`` counts changes."""

    def __init__(self) -> None:
        self.kept: dict[str, Reservation] = {}
        self.version = 0
        self._all: tuple[int, tuple[Reservation, ...]] = 0, ()

    def all(self) -> tuple[Reservation, ...]:
        """Those that begin first come first; the same object as long as none has changed."""
        if self._all[0] != self.version:
            found = sorted(self.kept.values(), key=lambda one: (one.spans[0].from_ms, one.name))
            self._all = self.version, tuple(found)
        return self._all[1]

    def take_over(self, kept: Iterable[Reservation]) -> None:
        """Takes what an image holds."""
        self.kept = {one.name: one for one in kept}
        self.version = len(self.kept)

    def put(self, one: Reservation) -> None:
        """A reservation is new, or another one than before."""
        self.kept[one.name] = one
        self.version += 1

    def use(self, name: str, at_ms: int) -> None:
        """A run started in it."""
        if name in self.kept:
            self.put(replace(self.kept[name], used_ms=at_ms))

    def drop(self, name: str, from_ms: int) -> None:
        """A reservation, or one of its times, is over; without times it is gone."""
        one = self.kept.pop(name)
        spans = tuple(span for span in one.spans if from_ms and span.from_ms != from_ms)
        if spans:
            self.kept[name] = replace(one, spans=spans)
        self.version += 1


def fold_reservations(
    reservations: Reservations, at_ms: int, actor: str, event: ReservationEvent
) -> None:
    """Applies one fact."""
    match event:
        case ev.ReservationMade():
            reservations.put(replace(event.reservation, actor=actor, made_ms=at_ms))
        case ev.ReservationMoved():
            one = reservations.kept[event.name]
            parts = event.parts or one.parts
            reservations.put(replace(one, parts=parts, broken=event.broken))
        case ev.ReservationOver():
            reservations.drop(event.name, event.from_ms)
