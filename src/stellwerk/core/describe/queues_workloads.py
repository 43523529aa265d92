"""Decides what Workload and Node objects say: pods with their requests, and what is held already.

A pod template holds hundreds of fields; those that queueing looks at are read, others are passed
over.
"""

from __future__ import annotations

from typing import Any

from stellwerk.core.describe.fields import (
    Found,
    Reader,
    boolean,
    filled_text,
    integer,
    list_of,
    map_of,
    one_of,
    plain,
    read_map,
    text,
)
from stellwerk.core.describe.fleet_amounts import moment
from stellwerk.core.describe.fleet_objects import Meta
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.queues_fields import most, quantity, taint, toleration
from stellwerk.core.describe.selectors import requirement, texts
from stellwerk.core.model.nearness import (
    GROUP_LABEL,
    SLICE_LEVEL_LABEL,
    SLICE_SIZE_LABEL,
    SPOT_LABELS,
    Spot,
    TopologyRequest,
)
from stellwerk.core.model.queueing import (
    PRIORITY_LABEL,
    QUEUE_LABEL,
    Admission,
    PodSet,
    PodSetAssignment,
    QueuedWorkload,
    TopologyNode,
)

MOST_POD_SETS = 18
GATED_BY = "kueue.x-k8s.io/admission-gated-by"
LOSES_ITS_PLACE = ("PodsReadyTimeout", "AdmissionCheck")
Amounts = dict[str, int]


def _loose(fields: dict[str, Reader]) -> Reader:
    """A map of which only some fields matter."""

    def read(report: Report, node: Node, path: str) -> Found:
        return read_map(report, node, path, fields, unknown=_passed_over)

    return read


def _passed_over(key_node: Node, key: str, value: Node) -> None:
    """What says nothing about queueing."""


_RESOURCES = _loose({"requests": map_of(quantity), "limits": map_of(quantity)})
_CONTAINER = _loose({"resources": _RESOURCES, "restartPolicy": text})
_TERM = _loose({"matchExpressions": list_of(requirement)})
_NODE_AFFINITY = _loose(
    {
        "requiredDuringSchedulingIgnoredDuringExecution": _loose(
            {"nodeSelectorTerms": list_of(_TERM)}
        )
    }
)
_POD = _loose(
    {
        "containers": list_of(_CONTAINER),
        "initContainers": list_of(_CONTAINER),
        "overhead": map_of(quantity),
        "nodeSelector": texts,
        "tolerations": list_of(toleration),
        "affinity": _loose({"nodeAffinity": _NODE_AFFINITY}),
    }
)
_TEMPLATE = _loose({"metadata": _loose({"annotations": texts}), "spec": _POD})


def _asked(found: Found) -> Amounts:
    resources = found.get("resources")
    if resources is None:
        return {}
    return {**(resources.get("limits") or {}), **(resources.get("requests") or {})}


def _plus(one: Amounts, other: Amounts) -> Amounts:
    return {name: one.get(name, 0) + other.get(name, 0) for name in {**one, **other}}


def pod_requests(pod: Found) -> Amounts:
    """What a pod takes: its containers together, or the greediest of those that run before."""
    total: Amounts = {}
    for one in pod.get("containers") or ():
        total = _plus(total, _asked(one))
    before: Amounts = {}
    beside: Amounts = {}
    for one in pod.get("initContainers") or ():
        if one.get("restartPolicy") == "Always":
            beside = _plus(beside, _asked(one))
            alone = beside
        else:
            alone = _plus(beside, _asked(one))
        before = {
            name: max(before.get(name, 0), alone.get(name, 0)) for name in {**before, **alone}
        }
    total = _plus(total, beside)
    total = {name: max(total.get(name, 0), before.get(name, 0)) for name in {**total, **before}}
    return _plus(total, pod.get("overhead") or {})


def _topology(report: Report, node: Node, path: str) -> TopologyRequest | None:
    fields: dict[str, Reader] = {
        "required": filled_text,
        "preferred": filled_text,
        "unconstrained": boolean,
        "podSetSliceRequiredTopology": filled_text,
        "podSetSliceSize": integer(1),
        "podSetGroupName": text,
    }
    found = read_map(report, node, path, fields, unknown=_passed_over)
    _no_group(report, node, path, found.get("podSetGroupName"))
    given = {name: found.get(name) for name in SPOT_LABELS}
    return _spot(report, node, path, given, found.get("podSetSliceRequiredTopology", ""),
                 found.get("podSetSliceSize", 1))  # fmt: skip


def _no_group(report: Report, node: Node, path: str, group: str | None) -> None:
    """Several pod sets that are packed as one; better refused than torn apart in silence."""
    if group:
        message = f"`{path}` is of the group `{group}`: sets of pods are placed one by one here"
        report.problem("queue/topology", node, path, message, "leave the group out")


