"""What work may wish of a fleet, in a policy for all or in one task: limits, scores, spread."""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model.selectors import Requirement

Objective = Literal["score", "finish", "start", "cost", "weighted"]
"""``score`` ranks by the weighted prioritizers; the others by an estimate, lowest first."""


class Prioritizer(Struct, frozen=True, omit_defaults=True):
    """One score with its weight. ``resource`` names the score object; "" = a built-in one.

    `name` of a built-in: Balance, Steady, ResourceAllocatableCPU, ResourceAllocatableMemory, and
    beyond the reference Cost, Start, Transfer, Latency, Energy, Reliability, Fragmentation.
    """

    name: str
    weight: int = 1
    resource: str = ""

    @property
    def title(self) -> str:
        """The name that is shown: ``Balance``, ``AddOn/gpu/free``."""
        return f"AddOn/{self.resource}/{self.name}" if self.resource else self.name


class SpreadConstraint(Struct, frozen=True, omit_defaults=True):
    """Spreads over the domains that a label or claim makes: counts differ by at most the skew."""

    topology_key: str
    key_type: Literal["Label", "Claim"] = "Label"
    max_skew: int = 1
    when_unsatisfiable: Literal["DoNotSchedule", "ScheduleAnyway"] = "ScheduleAnyway"


class Limits(Struct, frozen=True, omit_defaults=True):
    """Hard limits beyond the reference; 0 or none = no limit.

    ``claims`` that must be there with one of the values (compliance, region). ``latency_ms`` holds
    for every region in ``client_regions``.
    """

    claims: tuple[Requirement, ...] = ()
    usd_max: float = 0.0
    usd_per_hour_max: float = 0.0
    finish_by_ms: int = 0
    latency_ms: float = 0.0
    client_regions: tuple[str, ...] = ()


class Wishes(Struct, frozen=True, omit_defaults=True):
    """What one task wishes of the fleet, beside its resources and its placement.

    ``clusters`` is over how many clusters a service is put; ``expected_runtime_ms`` is for a
    machine of speed 1; ``data`` are names, with revisions, of what it reads.
    """

    objective: Objective | Literal[""] = ""
    usd_per_hour_of_waiting: float = 0.0
    limits: Limits = Limits()
    data: tuple[str, ...] = ()
    prioritizers: tuple[Prioritizer, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    standby: int = 0
    clusters: int | None = None
    expected_runtime_ms: int | None = None
    prewarm: bool = False
