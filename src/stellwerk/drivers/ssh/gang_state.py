"""What is known of a run over several hosts, and which hosts an order is for."""

from stellwerk.core.model.reports import RunSample
from stellwerk.drivers.agents.gang import Host, Part, is_begun
from stellwerk.drivers.base import StartOrder


class Gang:
    """What is known of one run: its parts by host, and what was ordered since this began."""

    def __init__(self, generation: int, hosts: tuple[Host, ...]) -> None:
        self.generation = generation
        self.hosts = hosts
        self.parts: dict[int, Part] = {}
        self.absent: set[int] = set()
        self.failures: list[int] = []
        self.samples: dict[int, RunSample] = {}
        self.wanted = False
        self.go_sent = False
        self.taken_back = False
        self.is_waited_for = False
        self.cuts: set[int] = set()
        self.under_way: set[tuple[str, ...]] = set()

    @property
    def may_be_taken_back(self) -> bool:
        """Whether it surely hasn't begun anywhere, nor will unless that is ordered here.

        Either nobody else could have ordered it, or the head's own record says so.
        """
        knows = self.wanted or 0 in self.parts
        return knows and not self.go_sent and not is_begun(self.parts) and not self.taken_back

    @property
    def is_settled(self) -> bool:
        """Whether it is known that it is wanted, or too late to ask."""
        over = any(part.end is not None for part in self.parts.values())
        return self.wanted or over or is_begun(self.parts)

    @property
    def is_over(self) -> bool:
        """Whether all parts have ended that there ever were."""
        ended = sum(part.end is not None for part in self.parts.values())
        return ended > 0 and ended + len(self.absent) == len(self.hosts)

    def live_on(self) -> list[str]:
        """Nodes where it may be going on."""
        parts = self.parts
        return [
            host.node
            for index, host in enumerate(self.hosts)
            if index not in parts or parts[index].end is None
        ]


def host_on(gang: Gang, node: str) -> int | None:
    """Which of a gang's hosts a node is, if any."""
    found = (index for index, host in enumerate(gang.hosts) if host.node == node)
    return next(found, None)


def hosts_of(order: StartOrder) -> tuple[Host, ...]:
    """The hosts of an order in the order of their first ranks."""
    ranks: dict[str, list[int]] = {}
    for rank in sorted(order.ranks, key=lambda one: one.rank):
        ranks.setdefault(rank.node, []).append(rank.rank)
    return tuple(Host(node, tuple(numbers)) for node, numbers in ranks.items())


def is_gang(order: StartOrder) -> bool:
    """Whether an order is for several hosts."""
    return len({rank.node for rank in order.ranks}) > 1
