"""Asks whether pods may run on nodes of a flavor: taints, node selectors and affinity."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from stellwerk.core.model.placement import Toleration
from stellwerk.core.model.queueing import NodeTaint, PodSet, ResourceFlavor
from stellwerk.core.model.selectors import meets


def tolerates(taints: Iterable[NodeTaint], tolerations: Sequence[Toleration]) -> NodeTaint | None:
    """The first taint that keeps pods away, if any does; a mere preference never does."""
    for taint in taints:
        if taint.effect == "PreferNoSchedule":
            continue
        if not any(_covers(one, taint) for one in tolerations):
            return taint
    return None


def _covers(toleration: Toleration, taint: NodeTaint) -> bool:
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator == "Exists":
        return True
    return bool(toleration.key) and toleration.value == taint.value


def misses(pods: PodSet, flavor: ResourceFlavor, keys: Mapping[str, None]) -> str:
    """The label of a flavor that isn't as pods want it, or "".

    Only labels that flavors of the group define are looked at; others are for the nodes to decide.
    """
    for key, value in pods.node_selector.items():
        if key in keys and flavor.labels.get(key) != value:
            return key
    terms = [[one for one in term if one.key in keys] for term in pods.affinity]
    if not terms or not all(terms):
        # A term of which nothing is left would match every flavor.
        return ""
    if any(all(meets(flavor.labels, one) for one in term) for term in terms):
        return ""
    return terms[0][0].key
