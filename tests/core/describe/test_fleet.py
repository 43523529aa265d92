"""A fleet file: objects of Open Cluster Management, placements, and what is wrong in a document."""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.describe.fleet import FleetRead, fleet_of, read_fleet
from stellwerk.core.inventory.merge import Source, merge
from stellwerk.core.model.cluster import Cluster, ScoreObject, Taint
from stellwerk.core.model.errors import SpecError
from stellwerk.core.model.fleet import ClusterSet, Contradiction, Fleet, SetBinding, Told
from stellwerk.core.model.selectors import Selector
from tests import yamls

OCM = "cluster.open-cluster-management.io"
NOON = 1_768_478_400_000
MANAGED = f"""
apiVersion: {OCM}/v1
kind: ManagedCluster
metadata:
  name: spoke
  uid: 7e0d
  creationTimestamp: "2026-01-01T00:00:00Z"
  deletionTimestamp: "2026-01-15T12:00:00Z"
  finalizers: [{OCM}/api-resource-cleanup]
  labels: {{{OCM}/clusterset: gpu, tier: gold}}
  annotations: {{note: x}}
  managedFields: [{{manager: agent, fieldsV1: {{"f:spec": {{}}}}}}]
spec:
  hubAcceptsClient: true
  leaseDurationSeconds: 30
  managedClusterClientConfigs: [{{url: "https://api", caBundle: AA==}}]
  taints:
  - {{key: maintenance, value: disk, effect: NoSelect, timeAdded: 2026-01-15T12:00:00Z}}
  - {{key: old, effect: PreferNoSelect}}
status:
  allocatable: {{cpu: 3500m, memory: 16Gi, nvidia.com/gpu: "8"}}
  capacity: {{cpu: 4, memory: 16Gi}}
  clusterClaims: [{{name: region, value: eu}}, {{name: gpu.model, value: A100}}]
  conditions:
  - {{type: HubAcceptedManagedCluster, status: "True"}}
  - type: ManagedClusterConditionAvailable
    status: Unknown
    reason: ManagedClusterLeaseUpdateStopped
    message: silent
    lastTransitionTime: "2026-01-15T12:00:00Z"
  version: {{kubernetes: v1.31.0}}
"""


def thing(kind: str, version: str, name: str, namespace: str = "", **rest: Any) -> str:
    """An object as text."""
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return yamls.written({"apiVersion": version, "kind": kind, "metadata": metadata, **rest})


def claim(name: str, value: str, cluster: str = "spoke") -> str:
    """A ClusterClaim."""
    return thing("ClusterClaim", f"{OCM}/v1alpha1", name, cluster, spec={"value": value})


def scores(value: Any, cluster: str = "spoke", **status: Any) -> str:
    """An AddOnPlacementScore with one score."""
    given = {"scores": [{"name": "free", "value": value}], **status}
    return thing("AddOnPlacementScore", f"{OCM}/v1alpha1", "gpu", cluster, status=given)


def bound(name: str, namespace: str = "team-a") -> str:
    """A ManagedClusterSetBinding."""
    spec = {"clusterSet": name}
    return thing("ManagedClusterSetBinding", f"{OCM}/v1beta2", name, namespace, spec=spec)


def placed(name: str, namespace: str = "team-a", **spec: Any) -> str:
    """A Placement."""
    return thing("Placement", f"{OCM}/v1beta1", name, namespace, spec=spec)


SET = thing("ManagedClusterSet", f"{OCM}/v1beta2", "gpu")
PROPERTY = thing(
    "ClusterProperty", "about.k8s.io/v1alpha1", "gpu.model", "spoke", spec={"value": "H100"}
)
LEASE = thing(
    "Lease",
    "coordination.k8s.io/v1",
    "managed-cluster-lease",
    "spoke",
    spec={"renewTime": "2026-01-15T12:00:00.250000Z", "leaseDurationSeconds": 60},
)
PROFILE = thing(
    "ClusterProfile",
    "multicluster.x-k8s.io/v1alpha1",
    "member",
    "fleet",
    spec={"displayName": "m", "clusterManager": {"name": "ocm"}},
    status={
        "version": {"kubernetes": "1.32.1"},
        "properties": [
            {"name": "zone", "value": "b", "lastObservedTime": "2026-01-15T12:00:00Z"},
            {"name": "tier", "value": "x"},
        ],
        "conditions": [{"type": "ControlPlaneHealthy", "status": "True"}],
        "accessProviders": [{"name": "kubeconfig"}],
    },
)


