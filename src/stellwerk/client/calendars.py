"""The calls about when clusters may be used."""

from collections.abc import Sequence

from stellwerk.client.parts import decode, part
from stellwerk.client.requests import Requests
from stellwerk.core.model.calendars import (
    CalendarList,
    CalendarNow,
    OverrideWish,
    SourceWish,
)


class CalendarCalls(Requests):
    """Calendars: import, look at, make exceptions, remove."""

    def calendars(self) -> Sequence[CalendarNow]:
        """All of them, by cluster."""
        return self._get("/v1/calendars", CalendarList).items

    def calendar(self, cluster: str) -> CalendarNow:
        """That of a cluster."""
        return self._get(f"/v1/calendars/{part(cluster)}", CalendarNow)

    def import_calendar(self, cluster: str, wish: SourceWish) -> CalendarNow:
        """Lets its windows follow from one more source; refused with all that is wrong."""
        return self._order(f"/v1/calendars/{part(cluster)}", CalendarNow, wish)

    def override_calendar(self, cluster: str, wish: OverrideWish) -> CalendarNow:
        """Opens or closes it once."""
        return self._order(f"/v1/calendars/{part(cluster)}/override", CalendarNow, wish)

    def remove_calendar(self, cluster: str) -> CalendarNow:
        """Lets it be used at any time."""
        return decode(self._send("DELETE", f"/v1/calendars/{part(cluster)}").body, CalendarNow)
