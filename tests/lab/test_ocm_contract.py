"""A hub of Open Cluster Management, as far as its API goes: its schemas on a real API server.

What the hub stores is read as it comes; what Stellwerk writes is accepted by the real schemas.
STELLWERK_SCHEMAS names the folder that has them (`ocm/*.yaml`).
"""

import json
import os
import time
import urllib.error
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.core.describe.fleet import read_fleet
from stellwerk.core.describe.placement_objects import to_object
from stellwerk.core.describe.placements import placement_of, read_placements
from tests import yamls
from tests.lab.control_plane import ControlPlane, a_control_plane, missing

SCHEMAS = Path(os.environ.get("STELLWERK_SCHEMAS") or "/nonexistent") / "ocm"
API = "cluster.open-cluster-management.io"
CLUSTERS = f"/apis/{API}"
MANAGED = f"{CLUSTERS}/v1/managedclusters"
SETS = f"{CLUSTERS}/v1beta2/managedclustersets"
PLACEMENTS = f"{CLUSTERS}/v1beta1/namespaces/default/placements"
REASON = missing() or (
    "" if SCHEMAS.is_dir() else "STELLWERK_SCHEMAS names no folder that has ocm/*.yaml"
)
pytestmark = pytest.mark.skipif(bool(REASON), reason=REASON)

PLACEMENT = """
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: training, namespace: default, annotations: {stellwerk/objective: cost}}
spec:
  numberOfClusters: 2
  clusterSets: [lab]
  tolerations: [{key: maintenance, operator: Exists, tolerationSeconds: 60}]
  predicates:
  - requiredClusterSelector:
      labelSelector: {matchLabels: {gpu: a100}}
      claimSelector:
        matchExpressions: [{key: region, operator: In, values: [eu]}]
      celSelector: {celExpressions: ["managedCluster.metadata.name != 'c9'"]}
  prioritizerPolicy:
    mode: Exact
    configurations:
    - {scoreCoordinate: {builtIn: Steady}, weight: 3}
    - {scoreCoordinate: {type: AddOn, addOn: {resourceName: gpu, scoreName: free}}, weight: 2}
  decisionStrategy:
    groupStrategy:
      clustersPerDecisionGroup: 50%
      decisionGroups:
      - groupName: canary
        groupClusterSelector: {labelSelector: {matchLabels: {canary: "true"}}}
"""


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """An API server that knows Open Cluster Management's kinds."""
    folder = tmp_path_factory.mktemp("hub")
    with a_control_plane(folder, "hub", scheduler=False) as plane:
        for path in sorted(SCHEMAS.glob("*.yaml")):
            schema = yamls.read(path.read_text())
            name = schema["metadata"]["name"]
            plane.apply(f"/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{name}", schema)
        limit = time.monotonic() + 60
        while not _served(plane):
            assert time.monotonic() < limit, "the kinds aren't served"
            time.sleep(0.2)
        yield plane


def _served(plane: ControlPlane) -> bool:
    try:
        for path in (MANAGED, SETS, PLACEMENTS):
            plane.call("GET", path)
    except urllib.error.HTTPError:
        return False
    return True


def _create(plane: ControlPlane, path: str, kind: str, version: str, **body: Any) -> None:
    """Creates an object, and then writes its status, as controllers do."""
    name = body["metadata"]["name"]
    plane.call("POST", path, {"apiVersion": f"{API}/{version}", "kind": kind, **body})
    if "status" in body:
        status = {"status": body["status"]}
        plane.call("PATCH", f"{path}/{name}/status", status, "application/merge-patch+json")


def _cluster(plane: ControlPlane, name: str) -> None:
    """A cluster that has joined, its namespace, and a score."""
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    plane.apply(f"/api/v1/namespaces/{name}", space)
    room = {"cpu": "64", "memory": "512Gi", "nvidia.com/gpu": "8"}
    available = {
        "type": "ManagedClusterConditionAvailable",
        "status": "True",
        "reason": "Seen",
        "message": "",
        "lastTransitionTime": "2026-01-15T12:00:00Z",
    }
    _create(
        plane,
        MANAGED,
        "ManagedCluster",
        "v1",
        metadata={"name": name, "labels": {f"{API}/clusterset": "lab", "gpu": "a100"}},
        spec={"hubAcceptsClient": True, "leaseDurationSeconds": 60},
        status={
            "conditions": [available],
            "allocatable": room,
            "capacity": room,
            "clusterClaims": [{"name": "region", "value": "eu"}],
            "version": {"kubernetes": "v1.34.4"},
        },
    )
    _create(
        plane,
        f"{CLUSTERS}/v1alpha1/namespaces/{name}/addonplacementscores",
        "AddOnPlacementScore",
        "v1alpha1",
        metadata={"name": "gpu", "namespace": name},
        status={"conditions": [], "scores": [{"name": "free", "value": 40}]},
    )


def _stored(plane: ControlPlane, path: str) -> list[dict[str, Any]]:
    """The objects of a kind, as a client that lists them has them."""
    told = plane.call("GET", path)
    items = told["items"]
    assert isinstance(items, list)
    kind = str(told["kind"]).removesuffix("List")
    return [{"apiVersion": told["apiVersion"], "kind": kind, **one} for one in items]


def test_what_a_hub_stores_is_read_as_it_comes(hub: ControlPlane) -> None:
    """Clusters with claims and room, sets, bindings and scores, with all that servers add."""
    for name in ("c1", "c2"):
        _cluster(hub, name)
    exclusive = {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}
    _create(hub, SETS, "ManagedClusterSet", "v1beta2", metadata={"name": "lab"}, spec=exclusive)
    bindings = f"{CLUSTERS}/v1beta2/namespaces/default/managedclustersetbindings"
    about = {"name": "lab", "namespace": "default"}
    spec = {"clusterSet": "lab"}
    _create(hub, bindings, "ManagedClusterSetBinding", "v1beta2", metadata=about, spec=spec)
    scores = f"{CLUSTERS}/v1alpha1/addonplacementscores"
    found = [one for path in (MANAGED, SETS, bindings, scores) for one in _stored(hub, path)]
    fleet = read_fleet("\n---\n".join(json.dumps(one) for one in found)).fleet
    assert [one.name for one in fleet.clusters] == ["c1", "c2"]
    first = fleet.clusters[0]
    assert first.claims["region"] == "eu"
    assert [one.name for one in fleet.sets] == ["lab"]
    assert [one.set for one in fleet.bindings] == ["lab"]
    assert first.scores["gpu"].values["free"] == 40


def test_a_placement_goes_to_the_hub_and_comes_back_the_same(hub: ControlPlane) -> None:
    """All that a placement can say is accepted, and read back from the store as what it was."""
    [placement] = read_placements(PLACEMENT)
    hub.apply(f"{PLACEMENTS}/training", to_object(placement))
    stored = hub.call("GET", f"{PLACEMENTS}/training")
    assert placement_of(stored) == placement


def test_what_the_schema_refuses_is_refused_here_too(hub: ControlPlane) -> None:
    """A weight out of bounds: by the API server and by the reader."""
    [placement] = read_placements(PLACEMENT)
    body = to_object(placement)
    body["spec"]["prioritizerPolicy"]["configurations"][0]["weight"] = 99
    with pytest.raises(urllib.error.HTTPError) as refused:
        hub.apply(f"{PLACEMENTS}/other", body | {"metadata": {"name": "other"}})
    assert refused.value.code == 422
    with pytest.raises(Exception, match="weight"):
        placement_of(body)
