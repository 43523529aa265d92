"""The conditions of a placement, in the types, reasons and words of the reference."""

from msgspec import Struct

from stellwerk.core.model.placement import Condition, Placement
from stellwerk.core.model.placing import Status


class Counts(Struct, frozen=True):
    """How many bindings there are, which sets could be chosen from, and what came of it."""

    bindings: int
    sets: tuple[str, ...]
    candidates: int
    selected: int
    unscheduled: int


def conditions(placement: Placement, counts: Counts, status: Status) -> tuple[Condition, ...]:
    """Gives both conditions."""
    return (_satisfied(placement, counts), _misconfigured(status))


def _satisfied(placement: Placement, counts: Counts) -> Condition:
    def no(reason: str, message: str) -> Condition:
        return Condition("PlacementSatisfied", "False", reason, message)

    if not counts.bindings:
        message = "No valid ManagedClusterSetBindings found in placement namespace"
        return no("NoManagedClusterSetBindings", message)
    if not counts.sets:
        asked = ",".join(placement.sets)
        message = f"None of ManagedClusterSets [{asked}] is bound to placement namespace"
        return no("NoIntersection", message)
    if not counts.candidates:
        message = f"All ManagedClusterSets [{','.join(counts.sets)}] have no member ManagedCluster"
        return no("AllManagedClusterSetsEmpty", message)
    if not counts.selected:
        message = "No ManagedCluster matches any of the cluster predicate"
        return no("NoManagedClusterMatched", message)
    if counts.unscheduled:
        message = f"{counts.unscheduled} cluster decisions unscheduled"
        return no("NotAllDecisionsScheduled", message)
    message = "All cluster decisions scheduled"
    return Condition("PlacementSatisfied", "True", "AllDecisionsScheduled", message)


def _misconfigured(status: Status) -> Condition:
    if status.code == "Misconfigured":
        message = f"{status.plugin}:{status.message}"
        return Condition("PlacementMisconfigured", "True", "Misconfigured", message)
    message = "Placement configurations check pass"
    return Condition("PlacementMisconfigured", "False", "Succeedconfigured", message)