def _spot(
    report: Report, node: Node, path: str, given: dict[Spot, Any], inner: str, size: int
) -> TopologyRequest | None:
    chosen = [name for name, value in given.items() if value and value != "false"]
    if len(chosen) > 1:
        message = f"`{path}` asks for {' and '.join(chosen)} at once"
        report.problem("queue/topology", node, path, message, "keep one of them")
    if not chosen:
        return TopologyRequest("unconstrained", "", inner, size) if inner else None
    spot = chosen[0]
    level = given[spot] if spot != "unconstrained" else ""
    return TopologyRequest(spot, level, inner, size)


def _by_annotations(
    report: Report, node: Node, path: str, template: Found
) -> TopologyRequest | None:
    metadata = template.get("metadata")
    annotations = (metadata.get("annotations") or {}) if metadata is not None else {}
    size = annotations.get(SLICE_SIZE_LABEL, "1")
    given = {name: annotations.get(key) for name, key in SPOT_LABELS.items()}
    inner = annotations.get(SLICE_LEVEL_LABEL, "")
    _no_group(report, node, path, annotations.get(GROUP_LABEL))
    return _spot(report, node, path, given, inner, int(size) if size.isdigit() and int(size) else 1)


def _pod_set(report: Report, node: Node, path: str) -> PodSet | None:
    fields: dict[str, Reader] = {
        "name": filled_text,
        "template": _TEMPLATE,
        "count": integer(0, 1_000_000),
        "minCount": integer(1, 1_000_000),
        "topologyRequest": _topology,
    }
    found = read_map(report, node, path, fields, required=("count", "template"))
    count, template, least = found.get("count"), found.get("template"), found.get("minCount")
    if count is None or template is None:
        return None
    if least is not None and least > count:
        where = f"{path}.minCount"
        message = f"`{where}` is {least}, more than the {count} pods of the set"
        report.problem("spec/value", found.place("minCount"), where, message)
    pod = template.get("spec") or Found(node)
    affinity = pod.get("affinity")
    for key in ("nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"):
        affinity = affinity.get(key) if affinity is not None else None
    terms = (affinity.get("nodeSelectorTerms") or []) if affinity is not None else []
    where = f"{path}.template.metadata.annotations"
    return PodSet(
        name=found.get("name", "main"),
        count=count,
        requests=pod_requests(pod),
        min_count=least,
        node_selector=pod.get("nodeSelector") or {},
        affinity=tuple(tuple(one.get("matchExpressions") or ()) for one in terms),
        tolerations=tuple(pod.get("tolerations") or ()),
        topology=found.get("topologyRequest") or _by_annotations(report, node, where, template),
    )


def _priority_ref(report: Report, node: Node, path: str) -> str | None:
    found = read_map(report, node, path, {"group": text, "kind": text, "name": filled_text})
    name: str | None = found.get("name")
    return name


SPEC: dict[str, Reader] = {
    "podSets": most(MOST_POD_SETS, _pod_set),
    "queueName": filled_text,
    "priority": integer(-(2**31), 2**31 - 1),
    "priorityClassRef": _priority_ref,
    "priorityClassName": text,
    "priorityClassSource": text,
    "active": boolean,
    "maximumExecutionTimeSeconds": integer(1),
    "preemptionGates": plain,
}
_CONDITION = _loose({"type": text, "status": text, "reason": text, "lastTransitionTime": moment})


def _domains(report: Report, node: Node, path: str) -> dict[str, int]:
    """Pods by domain, in the form of v1beta1 (domains) or of v1beta2 (slices)."""
    found: dict[str, int] = {}
    domain = _loose({"values": list_of(text), "count": integer(0)})
    part = _loose({"universal": text, "individual": _loose(
        {"prefix": text, "suffix": text, "roots": list_of(text)}
    )})  # fmt: skip
    counts = _loose({"universal": integer(0), "individual": list_of(integer(0))})
    slice_ = _loose(
        {"domainCount": integer(1), "valuesPerLevel": list_of(part), "podCounts": counts}
    )
    given = _loose({"domains": list_of(domain), "slices": list_of(slice_)})(report, node, path)
    for one in given.get("domains") or ():
        found[",".join(one.get("values") or ())] = one.get("count", 0)
    for one in given.get("slices") or ():
        sizes = one.get("podCounts")
        for index in range(one.get("domainCount", 0)):
            values = [_value(level, index) for level in one.get("valuesPerLevel") or ()]
            each = (sizes.get("individual") or []) if sizes is not None else []
            everywhere = sizes.get("universal", 0) if sizes is not None else 0
            found[",".join(values)] = each[index] if index < len(each) else everywhere
    return found


def _value(level: Found, index: int) -> str:
    individual = level.get("individual")
    if individual is None:
        return str(level.get("universal", ""))
    roots = individual.get("roots") or []
    root = roots[index] if index < len(roots) else ""
    return f"{individual.get('prefix', '')}{root}{individual.get('suffix', '')}"


_ASSIGNED = _loose(
    {
        "name": text,
        "flavors": texts,
        "count": integer(0),
        "topologyAssignment": _domains,
    }
)
_STATUS = _loose(
    {
        "admission": _loose({"clusterQueue": filled_text, "podSetAssignments": list_of(_ASSIGNED)}),
        "conditions": list_of(_CONDITION),
        "requeueState": _loose({"requeueAt": moment, "count": integer(0)}),
    }
)


