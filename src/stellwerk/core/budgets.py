"""What a queue has spent of its budgets, and whether it may start more.

What ended runs held is kept by day; what live ones hold is added when somebody looks. A run counts
for what it holds of quota, from when it was placed until it is over. A budget that is used up ends
nothing: it lets nothing more start until its period is over.
"""

import datetime as dt
from collections.abc import Iterable, Iterator

from stellwerk.core.model.budgets import Budget, Period, Spent
from stellwerk.core.model.holding import Holding
from stellwerk.core.model.queueing import ClusterQueue
from stellwerk.core.model.reasons import Reason

SECOND_MS = 1000
HOUR_S = 3600
DAY_MS = 86_400_000
DAYS_KEPT = 62
"""A whole month, and the one before it."""

Live = Iterable[tuple[Holding, int]]
"""What is held, and since when."""


def day_of(at_ms: int) -> int:
    """The day since 1970 (UTC)."""
    return at_ms // DAY_MS


def period_of(at_ms: int, period: Period) -> tuple[int, int]:
    """First day of the period in which a moment lies, and of the next one."""
    day = day_of(at_ms)
    if period == "day":
        return day, day + 1
    if period == "week":
        first = day - (day + 3) % 7  # day 0 was a Thursday
        return first, first + 7
    date = _date(day)
    first = day - date.day + 1
    following = (date.replace(day=28) + dt.timedelta(days=4)).replace(day=1)
    return first, (following - dt.date(1970, 1, 1)).days


def add_run(spent: Spent, holding: Holding, began_ms: int, ended_ms: int) -> None:
    """Adds what an ended run used, to each day its part; days that are long over are forgotten."""
    queue = spent.setdefault(holding.queue, {})
    oldest = day_of(ended_ms) - DAYS_KEPT
    for resource, amount in holding.amounts.items():
        days = queue.setdefault(resource, {})
        for day, for_ms in _days(began_ms, ended_ms):
            days[day] = days.get(day, 0) + amount * for_ms // SECOND_MS
        for day in [one for one in days if one < oldest]:
            del days[day]


def copied(spent: Spent) -> Spent:
    """A value of its own."""
    return {
        queue: {resource: dict(days) for resource, days in of.items()}
        for queue, of in spent.items()
    }


def used(spent: Spent, queue: str, budget: Budget, live: Live, now_ms: int) -> int:
    """What is used of a budget in the period of now, in thousandths for a second."""
    first, _ = period_of(now_ms, budget.period)
    days = spent.get(queue, {}).get(budget.resource, {})
    found = sum(amount for day, amount in days.items() if day >= first)
    for holding, since_ms in live:
        if holding.queue == queue and budget.resource in holding.amounts:
            for_ms = max(0, now_ms - max(since_ms, first * DAY_MS))
            found += holding.amounts[budget.resource] * for_ms // SECOND_MS
    return found


def runs_out_ms(spent: Spent, queue: str, budget: Budget, live: Live, now_ms: int) -> int | None:
    """When a budget is used up if what runs goes on and nothing else starts; None: not in time."""
    held = list(live)
    left = budget.hours * HOUR_S - used(spent, queue, budget, held, now_ms)
    if left <= 0:
        return now_ms
    rate = sum(
        holding.amounts.get(budget.resource, 0) for holding, _ in held if holding.queue == queue
    )
    _, end = period_of(now_ms, budget.period)
    at_ms = now_ms + left * SECOND_MS // rate if rate else end * DAY_MS
    return at_ms if at_ms < end * DAY_MS else None


def used_up(
    queues: Iterable[ClusterQueue], spent: Spent, live: Live, now_ms: int
) -> dict[str, Reason]:
    """Why queues start nothing more for now: the first of their budgets that is used up."""
    held = list(live)
    found: dict[str, Reason] = {}
    for queue in queues:
        for budget in queue.budgets:
            amount = used(spent, queue.name, budget, held, now_ms)
            if amount >= budget.hours * HOUR_S and queue.name not in found:
                found[queue.name] = Reason(
                    "queue_budget",
                    {
                        "queue": queue.name,
                        "resource": budget.resource,
                        "used": round(amount / HOUR_S / 1000, 1),
                        "most": round(budget.hours / 1000, 1),
                        "period": budget.period,
                        "until": _date(period_of(now_ms, budget.period)[1]).isoformat(),
                    },
                )
    return found


def renewed_ms(queues: Iterable[ClusterQueue], closed: Iterable[str], now_ms: int) -> int:
    """When the first period of a budget of these queues is over; 0 for never."""
    names = dict.fromkeys(closed)
    ends = [
        period_of(now_ms, budget.period)[1] * DAY_MS
        for queue in queues
        if queue.name in names
        for budget in queue.budgets
    ]
    return min(ends, default=0)


def _date(day: int) -> dt.date:
    return dt.date(1970, 1, 1) + dt.timedelta(days=day)


def _days(began_ms: int, ended_ms: int) -> Iterator[tuple[int, int]]:
    """The days of a span, with how much of it lies in each; of a long one the last ones alone."""
    began_ms = max(began_ms, ended_ms - DAYS_KEPT * DAY_MS)
    for day in range(day_of(began_ms), day_of(ended_ms) + 1):
        part = min(ended_ms, (day + 1) * DAY_MS) - max(began_ms, day * DAY_MS)
        if part > 0:
            yield day, part
