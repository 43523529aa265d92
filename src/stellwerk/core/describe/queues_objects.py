"""Decides what Kueue's objects say: flavors, cluster queues, cohorts, local queues, priorities.

They are read as an API server gives them, v1beta2 and v1beta1. A spec, which people write, is read
strictly; metadata and status only as far as queueing needs them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from stellwerk.core.describe.fields import (
    Found,
    Reader,
    filled_text,
    integer,
    list_of,
    map_of,
    one_of,
    plain,
    read_map,
    text,
)
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.queues_fields import most, quantity, taint, toleration, weight
from stellwerk.core.describe.selectors import selector, texts
from stellwerk.core.model.admission import AdmissionCheck
from stellwerk.core.model.budgets import Budget
from stellwerk.core.model.quantity import BadQuantity, parse_duration
from stellwerk.core.model.queueing import (
    CheckRule,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    Fungibility,
    LocalQueue,
    Preemption,
    PriorityClass,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Topology,
)

MOST_GROUPS, MOST_FLAVORS, MOST_RESOURCES, MOST_LEVELS, MOST_LABELS = 16, 64, 64, 16, 8
STOPS = ("None", "Hold", "HoldAndDrain")
_OLD_SEARCH = {"Borrow": "MayStopSearch", "Preempt": "MayStopSearch"}


def flavor(report: Report, name: str, spec: Found) -> ResourceFlavor | None:
    """ResourceFlavor."""
    topology, labels = spec.get("topologyName", ""), spec.get("nodeLabels", {})
    if len(labels) > MOST_LABELS:
        message = f"`spec.nodeLabels` has {len(labels)} entries; {MOST_LABELS} may be"
        report.problem("queue/too-many", spec.place("nodeLabels"), "spec.nodeLabels", message)
    if topology and not labels:
        message = "a flavor with a topology needs a label that its nodes have"
        remedy = "add `nodeLabels`"
        report.problem(
            "spec/missing", spec.place("topologyName"), "spec.nodeLabels", message, remedy
        )
    return ResourceFlavor(
        name,
        labels,
        tuple(spec.get("nodeTaints", ())),
        tuple(spec.get("tolerations", ())),
        topology,
    )


FLAVOR: dict[str, Reader] = {
    "nodeLabels": texts,
    "nodeTaints": most(MOST_LABELS, taint),
    "tolerations": most(MOST_LABELS, toleration),
    "topologyName": filled_text,
}


def _resource(report: Report, node: Node, path: str) -> tuple[str, Quota] | None:
    fields = {
        "name": filled_text,
        "nominalQuota": quantity,
        "borrowingLimit": quantity,
        "lendingLimit": quantity,
    }
    found = read_map(report, node, path, fields, required=("name", "nominalQuota"))
    name, nominal, lending = (found.get(k) for k in ("name", "nominalQuota", "lendingLimit"))
    if name is None or nominal is None:
        return None
    if lending is not None and lending > nominal:
        message = f"`{path}.lendingLimit` is more than the nominal quota, which is all it has"
        report.problem("queue/limit", found.place("lendingLimit"), f"{path}.lendingLimit", message)
    return name, Quota(nominal, found.get("borrowingLimit"), lending)


class _Flavor(NamedTuple):
    """A flavor of a group, where its name stands, and whether all of its resources were read."""

    quotas: FlavorQuotas
    place: Node
    whole: bool


def _flavor_quotas(report: Report, node: Node, path: str) -> _Flavor | None:
    fields = {"name": filled_text, "resources": most(MOST_RESOURCES, _resource)}
    found = read_map(report, node, path, fields, required=("name", "resources"))
    if found.get("name") is None or found.get("resources") is None:
        return None
    quotas: dict[str, Quota] = {}
    for name, quota in found.get("resources"):
        if name in quotas:
            message = f"`{path}.resources` names `{name}` twice"
            report.problem("queue/twice", found.place("resources"), f"{path}.resources", message)
        quotas[name] = quota
    whole = len(found.get("resources")) == len(found.nodes["resources"].items)
    return _Flavor(FlavorQuotas(found.get("name"), quotas), found.place("name"), whole)


def _group(report: Report, node: Node, path: str) -> tuple[ResourceGroup, list[Node]] | None:
    fields = {
        "coveredResources": most(MOST_RESOURCES, filled_text),
        "flavors": most(MOST_FLAVORS, _flavor_quotas),
    }
    found = read_map(report, node, path, fields, required=("coveredResources", "flavors"))
    covered, flavors = found.get("coveredResources"), found.get("flavors")
    if not covered or not flavors:
        return None
    for index, (one, place, whole) in enumerate(flavors):
        if whole and list(one.quotas) != covered:
            where = f"{path}.flavors[{index}].resources"
            has, wants = ", ".join(one.quotas) or "nothing", ", ".join(covered)
            message = f"`{where}` has {has}; the group covers {wants}"
            remedy = "name exactly the covered resources, in the same order"
            report.problem("queue/resources", place, where, message, remedy)
    group = ResourceGroup(tuple(covered), tuple(one.quotas for one in flavors))
    return group, [one.place for one in flavors]


def groups(report: Report, node: Node, path: str) -> tuple[ResourceGroup, ...] | None:
    """`resourceGroups`: a resource and a flavor are in one group only."""
    read = most(MOST_GROUPS, _group)(report, node, path)
    resources: dict[str, int] = {}
    flavors: dict[str, int] = {}
    for index, (group, places) in enumerate(read or ()):
        for name in group.covered:
            first = resources.setdefault(name, index)
            if first != index:
                message = f"`{name}` is covered by `{path}[{first}]` and by `{path}[{index}]`"
                where = f"{path}[{index}].coveredResources"
                report.problem("queue/twice", node, where, message, "a resource is in one group")
        for at, (one, place) in enumerate(zip(group.flavors, places, strict=True)):
            first = flavors.setdefault(one.flavor, index * MOST_FLAVORS + at)
            if first != index * MOST_FLAVORS + at:
                where = f"{path}[{index}].flavors[{at}].name"
                before = f"{path}[{first // MOST_FLAVORS}].flavors[{first % MOST_FLAVORS}]"
                message = f"the flavor `{one.flavor}` is in `{before}` already"
                report.problem("queue/twice", place, where, message, "a flavor is in one group")
    return tuple(group for group, _ in read) if read is not None else None


def _fungibility(report: Report, node: Node, path: str) -> Fungibility:
    searches = ("MayStopSearch", "TryNextFlavor")
    fields = {
        "whenCanBorrow": one_of((*searches, "Borrow"), keep_case=True),
        "whenCanPreempt": one_of((*searches, "Preempt"), keep_case=True),
        "preference": one_of(
            ("BorrowingOverPreemption", "PreemptionOverBorrowing"), keep_case=True
        ),
    }
    found = read_map(report, node, path, fields)
    borrow = found.get("whenCanBorrow", "MayStopSearch")
    preempt = found.get("whenCanPreempt", "TryNextFlavor")
    preference = found.get("preference", "")
    if preference and not borrow == preempt == "TryNextFlavor":
        message = f"`{path}.preference` counts only if both searches go on"
        remedy = "write `TryNextFlavor` for `whenCanBorrow` and `whenCanPreempt`, or remove it"
        where = f"{path}.preference"
        report.problem("queue/preference", found.place("preference"), where, message, remedy)
    old = _OLD_SEARCH
    return Fungibility(old.get(borrow, borrow), old.get(preempt, preempt), preference)


def _borrow(report: Report, node: Node, path: str) -> tuple[str, int | None]:
    fields = {
        "policy": one_of(("Never", "LowerPriority"), keep_case=True),
        "maxPriorityThreshold": integer(),
    }
    found = read_map(report, node, path, fields)
    return found.get("policy", "Never"), found.get("maxPriorityThreshold")


def _preemption(report: Report, node: Node, path: str) -> Preemption:
    fields = {
        "reclaimWithinCohort": one_of(("Never", "LowerPriority", "Any"), keep_case=True),
        "withinClusterQueue": one_of(
            ("Never", "LowerPriority", "LowerOrNewerEqualPriority"), keep_case=True
        ),
        "borrowWithinCohort": _borrow,
    }
    found = read_map(report, node, path, fields)
    reclaim = found.get("reclaimWithinCohort", "Never")
    borrow, threshold = found.get("borrowWithinCohort", ("Never", None))
    if borrow != "Never" and reclaim == "Never":
        where = f"{path}.borrowWithinCohort"
        message = f"`{where}` needs `reclaimWithinCohort`, which is Never"
        remedy = "set `reclaimWithinCohort`, or remove `borrowWithinCohort`"
        report.problem(
            "queue/preemption", found.place("borrowWithinCohort"), where, message, remedy
        )
    return Preemption(found.get("withinClusterQueue", "Never"), reclaim, borrow, threshold)


def _check(report: Report, node: Node, path: str) -> CheckRule | None:
    fields = {"name": filled_text, "onFlavors": list_of(filled_text)}
    found = read_map(report, node, path, fields, required=("name",))
    return (
        CheckRule(found.get("name"), tuple(found.get("onFlavors", ()))) if "name" in found else None
    )


def _checks(report: Report, node: Node, path: str) -> list[CheckRule]:
    found = read_map(report, node, path, {"admissionChecks": list_of(_check)})
    return found.get("admissionChecks") or []


def _scope(report: Report, node: Node, path: str) -> bool:
    modes = ("UsageBasedAdmissionFairSharing", "NoAdmissionFairSharing")
    found = read_map(report, node, path, {"admissionMode": one_of(modes, keep_case=True)})
    return bool(found.get("admissionMode") == modes[0])


QUEUE: dict[str, Reader] = {
    "resourceGroups": groups,
    "cohortName": filled_text,
    "cohort": filled_text,
    "queueingStrategy": one_of(("BestEffortFIFO", "StrictFIFO"), keep_case=True),
    "namespaceSelector": selector,
    "flavorFungibility": _fungibility,
    "preemption": _preemption,
    "admissionChecks": list_of(filled_text),
    "admissionChecksStrategy": _checks,
    "stopPolicy": one_of(STOPS, keep_case=True),
    "fairSharing": weight,
    "admissionScope": _scope,
    "concurrentAdmissionPolicy": plain,
}


def cluster_queue(
    report: Report, name: str, spec: Found, budgets: tuple[Budget, ...] = ()
) -> ClusterQueue:
    """ClusterQueue; budgets are of its annotations."""
    cohort = spec.get("cohortName") or spec.get("cohort") or ""
    found = spec.get("resourceGroups", ())
    _limits_need_parent(report, spec, found, cohort, "cohort")
    checks = [CheckRule(check) for check in spec.get("admissionChecks", ())]
    return ClusterQueue(
        name=name,
        groups=found,
        cohort=cohort,
        strategy=spec.get("queueingStrategy", "BestEffortFIFO"),
        namespaces=spec.get("namespaceSelector"),
        fungibility=spec.get("flavorFungibility", Fungibility()),
        preemption=spec.get("preemption", Preemption()),
        weight=spec.get("fairSharing", 1.0),
        usage_based=spec.get("admissionScope", False),
        checks=(*checks, *spec.get("admissionChecksStrategy", ())),
        stop=spec.get("stopPolicy", "None"),
        budgets=budgets,
    )


def _limits_need_parent(
    report: Report, spec: Found, found: tuple[ResourceGroup, ...], parent: str, what: str
) -> None:
    if parent:
        return
    for index, group in enumerate(found):
        for at, one in enumerate(group.flavors):
            for resource, quota in one.quotas.items():
                limits = {"borrowingLimit": quota.borrowing, "lendingLimit": quota.lending}
                for limit, value in limits.items():
                    if value is not None:
                        where = f"spec.resourceGroups[{index}].flavors[{at}].resources.{limit}"
                        message = f"`{limit}` of {resource} in {one.flavor} needs a {what}"
                        remedy = f"name a {what}, or remove the limit"
                        place = spec.place("resourceGroups")
                        report.problem("queue/limit", place, where, message, remedy)


COHORT: dict[str, Reader] = {
    "parentName": filled_text,
    "parent": filled_text,
    "resourceGroups": groups,
    "fairSharing": weight,
}


def cohort(report: Report, name: str, spec: Found) -> Cohort:
    """Cohort."""
    parent = spec.get("parentName") or spec.get("parent") or ""
    found = spec.get("resourceGroups", ())
    _limits_need_parent(report, spec, found, parent, "parent")
    return Cohort(name, parent, found, spec.get("fairSharing", 1.0))


LOCAL_QUEUE: dict[str, Reader] = {
    "clusterQueue": filled_text,
    "stopPolicy": one_of(STOPS, keep_case=True),
    "fairSharing": weight,
}


def local_queue(
    report: Report, namespace: str, name: str, spec: Found, status: Node | None
) -> LocalQueue | None:
    """LocalQueue, with what it used before if its status tells."""
    if spec.get("clusterQueue") is None:
        return None
    consumed: dict[str, int] = {}
    at = status
    for key in ("fairSharing", "admissionFairSharingStatus", "consumedResources"):
        at = at.get(key) if at is not None else None
    if at is not None:
        consumed = map_of(quantity)(report, at, "status.fairSharing…consumedResources") or {}
    return LocalQueue(
        namespace,
        name,
        spec.get("clusterQueue"),
        spec.get("stopPolicy", "None"),
        spec.get("fairSharing", 1.0),
        consumed,
    )


def _level(report: Report, node: Node, path: str) -> str | None:
    found = read_map(report, node, path, {"nodeLabel": filled_text}, required=("nodeLabel",))
    level: str | None = found.get("nodeLabel")
    return level


TOPOLOGY: dict[str, Reader] = {"levels": most(MOST_LEVELS, _level)}


def topology(report: Report, name: str, spec: Found) -> Topology:
    """Topology: each level once, hosts only at the end."""
    levels = tuple(spec.get("levels", ()))
    place = spec.place("levels")
    if not levels:
        report.problem("spec/missing", place, "spec.levels", "a topology needs a level")
    for index, level in enumerate(levels):
        where = f"spec.levels[{index}]"
        if level in levels[:index]:
            report.problem("queue/twice", place, where, f"the level `{level}` is given twice")
        if level == "kubernetes.io/hostname" and index < len(levels) - 1:
            message = "`kubernetes.io/hostname` is the narrowest level there is"
            report.problem("queue/level", place, where, message, "put it at the end")
    return Topology(name, levels)


CHECK: dict[str, Reader] = {
    "controllerName": filled_text,
    "parameters": plain,
    "retryDelayMinutes": integer(0),
}
TIMEOUT = "stellwerk/timeout"


def admission_check(
    report: Report, node: Node, name: str, spec: Found, annotations: Mapping[str, str]
) -> AdmissionCheck | None:
    """AdmissionCheck; an annotation says for how long it may say nothing."""
    span = parse_duration(annotations.get(TIMEOUT, "0s"))
    if isinstance(span, BadQuantity):
        where = f"metadata.annotations[{TIMEOUT}]"
        report.problem("spec/value", node, where, span.message, span.help)
        return None
    controller = spec.get("controllerName")
    return None if controller is None else AdmissionCheck(name, controller, span)


def priority_class(report: Report, node: Node, name: str) -> PriorityClass | None:
    """WorkloadPriorityClass, or PriorityClass of Kubernetes: the value stands at the top."""
    fields = {"value": integer(-(2**31), 2**31 - 1), "description": text}
    skipped = {
        entry.key: plain for entry in node.entries if entry.key not in fields
    }  # what an object has beside: kind, metadata, globalDefault
    found = read_map(report, node, "", {**skipped, **fields}, required=("value",))
    value = found.get("value")
    return None if value is None else PriorityClass(name, value, found.get("description", ""))
