"""Builds a fleet, decisions and a placement from a case of `ocm_placement.yaml`, by plain rules."""

from fractions import Fraction
from typing import Any

from stellwerk.core.model.cluster import Cluster, ScoreObject, Taint
from stellwerk.core.model.fleet import SET_LABEL, ClusterSet, Fleet, SetBinding
from stellwerk.core.model.placement import (
    GroupRule,
    Placement,
    Predicate,
    Prioritizer,
    SpreadConstraint,
    Toleration,
)
from stellwerk.core.model.placing import Existing
from stellwerk.core.model.selectors import Requirement, Selector
from stellwerk.core.place.expression_functions import quantity

Written = dict[str, Any]

CLUSTER_KEYS = {
    "name", "set", "labels", "claims", "taints", "allocatable", "capacity", "scores", "available",
    "deleting", "prefix", "count", "annotations", "version",
}  # fmt: skip


class Strange(Exception):
    """A key that nobody knows."""


def known(written: Written, keys: set[str], where: str) -> None:
    """Refuses what nobody knows."""
    stray = sorted(set(written) - keys)
    if stray:
        raise Strange(f"unknown keys in {where}: {', '.join(stray)}")


def fleet_of(case: Written, defaults: Written, now_ms: int) -> Fleet:
    """The clusters, sets and bindings."""
    written = list(case.get("clusters") or [])
    generated = case.get("generate") or []
    for many in generated if isinstance(generated, list) else [generated]:
        written += [
            {**many, "name": f"{many['prefix']}{number:03}"} for number in range(many["count"])
        ]
    clusters = tuple(cluster_of(one, now_ms) for one in written)
    sets = case.get("sets", defaults.get("sets")) or {}
    bindings = case.get("bindings", defaults.get("bindings")) or []
    return Fleet(
        clusters=clusters,
        sets=tuple(_set(name, one or {}) for name, one in sets.items()),
        bindings=tuple(SetBinding("team-a", name) for name in bindings),
    )


def cluster_of(written: Written, now_ms: int) -> Cluster:
    """One cluster."""
    known(written, CLUSTER_KEYS, f"cluster {written['name']}")
    labels = _texts(written.get("labels"))
    member_of = written.get("set", "s")
    if member_of is not None:
        labels[SET_LABEL] = member_of
    return Cluster(
        name=written["name"],
        driver="ocm",
        nodes=(),
        labels=labels,
        claims=_texts(written.get("claims")),
        taints=tuple(_taint(one, now_ms) for one in written.get("taints") or ()),
        capacity=_amounts(written.get("capacity")),
        allocatable=_amounts(written.get("allocatable")),
        scores={name: _score(one, now_ms) for name, one in (written.get("scores") or {}).items()},
        available=str(written.get("available", "")),  # type: ignore[arg-type]
        deleting=bool(written.get("deleting")),
        annotations=_texts(written.get("annotations")),
        kubernetes=str(written.get("version") or ""),
    )


def existing_of(case: Written) -> tuple[Existing, ...]:
    """The decisions that are stored."""
    return tuple(
        Existing(one["namespace"], one["placement"], tuple(one["clusters"]))
        for one in case.get("existing") or ()
    )


def placement_of(spec: Written) -> Placement:
    """The placement team-a/p, which does exactly what the reference does."""
    known(
        spec,
        {
            "clusterSets", "numberOfClusters", "predicates", "prioritizerPolicy", "tolerations",
            "spreadPolicy", "decisionStrategy",
        },
        "spec",
    )  # fmt: skip
    policy = spec.get("prioritizerPolicy") or {}
    known(policy, {"mode", "configurations"}, "prioritizerPolicy")
    strategy = (spec.get("decisionStrategy") or {}).get("groupStrategy") or {}
    known(strategy, {"clustersPerDecisionGroup", "decisionGroups"}, "groupStrategy")
    spread = (spec.get("spreadPolicy") or {}).get("spreadConstraints") or ()
    return Placement(
        namespace="team-a",
        name="p",
        sets=tuple(spec.get("clusterSets") or ()),
        predicates=tuple(_predicate(one) for one in spec.get("predicates") or ()),
        count=spec.get("numberOfClusters"),
        mode=policy.get("mode") or "Additive",
        prioritizers=tuple(_prioritizer(one) for one in policy.get("configurations") or ()),
        tolerations=tuple(_toleration(one) for one in spec.get("tolerations") or ()),
        spread=tuple(
            SpreadConstraint(
                one["topologyKey"],
                one.get("topologyKeyType", "Label"),
                one.get("maxSkew", 1),
                one.get("whenUnsatisfiable", "ScheduleAnyway"),
            )
            for one in spread
        ),
        groups=tuple(_group(one) for one in strategy.get("decisionGroups") or ()),
        clusters_per_group=str(strategy.get("clustersPerDecisionGroup", "100%")),
        compat="ocm",
    )


