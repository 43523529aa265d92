"""A Placement: the standing policy that says which clusters work may go to, and which are better.

The words are those of Open Cluster Management (cluster.open-cluster-management.io/v1beta1). What
goes beyond them is written as annotations `stellwerk/…` of the same object.
"""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model.resources import Request
from stellwerk.core.model.selectors import Requirement, Selector
from stellwerk.core.model.wishes import Limits, Objective, Prioritizer, SpreadConstraint

__all__ = [
    "Compat",
    "Condition",
    "DecisionGroup",
    "GroupRule",
    "Limits",
    "Objective",
    "Placement",
    "Predicate",
    "Prioritizer",
    "SpreadConstraint",
    "Toleration",
]

Compat = Literal["", "ocm"]
"""``ocm``: exactly what the reference does, its traps included; "" is the better behaviour."""


class Predicate(Struct, frozen=True, omit_defaults=True):
    """A condition on a cluster: all of its parts must hold. Predicates of a placement are ORed."""

    labels: Selector = Selector()
    claims: tuple[Requirement, ...] = ()
    cel: tuple[str, ...] = ()


class Toleration(Struct, frozen=True, omit_defaults=True):
    """Lets work onto clusters with a taint; ``effect`` "" = any, ``seconds`` None = for ever."""

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    seconds: int | None = None


class GroupRule(Struct, frozen=True, omit_defaults=True):
    """Puts the chosen clusters that match into a decision group of that name."""

    name: str
    labels: Selector = Selector()
    claims: tuple[Requirement, ...] = ()


class Placement(Struct, frozen=True, omit_defaults=True):
    """A placement as it was written.

    ``count`` None = all. ``clusters_per_group`` is a number or a percentage (``2``, ``25%``).
    ``demand`` is what each chosen cluster must have free, for ``num_nodes`` nodes of it.
    ``standby`` clusters are chosen beyond ``count`` (n+1). ``move_gain`` is how much better another
    cluster must be before a chosen one is left: points for each point of weight, or percent of the
    estimate that is the objective.
    ``external`` = somebody else decides it (the reference's scheduling-disable annotation).
    """

    namespace: str
    name: str
    sets: tuple[str, ...] = ()
    predicates: tuple[Predicate, ...] = ()
    count: int | None = None
    mode: str = "Additive"
    prioritizers: tuple[Prioritizer, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    spread: tuple[SpreadConstraint, ...] = ()
    groups: tuple[GroupRule, ...] = ()
    clusters_per_group: str = "100%"
    compat: Compat = ""
    external: bool = False
    objective: Objective = "score"
    usd_per_hour_of_waiting: float = 0.0
    limits: Limits = Limits()
    demand: Request | None = None
    num_nodes: int = 1
    standby: int = 0
    move_gain: int = 10
    data: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class Condition(Struct, frozen=True, omit_defaults=True):
    """A condition in the words of the reference: type, status, reason, message."""

    type: str
    status: Literal["True", "False", "Unknown"]
    reason: str
    message: str = ""


class DecisionGroup(Struct, frozen=True, omit_defaults=True):
    """Chosen clusters that belong together, best first by default (by name under compat)."""

    index: int
    name: str
    clusters: tuple[str, ...]
    objects: tuple[str, ...] = ()