def read(*documents: str) -> FleetRead:
    """What these documents say together."""
    return read_fleet("---\n".join(documents), file="fleet.yaml", now_ms=9)


def codes(found: FleetRead) -> list[str]:
    """What is wrong, in short."""
    return [problem.code for problem in found.problems]


def test_a_managed_cluster() -> None:
    """As an API server gives it, nothing lost that placement looks at."""
    found = read(MANAGED, SET)
    assert found.require().fleet.clusters == (
        Cluster(
            name="spoke",
            driver="ocm",
            nodes=(),
            kind="kubernetes",
            labels={f"{OCM}/clusterset": "gpu", "tier": "gold"},
            claims={"region": "eu", "gpu.model": "A100"},
            taints=(
                Taint("maintenance", "NoSelect", "disk", NOON),
                Taint("old", "PreferNoSelect"),
            ),
            capacity={"cpu": 4000, "memory": (1 << 34) * 1000},
            allocatable={"cpu": 3500, "memory": (1 << 34) * 1000, "nvidia.com/gpu": 8000},
            available="Unknown",
            deleting=True,
            lease_s=30,
            kubernetes="v1.31.0",
            annotations={"note": "x"},
        ),
    )
    told = found.fleet.told["spoke"]
    assert told["labels"] == Told("ManagedCluster in fleet.yaml", 9)
    assert told["claims"] == Told("ManagedCluster status in fleet.yaml", 9)
    assert told["available"].at_ms == NOON


def test_what_belongs_to_a_cluster() -> None:
    """Claims, properties, scores and leases find their cluster; a property beats a claim."""
    found = read(
        LEASE,
        scores(50, validUntil="2026-01-15T12:00:00Z"),
        claim("gpu.model", "T4"),
        claim("site", "lab"),
        PROPERTY,
        MANAGED,
        SET,
    ).require()
    (cluster,) = found.fleet.clusters
    assert cluster.claims == {"gpu.model": "H100", "site": "lab", "region": "eu"}
    assert cluster.scores == {"gpu": ScoreObject({"free": 50}, NOON, source="AddOnPlacementScore")}
    assert found.fleet.told["spoke"]["lease"] == Told("Lease", NOON + 250)
    assert found.fleet.contradictions == (
        Contradiction(
            "spoke",
            "claims.gpu.model",
            (
                ("ClusterProperty in fleet.yaml", "H100"),
                ("ClusterClaim in fleet.yaml", "T4"),
                ("ManagedCluster status in fleet.yaml", "A100"),
            ),
            "ClusterProperty in fleet.yaml",
        ),
    )
    (notice,) = found.notices
    assert notice.code == "fleet/contradiction"
    assert "`H100` by ClusterProperty in fleet.yaml, `T4` by ClusterClaim" in notice.message
    assert notice.line == 1 + len(f"{LEASE}---\n{scores(50, validUntil='x')}---\n".splitlines())


def test_a_cluster_profile() -> None:
    """Its properties are claims with times of their own; its manager is its owner."""
    found = read(PROFILE).require()
    (cluster,) = found.fleet.clusters
    kubeversion = {"kubeversion.open-cluster-management.io": "1.32.1"}
    assert cluster.claims == {"zone": "b", "tier": "x"} | kubeversion
    assert cluster.owner == "ocm"
    assert cluster.available == "True"
    assert found.fleet.told["member"]["claims.zone"] == Told("ClusterProfile", NOON)


def test_sets() -> None:
    """Exclusive by default; by selector; the built-in ones are there when they are bound."""
    chosen = thing(
        "ManagedClusterSet",
        f"{OCM}/v1beta2",
        "eu",
        spec={
            "clusterSelector": {
                "selectorType": "LabelSelector",
                "labelSelector": {"matchLabels": {"region": "eu"}},
            }
        },
    )
    found = read(MANAGED, chosen, SET, bound("eu"), bound("global", "b")).require()
    assert found.fleet.sets == (
        ClusterSet("eu", False, Selector({"region": "eu"})),
        ClusterSet("global", False, Selector()),
        ClusterSet("gpu"),
    )
    declared = [each for each in found.fleet.bindings if not each.implied]
    assert declared == [SetBinding("b", "global"), SetBinding("team-a", "eu")]


