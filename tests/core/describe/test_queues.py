"""Kueue's objects: read as they are written, and every slip told with its place and a remedy."""

import pytest

from stellwerk.core.describe.queues import QueuesRead, read_queues
from stellwerk.core.model.queueing import (
    Admission,
    CheckRule,
    Fungibility,
    PodSetAssignment,
    Preemption,
    Quota,
    Requeuing,
)
from stellwerk.core.model.selectors import Selector

QUEUE = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: ClusterQueue
metadata: {name: vision}
spec:
  cohortName: lab
  queueingStrategy: StrictFIFO
  namespaceSelector: {}
  stopPolicy: Hold
  fairSharing: {weight: "0.5"}
  flavorFungibility: {whenCanBorrow: TryNextFlavor, whenCanPreempt: TryNextFlavor,
    preference: PreemptionOverBorrowing}
  preemption:
    reclaimWithinCohort: LowerPriority
    withinClusterQueue: LowerPriority
    borrowWithinCohort: {policy: LowerPriority, maxPriorityThreshold: 7}
  admissionChecksStrategy: {admissionChecks: [{name: prov, onFlavors: [h100]}]}
  admissionScope: {admissionMode: UsageBasedAdmissionFairSharing}
  resourceGroups:
  - coveredResources: [cpu, nvidia.com/gpu]
    flavors:
    - name: h100
      resources:
      - {name: cpu, nominalQuota: 500m}
      - {name: nvidia.com/gpu, nominalQuota: 8, borrowingLimit: 4, lendingLimit: 6}
status:
  conditions: [{type: Active, status: "True"}]
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: ResourceFlavor
metadata: {name: h100}
"""


def read(text: str) -> QueuesRead:
    """What one file says."""
    return read_queues([("queues.yaml", text)])


def told(found: QueuesRead) -> list[str]:
    """The problems as they are shown."""
    return [str(problem) for problem in found.problems]


def test_a_cluster_queue_is_read_whole() -> None:
    """Every field that decides on anything."""
    found = read(QUEUE)
    assert told(found) == []
    queue = found.objects.queues[0]
    quotas = queue.groups[0].flavors[0].quotas
    assert quotas == {"cpu": Quota(500), "nvidia.com/gpu": Quota(8000, 4000, 6000)}
    assert queue.preemption == Preemption("LowerPriority", "LowerPriority", "LowerPriority", 7)
    assert queue.fungibility == Fungibility(
        "TryNextFlavor", "TryNextFlavor", "PreemptionOverBorrowing"
    )
    assert (queue.cohort, queue.strategy, queue.weight, queue.stop) == (
        "lab", "StrictFIFO", 0.5, "Hold",
    )  # fmt: skip
    assert queue.checks == (CheckRule("prov", ("h100",)),)
    assert (queue.usage_based, queue.namespaces) == (True, Selector())


def test_the_older_version_is_read() -> None:
    """v1beta1: `cohort`, a list of checks, `Borrow` and `Preempt` for a search that may stop."""
    text = """\
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata: {name: q}
spec:
  cohort: lab
  admissionChecks: [prov]
  flavorFungibility: {whenCanBorrow: Borrow, whenCanPreempt: Preempt}
"""
    queue = read(text).require().objects.queues[0]
    assert queue.cohort == "lab"
    assert queue.checks == (CheckRule("prov"),)
    assert queue.fungibility == Fungibility("MayStopSearch", "MayStopSearch")


WORKLOAD = """\
apiVersion: kueue.x-k8s.io/v1beta2
kind: Workload
metadata: {name: train, namespace: cv, uid: u-1, creationTimestamp: "2026-11-30T08:00:00Z"}
spec:
  queueName: gpu
  priorityClassRef: {group: kueue.x-k8s.io, kind: WorkloadPriorityClass, name: high}
  podSets:
  - name: workers
    count: 4
    minCount: 2
    topologyRequest: {required: rack}
    template:
      spec:
        restartPolicy: Never
        nodeSelector: {gpu: h100}
        tolerations: [{key: spot, operator: Exists}]
        affinity: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution:
          {nodeSelectorTerms: [{matchExpressions: [{key: zone, operator: In, values: [a]}]}]}}}
        initContainers:
        - {name: fetch, resources: {requests: {cpu: 6}}}
        - {name: side, restartPolicy: Always, resources: {requests: {cpu: 1}}}
        containers:
        - name: main
          image: x
          resources: {requests: {cpu: 2}, limits: {nvidia.com/gpu: 8}}
        overhead: {cpu: 250m}
