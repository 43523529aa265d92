"""A file that is applied: fleets, placements and queues in one, each read by who knows it."""

import json

from stellwerk.core.describe.applied import OBJECT_KINDS, read_applied
from stellwerk.core.model.queue_object import ObjectKey
from stellwerk.core.model.queueing import Cohort, LocalQueue, PriorityClass, QueueObjects

MIXED = """
apiVersion: kueue.x-k8s.io/v1beta1
kind: ClusterQueue
metadata:
  name: vision
  uid: 1f
  annotations: {kubectl.kubernetes.io/last-applied-configuration: '{}', team: cv}
spec: {cohort: lab, namespaceSelector: {}}
status: {pendingWorkloads: 3}
---
apiVersion: v1
kind: List
items:
- apiVersion: kueue.x-k8s.io/v1beta2
  kind: LocalQueue
  metadata: {name: main, namespace: cv}
  spec: {clusterQueue: vision}
  status: {fairSharing: {admissionFairSharingStatus: {consumedResources: {cpu: 3}}}}
- {apiVersion: kueue.x-k8s.io/v1beta2, kind: Workload, metadata: {name: w}}
- {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}}
---
apiVersion: stellwerk/v1
kind: Cluster
name: lab
---
{apiVersion: v1, kind: Namespace, metadata: {name: cv, labels: {team: cv}}}
---
{apiVersion: config.kueue.x-k8s.io/v1beta2, kind: Configuration, fairSharing: {}}
"""


def test_each_object_is_kept_as_it_was_written() -> None:
    """Without what an API server adds; a fleet in the same file is read beside it."""
    read = read_applied(MIXED)
    assert read.problems == ()
    assert [one.key.shown for one in read.objects] == [
        "ClusterQueue vision", "LocalQueue cv/main", "Namespace cv", "Configuration default",
    ]  # fmt: skip
    assert json.loads(read.objects[0].manifest) == {
        "apiVersion": "kueue.x-k8s.io/v1beta1",
        "kind": "ClusterQueue",
        "metadata": {"name": "vision", "annotations": {"team": "cv"}},
        "spec": {"cohort": "lab", "namespaceSelector": {}},
    }
    assert read.objects[0].queue is not None
    assert read.objects[0].queue.cohort == "lab"
    assert read.objects[1].local_queue == LocalQueue("cv", "main", "vision")
    assert read.objects[2].labels == {"kubernetes.io/metadata.name": "cv", "team": "cv"}
    assert read.objects[3].settings is not None
    assert read.objects[3].settings.fair_sharing
    assert read.places[ObjectKey("LocalQueue", "cv", "main")] == ("", 14, 3)
    assert [one.name for one in read.fleet.fleet.clusters] == ["lab"]


def test_what_says_nothing_here_is_told() -> None:
    """Work is submitted, not applied; a kind that nobody knows is named."""
    read = read_applied(MIXED)
    assert read.passed_over == 2
    told = [one.message for one in read.notices if one.code == "spec/ignored"]
    assert "`stw run`" in told[0]
    assert "a Deployment of apps/v1 isn't known" in told[1]


def test_keys_in_another_order_are_the_same_object() -> None:
    """What is compared is what was said."""
    head = "apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort"
    one = f"{{{head}, metadata: {{name: a}}, spec: {{parentName: b}}}}"
    other = f"{{spec: {{parentName: b}}, metadata: {{name: a}}, {head}}}"
    assert read_applied(one).objects == read_applied(other).objects


def test_a_file_is_looked_at_beside_what_there_is() -> None:
    """A cycle with a cohort that is there is told at the one in the file; a name that is there
    isn't missing.
    """
    known = QueueObjects(
        cohorts=(Cohort("top", "lab"),), priority_classes=(PriorityClass("high", 9),)
    )
    head = "apiVersion: kueue.x-k8s.io/v1beta2, kind: Cohort"
    text = f"{{{head}, metadata: {{name: lab}}, spec: {{parentName: top}}}}"
    assert read_applied(text).problems == ()
    [problem] = read_applied(text, file="q.yaml", known=known).problems
    assert (problem.code, problem.place) == ("queue/cohort-cycle", "q.yaml:1:1")
    known = QueueObjects(local_queues=(LocalQueue("a", "b", "nowhere"),))
    assert read_applied(text, known=known).notices == ()


def test_problems_come_in_the_order_of_the_file() -> None:
    """Those of queueing and those of fleets, and a misspelt kind with what was meant."""
    text = """
{apiVersion: kueue.x-k8s.io/v1beta2, kind: ClusterQeue, metadata: {name: a}}
---
{apiVersion: stellwerk/v1, kind: Cluster, name: lab, cpsu: 3}
---
{apiVersion: kueue.x-k8s.io/v1beta2, kind: LocalQueue, metadata: {name: a}, spec: {}}
"""
    problems = read_applied(text).problems
    assert [one.line for one in problems] == [2, 4, 6]
    assert problems[0].help == "did you mean `ClusterQueue`?"


def test_all_kinds_of_queueing_but_live_ones_can_be_applied() -> None:
    """They are listed where a kind is refused."""
    assert {"ResourceFlavor", "Topology", "WorkloadPriorityClass"} <= set(OBJECT_KINDS)
    assert not {"Workload", "Node"} & set(OBJECT_KINDS)