def _set(name: str, written: Written) -> ClusterSet:
    known(written, {"selectorType", "labelSelector"}, f"set {name}")
    exclusive = written.get("selectorType", "ExclusiveClusterSetLabel") != "LabelSelector"
    selector = written.get("labelSelector")
    return ClusterSet(name, exclusive, None if selector is None else _selector(selector))


def _selector(written: Written | None) -> Selector:
    written = written or {}
    known(written, {"matchLabels", "matchExpressions"}, "labelSelector")
    return Selector(_texts(written.get("matchLabels")), _requirements(written))


def _requirements(written: Written | None) -> tuple[Requirement, ...]:
    return tuple(
        Requirement(one["key"], one["operator"], tuple(map(str, one.get("values") or ())))
        for one in (written or {}).get("matchExpressions") or ()
    )


def _predicate(written: Written) -> Predicate:
    known(written, {"requiredClusterSelector"}, "predicate")
    inner = written.get("requiredClusterSelector") or {}
    known(inner, {"labelSelector", "claimSelector", "celSelector"}, "requiredClusterSelector")
    return Predicate(
        _selector(inner.get("labelSelector")),
        _requirements(inner.get("claimSelector")),
        tuple((inner.get("celSelector") or {}).get("celExpressions") or ()),
    )


def _group(written: Written) -> GroupRule:
    known(written, {"groupName", "groupClusterSelector"}, "decisionGroup")
    inner = written.get("groupClusterSelector") or {}
    known(inner, {"labelSelector", "claimSelector"}, "groupClusterSelector")
    return GroupRule(
        written.get("groupName", ""),
        _selector(inner.get("labelSelector")),
        _requirements(inner.get("claimSelector")),
    )


def _prioritizer(written: Written) -> Prioritizer:
    known(written, {"scoreCoordinate", "weight"}, "configuration")
    where = written.get("scoreCoordinate") or {}
    weight = int(written.get("weight", 0))
    if where.get("type", "BuiltIn") == "BuiltIn":
        return Prioritizer(where.get("builtIn", ""), weight)
    add_on = where.get("addOn")
    if not add_on:
        return Prioritizer("AddOn", weight)
    return Prioritizer(add_on["scoreName"], weight, add_on["resourceName"])


def _toleration(written: Written) -> Toleration:
    known(written, {"key", "operator", "value", "effect", "tolerationSeconds"}, "toleration")
    return Toleration(
        key=written.get("key", ""),
        operator=written.get("operator", "Equal"),
        value=str(written.get("value", "")),
        effect=written.get("effect", ""),
        seconds=written.get("tolerationSeconds"),
    )


def _taint(written: Written, now_ms: int) -> Taint:
    known(written, {"key", "value", "effect", "age"}, "taint")
    added = now_ms - 1000 * written["age"] if "age" in written else 0
    return Taint(written["key"], written["effect"], str(written.get("value", "")), added)


def _score(written: Written, now_ms: int) -> ScoreObject:
    known(written, {"items", "expiresIn"}, "score")
    until = now_ms + 1000 * written["expiresIn"] if "expiresIn" in written else 0
    return ScoreObject(dict(written.get("items") or {}), valid_until_ms=until)


def _texts(written: Written | None) -> dict[str, str]:
    return {key: str(value) for key, value in (written or {}).items()}


def _amounts(written: Written | None) -> dict[str, int]:
    """Amounts in thousandths."""
    return {
        name: int(Fraction(quantity(str(value))["quantity"]) * 1000)
        for name, value in (written or {}).items()
    }
