"""What a Placement object says, what is refused in it, and that it is written as it was read."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given

from stellwerk.core.describe.placement_objects import to_object
from stellwerk.core.describe.placements import placement_of, read_placements
from stellwerk.core.describe.selectors import parse_selector, write_selector
from stellwerk.core.model.errors import Problem, SpecError
from stellwerk.core.model.placement import (
    GroupRule,
    Limits,
    Placement,
    Predicate,
    Prioritizer,
    SpreadConstraint,
    Toleration,
)
from stellwerk.core.model.quantity import GIB
from stellwerk.core.model.resources import GpuRequest, Request
from stellwerk.core.model.selectors import Requirement, Selector
from tests.core.describe.placements import REQUIREMENTS, lists, placements

WHOLE = """
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata:
  name: infer
  namespace: team-a
  uid: 9f
  labels: {app: chat}
  annotations:
    note: kept
    stellwerk/objective: cost
    stellwerk/standby: "1"
    stellwerk/move-gain: "15"
    stellwerk/max-usd-per-hour: "12.5"
    stellwerk/require: compliance in (gdpr,iso27001), !test
    stellwerk/max-latency: 40ms
    stellwerk/clients: eu-west, us-east
    stellwerk/gpus: A100-80GB:4
    stellwerk/gpu-memory: 20GB
    stellwerk/cpus: "8"
    stellwerk/memory: 64GB
    stellwerk/nodes: "2"
    stellwerk/data: c4-nl@r3
    stellwerk/prioritize: cost=3, Latency
spec:
  clusterSets: [gpu, lab]
  numberOfClusters: 3
  predicates:
  - requiredClusterSelector:
      labelSelector:
        matchLabels: {tier: gold}
        matchExpressions: [{key: old, operator: DoesNotExist}]
      claimSelector:
        matchExpressions: [{key: region, operator: In, values: [eu, us]}]
      celSelector:
        celExpressions: ["managedCluster.scores('gpu').exists(s, s.value > 3)"]
  prioritizerPolicy:
    mode: Exact
    configurations:
    - scoreCoordinate: {builtIn: Balance}
    - scoreCoordinate: {type: AddOn, addOn: {resourceName: gpu, scoreName: free}}
      weight: -2
  tolerations:
  - {key: gpu, value: a, effect: NoSelect, tolerationSeconds: 300}
  - {operator: Exists}
  spreadPolicy:
    spreadConstraints:
    - {topologyKey: zone, topologyKeyType: Claim, whenUnsatisfiable: DoNotSchedule}
  decisionStrategy:
    groupStrategy:
      clustersPerDecisionGroup: 25%
      decisionGroups:
      - groupName: canary
        groupClusterSelector: {labelSelector: {matchLabels: {canary: "true"}}}
