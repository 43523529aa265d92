"""What a run holds of quota, and what a waiting workload was promised: facts, and freed by facts.

Amounts are thousandths of a resource's own unit, as in `core.model.queueing`.
"""

from msgspec import Struct

from stellwerk.core.model.ids import RunId
from stellwerk.core.model.queueing import Pair
from stellwerk.core.model.resources import Allocation


class Holding(Struct, frozen=True, omit_defaults=True):
    """Quota of a ClusterQueue: by resource its flavor, and how much."""

    queue: str
    flavors: dict[str, str] = {}
    amounts: dict[str, int] = {}

    @property
    def usage(self) -> dict[Pair, int]:
        """How much by flavor and resource."""
        return {Pair(self.flavors[name], name): amount for name, amount in self.amounts.items()}


class Claim(Struct, frozen=True, omit_defaults=True):
    """The place and quota that a waiting workload gets when the runs of ``victims`` are over, and
    when those of ``checks`` agree.
    """

    allocation: Allocation
    holding: Holding
    victims: tuple[RunId, ...] = ()
    since_ms: int = 0
    checks: tuple[str, ...] = ()
