"""What a fleet file may say and shouldn't: refused or told, never passed over."""

import pytest

from stellwerk.core.describe.fleet import read_fleet

SCORES = """
apiVersion: cluster.open-cluster-management.io/v1alpha1
kind: AddOnPlacementScore
metadata: {name: r, namespace: a}
status: {scores: [{name: gpu, value: 5}, {name: cpu, value: 1}, {name: gpu, value: 5}]}
"""
PLACEMENT = """
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: p%s}
spec:
"""
TOLERATION = "  tolerations: [{key: a, operator: Exists, tolerationSeconds: -5}]"
GROUPS = """  decisionStrategy: {groupStrategy: {decisionGroups: [
    {groupName: canary}, {groupName: rest}, {groupName: canary}]}}"""
CLUSTER = """
apiVersion: stellwerk/v1
kind: Cluster
name: a
cpus: 1
memory: 1Gi
labels: {short: x, long: %s}
"""
OBJECT = """
apiVersion: cluster.open-cluster-management.io/v1
kind: ManagedCluster
metadata: {name: a, labels: {long: %s}}
"""


@pytest.mark.parametrize(
    ("text", "code", "line", "message"),
    [
        (SCORES, "fleet/duplicate", 5, "`status.scores` says `gpu` twice: 5 and 5"),
        (
            PLACEMENT % "" + TOLERATION,
            "spec/toleration",
            6,
            "`spec.tolerations[0].tolerationSeconds` is -5: nothing is tolerated so shortly",
        ),
        (CLUSTER % ("x" * 300_000), "spec/too-large", 7, "`labels.long` has 300,000 characters"),
    ],
    ids=["a score twice", "less than no time", "a label of megabytes"],
)
def test_what_is_refused(text: str, code: str, line: int, message: str) -> None:
    """With its place; the document isn't there then."""
    found = read_fleet(text, file="f.yaml")
    [problem] = found.problems
    assert (problem.code, problem.line, problem.message) == (code, line, message)
    assert not found.fleet.clusters


def test_as_the_reference_less_than_no_time_is_accepted() -> None:
    """Its answer to that is wanted."""
    found = read_fleet(PLACEMENT % ", annotations: {stellwerk/compat: ocm}" + TOLERATION)
    assert not found.problems
    assert found.placements[0].tolerations[0].seconds == -5


@pytest.mark.parametrize("form", [CLUSTER, OBJECT], ids=["short", "object"])
def test_a_label_that_kubernetes_would_refuse_is_told(form: str) -> None:
    """It counts all the same; 63 characters are no news."""
    assert not read_fleet(form % ("x" * 63)).notices
    found = read_fleet(form % ("x" * 64))
    [notice] = found.notices
    assert (notice.code, found.problems) == ("spec/long-label", ())
    assert "long` (line" in notice.message
    assert "64 characters" in notice.message
    assert found.fleet.clusters[0].labels["long"] == "x" * 64


def test_groups_of_one_name_are_told() -> None:
    """They count, each rule for itself."""
    found = read_fleet(PLACEMENT % "" + GROUPS)
    [notice] = found.notices
    assert notice.message == "2 decision groups are called `canary`"
    assert len(found.placements[0].groups) == 3