status: {numberOfSelectedClusters: 2}
"""


def problems(text: str) -> tuple[Problem, ...]:
    """What is wrong with a text."""
    with pytest.raises(SpecError) as caught:
        read_placements(text, file="p.yaml")
    return caught.value.problems


def with_spec(spec: dict[str, Any], **annotations: str) -> str:
    """A placement with this spec and these extras, as text."""
    extras = {f"stellwerk/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return yaml.safe_dump(
        {
            "apiVersion": "cluster.open-cluster-management.io/v1beta1",
            "kind": "Placement",
            "metadata": {"name": "p", "namespace": "team-a", "annotations": extras},
            "spec": spec,
        }
    )


def test_all_of_it() -> None:
    """Every part of the object and every extra has its place in the placement."""
    (placement,) = read_placements(WHOLE)
    assert placement == Placement(
        namespace="team-a",
        name="infer",
        sets=("gpu", "lab"),
        predicates=(
            Predicate(
                Selector({"tier": "gold"}, (Requirement("old", "DoesNotExist"),)),
                (Requirement("region", "In", ("eu", "us")),),
                ("managedCluster.scores('gpu').exists(s, s.value > 3)",),
            ),
        ),
        count=3,
        mode="Exact",
        prioritizers=(
            Prioritizer("Balance"),
            Prioritizer("free", -2, "gpu"),
            Prioritizer("Cost", 3),
            Prioritizer("Latency"),
        ),
        tolerations=(
            Toleration("gpu", "Equal", "a", "NoSelect", 300),
            Toleration(operator="Exists"),
        ),
        spread=(SpreadConstraint("zone", "Claim", 1, "DoNotSchedule"),),
        groups=(GroupRule("canary", Selector({"canary": "true"})),),
        clusters_per_group="25%",
        objective="cost",
        limits=Limits(
            claims=(
                Requirement("compliance", "In", ("gdpr", "iso27001")),
                Requirement("test", "DoesNotExist"),
            ),
            usd_per_hour_max=12.5,
            latency_ms=40.0,
            client_regions=("eu-west", "us-east"),
        ),
        demand=Request(8000, 64 * GIB, 0, GpuRequest(4, "A100-80GB", share_bytes=20 * GIB)),
        num_nodes=2,
        standby=1,
        move_gain=15,
        data=("c4-nl@r3",),
        labels={"app": "chat"},
        annotations={"note": "kept"},
    )


@given(placements())
def test_written_and_read_again(placement: Placement) -> None:
    """The object of a placement, as JSON or YAML, is the same placement."""
    written = to_object(placement)
    assert placement_of(json.loads(json.dumps(written))) == placement
    assert read_placements(yaml.safe_dump(written)) == (placement,)


@given(lists(REQUIREMENTS).filter(bool))
def test_selector_texts(requirements: tuple[Requirement, ...]) -> None:
    """A selector written as text reads back as the same conditions."""
    assert parse_selector(write_selector(requirements)) == requirements


@pytest.mark.parametrize(
    "text", ["", "a b", "a,,b", ",", "a,", "a in (b", "a in b", "=x", "!", "a=b=c"]
)
def test_bad_selector_texts(text: str) -> None:
    """What isn't a condition is said, never guessed."""
    assert isinstance(parse_selector(text), str)


def test_a_missing_weight() -> None:
    """It is 1 where a person writes, and nothing in what an API server has stored."""
    spec = {"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Steady"}}]}}
    (written,) = read_placements(with_spec(spec))
    assert written.prioritizers == (Prioritizer("Steady", 1),)
    stored = placement_of({"metadata": {"name": "p", "namespace": "n"}, "spec": spec})
    assert stored.prioritizers == (Prioritizer("Steady", 0),)


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "exists with a value": (
        {"tolerations": [{"key": "a", "operator": "Exists", "value": "b"}]},
        "spec/toleration",
    ),
    "equal without a key": ({"tolerations": [{"value": "b"}]}, "spec/toleration"),
    "a heavy weight": (
        {
            "prioritizerPolicy": {
                "configurations": [{"scoreCoordinate": {"builtIn": "Steady"}, "weight": 11}]
            }
        },
        "spec/value",
    ),
    "no such score": (
        {"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Stedy"}}]}},
        "spec/value",
    ),
    "no such mode": ({"prioritizerPolicy": {"mode": "exact"}}, "spec/value"),
    "no such key": ({"numberOfCluster": 3}, "spec/unknown-field"),
    "a negative number": ({"numberOfClusters": -1}, "spec/value"),
    "no such operator": (
        {
            "predicates": [
                {
                    "requiredClusterSelector": {
                        "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Gt"}]}
                    }
                }
            ]
        },
        "spec/value",
    ),
    "in nothing": (
        {
            "predicates": [
                {
                    "requiredClusterSelector": {
                        "claimSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}
                    }
                }
            ]
        },
        "spec/selector",
    ),
    "labels of claims": (
        {"predicates": [{"requiredClusterSelector": {"claimSelector": {"matchLabels": {}}}}]},
        "spec/unknown-field",
    ),
    "an empty group": (
        {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "0%"}}},
        "spec/value",
    ),
    "half an add-on": (
        {"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"type": "AddOn"}}]}},
        "spec/missing",
    ),
}


