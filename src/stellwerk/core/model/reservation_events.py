"""Facts about room that is promised for times to come."""

from msgspec import Struct

from stellwerk.core.model.reservations import OverWhy, Reservation
from stellwerk.core.model.resources import NodeAllocation


class ReservationMade(Struct, frozen=True, tag="reservation-made"):
    """Somebody was promised room for a time to come."""

    reservation: Reservation


class ReservationMoved(Struct, frozen=True, tag="reservation-moved", omit_defaults=True):
    """Other nodes are kept for a reservation than before; ``broken`` is what nothing was found for.

    ``parts`` empty: they stay, though they can't be counted on.
    """

    name: str
    parts: tuple[NodeAllocation, ...] = ()
    broken: str = ""


class ReservationOver(Struct, frozen=True, tag="reservation-over", omit_defaults=True):
    """A reservation is over: one of its times (``from_ms``), or all of it (0)."""

    name: str
    why: OverWhy
    from_ms: int = 0
