"""Chooses clusters by plain loops over structs: what the columns must come to as well."""

from math import trunc

from stellwerk.core.model.cluster import Cluster, Taint
from stellwerk.core.model.fleet import SET_LABEL, Fleet
from stellwerk.core.model.placement import Placement, Prioritizer, Toleration
from stellwerk.core.model.placing import PlacingContext
from stellwerk.core.model.selectors import Requirement

Scores = dict[str, dict[str, int | None]]


def holds(values: dict[str, str], one: Requirement) -> bool:
    """Whether a condition holds."""
    if one.operator == "In":
        return values.get(one.key) in one.values
    if one.operator == "NotIn":
        return values.get(one.key) not in one.values
    return (one.key in values) == (one.operator == "Exists")


def members(fleet: Fleet, placement: Placement) -> list[Cluster]:
    """The clusters of the sets that are bound, in the order of names."""
    bound = [one.set for one in fleet.bindings if one.namespace == placement.namespace]
    names = [one for one in bound if not placement.sets or one in placement.sets]
    found = {}
    for one in fleet.sets:
        for cluster in fleet.clusters:
            if one.name in names and cluster.labels.get(SET_LABEL) == one.name:
                found[cluster.name] = cluster
    return [found[name] for name in sorted(found) if not found[name].deleting]


def admitted(cluster: Cluster, placement: Placement, held: bool, now_ms: int) -> bool:
    """Whether predicates and tolerations let a cluster through."""
    if placement.predicates and not any(
        all(cluster.labels.get(key) == value for key, value in rule.labels.equal.items())
        and all(holds(cluster.labels, one) for one in rule.labels.requirements)
        and all(holds(cluster.claims, one) for one in rule.claims)
        for rule in placement.predicates
    ):
        return False
    for taint in cluster.taints:
        if taint.effect == "PreferNoSelect" or (taint.effect == "NoSelectIfNew" and held):
            continue
        if not any(lets(one, taint, now_ms) for one in placement.tolerations):
            return False
    return True


def lets(one: Toleration, taint: Taint, now_ms: int) -> bool:
    """Whether a toleration lets a taint through now."""
    if one.effect not in {"", taint.effect} or one.key not in {"", taint.key}:
        return False
    if one.operator != "Exists" and one.value != taint.value:
        return False
    if one.seconds is None:
        return True
    return taint.added_ms > 0 and now_ms < taint.added_ms + 1000 * one.seconds


def scored(
    fleet: Fleet, placement: Placement, context: PlacingContext, passed: list[Cluster]
) -> Scores:
    """Each score of each cluster that passed; None = unknown."""
    better = placement.compat == ""
    scores: Scores = {}
    for one in _listed(placement):
        scores[one.title] = _score(one, placement, context, passed, better)
    if better:
        avoided: dict[str, int | None] = {
            cluster.name: -100
            if any(
                taint.effect == "PreferNoSelect"
                and not any(lets(one, taint, context.now_ms) for one in placement.tolerations)
                for taint in cluster.taints
            )
            else 0
            for cluster in passed
        }
        if any(avoided.values()):
            scores["PreferNoSelect"] = avoided
    return scores


def weights(placement: Placement) -> dict[str, int]:
    """The weight of each score."""
    found = {one.title: one.weight for one in _listed(placement)}
    heaviest = max([1, *(abs(weight) for weight in found.values())])
    return {**found, "PreferNoSelect": heaviest}


def totals(placement: Placement, scores: Scores, passed: list[Cluster]) -> dict[str, int]:
    """The weighted sums."""
    weight = weights(placement)
    return {
        one.name: sum(weight[title] * (values[one.name] or 0) for title, values in scores.items())
        for one in passed
    }


def choose_naively(
    fleet: Fleet, placement: Placement, context: PlacingContext
) -> tuple[list[str], dict[str, int]]:
    """The clusters, best first, for a placement without spread that has none yet; and totals."""
    held = [name for one in _own(placement, context) for name in one]
    passed = [
        one
        for one in members(fleet, placement)
        if admitted(one, placement, one.name in held, context.now_ms)
    ]
    scores = scored(fleet, placement, context, passed)
    total = totals(placement, scores, passed)
    unknown = {
        one.name: any(values[one.name] is None for values in scores.values()) for one in passed
    }
    order = sorted(total, key=lambda name: (unknown[name], -total[name], name))
    return order if placement.count is None else order[: placement.count], total


def _own(placement: Placement, context: PlacingContext) -> list[tuple[str, ...]]:
    return [
        one.clusters
        for one in context.existing
        if (one.namespace, one.placement) == (placement.namespace, placement.name)
    ]


def _listed(placement: Placement) -> list[Prioritizer]:
    first = [] if placement.mode == "Exact" else [Prioritizer("Balance"), Prioritizer("Steady")]
    last = {one.title: one for one in [*first, *placement.prioritizers]}
    return [one for one in last.values() if one.weight]


def _score(
    one: Prioritizer,
    placement: Placement,
    context: PlacingContext,
    passed: list[Cluster],
    better: bool,
) -> dict[str, int | None]:
    names = [cluster.name for cluster in passed]
    if one.resource:
        return {cluster.name: _add_on(one, cluster, context.now_ms, better) for cluster in passed}
    if one.name == "Steady":
        held = [name for clusters in _own(placement, context) for name in clusters]
        return {name: 100 if name in held else 0 for name in names}
    if one.name == "Balance":
        return _balance(placement, context, names)
    resource = "cpu" if one.name.endswith("CPU") else "memory"
    have = {
        cluster.name: cluster.allocatable[resource]
        for cluster in passed
        if resource in cluster.allocatable and (better or resource in cluster.capacity)
    }
    least, most = min(have.values(), default=0), max(have.values(), default=0)
    missing = None if better else 0
    return {
        name: missing
        if name not in have
        else 100
        if most == least
        else trunc(((have[name] - least) / (most - least) - 0.5) * 2.0 * 100.0)
        for name in names
    }


def _add_on(one: Prioritizer, cluster: Cluster, now_ms: int, better: bool) -> int | None:
    told = cluster.scores.get(one.resource)
    if told is None or one.name not in told.values:
        return None if better else 0
    if told.valid_until_ms and now_ms > told.valid_until_ms:
        return None if better else 0
    value = told.values[one.name]
    return max(-100, min(100, value)) if better else value


def _balance(
    placement: Placement, context: PlacingContext, names: list[str]
) -> dict[str, int | None]:
    counts: dict[str, int] = {}
    for one in context.existing:
        if (one.namespace, one.placement) != (placement.namespace, placement.name):
            for name in one.clusters:
                counts[name] = counts.get(name, 0) + 1
    most = max(counts.values(), default=0)
    return {
        name: 2 * trunc(100.0 * (0.5 - counts[name] / most)) if name in counts else 100
        for name in names
    }
