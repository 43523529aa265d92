"""What LocalQueues have used before, decayed: what admission fair sharing orders by.

Between two facts nothing changes in what is used, so a sample at each of them comes to what
sampling all the time would. It is kept by the name that work gave its queue.
"""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct

from stellwerk.core.model.holding import Holding
from stellwerk.core.model.queueing import PastUse
from stellwerk.core.queue.past_use import penalty, sampled


class Consumed(Struct, frozen=True):
    """Past use by resource as it was at a time, in thousandths of its unit."""

    at_ms: int
    amounts: dict[str, float]


class PastUses:
    """Past use of all LocalQueues, and what their runs hold now."""

    def __init__(self, kept: Mapping[str, Consumed] | None = None) -> None:
        self.kept: dict[str, Consumed] = dict(kept or {})
        self._now: dict[str, dict[str, int]] = {}

    def hold(self, queue: str, holding: Holding, sign: int = 1) -> None:
        """A run holds this from now on, or (-1) no more; nothing of the past is settled by it."""
        now = self._now.setdefault(queue, {})
        for name, amount in holding.amounts.items():
            now[name] = now.get(name, 0) + sign * amount
            if not now[name]:
                del now[name]
        if not now:
            del self._now[queue]

    def settle(self, queue: str, at_ms: int, rules: PastUse | None) -> None:
        """Counts what was held until now as past."""
        if rules is not None:
            self.kept[queue] = Consumed(at_ms, self._at(queue, at_ms, rules))

    def change_rules(self, at_ms: int, before: PastUse | None, after: PastUse | None) -> None:
        """Other rules hold from now on: of before counts what counted then; without, nothing."""
        past = self.at(at_ms, before)
        names = dict.fromkeys((*past, *self._now)) if after is not None else {}
        self.kept = {queue: Consumed(at_ms, past.get(queue, {})) for queue in sorted(names)}

    def started(self, queue: str, holding: Holding, at_ms: int, rules: PastUse | None) -> None:
        """A run has begun: it counts for something at once, so that a burst can't slip through."""
        self.settle(queue, at_ms, rules)
        if rules is not None:
            amounts = dict(self.kept[queue].amounts)
            for name, more in penalty(holding.amounts, rules).items():
                amounts[name] = amounts.get(name, 0.0) + more
            self.kept[queue] = Consumed(at_ms, amounts)
        self.hold(queue, holding)

    def ended(self, queue: str, holding: Holding, at_ms: int, rules: PastUse | None) -> None:
        """A run is over."""
        self.settle(queue, at_ms, rules)
        self.hold(queue, holding, -1)

    def at(self, now_ms: int, rules: PastUse | None) -> dict[str, dict[str, float]]:
        """What each has used before, as it counts now."""
        if rules is None:
            return {}
        names = dict.fromkeys((*self.kept, *self._now))
        return {queue: self._at(queue, now_ms, rules) for queue in sorted(names)}

    def _at(self, queue: str, now_ms: int, rules: PastUse) -> dict[str, float]:
        kept = self.kept.get(queue)
        now = {name: float(one) for name, one in sorted(self._now.get(queue, {}).items())}
        if kept is None:
            return {} if rules.half_life_ms > 0 else now
        return sampled(kept.amounts, now, max(0, now_ms - kept.at_ms), rules)
