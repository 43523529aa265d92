"""Decides what a Placement (cluster.open-cluster-management.io/v1beta1) says.

The default refuses what the reference would accept and then trip over; a placement that asks for
`stellwerk/compat: ocm` gets it through, because the reference's answer to it is wanted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from stellwerk.core.describe.bounds import Bounds
from stellwerk.core.describe.fields import (
    Found,
    Reader,
    expected,
    filled_text,
    integer,
    list_of,
    one_of,
    plain,
    read_map,
    text,
)
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.placement_extras import (
    OWN_PRIORITIZERS,
    PREFIX,
    WEIGHT,
    read_extras,
)
from stellwerk.core.describe.plain import node_of
from stellwerk.core.describe.reader import read_documents
from stellwerk.core.describe.selectors import claim_selector, selector, texts
from stellwerk.core.describe.tolerations import loose_toleration, toleration
from stellwerk.core.model.errors import SpecError
from stellwerk.core.model.placement import (
    GroupRule,
    Placement,
    Predicate,
    Prioritizer,
    SpreadConstraint,
    Toleration,
)
from stellwerk.core.model.selectors import Selector

API_VERSION = "cluster.open-cluster-management.io/v1beta1"
DISABLED = "cluster.open-cluster-management.io/experimental-scheduling-disable"
DEFAULT_NAMESPACE = "default"
REFERENCE_PRIORITIZERS = (
    "Balance",
    "Steady",
    "ResourceAllocatableCPU",
    "ResourceAllocatableMemory",
)
MODES = ("Additive", "Exact")
SPEC_KEYS = (
    "clusterSets", "numberOfClusters", "predicates", "prioritizerPolicy", "tolerations",
    "spreadPolicy", "decisionStrategy",
)  # fmt: skip
_BOUNDS = Bounds(what="a file of placements", remedy="divide it into several")
_NAME = re.compile(r"[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?")
_UNUSED = {"sortBy": "ClusterName", "scoreRateLimit": "1m"}
"""What the API has, with what its server writes where nothing is said, and nobody goes by."""
_PER_GROUP = re.compile(r"[1-9][0-9]{0,8}|(?:100|[1-9][0-9]?)%")


def read_placements(text: str, *, file: str = "") -> tuple[Placement, ...]:
    """The placements of a file that holds nothing else. Raises SpecError with all problems."""
    report = Report(file)
    documents = [node for node in read_documents(text, report, _BOUNDS) if not node.is_null]
    found = [read_placement(report, node) for node in documents if _is_placement(report, node)]
    if not documents and not report.problems:
        report.problem("spec/empty", Node("scalar", 1, 1), "", "the file holds no placement")
    report.finish()
    return tuple(placement for placement in found if placement is not None)


def placement_of(given: Mapping[str, Any], *, stored: bool = True) -> Placement:
    """The placement that an object (JSON of an API) is. Raises SpecError with all problems.

    `stored` takes it as it lies in the store of an API server: a weight that isn't there is 0.
    """
    report = Report("")
    found = read_placement(report, node_of(dict(given)), stored=stored)
    report.finish()
    if found is None:
        raise SpecError.of("spec/value", "this isn't a Placement")
    return found


def read_placement(report: Report, node: Node, *, stored: bool = False) -> Placement | None:
    """One document; None where it has no name. What is wrong in it is in the report."""
    top = read_map(report, node, "", _TOP)
    metadata = top.nodes.get("metadata")
    name, namespace = object_name(report, node, metadata)
    annotations_node = metadata.get("annotations") if metadata else None
    where = "metadata.annotations"
    extras = read_extras(report, annotations_node, where)
    annotations = _foreign(report, annotations_node, where) if annotations_node else {}
    labels_node = metadata.get("labels") if metadata else None
    labels = texts(report, labels_node, "metadata.labels") or {} if labels_node else {}
    spec = _spec(report, top.nodes.get("spec"), extras.compat == "ocm", stored)
    if not name:
        return None
    own = () if extras.compat else tuple(each for each in spec.prioritizers if _is_own(each))
    return Placement(
        namespace=namespace or DEFAULT_NAMESPACE,
        name=name,
        sets=spec.sets,
        predicates=spec.predicates,
        count=spec.count,
        mode=spec.mode,
        prioritizers=(
            *(each for each in spec.prioritizers if each not in own),
            *own,
            *extras.prioritizers,
        ),
        tolerations=spec.tolerations,
        spread=spec.spread,
        groups=spec.groups,
        clusters_per_group=spec.per_group,
        compat=extras.compat,
        external=annotations.get(DISABLED) == "true",
        objective=extras.objective,
        usd_per_hour_of_waiting=extras.usd_per_hour_of_waiting,
        limits=extras.limits,
        demand=extras.demand,
        num_nodes=extras.num_nodes,
        standby=extras.standby,
        move_gain=extras.move_gain,
        data=extras.data,
        labels=labels,
        annotations={
            key: value
            for key, value in annotations.items()
            if not (key == DISABLED and value == "true")
        },
    )


def object_name(report: Report, node: Node, metadata: Node | None) -> tuple[str | None, str]:
    """The name and namespace of an object; None for a name that is missing or can't be one."""
    if metadata is None or metadata.get("name") is None:
        place, path = metadata or node, "metadata.name"
        report.problem("spec/missing", place, path, "the object has no `metadata.name`")
        return None, ""
    found: dict[str, str | None] = {}
    for what in ("name", "namespace"):
        each, path = metadata.get(what), f"metadata.{what}"
        value = filled_text(report, each, path) if each is not None else ""
        if each is not None and value is not None and not _NAME.fullmatch(value):
            message = f"{each.short()} can't be a {what}"
            remedy = "lower-case letters and digits, with `-` or `.` between them"
            report.problem("spec/name", each, path, message, remedy)
            value = None
        found[what] = value
    return found["name"], found["namespace"] or ""