def workload(
    report: Report, about: Meta, created_ms: int, uid: str, spec: Found, status: Node | None
) -> tuple[QueuedWorkload, str] | None:
    """A Workload and the name of its priority class; None if it has ended."""
    told = _STATUS(report, status, "status") if status is not None else None
    conditions = {
        one.get("type"): one for one in (told.get("conditions") or () if told else ())
    }  # the last one of a type counts
    pod_sets = tuple(spec.get("podSets") or ())
    if not pod_sets:
        report.problem("spec/missing", spec.place("podSets"), "spec.podSets", "it has no pod sets")
    if sum(one.min_count is not None for one in pod_sets) > 1:
        message = "more than one pod set has a `minCount`"
        report.problem("queue/partial", spec.place("podSets"), "spec.podSets", message)
    if _is_true(conditions.get("Finished")):
        return None
    evicted = conditions.get("Evicted")
    requeue = told.get("requeueState") if told else None
    queued_ms = 0
    if evicted is not None and evicted.get("reason") in LOSES_ITS_PLACE:
        queued_ms = evicted.get("lastTransitionTime", 0)
    name = about.name or ""
    found = QueuedWorkload(
        namespace=about.namespace or "default",
        name=name,
        pod_sets=pod_sets,
        local_queue=spec.get("queueName") or about.labels.get(QUEUE_LABEL, ""),
        priority=spec.get("priority", 0),
        created_ms=created_ms,
        queued_ms=queued_ms,
        uid=uid,
        active=spec.get("active", True),
        requeue_at_ms=requeue.get("requeueAt", 0) if requeue is not None else 0,
        requeues=requeue.get("count", 0) if requeue is not None else 0,
        evicted=_is_true(evicted),
        gated=GATED_BY in about.annotations,
        admission=_admission(told.get("admission") if told else None, conditions),
    )
    given = spec.get("priorityClassRef") or spec.get("priorityClassName")
    return found, given or about.labels.get(PRIORITY_LABEL, "")


def _is_true(condition: Found | None) -> bool:
    return condition is not None and condition.get("status") == "True"


def _admission(given: Found | None, conditions: dict[str, Found]) -> Admission | None:
    if given is None or given.get("clusterQueue") is None:
        return None
    reserved = conditions.get("QuotaReserved")
    return Admission(
        queue=given.get("clusterQueue"),
        pod_sets=tuple(
            PodSetAssignment(
                one.get("name", "main"),
                one.get("flavors") or {},
                one.get("count", 0),
                one.get("topologyAssignment") or {},
            )
            for one in given.get("podSetAssignments") or ()
        ),
        reserved_ms=reserved.get("lastTransitionTime", 0) if reserved is not None else 0,
        admitted="Admitted" not in conditions or _is_true(conditions["Admitted"]),
    )


_NODE = _loose({"taints": list_of(taint), "unschedulable": boolean})
_NODE_STATUS = _loose({"allocatable": map_of(quantity), "conditions": list_of(_CONDITION)})


def topology_node(
    report: Report, about: Meta, spec: Node | None, status: Node | None
) -> TopologyNode:
    """A Node of Kubernetes."""
    wanted = _NODE(report, spec, "spec") if spec is not None else None
    told = _NODE_STATUS(report, status, "status") if status is not None else None
    conditions = (told.get("conditions") or ()) if told is not None else ()
    ready = all(one.get("status") == "True" for one in conditions if one.get("type") == "Ready")
    name = about.name or ""
    return TopologyNode(
        name=name,
        labels={"kubernetes.io/hostname": name, **about.labels},
        allocatable=(told.get("allocatable") or {}) if told is not None else {},
        taints=tuple(wanted.get("taints") or ()) if wanted is not None else (),
        ready=ready and not (wanted is not None and wanted.get("unschedulable")),
    )


_PAST_USE = _loose(
    {
        "usageHalfLifeTime": plain,
        "usageSamplingInterval": plain,
        "resourceWeights": map_of(quantity),
    }
)
_FAIR = _loose(
    {
        "enable": boolean,
        "preemptionStrategies": list_of(
            one_of(("LessThanOrEqualToFinalShare", "LessThanInitialShare"), keep_case=True)
        ),
    }
)
_REQUEUING = _loose(
    {
        "timestamp": one_of(("Eviction", "Creation"), keep_case=True),
        "backoffBaseSeconds": integer(0, 10**9),
        "backoffMaxSeconds": integer(0, 10**9),
        "backoffLimitCount": integer(0, 10**9),
    }
)
_READY = dict.fromkeys(("timeout", "blockAdmission", "recoveryTimeout"), plain)
CONFIGURATION: dict[str, Reader] = {
    "fairSharing": _FAIR,
    "admissionFairSharing": _PAST_USE,
    "waitForPodsReady": _loose({**_READY, "requeuingStrategy": _REQUEUING}),
}


def configuration(report: Report, node: Node) -> Found:
    """The configuration of the queueing, as far as it changes decisions."""
    return read_map(report, node, "", CONFIGURATION, unknown=_passed_over)