status:
  conditions:
  - {type: QuotaReserved, status: "True", lastTransitionTime: "2026-11-30T08:00:10Z"}
  - {type: Admitted, status: "False", lastTransitionTime: "2026-11-30T08:00:10Z"}
  - {type: Evicted, status: "False", reason: PodsReadyTimeout,
     lastTransitionTime: "2026-11-30T07:00:00Z"}
  admission:
    clusterQueue: vision
    podSetAssignments:
    - name: workers
      count: 3
      flavors: {cpu: h100}
      topologyAssignment:
        levels: [block, rack]
        slices:
        - domainCount: 2
          valuesPerLevel: [{universal: b1}, {individual: {prefix: r, roots: ["1", "2"]}}]
          podCounts: {individual: [2, 1]}
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: WorkloadPriorityClass
metadata: {name: high}
value: 100
description: before others
"""


def test_a_workload_is_read_whole() -> None:
    """Requests as the pod has them, wishes for nodes, priority of its class, what it holds."""
    found = read(WORKLOAD)
    assert told(found) == []
    one = found.objects.workloads[0]
    pods = one.pod_sets[0]
    # `fetch` runs before the others and takes 6; the pod itself 250m beside its containers.
    assert pods.requests == {"cpu": 6250, "nvidia.com/gpu": 8000}
    assert (pods.count, pods.min_count, pods.node_selector) == (4, 2, {"gpu": "h100"})
    assert pods.affinity[0][0].key == "zone"
    assert pods.tolerations[0].operator == "Exists"
    assert pods.topology is not None
    assert (pods.topology.spot, pods.topology.level) == ("required", "rack")
    assert (one.priority, one.uid, one.local_queue) == (100, "u-1", "gpu")
    assert one.queued_ms == one.created_ms - 3_600_000
    assert one.admission == Admission(
        "vision",
        (PodSetAssignment("workers", {"cpu": "h100"}, 3, {"b1,r1": 2, "b1,r2": 1}),),
        one.created_ms + 10_000,
        admitted=False,
    )


def test_what_has_ended_holds_nothing() -> None:
    """A finished workload isn't in the queue any more."""
    ended = WORKLOAD.replace('type: Admitted, status: "False"', 'type: Finished, status: "True"')
    assert read(ended).objects.workloads == ()