def _is_placement(report: Report, node: Node) -> bool:
    for key, wanted in (("kind", "Placement"), ("apiVersion", API_VERSION)):
        given = node.get(key)
        if given is None or given.value != wanted:
            written = given.short() if given is not None else "missing"
            message = f"`{key}` is {written}, a placement has `{wanted}`"
            report.problem("spec/kind", given or node, key, message)
            return False
    return True


class _Spec:
    """The readable parts of a `spec`."""

    def __init__(self) -> None:
        self.sets: tuple[str, ...] = ()
        self.predicates: tuple[Predicate, ...] = ()
        self.count: int | None = None
        self.mode = "Additive"
        self.prioritizers: tuple[Prioritizer, ...] = ()
        self.tolerations: tuple[Toleration, ...] = ()
        self.spread: tuple[SpreadConstraint, ...] = ()
        self.groups: tuple[GroupRule, ...] = ()
        self.per_group = "100%"


def _spec(report: Report, node: Node | None, lenient: bool, stored: bool) -> _Spec:
    spec = _Spec()
    if node is None:
        return spec
    fields: dict[str, Reader] = {
        "clusterSets": list_of(filled_text),
        "numberOfClusters": integer(0, 2**31 - 1),
        "predicates": list_of(_predicate),
        "prioritizerPolicy": _policy(lenient, 0 if stored else 1),
        "tolerations": list_of(loose_toleration if lenient else toleration),
        "spreadPolicy": _spread,
        "decisionStrategy": _strategy(lenient),
        "sortBy": text,
        "scoreRateLimit": text,
    }
    found = read_map(report, node, "spec", fields)
    for name, default in _UNUSED.items():
        if found.get(name, default) != default:
            report.ignore(found.place(name), f"spec.{name}", f"`{name}` has no effect yet")
    spec.sets = tuple(dict.fromkeys(found.get("clusterSets", ())))
    spec.count = found.get("numberOfClusters")
    spec.predicates = tuple(found.get("predicates", ()))
    spec.mode, spec.prioritizers = found.get("prioritizerPolicy", ("Additive", ()))
    spec.tolerations = tuple(found.get("tolerations", ()))
    spec.spread = found.get("spreadPolicy", ())
    spec.per_group, spec.groups = found.get("decisionStrategy", ("100%", ()))
    return spec


