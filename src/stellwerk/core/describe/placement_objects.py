"""Writes a placement as the object that reads back as the same placement."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from stellwerk.core.describe.fleet_amounts import write_moment
from stellwerk.core.describe.placement_extras import OWN_PRIORITIZERS, PREFIX
from stellwerk.core.describe.placements import API_VERSION, DISABLED
from stellwerk.core.describe.selectors import claims_object, selector_object, write_selector
from stellwerk.core.model.placement import (
    Placement,
    Predicate,
    Prioritizer,
    SpreadConstraint,
    Toleration,
)
from stellwerk.core.model.quantity import MIB, write_bytes, write_cpus
from stellwerk.core.model.resources import GpuRequest
from stellwerk.core.model.selectors import Requirement, Selector

Object = dict[str, Any]


def to_object(placement: Placement) -> Object:
    """The object, fit for YAML or JSON: only what differs from the defaults."""
    metadata: Object = {"name": placement.name, "namespace": placement.namespace}
    if placement.labels:
        metadata["labels"] = dict(placement.labels)
    annotations = dict(placement.annotations)
    if placement.external:
        annotations[DISABLED] = "true"
    annotations.update((PREFIX + name, value) for name, value in _extras(placement))
    if annotations:
        metadata["annotations"] = annotations
    spec = {key: value for key, value in _spec(placement) if value not in (None, [], {})}
    return {"apiVersion": API_VERSION, "kind": "Placement", "metadata": metadata, "spec": spec}


def _spec(placement: Placement) -> Iterator[tuple[str, Any]]:
    yield "clusterSets", list(placement.sets)
    yield "numberOfClusters", placement.count
    yield "predicates", [_predicate(each) for each in placement.predicates]
    yield "prioritizerPolicy", _policy(placement)
    yield "tolerations", [_toleration(each) for each in placement.tolerations]
    if placement.spread:
        constraints = [_constraint(each) for each in placement.spread]
        yield "spreadPolicy", {"spreadConstraints": constraints}
    strategy = _strategy(placement)
    if strategy:
        yield "decisionStrategy", {"groupStrategy": strategy}


def _predicate(predicate: Predicate) -> Object:
    chosen = _chosen(predicate.labels, predicate.claims)
    if predicate.cel:
        chosen["celSelector"] = {"celExpressions": list(predicate.cel)}
    return {"requiredClusterSelector": chosen}


def _chosen(labels: Selector, claims: tuple[Requirement, ...]) -> Object:
    found: Object = {}
    if labels != Selector():
        found["labelSelector"] = selector_object(labels)
    if claims:
        found["claimSelector"] = claims_object(claims)
    return found


def _policy(placement: Placement) -> Object:
    policy: Object = {}
    if placement.mode != "Additive":
        policy["mode"] = placement.mode
    written = [_configuration(each) for each in placement.prioritizers if _in_spec(placement, each)]
    if written:
        policy["configurations"] = written
    return policy


def _in_spec(placement: Placement, prioritizer: Prioritizer) -> bool:
    own = not prioritizer.resource and prioritizer.name in OWN_PRIORITIZERS
    return placement.compat == "ocm" or not own


def _configuration(prioritizer: Prioritizer) -> Object:
    coordinate: Object = {"type": "BuiltIn", "builtIn": prioritizer.name}
    if prioritizer.resource:
        add_on = {"resourceName": prioritizer.resource, "scoreName": prioritizer.name}
        coordinate = {"type": "AddOn", "addOn": add_on}
    return {"scoreCoordinate": coordinate, "weight": prioritizer.weight}


def _toleration(toleration: Toleration) -> Object:
    given = {
        "key": toleration.key,
        "operator": toleration.operator,
        "value": toleration.value,
        "effect": toleration.effect,
    }
    found: Object = {key: value for key, value in given.items() if value}
    if toleration.seconds is not None:
        found["tolerationSeconds"] = toleration.seconds
    return found


def _constraint(constraint: SpreadConstraint) -> Object:
    return {
        "topologyKey": constraint.topology_key,
        "topologyKeyType": constraint.key_type,
        "maxSkew": constraint.max_skew,
        "whenUnsatisfiable": constraint.when_unsatisfiable,
    }


def _strategy(placement: Placement) -> Object:
    strategy: Object = {}
    size = placement.clusters_per_group
    if size != "100%":
        strategy["clustersPerDecisionGroup"] = int(size) if size.isdigit() else size
    if placement.groups:
        strategy["decisionGroups"] = [
            {
                "groupName": rule.name,
                "groupClusterSelector": _chosen(rule.labels, rule.claims),
            }
            for rule in placement.groups
        ]
    return strategy


def _extras(placement: Placement) -> Iterator[tuple[str, str]]:
    if placement.compat:
        yield "compat", placement.compat
    if placement.objective != "score":
        yield "objective", placement.objective
    if placement.usd_per_hour_of_waiting:
        yield "usd-per-hour-of-waiting", _number(placement.usd_per_hour_of_waiting)
    if placement.standby:
        yield "standby", str(placement.standby)
    if placement.move_gain != 10:
        yield "move-gain", str(placement.move_gain)
    yield from _limits(placement)
    yield from _demand(placement)
    if placement.num_nodes != 1:
        yield "nodes", str(placement.num_nodes)
    if placement.data:
        yield "data", ",".join(placement.data)
    own = [each for each in placement.prioritizers if not _in_spec(placement, each)]
    if own:
        yield "prioritize", ",".join(f"{each.name}={each.weight}" for each in own)


def _limits(placement: Placement) -> Iterator[tuple[str, str]]:
    limits = placement.limits
    if limits.claims:
        yield "require", write_selector(limits.claims)
    if limits.usd_max:
        yield "max-usd", _number(limits.usd_max)
    if limits.usd_per_hour_max:
        yield "max-usd-per-hour", _number(limits.usd_per_hour_max)
    if limits.finish_by_ms:
        yield "finish-by", write_moment(limits.finish_by_ms)
    if limits.latency_ms:
        yield "max-latency", f"{_number(limits.latency_ms)}ms"
    if limits.client_regions:
        yield "clients", ",".join(limits.client_regions)


def _demand(placement: Placement) -> Iterator[tuple[str, str]]:
    demand = placement.demand
    if demand is None:
        return
    yield "cpus", write_cpus(demand.cpus_milli)
    if demand.memory_bytes:
        yield "memory", write_bytes(demand.memory_bytes)
    if demand.disk_bytes:
        yield "disk", write_bytes(demand.disk_bytes)
    if demand.gpu is not None:
        yield "gpus", _gpus(demand.gpu)
        if demand.gpu.share_bytes:
            yield "gpu-memory", write_bytes(demand.gpu.share_bytes)


def _gpus(gpu: GpuRequest) -> str:
    count = str(gpu.count) if gpu.fraction_milli >= 1000 else _number(gpu.fraction_milli / 1000)
    least = gpu.memory_min_bytes or gpu.memory_exact_bytes
    parts = [gpu.kind or gpu.vendor] if gpu.kind or gpu.vendor else []
    if least:
        parts.append(f"{_card(least)}{'+' if gpu.memory_min_bytes else ''}")
    return ":".join([*parts, count])


def _card(size: int) -> str:
    return f"{size // MIB}MB" if size % (1024 * MIB) else f"{size // MIB // 1024}GB"


def _number(value: float) -> str:
    return str(int(value)) if value == int(value) else repr(value)