def test_nobody_binds_a_set() -> None:
    """Then all of them are bound to every namespace that a placement is in, and `default`."""
    found = read(MANAGED, SET, placed("p")).require()
    assert [placement.key for placement in found.placements] == ["team-a/p"]
    assert {(each.namespace, each.set) for each in found.fleet.bindings} == {
        (namespace, name) for namespace in ("default", "team-a") for name in ("gpu", "global")
    }


ALL = [MANAGED, SET, PROPERTY, LEASE, PROFILE, claim("site", "lab"), claim("gpu.model", "T4"),
       scores(5), scores(6, "member"), bound("gpu"), bound("global", "b"), placed("p"),
       placed("q", numberOfClusters=2)]  # fmt: skip


@given(st.randoms(use_true_random=False))
def test_the_order_of_documents(dice: Random) -> None:
    """Means nothing, whatever stands first."""
    mixed = dice.sample(ALL, len(ALL))
    one, other = read(*mixed), read(*ALL)
    assert one.sources == other.sources
    assert one.fleet == other.fleet
    assert one.placements == other.placements
    assert one.problems == other.problems == ()


def test_as_json_and_as_a_list() -> None:
    """What `kubectl get -o json` and `-o yaml` write, and objects of an API."""
    loaded = [yamls.read(document) for document in ALL]
    plain = json.loads(json.dumps(loaded, default=str))
    whole = {"apiVersion": "v1", "items": plain, "kind": "List"}
    for text in (json.dumps(whole, indent=1), yamls.written(whole), json.dumps(whole)):
        found = read_fleet(text, file="fleet.yaml", now_ms=9).require()
        assert found.fleet == read(*ALL).fleet
        assert found.placements == read(*ALL).placements
    assert fleet_of(plain, now_ms=9).fleet.clusters == read(*ALL).fleet.clusters
    assert fleet_of([whole], now_ms=9).fleet.clusters == read(*ALL).fleet.clusters


def test_one_broken_document() -> None:
    """Its faults are told with their lines; all the others count."""
    found = read(MANAGED, SET, "a: [\n", placed("p", numberOfCluster=2), placed("q"))
    assert codes(found) == ["spec/yaml", "spec/unknown-field"]
    assert found.problems[1].help == "did you mean `numberOfClusters`?"
    text = "---\n".join([MANAGED, SET, "a: [\n", placed("p", numberOfCluster=2)])
    line = text.splitlines()[found.problems[1].line - 1]
    assert "numberOfCluster:" in line
    assert [cluster.name for cluster in found.fleet.clusters] == ["spoke"]
    assert [placement.name for placement in found.placements] == ["q"]
    with pytest.raises(SpecError):
        found.require()


def test_a_cluster_with_a_fault_is_not_half_there() -> None:
    """A cluster whose taint can't be read must not be taken for one without it."""
    found = read(MANAGED.replace("PreferNoSelect", "PreferNo"), SET, scores(5))
    assert codes(found) == ["spec/value"]
    assert "NoSelect" in found.problems[0].help
    assert found.fleet.clusters == ()
    assert not found.notices


@pytest.mark.parametrize(
    "value", [float("nan"), "1e9", 10**9, "high", 50.5, True, [1], float("inf")]
)
def test_no_score(value: object) -> None:
    """What can't be a score is refused with its place."""
    found = read(MANAGED, SET, scores(value))
    assert codes(found) == ["fleet/score"]
    assert found.problems[0].line > 1
    assert "-100 to 100" in found.problems[0].help
    assert found.fleet.clusters[0].scores == {}


@pytest.mark.parametrize(("value", "cut"), [(101, 100), (-2000, -100)])
def test_a_score_beyond_its_range(value: int, cut: int) -> None:
    """It is cut, that is told, and it counts: nothing is wrong with the file."""
    found = read(MANAGED, SET, scores(value))
    assert codes(found) == []
    assert [(one.code, one.line > 1) for one in found.notices] == [("fleet/score-cut", True)]
    assert found.fleet.clusters[0].scores["gpu"].values == {"free": cut}


