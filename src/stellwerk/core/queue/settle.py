"""Runs cycles one after the other until nothing changes any more, as if victims went at once.

What runs never ends here, so this says who would start now. Preempted workloads, and those that are
on their way out already, wait again from the next cycle on. Workloads that evict each other in turn
are stopped after a number of cycles, and that is said.
"""

from __future__ import annotations

from typing import NamedTuple

from stellwerk.core.queue.cycle import decide
from stellwerk.core.queue.live import Queues
from stellwerk.core.queue.outcome import Admitted, Evicted, Waits

MOST_CYCLES = 10_000
PREEMPTED = "Preempted"


class Settled(NamedTuple):
    """What cycles came to: what each did, why those wait who were looked at, whether it ended.

    The number of a cycle counts from 1.
    """

    cycles: int
    admitted: list[tuple[int, Admitted]]
    evicted: list[tuple[int, Evicted]]
    waits: dict[str, Waits]
    settled: bool


def settle(queues: Queues, now_ms: int, most: int = MOST_CYCLES) -> Settled:
    """At most so many cycles; changes ``queues``."""
    found = Settled(0, [], [], {}, settled=False)
    leaving = [(key, PREEMPTED) for key, one in queues.holders.items() if one.evicted]
    gone: list[tuple[str, str]] = []
    number = 0
    while number < most:
        for key, reason in gone:
            queues.release(key, again=reason)
        number += 1
        outcome = decide(queues, now_ms)
        before = {one.key: queues.waiters[one.key].tried for one in outcome.waits}
        queues.apply(outcome, now_ms)
        gone = [*leaving, *((one.key, one.reason) for one in outcome.evicted)]
        leaving = []
        found.admitted.extend((number, one) for one in outcome.admitted)
        found.evicted.extend((number, one) for one in outcome.evicted)
        for started in outcome.admitted:
            found.waits.pop(started.key, None)
        for one in outcome.waits:
            found.waits[one.key] = one
        moved = any(one.parks or one.tried != before[one.key] for one in outcome.waits)
        if not gone and outcome.empty and not moved:
            return found._replace(cycles=number, settled=True)
    return found._replace(cycles=number)
