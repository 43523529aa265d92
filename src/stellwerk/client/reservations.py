"""The calls about room that is promised for times to come."""

from collections.abc import Sequence

from stellwerk.client.parts import decode, part
from stellwerk.client.requests import Requests
from stellwerk.core.model.reservations import (
    Holder,
    ReservationList,
    ReservationNow,
    Span,
    Wanted,
)


class ReservationCalls(Requests):
    """Reservations: make, look at, give up."""

    def reservations(self) -> Sequence[ReservationNow]:
        """All of them, those that begin first come first."""
        return self._get("/v1/reservations", ReservationList).items

    def reservation(self, name: str) -> ReservationNow:
        """One, with who runs in it and who is stopped for it."""
        return self._get(f"/v1/reservations/{part(name)}", ReservationNow)

    def reserve(
        self, name: str, holder: Holder, wanted: Wanted, spans: Sequence[Span], release_ms: int = 0
    ) -> ReservationNow:
        """Promises room; refused where it can't be kept."""
        body = {
            "name": name,
            "holder": holder,
            "wanted": wanted,
            "spans": list(spans),
            "release_ms": release_ms,
        }
        return self._order("/v1/reservations", ReservationNow, body)

    def cancel_reservation(self, name: str) -> ReservationNow:
        """Gives it up; what runs in it goes on."""
        return decode(self._send("DELETE", f"/v1/reservations/{part(name)}").body, ReservationNow)