def _predicate(report: Report, node: Node, path: str) -> Predicate:
    outer = read_map(report, node, path, {"requiredClusterSelector": _cluster_selector})
    found: Predicate = outer.get("requiredClusterSelector", Predicate())
    return found


def _cluster_selector(report: Report, node: Node, path: str) -> Predicate:
    fields = {
        "labelSelector": selector,
        "claimSelector": claim_selector,
        "celSelector": _cel_selector,
    }
    found = read_map(report, node, path, fields)
    return Predicate(
        found.get("labelSelector", Selector()),
        found.get("claimSelector", ()),
        found.get("celSelector", ()),
    )


def _cel_selector(report: Report, node: Node, path: str) -> tuple[str, ...]:
    found = read_map(report, node, path, {"celExpressions": list_of(filled_text)})
    return tuple(found.get("celExpressions", ()))


def _policy(lenient: bool, missing: int) -> Reader:
    """`missing` is the weight of a configuration that gives none."""

    def read(report: Report, node: Node, path: str) -> tuple[str, tuple[Prioritizer, ...]]:
        fields = {
            "mode": text if lenient else one_of(MODES, keep_case=True),
            "configurations": list_of(configuration),
        }
        found = read_map(report, node, path, fields)
        return found.get("mode") or "Additive", tuple(found.get("configurations", ()))

    def configuration(report: Report, node: Node, path: str) -> Prioritizer | None:
        fields = {"scoreCoordinate": coordinate, "weight": WEIGHT}
        found = read_map(report, node, path, fields, required=("scoreCoordinate",))
        score: Prioritizer | None = found.get("scoreCoordinate")
        weight = found.get("weight", missing)
        return score and Prioritizer(score.name, weight, score.resource)

    def coordinate(report: Report, node: Node, path: str) -> Prioritizer | None:
        known = (*REFERENCE_PRIORITIZERS, *OWN_PRIORITIZERS)
        fields = {
            "type": one_of(("BuiltIn", "AddOn"), keep_case=True),
            "builtIn": text if lenient else one_of(known, keep_case=True),
            "addOn": _add_on,
        }
        return _coordinate(report, read_map(report, node, path, fields), path)

    return read


def _coordinate(report: Report, found: Found, path: str) -> Prioritizer | None:
    kind = found.get("type") or ("AddOn" if "addOn" in found else "BuiltIn")
    part, other = ("addOn", "builtIn") if kind == "AddOn" else ("builtIn", "addOn")
    if part not in found:
        message = f"`{path}` of type `{kind}` needs `{part}`"
        report.problem("spec/missing", found.node, f"{path}.{part}", message)
        return None
    if other in found:
        message = f"`{path}` is of type `{kind}`: `{other}` has no effect"
        report.ignore(found.place(other), f"{path}.{other}", message)
    if kind == "BuiltIn":
        return Prioritizer(found.get("builtIn")) if found.get("builtIn") is not None else None
    score: Prioritizer | None = found.get("addOn")
    return score


def _add_on(report: Report, node: Node, path: str) -> Prioritizer | None:
    names = ("resourceName", "scoreName")
    found = read_map(report, node, path, dict.fromkeys(names, filled_text), required=names)
    resource, score = found.get("resourceName"), found.get("scoreName")
    return Prioritizer(score, resource=resource) if resource and score else None


def _spread(report: Report, node: Node, path: str) -> tuple[SpreadConstraint, ...]:
    found = read_map(report, node, path, {"spreadConstraints": list_of(_constraint)})
    return tuple(found.get("spreadConstraints", ()))