def test_other_objects() -> None:
    """Nodes, namespaces, topologies, the configuration; what is beside queueing is passed over."""
    text = """\
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Namespace, metadata: {name: cv, labels: {team: vision}}}
- apiVersion: v1
  kind: Node
  metadata: {name: n1, labels: {rack: r1}}
  spec: {taints: [{key: a, effect: NoSchedule}]}
  status: {allocatable: {cpu: 8}, conditions: [{type: Ready, status: "False"}]}
- apiVersion: kueue.x-k8s.io/v1beta1
  kind: Topology
  metadata: {name: dc}
  spec: {levels: [{nodeLabel: rack}, {nodeLabel: kubernetes.io/hostname}]}
- apiVersion: config.kueue.x-k8s.io/v1beta2
  kind: Configuration
  fairSharing: {preemptionStrategies: [LessThanInitialShare]}
  admissionFairSharing: {usageHalfLifeTime: 168h, resourceWeights: {cpu: 0}}
  webhook: {port: 9443}
  waitForPodsReady:
    {requeuingStrategy: {timestamp: Creation, backoffLimitCount: 3}, blockAdmission: true,
     recoveryTimeout: [1]}
- {apiVersion: batch/v1, kind: Job, metadata: {name: j}, spec: {x: 1}}
"""
    found = read(text)
    assert told(found) == []
    objects = found.objects
    assert objects.namespaces == {"cv": {"kubernetes.io/metadata.name": "cv", "team": "vision"}}
    assert objects.nodes[0].ready is False
    assert objects.nodes[0].labels == {"kubernetes.io/hostname": "n1", "rack": "r1"}
    assert objects.topologies[0].levels == ("rack", "kubernetes.io/hostname")
    assert objects.settings.fair_sharing
    assert objects.settings.strategies == ("LessThanInitialShare",)
    assert objects.settings.requeuing == Requeuing(limit=3, to_the_back=False)
    assert objects.settings.past_use is not None
    assert objects.settings.past_use.half_life_ms == 168 * 3_600_000
    assert [one.code for one in found.notices] == ["spec/ignored"] * 3
    assert "has no effect here" in found.notices[0].message


SLIPS = [
    ("nominalQuota: 500m", "nominalQuota: -1", "is less than nothing"),
    ("nominalQuota: 500m", "nominalQuota: lots", "isn't a quantity"),
    ("nominalQuota: 500m", "nominalQuota: 1e30", "isn't a quantity"),
    ("lendingLimit: 6", "lendingLimit: 9", "is more than the nominal quota"),
    ("cohortName: lab", "stopPolicy: None", "needs a cohort"),
    ("reclaimWithinCohort: LowerPriority", "reclaimWithinCohort: Never", "needs `reclaimWithin"),
    ("whenCanBorrow: TryNextFlavor", "whenCanBorrow: MayStopSearch", "counts only if both"),
    ("whenCanBorrow: TryNextFlavor", "whenCanBorow: TryNextFlavor", "did you mean `whenCanBorrow`"),
    ("coveredResources: [cpu, nvidia", "coveredResources: [nvidia", "the group covers nvidia"),
    ('weight: "0.5"', "weight: -1", "is less than nothing"),
    ("StrictFIFO", "Fifo", "StrictFIFO"),
    ("maxPriorityThreshold: 7", "maxPriorityThreshold: high", "a whole number"),
    ("{name: vision}", "{name: Vision!}", "can't be a name"),
    ("kueue.x-k8s.io/v1beta2\nkind: Cl", "kueue.sigs/v1\nkind: Cl", "is unknown"),
    ("kind: ClusterQueue", "kind: ClusterQueu", "did you mean `ClusterQueue`"),
]


@pytest.mark.parametrize(("right", "wrong", "says"), SLIPS)
def test_slips_are_told_with_their_place(right: str, wrong: str, says: str) -> None:
    """Each one by line and column; the object counts as not there, the other still counts."""
    text = QUEUE.replace("stopPolicy: Hold", "concurrentAdmissionPolicy: {}")
    assert right in text
    found = read(text.replace(right, wrong, 1))
    lines = told(found)
    assert any(says in line for line in lines), lines
    assert all(one.line and one.column and one.file == "queues.yaml" for one in found.problems)
    assert found.objects.queues == ()
    assert [one.name for one in found.objects.flavors] == ["h100"]


def test_a_flavor_and_a_resource_are_in_one_group() -> None:
    """Twice is told, with where the other one is."""
    group = QUEUE[QUEUE.index("  - coveredResources") : QUEUE.index("status:")]
    lines = told(read(QUEUE.replace(group, group + group)))
    assert sum("queue/twice" in line for line in lines) == 3
    assert any(
        "the flavor `h100` is in `spec.resourceGroups[0].flavors[0]`" in line for line in lines
    )
    assert any("`cpu` is covered by" in line for line in lines)


