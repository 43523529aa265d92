"""Decides what objects of Open Cluster Management and Kubernetes say about a fleet.

They are accepted as they come from an API server: what a fleet doesn't need (uid, managedFields,
conditions of others) is passed over. A spec, which people write, is read strictly.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from stellwerk.core.describe.fields import (
    Reader,
    boolean,
    expected,
    filled_text,
    integer,
    list_of,
    map_of,
    one_of,
    plain,
    read_map,
    text,
)
from stellwerk.core.describe.fleet_amounts import moment, quantity
from stellwerk.core.describe.fleet_gather import (
    CLAIM,
    LEASE,
    OBJECT,
    PROFILE,
    PROPERTY,
    STATUS,
    Gathered,
    Part,
    place_of,
)
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.placements import object_name
from stellwerk.core.describe.selectors import labels as read_labels
from stellwerk.core.describe.selectors import selector, texts
from stellwerk.core.describe.tolerations import EFFECTS
from stellwerk.core.inventory.health import DEFAULT_LEASE_S
from stellwerk.core.inventory.health import LEASE as LEASE_FACT
from stellwerk.core.model.cluster import ScoreObject, Taint
from stellwerk.core.model.fleet import ClusterSet, SetBinding
from stellwerk.core.model.selectors import Selector

CLUSTER_NAME = "open-cluster-management.io/cluster-name"
LEASE_NAME = "managed-cluster-lease"
AVAILABLE = "ManagedClusterConditionAvailable"
HEALTHY = "ControlPlaneHealthy"
KUBERNETES_CLAIM = "kubeversion.open-cluster-management.io"
LOWEST, HIGHEST = -100, 100
"""The one problem with which a document still counts: it says what is used instead."""
_NO_SCORE = 1_000_000
"""A number beyond this was never meant as a score: a quantity of bytes, a time, a slip."""


class Meta(NamedTuple):
    """What `metadata` says of an object; `name` None = it has none."""

    name: str | None
    namespace: str
    labels: dict[str, str]
    annotations: dict[str, str]
    deleting: bool


def meta(report: Report, node: Node) -> Meta:
    """The metadata of an object, read as far as a fleet needs it."""
    metadata = node.get("metadata")
    name, namespace = object_name(report, node, metadata)
    found = {}
    for key, read in (("labels", read_labels), ("annotations", texts)):
        value = metadata.get(key) if metadata else None
        found[key] = read(report, value, f"metadata.{key}") or {} if value else {}
    deleting = metadata is not None and metadata.get("deletionTimestamp") is not None
    return Meta(name, namespace, found["labels"], found["annotations"], deleting)


def _spec(report: Report, node: Node, fields: dict[str, Reader]) -> dict[str, Any]:
    spec = node.get("spec")
    return read_map(report, spec, "spec", fields).values if spec is not None else {}


def managed_cluster(gathered: Gathered, report: Report, node: Node) -> None:
    """ManagedCluster: labels and taints are an administrator's word, its status the engine's."""
    about = meta(report, node)
    if about.name is None or not gathered.first("ManagedCluster", about.name, node=node):
        return
    spec = _spec(report, node, _CLUSTER_SPEC)
    declared = gathered.draft(OBJECT, about.name)
    declared |= {
        "labels": about.labels,
        "annotations": about.annotations,
        "taints": tuple(spec.get("taints", ())),
        "deleting": about.deleting,
        "lease_s": spec.get("leaseDurationSeconds", DEFAULT_LEASE_S),
    }
    told = gathered.draft(STATUS, about.name)
    told |= {"driver": "ocm", "kind": "kubernetes"}
    status = node.get("status")
    if status is None:
        return
    found = read_map(report, status, "status", _CLUSTER_STATUS, unknown=_passed_over)
    version = found.get("version", {})
    told |= {
        "claims": _named(report, found.get("clusterClaims", []), "status.clusterClaims"),
        "capacity": found.get("capacity", {}),
        "allocatable": found.get("allocatable", {}),
        "kubernetes": version.get("kubernetes", ""),
    }
    _available(gathered, STATUS, about.name, found.get("conditions", ()), AVAILABLE)


def _available(
    gathered: Gathered, part: Part, cluster: str, conditions: object, wanted: str
) -> None:
    for condition in conditions if isinstance(conditions, list) else ():
        if condition.get("type") == wanted and condition.get("status"):
            gathered.draft(part, cluster)["available"] = condition["status"]
            since = condition.get("lastTransitionTime", 0)
            gathered.at(part, cluster, "available", part.kind, since)


def _named(report: Report, pairs: list[tuple[str, str, Node]], path: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for name, value, node in pairs:
        if found.setdefault(name, value) != value:
            message = f"`{path}` says `{name[:60]}` twice: {found[name][:60]!r} and {value[:60]!r}"
            report.problem("fleet/duplicate", node, path, message, "remove one of the two")
    return found


def managed_cluster_set(gathered: Gathered, report: Report, node: Node) -> None:
    """ManagedClusterSet: by the set label, or by a selector."""
    about = meta(report, node)
    spec = _spec(report, node, {"clusterSelector": _set_selector, "managedNamespaces": plain})
    if about.name is None or not gathered.first("ManagedClusterSet", about.name, node=node):
        return
    exclusive, chosen = spec.get("clusterSelector", (True, None))
    gathered.sets[about.name] = ClusterSet(about.name, exclusive, chosen)


def _set_selector(report: Report, node: Node, path: str) -> tuple[bool, Selector | None] | None:
    types = ("ExclusiveClusterSetLabel", "LabelSelector", "LegacyClusterSetLabel")
    fields = {"selectorType": one_of(types, keep_case=True), "labelSelector": selector}
    found = read_map(report, node, path, fields)
    exclusive = found.get("selectorType", types[0]) != "LabelSelector"
    chosen = found.get("labelSelector")
    if exclusive and chosen not in (None, Selector()):
        message = f"`{path}.labelSelector` has no effect without `selectorType: LabelSelector`"
        report.problem("spec/value", found.place("labelSelector"), path, message)
        return None
    return exclusive, None if exclusive else chosen


def set_binding(gathered: Gathered, report: Report, node: Node) -> None:
    """ManagedClusterSetBinding: lets a namespace choose from a set; named like it."""
    about = meta(report, node)
    spec = _spec(report, node, {"clusterSet": filled_text})
    name = spec.get("clusterSet", about.name)
    if about.name is None:
        return
    if name != about.name:
        message = f"the binding `{about.name}` is of the set `{name}`; it must have its name"
        report.problem("spec/name", node.get("metadata"), "metadata.name", message)
        return
    binding = SetBinding(about.namespace or "default", about.name)
    if gathered.first("ManagedClusterSetBinding", *_key(binding), node=node):
        gathered.bindings[binding] = place_of(node)


def _key(binding: SetBinding) -> tuple[str, str]:
    return binding.namespace, binding.set


def cluster_claim(gathered: Gathered, report: Report, node: Node) -> None:
    """ClusterClaim: one claim, of the cluster that the namespace or a label names."""
    _claim(gathered, report, node, CLAIM)


def cluster_property(gathered: Gathered, report: Report, node: Node) -> None:
    """ClusterProperty: as a ClusterClaim, and believed before one."""
    _claim(gathered, report, node, PROPERTY)


def _claim(gathered: Gathered, report: Report, node: Node, part: Part) -> None:
    about = meta(report, node)
    spec = _spec(report, node, {"value": filled_text})
    cluster = about.namespace or about.labels.get(CLUSTER_NAME, "")
    value = spec.get("value")
    if about.name is None:
        return
    if not cluster:
        message = f"nothing says which cluster the {part.kind} `{about.name}` is of"
        remedy = f"add `metadata.namespace: CLUSTER`, or the label `{CLUSTER_NAME}: CLUSTER`"
        report.problem("fleet/whose", node.get("metadata"), "metadata", message, remedy)
    elif value is None:
        given = node.get("spec")
        if given is None or given.get("value") is None:
            message = f"the {part.kind} `{about.name}` has no `spec.value`"
            report.problem("spec/missing", node, "spec.value", message)
    elif gathered.first(part.kind, cluster, about.name, node=node):
        gathered.claim(part, cluster, about.name, str(value))


def cluster_profile(gathered: Gathered, report: Report, node: Node) -> None:
    """ClusterProfile (multicluster.x-k8s.io): properties are claims, with a time of their own."""
    about = meta(report, node)
    if about.name is None or not gathered.first("ClusterProfile", about.name, node=node):
        return
    spec = _spec(report, node, {"displayName": text, "clusterManager": plain})
    manager = spec.get("clusterManager")
    draft = gathered.draft(PROFILE, about.name)
    draft |= {"kind": "kubernetes", "labels": about.labels}
    if isinstance(manager, dict) and isinstance(manager.get("name"), str):
        draft["owner"] = manager["name"]
    status = node.get("status")
    if status is None:
        return
    found = read_map(report, status, "status", _PROFILE_STATUS, unknown=_passed_over)
    pairs = found.get("properties", [])
    named = [(name, value, place) for name, value, place, _ in pairs]
    draft["claims"] = _named(report, named, "status.properties")
    for name, _, _, at_ms in pairs:
        if at_ms:
            gathered.at(PROFILE, about.name, f"claims.{name}", PROFILE.kind, at_ms)
    kubernetes = found.get("version", {}).get("kubernetes", "")
    if kubernetes:
        draft["kubernetes"] = kubernetes
        draft["claims"].setdefault(KUBERNETES_CLAIM, kubernetes)
    _available(gathered, PROFILE, about.name, found.get("conditions", ()), HEALTHY)


def score_object(gathered: Gathered, report: Report, node: Node) -> None:
    """AddOnPlacementScore: its namespace is the cluster."""
    about = meta(report, node)
    if about.name is None:
        return
    if not about.namespace:
        message = f"nothing says which cluster the scores `{about.name}` are of"
        remedy = "add `metadata.namespace: CLUSTER`"
        report.problem("fleet/whose", node.get("metadata"), "metadata", message, remedy)
        return
    status = node.get("status")
    fields = {"scores": list_of(_score), "validUntil": moment}
    found = read_map(
        report, status or Node("map", node.line, node.column), "status", fields,
        unknown=_passed_over,
    )  # fmt: skip
    values: dict[str, int] = {}
    for name, value, place in found.get("scores", ()):
        if name in values:
            message = f"`status.scores` says `{name[:60]}` twice: {values[name]} and {value}"
            report.problem("fleet/duplicate", place, "status.scores", message, "remove one")
        values[name] = value
    if gathered.first("AddOnPlacementScore", about.namespace, about.name, node=node):
        scores = ScoreObject(values, found.get("validUntil", 0), source="AddOnPlacementScore")
        gathered.score(about.namespace, about.name, scores)


def _score(report: Report, node: Node, path: str) -> tuple[str, int, Node] | None:
    found = read_map(report, node, path, {"name": filled_text, "value": score}, required=("name",))
    name, value = found.get("name"), found.get("value", 0 if "value" not in found else None)
    return (name, value, node) if name is not None and value is not None else None


def score(report: Report, node: Node, path: str) -> int | None:
    """A whole number from -100 to 100; one that is a little beyond is cut, and that is told."""
    value = node.value
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or abs(value) > _NO_SCORE:
        message = f"`{path}`: {node.short()} is no score"
        remedy = f"a score is a whole number from {LOWEST} to {HIGHEST}"
        report.problem("fleet/score", node, path, message, remedy)
        return None
    cut = max(LOWEST, min(HIGHEST, value))
    if cut != value:
        message = f"`{path}`: the score {value} counts as {cut}"
        remedy = f"bring scores into the range {LOWEST} to {HIGHEST} where they are computed"
        report.notice("fleet/score-cut", node, path, message, remedy)
    return int(cut)


def lease(gathered: Gathered, report: Report, node: Node) -> None:
    """Lease: when a cluster was last heard of. Leases of others are passed over."""
    about = meta(report, node)
    if about.name is None:
        return
    cluster = about.namespace if about.name == LEASE_NAME else about.labels.get(CLUSTER_NAME, "")
    if not cluster:
        report.ignore(node, "metadata.name", f"the lease `{about.name}` is of no cluster")
        return
    spec = node.get("spec") or Node("map", node.line, node.column)
    fields: dict[str, Reader] = {"renewTime": moment, "leaseDurationSeconds": integer(1, 86_400)}
    found = read_map(report, spec, "spec", fields, unknown=_passed_over)
    if "renewTime" in found.values and gathered.first("Lease", cluster, about.name, node=node):
        gathered.draft(LEASE, cluster)
        gathered.at(LEASE, cluster, LEASE_FACT, LEASE.kind, found.get("renewTime"))


def taint(report: Report, node: Node, path: str) -> Taint | None:
    """`{key, value, effect, timeAdded}`, or as kubectl has it: `key=value:NoSelect`."""
    if node.text is not None:
        return _taint_text(report, node, path)
    fields = {
        "key": filled_text,
        "value": text,
        "effect": one_of(EFFECTS, keep_case=True),
        "timeAdded": moment,
    }
    found = read_map(report, node, path, fields, required=("key", "effect"))
    key, effect = found.get("key"), found.get("effect")
    if not key or not effect:
        return None
    return Taint(key, effect, found.get("value", ""), found.get("timeAdded", 0))


def _taint_text(report: Report, node: Node, path: str) -> Taint | None:
    pair, _, effect = str(node.value).rpartition(":")
    key, _, value = pair.partition("=")
    for known in EFFECTS:
        if effect == known and key:
            return Taint(key, known, value)  # type: ignore[arg-type]
    message = f"`{path}`: {node.short()} isn't a taint"
    remedy = f"write `key=value:NoSelect`; effects are {', '.join(EFFECTS)}"
    report.problem("spec/value", node, path, message, remedy)
    return None


def _pair(report: Report, node: Node, path: str) -> tuple[str, str, Node] | None:
    found = read_map(report, node, path, {"name": filled_text, "value": text}, unknown=_passed_over)
    name, value = found.get("name"), found.get("value")
    return (name, value, node) if name is not None and value is not None else None


def _property(report: Report, node: Node, path: str) -> tuple[str, str, Node, int] | None:
    fields = {"name": filled_text, "value": text, "lastObservedTime": moment}
    found = read_map(report, node, path, fields, unknown=_passed_over)
    name, value = found.get("name"), found.get("value")
    if name is None or value is None:
        return None
    return name, value, node, found.get("lastObservedTime", 0)


def _condition(report: Report, node: Node, path: str) -> dict[str, object]:
    statuses = one_of(("True", "False", "Unknown"), keep_case=True)
    fields = {"type": text, "status": statuses, "lastTransitionTime": moment}
    return read_map(report, node, path, fields, unknown=_passed_over).values


def _version(report: Report, node: Node, path: str) -> dict[str, object]:
    return read_map(report, node, path, {"kubernetes": text}, unknown=_passed_over).values


def _passed_over(key_node: Node, key: str, value: Node) -> None:
    """What an API server writes and a fleet doesn't need."""


def _accepts(report: Report, node: Node, path: str) -> bool | None:
    if node.kind != "scalar":
        expected(report, node, path, "`true` or `false`")
        return None
    return boolean(report, node, path)


_CLUSTER_SPEC: dict[str, Reader] = {
    "hubAcceptsClient": _accepts,
    "leaseDurationSeconds": integer(1, 86_400),
    "managedClusterClientConfigs": plain,
    "taints": list_of(taint),
}
_CLUSTER_STATUS: dict[str, Reader] = {
    "clusterClaims": list_of(_pair),
    "capacity": map_of(quantity),
    "allocatable": map_of(quantity),
    "conditions": list_of(_condition),
    "version": _version,
}
_PROFILE_STATUS: dict[str, Reader] = {
    "properties": list_of(_property),
    "conditions": list_of(_condition),
    "version": _version,
}