BROKEN = {
    "the same cluster": ([MANAGED, MANAGED], "fleet/duplicate"),
    "the same claim": ([claim("a", "1"), claim("a", "2")], "fleet/duplicate"),
    "the same placement": ([placed("p"), placed("p", numberOfClusters=1)], "fleet/duplicate"),
    "a claim of nobody": ([claim("a", "1", "")], "fleet/whose"),
    "a claim of nothing": (
        [thing("ClusterClaim", f"{OCM}/v1alpha1", "a", "spoke", spec={})],
        "spec/missing",
    ),
    "scores of nobody": ([scores(5, "")], "fleet/whose"),
    "an unknown set": ([bound("gpuu")], "fleet/unknown-set"),
    "an unknown set of a placement": ([placed("p", clusterSets=["gpuu"])], "fleet/unknown-set"),
    "another name": ([bound("gpu").replace("name: gpu", "name: cpu")], "spec/name"),
    "a kind": ([thing("ManagedClutser", f"{OCM}/v1", "a")], "fleet/kind"),
    "a version": ([thing("Cluster", "stelwerk/v1", "a")], "fleet/kind"),
    "no version": (["kind: Placement\n"], "spec/missing"),
    "no name": ([f"apiVersion: {OCM}/v1\nkind: ManagedCluster\n"], "spec/missing"),
    "no object": (["- a\n"], "spec/type"),
    "a label that is a number": ([MANAGED.replace("tier: gold", "tier: 1")], "spec/type"),
    "a quantity": ([MANAGED.replace("3500m", "many")], "spec/value"),
    "a moment": ([MANAGED.replace(": 2026-01-15T12:00:00Z}", ": noon}")], "spec/value"),
    "a claim said twice": (
        [MANAGED.replace("name: gpu.model", "name: region")],
        "fleet/duplicate",
    ),
    "a selector without effect": (
        [
            thing(
                "ManagedClusterSet",
                f"{OCM}/v1beta2",
                "x",
                spec={"clusterSelector": {"labelSelector": {"matchLabels": {"a": "b"}}}},
            )
        ],
        "spec/value",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("documents", "code"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_wrong(documents: list[str], code: str) -> None:
    """One problem, with its place, and everything good is still there."""
    good = [PROFILE, SET]
    found = read(*good, *documents)
    assert codes(found) == [code]
    assert found.problems[0].line > len(PROFILE.splitlines())
    assert "member" in [cluster.name for cluster in found.fleet.clusters]


def test_passed_over() -> None:
    """Objects that say nothing about a fleet are told once; so is a word about nobody."""
    found = read(
        thing("Namespace", "v1", "a"),
        thing("PlacementDecision", f"{OCM}/v1beta1", "p-1", "a"),
        thing("Lease", "coordination.k8s.io/v1", "kube-scheduler", "kube-system", spec={}),
        scores(5, "spok"),
        MANAGED,
        SET,
    ).require()
    assert (
        sorted(notice.code for notice in found.notices)
        == ["fleet/no-cluster"] + ["spec/ignored"] * 3
    )
    assert found.notices[0].help == "did you mean `spoke`?"


def test_sources_can_be_merged_again() -> None:
    """With what a driver found: the file's declared words hold before it."""
    found = read(PROFILE, scores(5, "member"), scores(7, "pc"))
    probe = Source("probe", "probed", Fleet((Cluster("pc", "ssh", ()),)), 5)
    fleet = merge([*found.sources, probe])
    assert [cluster.name for cluster in fleet.clusters] == ["member", "pc"]
    assert fleet.clusters[1].scores["gpu"].values == {"free": 7}


def test_very_many_problems() -> None:
    """The first hundred are told, the others counted."""
    found = read(*(scores("x", f"c{i}") for i in range(150)))
    assert len(found.problems) == 101
    assert found.problems[-1].message == "and 50 more problems, which are not shown"


def test_many_labels() -> None:
    """Thousands of values in one file are no task file, and are read."""
    labels = {f"label-{i}.example.org/name": f"value-{i % 7}" for i in range(200)}
    documents = [thing("ManagedCluster", f"{OCM}/v1", f"c{i}") for i in range(60)]
    written = "".join(f"    {key}: {value}\n" for key, value in labels.items())
    documents = [
        each.replace("metadata:\n", f"metadata:\n  labels:\n{written}") for each in documents
    ]
    found = read(*documents).require()
    assert len(found.fleet.clusters) == 60
    assert found.fleet.clusters[59].labels == labels
