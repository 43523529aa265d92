"""One candidate, what if, why it was decided otherwise, and each decision again: on a live server.

Nothing that is asked here changes anything.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stellwerk.core.model.decisions import Decision, Inputs
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.ids import DecisionId, ShapeId
from stellwerk.core.state import IMAGE_SCHEMA
from stellwerk.server.past import Past
from stellwerk.server.reading import read_item
from stellwerk.store import Store
from tests.server.stage import Stage

POLICY = """
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: gold}
spec:
  numberOfClusters: 1
  predicates:
  - requiredClusterSelector: {labelSelector: {matchLabels: {tier: gold}}}
  prioritizerPolicy:
    configurations:
    - {scoreCoordinate: {builtIn: ResourceAllocatableCPU}, weight: 2}
---
apiVersion: stellwerk/v1
kind: Cluster
name: lab
labels: {tier: gold}
---
apiVersion: stellwerk/v1
kind: Cluster
name: afar
labels: {tier: silver}
cpus: 8
memory: 32Gi
"""
TASK = """
name: job
resources: {cpus: 3, labels: {stellwerk/placement: gold}}
run: "true"
"""
WISHING = """
name: job
resources: {cpus: 1, labels: {stellwerk/max-usd-per-hour: "3"}}
run: "true"
"""


def of(stage: Stage, name: str, rest: str = "", status: int = 200) -> Any:
    """What is asked of a workload."""
    answer = stage.get(f"/v1/workloads/{name}/{rest}")
    assert answer.status == status, answer.body
    return answer.json


def what_if(stage: Stage, name: str, *changes: str, status: int = 200) -> Any:
    """What would become of it."""
    answer = stage.post(f"/v1/workloads/{name}/if", {"changes": list(changes)})
    assert answer.status == status, answer.body
    return answer.json


def codes(outcome: dict[str, Any]) -> list[str]:
    """The reasons that are left."""
    return [one["code"] for one in outcome["reasons"]]


def test_a_waiting_one_is_explained_asked_about_started_compared_and_replayed(stage: Stage) -> None:
    """The whole story of two jobs on four CPUs."""
    first = stage.submit("cpus 3", overrides={"name": "first"})
    run = stage.started(first["id"])
    image = stage.engine.state.image()
    stage.store.save_image(image.seq, IMAGE_SCHEMA, msgspec.json.encode(image))
    second = stage.submit("cpus 2", overrides={"name": "second"})
    stage.until(lambda: of(stage, "second", "explain")["decision"], "it is told why it waits")

    here = of(stage, "second", "explain/lab")
    [one] = here["alternatives"]
    assert (one["verdict"], here["decision"], here["placement"]) == ("later", "", None)
    assert codes(one) == ["no_room"]
    ways = [[change["change_if"] for change in way] for way in one["ways"]]
    assert ways == [["ask cpus=1"], ["free lab"]]
    assert one["nodes"] == [
        {"node": "n1", "fits": 0, "why": "CPUs: 2 wanted, 1 free, 4 at most"},
    ]
    for way in ways:
        assert what_if(stage, "second", *way)["after"]["cluster"] == "lab"
    [problem] = of(stage, "second", "explain/lob", 404)["problems"]
    assert (problem["code"], problem["help"]) == ("find/cluster", "did you mean `lab`?")

    changed = what_if(stage, "second", "drain lab/n1")
    assert codes(changed["before"]) == ["no_room"]
    assert [one["sentence"] for one in changed["after"]["reasons"]] == [
        "lab takes nothing new: drained"
    ]
    moved = what_if(stage, "first", "lose lab")
    assert (moved["runs_on"], moved["before"]["cluster"]) == ("lab", "lab")
    assert codes(moved["after"]) == ["no_cluster"]
    refused = what_if(stage, "second", "weight Cost=5", "fre lab", status=422)
    assert [one["code"] for one in refused["problems"]] == ["if/change"] * 2
    assert stage.phase("second") == "Pending"

    waited = of(stage, "second", "replay")
    assert (waited["identical"], waited["now"]) == (True, [])
    same = of(stage, "first", "difference")
    assert (same["second"], same["taken"], same["left"], same["clusters"]) == ("now", [], [], [])

    stage.end(run)
    stage.started(second["id"])
    told = of(stage, "second", "difference")
    assert (told["taken"], told["left"]) == (["lab"], [])
    [lab] = told["clusters"]
    assert lab["verdict"] == ["later -> chosen", "no more: 2 CPUs asked, 1 free on lab"]
    assert lab["facts"] == ["left: first (3 CPUs)"]
    again = of(stage, "second", f"replay?decision={told['second']}")
    assert (again["identical"], again["same_version"], again["now"]) == (True, True, ["lab"])
    assert of(stage, first["id"], "replay")["identical"], "it was made before the image"
    [one] = of(stage, "second", "explain/lab")["alternatives"]
    assert (one["verdict"], one["ways"]) == ("chosen", [])
    assert one["nodes"][0]["fits"] == 1
    unknown = of(stage, "second", "difference?first=d-none", 404)["problems"][0]
    assert told["first"] in unknown["help"]
    stage.until(lambda: stage.phase("first") == "Succeeded", "the first is over")
    alone = of(stage, first["id"], "difference", 404)["problems"][0]
    assert (alone["code"], told["first"] in alone["message"]) == ("find/decision", False)
    assert what_if(stage, first["id"], "lose lab", status=404)["problems"][0]["code"] == "find/over"


@pytest.fixture
def reading(home_of_its_own: str) -> Iterator[Stage]:
    """A server that reads task files as the real one does, over one node of four CPUs."""
    with Stage(Path(home_of_its_own), read=read_item) as running:
        yield running


def test_what_a_placement_says_of_a_candidate(reading: Stage) -> None:
    """Its place, its rules and scores; changes of what a placement looks at mean something then."""
    stage = reading
    applied = stage.post("/v1/fleet/apply", {"text": POLICY, "file": "fleet.yaml"})
    assert applied.status == 200, applied.body
    job = stage.submit(TASK)
    stage.started(job["id"])
    here = of(stage, "job", "explain/lab")
    standing = here["placement"]
    assert (standing["placement"], standing["clusters"]) == ("default/gold", ["lab"])
    scores = {one["title"]: one for one in standing["candidate"]["scores"]}
    assert scores["ResourceAllocatableCPU"]["weight"] == 2
    assert "placement" in here["alternatives"][0]["scores"]
    far = of(stage, "job", "explain/afar")
    assert far["alternatives"] == []
    assert far["placement"]["candidate"]["verdict"] == "refused"
    assert far["placement"]["changes"] == ["label afar tier=gold"]

    tainted = what_if(stage, "job", "taint lab x=y:NoSelect")
    assert (tainted["before"]["cluster"], tainted["after"]["cluster"]) == ("lab", None)
    assert tainted["after"]["placement"] == []
    assert codes(tainted["after"]) == ["not_chosen"]
    both = what_if(stage, "job", "label afar tier=gold", "weight ResourceAllocatableCPU=3")
    assert both["after"]["placement"] in (["afar"], ["lab"])
    limit = what_if(stage, "job", "limit max-usd=3", "hold lab faces", status=422)
    assert [one["code"] for one in limit["problems"]] == ["if/change"] * 2
    dear = what_if(stage, "job", "price lab 9", "wish job max-usd-per-hour=1")
    assert (dear["before"]["cluster"], dear["after"]["cluster"]) == ("lab", None)
    assert of(stage, "job", "replay")["identical"]


def test_what_wishes_say_of_a_candidate(reading: Stage) -> None:
    """They are a placement of the work's own: prices mean something, and it comes out again."""
    stage = reading
    wish = WISHING.replace("job", "wish")
    stage.started(stage.submit(wish)["id"])
    dear = what_if(stage, "wish", "price lab 9")
    assert (dear["before"]["cluster"], codes(dear["after"])) == ("lab", ["wish_unmet"])
    cheap = what_if(stage, "wish", "price lab 9", "limit max-usd-per-hour=20")
    assert cheap["after"]["cluster"] == "lab"
    assert of(stage, "wish", "replay")["identical"]
    assert of(stage, "wish", "explain/lab")["alternatives"][0]["verdict"] == "chosen"


def test_what_an_old_version_decided_is_said_to_be_lost(tmp_path: Path) -> None:
    """Without the record that it was made after, nothing can be rebuilt."""
    decision = Decision(DecisionId("d-old"), Inputs(ShapeId("s"), {}, 1, 0, "0.0.1"), ())
    with Store.open(tmp_path) as store, pytest.raises(StellwerkError, match="d-old was made by"):
        Past(store).of(decision)
