"""Several fleet files beside each other: who may choose from what, what one takes from another."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from stellwerk.server.applying import named_otherwise
from stellwerk.server.reading import read_item
from stellwerk.testing.builders import a_cluster, a_node
from tests.server.stage import Stage
from tests.server.test_placements import FAR, NEAR, PLACEMENT, apply, explain, history, show

SET = """
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSet
metadata: {name: weather}
spec: {clusterSelector: {selectorType: LabelSelector, labelSelector: {matchLabels: {w: "1"}}}}
"""
LIMITED = PLACEMENT.replace(
    "{name: gold}", '{name: gold, annotations: {stellwerk/max-usd: "5", stellwerk/objective: cost}}'
)


def binding(namespace: str) -> str:
    """Binds the set to a namespace."""
    return f"""
---
apiVersion: cluster.open-cluster-management.io/v1beta2
kind: ManagedClusterSetBinding
metadata: {{name: weather, namespace: {namespace}}}
spec: {{clusterSet: weather}}
"""


@pytest.fixture
def stage(home_of_its_own: str) -> Iterator[Stage]:
    """A server that reads as the real one does, over one node of four CPUs."""
    with Stage(Path(home_of_its_own), read=read_item) as running:
        yield running


def test_what_another_file_binds_to_others_takes_nothing(stage: Stage) -> None:
    """A namespace without a binding goes on to choose from everything, as in its own file alone."""
    apply(stage, PLACEMENT + FAR + NEAR)
    told = apply(stage, SET + binding("weather"), name="weather.yaml")
    assert (told["moved"], told["notices"]) == ([], [])
    assert show(stage)["row"]["clusters"] == ["afar"]
    assert [one["decision"] for one in history(stage)] == [show(stage)["row"]["decision"]]


@pytest.mark.parametrize("asks", ["", "  clusterSets: [global]\n"], ids=["any set", "one set"])
def test_a_file_that_empties_a_placement_of_another_says_so(stage: Stage, asks: str) -> None:
    """First of all, in the dry run too; the history names what isn't bound."""
    apply(stage, PLACEMENT + asks + FAR + NEAR)
    for dry_run in (True, False):
        told = apply(stage, SET + binding("default"), name="weather.yaml", dry_run=dry_run)
        notice = told["notices"][0]
        assert notice["code"] == "placement/emptied"
        verb = "would take" if dry_run else "takes"
        assert notice["message"].startswith(f"weather.yaml {verb} all clusters from default/gold")
    [move] = history(stage)[0]["moves"]
    assert move["code"] == ("no_binding" if asks else "not_in_bound_sets")
    assert "bound to" in move["why"]
    assert "removed" not in move["why"]
    assert show(stage)["row"]["candidates"] == 0
    bound = explain(stage, changes=["label afar w=1", "bind weather default"])
    assert bound["clusters"] == ([] if asks else ["afar"])


def test_as_the_reference_a_namespace_without_a_binding_has_nothing(stage: Stage) -> None:
    """Where somebody bound a set to others; that is told, and a binding of its own mends it."""
    text = PLACEMENT.replace("{name: gold}", "{name: gold, annotations: {stellwerk/compat: ocm}}")
    assert apply(stage, text + FAR + NEAR)["placements"][0]["clusters"] == ["afar"]
    told = apply(stage, SET + binding("weather"), name="weather.yaml")
    assert [one["code"] for one in told["notices"]] == ["placement/emptied"]
    assert show(stage)["row"]["conditions"][0]["reason"] == "NoManagedClusterSetBindings"
    mended = explain(stage, changes=["label near w=1", "bind weather default"])
    assert mended["clusters"] == ["near"]


def test_a_placement_that_two_files_say_moves_and_names_the_other(stage: Stage) -> None:
    """In the dry run too; nothing is told where one file alone says it."""
    assert apply(stage, PLACEMENT + FAR)["notices"] == []
    for dry_run in (True, False):
        told = apply(stage, PLACEMENT, name="other.yaml", dry_run=dry_run)
        [notice] = told["notices"]
        assert notice["code"] == "placement/elsewhere"
        assert "default/gold moves from fleet.yaml" in notice["message"]


def test_what_depends_on_the_job_is_told(stage: Stage) -> None:
    """A limit in dollars and an objective don't bound what is decided for all jobs."""
    [notice] = apply(stage, LIMITED + FAR, dry_run=True)["notices"]
    assert notice["code"] == "placement/of-jobs"
    assert "max-usd and objective cost depend on the job" in notice["message"]


def test_a_file_that_means_this_machine_is_told_how_it_is_called() -> None:
    """By its driver it can only mean that; what it calls otherwise would never run anything."""
    here = [a_cluster("vm", a_node("vm"), driver="local"), a_cluster("far", a_node("n"))]
    meant = [a_cluster("laptop", driver="local"), a_cluster("vm", driver="local")]
    [notice] = named_otherwise(meant, here)
    assert notice.message.startswith("laptop has the driver `local`, and this machine is called")
    assert notice.help == "name it `vm`, if this machine is meant"
    assert named_otherwise(meant, here[1:]) == []


SCORED = """
apiVersion: cluster.open-cluster-management.io/v1alpha1
kind: AddOnPlacementScore
metadata: {name: gpu, namespace: %s}
status: {scores: [{name: free, value: 5}]}
"""


def test_a_score_of_a_cluster_that_another_file_has_is_missing_nothing(stage: Stage) -> None:
    """Nor one of a cluster that a driver found; of one that nobody knows it is told."""
    apply(stage, PLACEMENT + FAR)
    for name in ("afar", "lab"):
        assert apply(stage, SCORED % name, name="scores.yaml")["notices"] == [], name
    [notice] = apply(stage, SCORED % "nowhere", name="scores.yaml")["notices"]
    assert notice["code"] == "fleet/no-cluster"
