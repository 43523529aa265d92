"""Budgets of queues: how much of a resource may be used in a day, a week or a month."""

from typing import Literal

from msgspec import Struct

Period = Literal["day", "week", "month"]
PERIODS: tuple[Period, ...] = ("day", "week", "month")


class Budget(Struct, frozen=True):
    """So many thousandths of a resource, each for an hour, in a calendar period (UTC).

    A week begins on Monday.
    """

    resource: str
    hours: int
    period: Period


Spent = dict[str, dict[str, dict[int, int]]]
"""What a queue's ended runs used: by queue, resource and day (since 1970), in thousandths of the
resource, each for a second."""