def cohorts(*pairs: tuple[str, str]) -> str:
    """Cohorts with their parents."""
    return "---\n".join(
        f"apiVersion: kueue.x-k8s.io/v1beta2\nkind: Cohort\nmetadata: {{name: {name}}}\n"
        f"spec: {{parentName: {parent}}}\n"
        for name, parent in pairs
    )


def test_a_cycle_of_cohorts_is_told_once() -> None:
    """With all that are in it; one that merely hangs below isn't."""
    lines = told(read(cohorts(("a", "b"), ("b", "c"), ("c", "a"), ("d", "a"))))
    assert len(lines) == 1
    assert "queue/cohort-cycle" in lines[0]
    assert "a -> b -> c -> a" in lines[0]


def test_a_tree_without_end_is_refused() -> None:
    """However many cohorts there are, it is told quickly."""
    lines = told(read(cohorts(*((f"c{i}", f"c{i + 1}") for i in range(2000)))))
    assert ["queue/too-deep" in line for line in lines] == [True]


def test_what_names_nothing_is_a_note() -> None:
    """Objects come in any order; a near name is proposed. A selector of nothing is told too."""
    text = QUEUE.replace("name: h100\n      res", "name: h200\n      res").replace(
        "namespaceSelector: {}", "concurrentAdmissionPolicy: {}"
    )
    text += """\
---
apiVersion: kueue.x-k8s.io/v1beta2
kind: LocalQueue
metadata: {name: gpu, namespace: cv}
spec: {clusterQueue: visoin}
"""
    found = read(text)
    assert told(found) == []
    notes = {one.code: one.help for one in found.notices}
    assert [one.code for one in found.notices] == [
        "queue/points-nowhere", "queue/no-namespace", "queue/points-nowhere",
    ]  # fmt: skip
    assert [one.help for one in found.notices if one.code == "queue/points-nowhere"] == [
        "did you mean `h100`?", "did you mean `vision`?",
    ]  # fmt: skip
    assert "namespaceSelector" in notes["queue/no-namespace"]


def test_twins_are_told_over_files() -> None:
    """The second one is refused, and the first one is named."""
    found = read_queues([("a.yaml", QUEUE), ("b.yaml", QUEUE)])
    assert [one.code for one in found.problems] == ["queue/duplicate"] * 2
    assert "a.yaml:1" in found.problems[0].message
    assert len(found.objects.queues) == 1


def test_damage_costs_no_other_object() -> None:
    """A document that isn't YAML, one that is no object, one without a kind."""
    text = f"a: [\n---\n- 1\n---\nmetadata: {{name: x}}\n---\n{QUEUE}"
    found = read(text)
    assert [one.code for one in found.problems] == ["spec/yaml", "spec/type", "spec/missing"]
    assert len(found.objects.queues) == 1


def test_one_slip_is_told_once() -> None:
    """A quota that can't be read isn't told to be missing as well."""
    assert len(told(read(QUEUE.replace("nominalQuota: 500m", "nominalQuota: -1")))) == 1
    assert len(told(read(QUEUE.replace("lendingLimit: 6", "lendingLimit: x")))) == 1


@pytest.mark.parametrize(
    ("was", "group"),
    [
        ("{required: rack}", "{required: rack, podSetGroupName: both}"),
        (
            "topologyRequest: {required: rack}\n    template:\n",
            "template:\n      metadata: {annotations: {kueue.x-k8s.io/podset-group-name: both}}\n",
        ),
    ],
)
def test_sets_of_pods_that_are_to_be_packed_as_one_are_refused(was: str, group: str) -> None:
    """They would be torn apart otherwise, and nobody told."""
    [problem] = read(WORKLOAD.replace(was, group)).problems
    assert problem.code == "queue/topology"
    assert "of the group `both`" in problem.message
