"""Builds the objects of queueing from a case of `kueue_scheduling.yaml`, by plain rules."""

from typing import Any

from stellwerk.core.describe.fleet_amounts import parse_kubernetes
from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.placement import Toleration
from stellwerk.core.model.queueing import (
    Admission,
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    Fungibility,
    LocalQueue,
    NodeTaint,
    PastUse,
    PodSet,
    PodSetAssignment,
    Preemption,
    QueuedWorkload,
    QueueObjects,
    QueueSettings,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    Topology,
    TopologyNode,
)
from stellwerk.core.model.selectors import Requirement, Selector
from tests.conformance.ocm_objects import Strange, known
from tests.conformance.sky_resources import PROSE

Written = dict[str, Any]
NAMESPACE = "team"
NOW_MS = 1_800_000_000_000
FLAVOR = {"name", "labels", "taints", "tolerations", "topology", *PROSE}
COHORT = {"name", "parent", "groups", "weight", *PROSE}
QUEUE = {
    "name", "cohort", "strategy", "groups", "preemption", "fungibility", "weight", "usage_based",
    "stop", *PROSE,
}  # fmt: skip
LOCAL_QUEUE = {"name", "queue", "weight", "consumed", "stop", *PROSE}
WORKLOAD = {
    "name", "queue", "local_queue", "priority", "created", "pods", "min_pods", "request", "podsets",
    "node_selector", "affinity", "tolerations", "topology", *PROSE,
}  # fmt: skip
RUNNING = {
    "name", "queue", "local_queue", "priority", "created", "reserved", "pods", "use", "podsets",
    "domains", "topology", "evicted", "request", *PROSE,
}  # fmt: skip
POD_SET = {
    "name", "pods", "min_pods", "request", "node_selector", "affinity", "tolerations", "topology",
    "use", "domains", *PROSE,
}  # fmt: skip
OPTIONS = {"cycles", "fair_sharing", "strategies", "admission_fair_sharing", *PROSE}
PAST_USE = {"half_life_s", "sampling_s", "weights", "resource_weights", *PROSE}


def amount(written: object) -> int:
    """A quantity in thousandths."""
    found = parse_kubernetes(str(written))
    if not isinstance(found, int):
        raise Strange(found.message)
    return found


def amounts(written: Written | None) -> dict[str, int]:
    """Quantities by resource."""
    return {name: amount(value) for name, value in (written or {}).items()}


def quota(written: Any) -> Quota:
    """A number is nominal quota without limits."""
    if not isinstance(written, dict):
        return Quota(amount(written))
    known(written, {"nominal", "borrowing", "lending"}, "quota")
    limits = [written.get(name) for name in ("borrowing", "lending")]
    borrows, lends = (None if one is None else amount(one) for one in limits)
    return Quota(amount(written["nominal"]), borrows, lends)


def groups(written: list[list[Written]] | None) -> tuple[ResourceGroup, ...]:
    """Resource groups, each a list of flavors."""
    found = []
    for group in written or []:
        flavors = []
        for one in group:
            known(one, {"flavor", "quota"}, "flavor of a group")
            quotas = {name: quota(value) for name, value in one["quota"].items()}
            flavors.append(FlavorQuotas(one["flavor"], quotas))
        found.append(ResourceGroup(tuple(flavors[0].quotas), tuple(flavors)))
    return tuple(found)


def taint(written: str) -> NodeTaint:
    """`key=value:Effect`."""
    name, _, effect = written.rpartition(":")
    key, _, value = name.partition("=")
    return NodeTaint(key, effect, value)  # type: ignore[arg-type]  # from a checked case


def toleration(written: str) -> Toleration:
    """`key=value:Effect`, or `key:Effect` for any value."""
    name, _, effect = written.rpartition(":")
    key, has_value, value = name.partition("=")
    return Toleration(key, "Equal" if has_value else "Exists", value, effect)


def flavor(written: Written) -> ResourceFlavor:
    """A resource flavor."""
    known(written, FLAVOR, "flavor")
    return ResourceFlavor(
        name=written["name"],
        labels=written.get("labels") or {},
        taints=tuple(map(taint, written.get("taints") or ())),
        tolerations=tuple(map(toleration, written.get("tolerations") or ())),
        topology=written.get("topology", ""),
    )


def cohort(written: Written) -> Cohort:
    """A cohort with an object of its own."""
    known(written, COHORT, "cohort")
    return Cohort(
        written["name"],
        written.get("parent", ""),
        groups(written.get("groups")),
        float(written.get("weight", 1)),
    )


def queue(written: Written) -> ClusterQueue:
    """A cluster queue, open to every namespace."""
    known(written, QUEUE, "queue")
    preemption = written.get("preemption") or {}
    known(preemption, {"within", "reclaim", "borrow"}, "preemption")
    borrow = preemption.get("borrow") or {}
    borrow = {"policy": borrow} if isinstance(borrow, str) else borrow
    known(borrow, {"policy", "max_priority"}, "preemption.borrow")
    fungibility = written.get("fungibility") or {}
    known(fungibility, {"borrow", "preempt", "preference"}, "fungibility")
    return ClusterQueue(
        name=written["name"],
        groups=groups(written.get("groups")),
        cohort=written.get("cohort", ""),
        strategy=written.get("strategy", "BestEffortFIFO"),
        namespaces=Selector(),
        fungibility=Fungibility(**fungibility),
        preemption=Preemption(
            preemption.get("within", "Never"),
            preemption.get("reclaim", "Never"),
            borrow.get("policy", "Never"),
            borrow.get("max_priority"),
        ),
        weight=float(written.get("weight", 1)),
        usage_based=written.get("usage_based", False),
        stop=written.get("stop", "None"),
    )