@pytest.mark.parametrize(("spec", "code"), BROKEN.values(), ids=BROKEN.keys())
def test_what_is_refused(spec: dict[str, Any], code: str) -> None:
    """Each fault alone, with its place."""
    (problem,) = problems(with_spec(spec))
    assert problem.code == code
    assert problem.file == "p.yaml"
    assert problem.line > 1


@pytest.mark.parametrize(
    "name", ["exists with a value", "equal without a key", "no such score", "no such mode"]
)
def test_what_the_reference_would_stumble_over(name: str) -> None:
    """Under `compat: ocm` it gets through, for the reference's own answer."""
    (placement,) = read_placements(with_spec(BROKEN[name][0], compat="ocm"))
    assert placement.compat == "ocm"
    assert placement.tolerations or placement.prioritizers or placement.mode == "exact"


@pytest.mark.parametrize(
    ("extras", "words"),
    [
        ({"compt": "ocm"}, "did you mean `stellwerk/compat`?"),
        ({"objective": "cheap"}, "one of"),
        ({"max_usd": "much"}, ""),
        ({"max_usd": "nan"}, "finite"),
        ({"gpus": "A100:1.5"}, "neither whole cards"),
        ({"gpus": "0"}, ""),
        ({"memory": "16XB"}, "isn't an amount of memory"),
        ({"max_latency": "40", "clients": "eu"}, "write `12ms`"),
        ({"max_latency": "40ms"}, "from where"),
        ({"require": "a in (b"}, "isn't a condition"),
        ({"prioritize": "Cots=1"}, "did you mean `Cost`?"),
        ({"prioritize": "Cost=11"}, "at most 10"),
        ({"finish_by": "2026-12-01 18:00"}, "time zone"),
        ({"nodes": "0"}, "at least 1"),
        ({"clients": "eu,,us"}, "missing"),
    ],
)
def test_bad_extras(extras: dict[str, str], words: str) -> None:
    """Each says what to write."""
    (problem,) = problems(with_spec({}, **extras))
    assert words in problem.message + problem.help


def test_everything_at_once() -> None:
    """A numeric annotation, a bad name and a wrong kind are told together, each in its line."""
    text = with_spec({"clusterSets": "gpu"}).replace("name: p", "name: P!")
    text = text.replace("annotations: {}", "annotations: {stellwerk/standby: 2}")
    found = problems(text + "---\nkind: Placment\n")
    assert [problem.code for problem in found] == [
        "spec/type",
        "spec/name",
        "spec/type",
        "spec/kind",
    ]
    assert found[0].help == 'write it in quotes: "2"'


def test_left_to_somebody_else() -> None:
    """The reference's annotation for that is known."""
    (placement,) = read_placements(
        WHOLE.replace(
            "note: kept",
            'cluster.open-cluster-management.io/experimental-scheduling-disable: "true"',
        )
    )
    assert placement.external
    assert placement.annotations == {}


def test_nothing() -> None:
    """An empty file is told."""
    assert problems("# nothing\n")[0].code == "spec/empty"


def test_what_a_server_fills_in_is_no_fault() -> None:
    """Defaults of the API that nobody goes by are passed over in an object as it is stored."""
    spec = {"numberOfClusters": 1, "sortBy": "Score", "scoreRateLimit": "1m"}
    stored = {
        "apiVersion": "cluster.open-cluster-management.io/v1beta1",
        "kind": "Placement",
        "metadata": {"name": "p"},
        "spec": spec,
    }
    assert placement_of(stored).count == 1
    with pytest.raises(SpecError, match="sortby"):
        placement_of({**stored, "spec": {**spec, "sortby": "Score"}})
