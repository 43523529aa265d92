"""Decides by seed what goes wrong between a driver and its place, and when machines die.

Each answer depends on the seed and on what is asked, never on how often something else was asked:
a run that fails under a seed fails in the same way when the rest of the simulation is changed.
"""

import hashlib
from typing import Literal

from msgspec import Struct

OrderFate = Literal["arrives", "is lost", "arrives late", "loses its answer", "vanishes"]
"""``vanishes``: the answer says that it arrived, but nothing of it stayed (the machine lost it)."""


class Outage(Struct, frozen=True):
    """The place can't be reached in this interval; what runs there goes on."""

    from_ms: int
    to_ms: int


class Reboot(Struct, frozen=True):
    """A node dies with all that runs on it, and is back later with another boot id."""

    node: str
    at_ms: int
    back_ms: int


class Rates(Struct, frozen=True):
    """How many of a thousand reports or orders meet a fate."""

    report_lost: int = 0
    report_late: int = 0
    report_doubled: int = 0
    order_lost: int = 0
    order_late: int = 0
    answer_lost: int = 0
    start_vanishes: int = 0


class Faults(Struct, frozen=True):
    """What goes wrong. Times are from the start of the simulation, in its clock.

    ``late_ms`` bounds how late something may be; ``repair_ms`` bounds how long a loss stays
    unnoticed: after that a new inventory is sent, as a broken connection would bring one.
    """

    seed: int = 0
    rates: Rates = Rates()
    late_ms: int = 5_000
    repair_ms: int = 20_000
    outages: tuple[Outage, ...] = ()
    reboots: tuple[Reboot, ...] = ()

    def draw(self, below: int, *what: object) -> int:
        """Gives the number from 0 up to ``below`` that belongs to this question under this seed."""
        text = "\x1f".join(str(part) for part in (self.seed, *what))
        number = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
        return number % below

    def order_fate(self, verb: str, run: str, attempt: int) -> OrderFate:
        """What becomes of the ``attempt``-th time that this order is given."""
        number = self.draw(1000, "order", verb, run, attempt)
        rates = self.rates
        fates: tuple[tuple[int, OrderFate], ...] = (
            (rates.order_lost, "is lost"),
            (rates.order_late, "arrives late"),
            (rates.answer_lost, "loses its answer"),
            (rates.start_vanishes if verb == "start" else 0, "vanishes"),
        )
        for rate, fate in fates:
            if number < rate:
                return fate
            number -= rate
        return "arrives"

    def report_delays(self, serial: int, *, may_be_lost: bool) -> tuple[int, ...]:
        """After how long a report arrives: once, not at all, or twice."""
        rates = self.rates
        if may_be_lost and self.draw(1000, "lost", serial) < rates.report_lost:
            return ()
        first = 0
        if self.draw(1000, "late", serial) < rates.report_late:
            first = 1 + self.draw(self.late_ms, "how late", serial)
        if self.draw(1000, "doubled", serial) < rates.report_doubled:
            return (first, 1 + self.draw(self.late_ms, "doubled after", serial))
        return (first,)

    def order_delay(self, verb: str, run: str, attempt: int) -> int:
        """How late a late order is."""
        return 1 + self.draw(self.late_ms, "order delay", verb, run, attempt)


def faults_by_seed(seed: int, nodes: tuple[str, ...], start_ms: int, horizon_ms: int) -> Faults:
    """Makes a mix of everything out of a seed: some seeds are calm, some are awful."""
    blank = Faults(seed=seed)
    harshness = blank.draw(4, "harshness")

    def rate(name: str) -> int:
        return blank.draw(1 + 80 * harshness, "rate", name)

    def moment(name: str, number: int) -> int:
        return start_ms + blank.draw(max(1, horizon_ms), name, number)

    outages = []
    for number in range(blank.draw(1 + harshness, "outages")):
        begin = moment("outage", number)
        outages.append(Outage(begin, begin + 1 + blank.draw(60_000, "outage length", number)))
    reboots = []
    for number in range(blank.draw(1 + harshness, "reboots")):
        begin = moment("reboot", number)
        node = nodes[blank.draw(len(nodes), "reboot node", number)]
        back = begin + 1 + blank.draw(90_000, "reboot length", number)
        reboots.append(Reboot(node, begin, back))
    return Faults(
        seed=seed,
        rates=Rates(*(rate(name) for name in Rates.__struct_fields__)),
        outages=tuple(outages),
        reboots=tuple(reboots),
    )