def _constraint(report: Report, node: Node, path: str) -> SpreadConstraint | None:
    fields = {
        "topologyKey": filled_text,
        "topologyKeyType": one_of(("Label", "Claim"), keep_case=True),
        "maxSkew": integer(1, 1_000_000),
        "whenUnsatisfiable": one_of(("DoNotSchedule", "ScheduleAnyway"), keep_case=True),
    }
    found = read_map(report, node, path, fields, required=("topologyKey",))
    key = found.get("topologyKey")
    return key and SpreadConstraint(
        key,
        found.get("topologyKeyType", "Label"),
        found.get("maxSkew", 1),
        found.get("whenUnsatisfiable", "ScheduleAnyway"),
    )


def _strategy(lenient: bool) -> Reader:
    def read(report: Report, node: Node, path: str) -> tuple[str, tuple[GroupRule, ...]]:
        found = read_map(report, node, path, {"groupStrategy": groups})
        strategy: tuple[str, tuple[GroupRule, ...]] = found.get("groupStrategy", ("100%", ()))
        return strategy

    def groups(report: Report, node: Node, path: str) -> tuple[str, tuple[GroupRule, ...]]:
        fields = {"clustersPerDecisionGroup": per_group, "decisionGroups": list_of(_group)}
        found = read_map(report, node, path, fields)
        rules = tuple(found.get("decisionGroups", ()))
        _same_names(report, found, rules)
        return found.get("clustersPerDecisionGroup", "100%"), rules

    def per_group(report: Report, node: Node, path: str) -> str | None:
        written = str(node.value).strip()
        if isinstance(node.value, bool) or not isinstance(node.value, str | int):
            expected(report, node, path, "a number or a percentage")
            return None
        if lenient or _PER_GROUP.fullmatch(written):
            return written
        message = f"`{path}` can't be {node.short()}"
        remedy = "write a number of clusters such as `2`, or a part of them such as `25%`"
        report.problem("spec/value", node, path, message, remedy)
        return None

    return read


def _same_names(report: Report, found: Found, rules: tuple[GroupRule, ...]) -> None:
    """Two rules of one name give groups that nobody can tell apart."""
    names: dict[str, int] = {}
    for rule in rules:
        names[rule.name] = names.get(rule.name, 0) + 1
    for name, count in names.items():
        if count > 1:
            message = f"{count} decision groups are called `{name[:60]}`"
            remedy = "give each a name of its own; each rule makes groups for itself"
            place = found.place("decisionGroups")
            report.notice("spec/duplicate", place, "decisionGroups", message, remedy)


def _group(report: Report, node: Node, path: str) -> GroupRule | None:
    fields = {"groupName": filled_text, "groupClusterSelector": _group_selector}
    found = read_map(report, node, path, fields, required=("groupName",))
    name = found.get("groupName")
    labels, claims = found.get("groupClusterSelector", (Selector(), ()))
    return GroupRule(name, labels, claims) if name else None


def _group_selector(report: Report, node: Node, path: str) -> tuple[Selector, Any]:
    hints = {"celSelector": "decision groups are chosen by labels and claims alone"}
    fields = {"labelSelector": selector, "claimSelector": claim_selector}
    found = read_map(report, node, path, fields, hints=hints)
    return found.get("labelSelector", Selector()), found.get("claimSelector", ())


def _foreign(report: Report, node: Node, path: str) -> dict[str, str]:
    """The annotations that aren't extras."""
    rest = Node("map", node.line, node.column)
    rest.entries = [entry for entry in node.entries if not entry.key.startswith(PREFIX)]
    return texts(report, node if node.kind != "map" else rest, path) or {}


def _is_own(prioritizer: Prioritizer) -> bool:
    return not prioritizer.resource and prioritizer.name in OWN_PRIORITIZERS


_TOP: dict[str, Reader] = dict.fromkeys(("apiVersion", "kind", "metadata", "spec", "status"), plain)