def local_queue(written: Written) -> LocalQueue:
    """A local queue with what it used before."""
    known(written, LOCAL_QUEUE, "local queue")
    return LocalQueue(
        namespace=NAMESPACE,
        name=written["name"],
        queue=written["queue"],
        stop=written.get("stop", "None"),
        weight=float(written.get("weight", 1)),
        consumed=amounts(written.get("consumed")),
    )


def topology_request(written: Written | None) -> TopologyRequest | None:
    """`{required: rack}`, `{preferred: rack}`, `{unconstrained: true}`, perhaps with slices."""
    if not written:
        return None
    known(written, {"required", "preferred", "unconstrained", "slice", "slice_size"}, "topology")
    spot = next(name for name in ("required", "preferred", "unconstrained") if name in written)
    level = written[spot] if spot != "unconstrained" else ""
    return TopologyRequest(
        spot,
        level,
        written.get("slice", ""),
        written.get("slice_size", 1),
    )


def term(written: list[Written]) -> tuple[Requirement, ...]:
    """Conditions that hold together."""
    return tuple(
        Requirement(one["key"], one["operator"], tuple(one.get("values") or ())) for one in written
    )


def pod_set(written: Written) -> PodSet:
    """Equal pods."""
    return PodSet(
        name=written.get("name", "main"),
        count=written.get("pods", 1),
        requests=amounts(written.get("request")),
        min_count=written.get("min_pods"),
        node_selector=written.get("node_selector") or {},
        affinity=tuple(map(term, written.get("affinity") or ())),
        tolerations=tuple(map(toleration, written.get("tolerations") or ())),
        topology=topology_request(written.get("topology")),
    )


def at(written: Written, key: str, otherwise: int) -> int:
    """A moment, from seconds relative to now."""
    return NOW_MS + round(float(written.get(key, otherwise)) * 1000)


def pending(written: Written) -> QueuedWorkload:
    """A workload that waits."""
    known(written, WORKLOAD, "pending workload")
    for one in written.get("podsets") or ():
        known(one, POD_SET, "pod set")
    sets = written.get("podsets") or [{**written, "name": "main"}]
    return QueuedWorkload(
        namespace=NAMESPACE,
        name=written["name"],
        pod_sets=tuple(map(pod_set, sets)),
        local_queue=written.get("local_queue", ""),
        cluster_queue=written.get("queue", ""),
        priority=written.get("priority", 0),
        created_ms=at(written, "created", -60),
        uid=written["name"],
    )


def running(written: Written, queues: dict[str, str]) -> QueuedWorkload:
    """A workload that holds quota; `use` is the flavor and the amount per pod of each resource."""
    known(written, RUNNING, "running workload")
    sets, given = [], []
    for one in written.get("podsets") or [{**written, "name": "main"}]:
        use = one.get("use") or {}
        count = one.get("pods", 1)
        requests = {name: amount(value[1]) for name, value in use.items()}
        asked = topology_request(one.get("topology"))
        sets.append(PodSet(one.get("name", "main"), count, requests, topology=asked))
        flavors = {name: value[0] for name, value in use.items()}
        domains = one.get("domains") or {}
        given.append(PodSetAssignment(one.get("name", "main"), flavors, count, domains))
    name = written.get("queue") or queues[written["local_queue"]]
    return QueuedWorkload(
        namespace=NAMESPACE,
        name=written["name"],
        pod_sets=tuple(sets),
        local_queue=written.get("local_queue", ""),
        cluster_queue=name,
        priority=written.get("priority", 0),
        created_ms=at(written, "created", -3600),
        uid=written["name"],
        evicted=written.get("evicted", False),
        admission=Admission(name, tuple(given), at(written, "reserved", -3600)),
    )


def node(written: Written) -> TopologyNode:
    """A node: its labels, and what it has of each resource."""
    allocatable = {
        name: amount(value)
        for name, value in written.items()
        if name not in {"name", "labels", *PROSE}
    }
    return TopologyNode(written["name"], written.get("labels") or {}, allocatable)


def settings(options: Written) -> QueueSettings:
    """What holds for all queues."""
    known(options, OPTIONS, "options")
    past = options.get("admission_fair_sharing")
    known(past or {}, PAST_USE, "admission_fair_sharing")
    given: Written = {"fair_sharing": bool(options.get("fair_sharing"))}
    if options.get("strategies"):
        given["strategies"] = tuple(options["strategies"])
    if past is not None:
        given["past_use"] = PastUse(
            round(past["half_life_s"] * 1000),
            round(past.get("sampling_s", 300) * 1000),
            past.get("weights") or past.get("resource_weights") or {},
        )
    return QueueSettings(**given)


def objects_of(case: Written) -> QueueObjects:
    """The world of a case."""
    topologies = []
    for one in case.get("topologies") or ():
        known(one, {"name", "levels", *PROSE}, "topology")
        topologies.append(Topology(one["name"], tuple(one["levels"])))
    return QueueObjects(
        flavors=tuple(map(flavor, case.get("flavors") or ())),
        queues=tuple(map(queue, case.get("queues") or ())),
        cohorts=tuple(map(cohort, case.get("cohorts") or ())),
        local_queues=tuple(map(local_queue, case.get("local_queues") or ())),
        topologies=tuple(topologies),
        nodes=tuple(map(node, case.get("nodes") or ())),
        settings=settings(case.get("options") or {}),
    )
