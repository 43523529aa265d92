"""Placements through the API: applied, decided, explained, replayed, obeyed by work."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.server.reading import read_item
from tests.server.stage import Stage

PLACEMENT = """
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: gold}
spec:
  numberOfClusters: 1
  predicates:
  - requiredClusterSelector: {labelSelector: {matchLabels: {tier: gold}}}
"""


def cluster(name: str, more: str = "", tier: str = "gold") -> str:
    """A declared cluster."""
    return f"""
---
apiVersion: stellwerk/v1
kind: Cluster
name: {name}
labels: {{tier: {tier}}}
cpus: 8
memory: 32Gi
{more}
"""


LAB = """
---
apiVersion: stellwerk/v1
kind: Cluster
name: lab
labels: {tier: gold}
"""
TAINT = "taints: [{key: lectures, effect: NoSelect}]"
FAR, NEAR = cluster("afar"), cluster("near")
TASK = """
name: job
resources: {cpus: 1, labels: {stellwerk/placement: gold}}
run: "true"
"""


@pytest.fixture
def stage(home_of_its_own: str) -> Iterator[Stage]:
    """A server that reads as the real one does, over one node of four CPUs."""
    with Stage(Path(home_of_its_own), read=read_item) as running:
        yield running


def apply(stage: Stage, text: str, status: int = 200, **more: object) -> dict[str, Any]:
    """Applies a fleet file."""
    body = {"text": text, "file": "fleet.yaml", **more}
    answer = stage.post("/v1/fleet/apply", body)
    assert answer.status == status, answer.body
    told: dict[str, Any] = answer.json
    return told


def show(stage: Stage, name: str = "default/gold") -> dict[str, Any]:
    """One placement."""
    told: dict[str, Any] = stage.get(f"/v1/placements/{name}").json
    return told


def explain(stage: Stage, **body: object) -> dict[str, Any]:
    """Why its clusters."""
    answer = stage.post("/v1/placements/default/gold/explain", body)
    assert answer.status == 200, answer.body
    told: dict[str, Any] = answer.json
    return told


def history(stage: Stage) -> list[dict[str, Any]]:
    """What was decided for it, newest first."""
    items: list[dict[str, Any]] = stage.get("/v1/placements/default/gold/history").json["items"]
    return items


def test_a_file_is_applied_and_decided(stage: Stage) -> None:
    """The answer has the decision already; lists and pages agree, and the object reads back."""
    told = apply(stage, PLACEMENT + FAR + NEAR)
    assert (told["name"], told["added"], told["dry_run"]) == ("fleet.yaml", ["afar", "near"], False)
    [placement] = told["placements"]
    assert (placement["change"], placement["clusters"]) == ("new", ["afar"])
    [row] = stage.get("/v1/placements").json["items"]
    assert (row["key"], row["clusters"], row["wanted"], row["candidates"]) == (
        "default/gold", ["afar"], 1, 2,
    )  # fmt: skip
    page = show(stage)
    assert page["row"] == row
    assert page["refused"]["lab"].startswith("label tier")
    again = apply(stage, PLACEMENT + FAR + NEAR)
    assert (again["added"], again["changed"], again["placements"][0]["change"]) == ([], [], "same")
    assert len(history(stage)) == 1
    assert page["object"]["spec"]["numberOfClusters"] == 1


def test_what_changes_nothing_is_answered_without_waiting_for_an_event(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is journaled for a file that is applied again, and nobody waits for that."""
    apply(stage, PLACEMENT + FAR)
    before = stage.get("/v1/server").json["seq"]
    monkeypatch.setattr("stellwerk.server.handlers.placements.EFFECT_S", 60.0)
    begun = time.monotonic()
    apply(stage, PLACEMENT + FAR)
    assert time.monotonic() - begun < 50
    assert stage.get("/v1/server").json["seq"] == before


def test_a_dry_run_says_what_would_change_and_changes_nothing(stage: Stage) -> None:
    """Also for a placement that isn't in the file."""
    apply(stage, PLACEMENT + FAR + NEAR)
    seq = stage.store.seq()
    told = apply(stage, cluster("aa"), name="more.yaml", dry_run=True)
    assert (told["dry_run"], told["added"], told["placements"]) == (True, ["aa"], [])
    tainted = apply(stage, cluster("afar", TAINT) + NEAR, dry_run=True)
    assert tainted["changed"] == ["afar"]
    [moved] = tainted["moved"]
    assert (moved["before"], moved["clusters"]) == (["afar"], ["near"])
    assert [one["code"] for one in tainted["notices"]] == ["placement/left-out"]
    assert stage.store.seq() == seq
    assert show(stage)["row"]["clusters"] == ["afar"]


def test_a_taint_moves_the_decision_with_its_reason(stage: Stage) -> None:
    """History, difference and replay tell it; what was decided first comes out again as well."""
    apply(stage, PLACEMENT + FAR + NEAR)
    told = apply(stage, PLACEMENT + cluster("afar", TAINT) + NEAR)
    assert told["placements"][0]["clusters"] == ["near"]
    newest, first = history(stage)
    [move] = newest["moves"]
    assert (move["left"], move["taken"]) == ("afar", "near")
    assert "afar" in move["why"]
    query = f"first={first['decision']}&second={newest['decision']}"
    differs = stage.get(f"/v1/placed/difference?{query}").json
    assert (differs["taken"], differs["left"]) == (["near"], ["afar"])
    assert differs["inputs"] == ["facts of 1 cluster"]
    [about] = [one for one in differs["clusters"] if one["cluster"] == "afar"]
    assert about["verdict"][0] == "chosen -> refused"
    assert any(fact.startswith("taints: ") for fact in about["facts"])
    for one in (newest, first):
        replayed = stage.get(f"/v1/placed/{one['decision']}/replay").json
        assert (replayed["identical"], replayed["differences"]) == (True, [])
        assert replayed["then"] == one["clusters"]


def test_an_explanation_has_rules_numbers_and_changes(stage: Stage) -> None:
    """Each failed rule with what would turn it; the scores add up; what if it were turned."""
    apply(stage, PLACEMENT + FAR + cluster("near", TAINT) + cluster("iron", tier="iron"))
    told = explain(stage)
    by_name = {one["cluster"]: one for one in told["candidates"]}
    assert by_name["afar"]["verdict"] == "chosen"
    assert by_name["afar"]["total"] == sum(s["contribution"] for s in by_name["afar"]["scores"])
    [taint] = by_name["near"]["failed"]
    assert (taint["filter"], taint["change"]["kind"]) == ("TaintToleration", "tolerate")
    [label] = by_name["iron"]["failed"]
    assert (label["change"]["kind"], label["change"]["value"]) == ("label", "gold")
    what_if = explain(stage, changes=["lose afar", "untaint near lectures"])
    assert (what_if["before"], what_if["clusters"]) == (["afar"], ["near"])
    assert [one["cluster"] for one in explain(stage, clusters=["iron"])["candidates"]] == ["iron"]
    wrong = stage.post("/v1/placements/default/gold/explain", {"changes": ["loose afar"]})
    assert (wrong.status, wrong.json["code"]) == (422, "if/change")
    of_jobs = stage.post("/v1/placements/default/gold/explain", {"changes": ["limit max-usd=1"]})
    assert (of_jobs.status, of_jobs.json["code"]) == (422, "if/change")
    assert "leaves `max-usd` to each job" in of_jobs.json["detail"]


def test_a_broken_file_changes_nothing_and_is_told_whole(stage: Stage) -> None:
    """A toleration and another placement's expression in one answer; the last decision stays."""
    apply(stage, PLACEMENT + FAR)
    wrong = "  tolerations: [{key: a, operator: Exists, value: b}]\n"
    cel = """
---
apiVersion: cluster.open-cluster-management.io/v1beta1
kind: Placement
metadata: {name: other}
spec:
  predicates:
  - requiredClusterSelector: {celSelector: {celExpressions: ["managedCluster.nonsense("]}}
"""
    told = apply(stage, PLACEMENT + wrong + cel + NEAR, 422)
    assert [(one["code"], one["path"]) for one in told["problems"]] == [
        ("spec/toleration", "spec.tolerations[0]"),
        (
            "placement/spec",
            "spec.predicates[0].requiredClusterSelector.celSelector.celExpressions[0]",
        ),
    ]
    text = PLACEMENT + wrong + cel + NEAR
    written = next(n for n, line in enumerate(text.split("\n"), 1) if "nonsense" in line)
    assert (told["problems"][1]["file"], told["problems"][1]["line"]) == ("fleet.yaml", written)
    assert [one["key"] for one in stage.get("/v1/placements").json["items"]] == ["default/gold"]
    assert show(stage)["row"]["clusters"] == ["afar"]
    assert len(history(stage)) == 1


def test_work_goes_where_its_placement_chose(stage: Stage) -> None:
    """Told in words while that is a cluster that no driver reaches; started when it is one here."""
    apply(stage, PLACEMENT + FAR)
    work = stage.submit(TASK)["id"]

    def codes() -> list[str]:
        told = stage.get(f"/v1/workloads/{work}").json["reasons"]
        return [one["code"] for one in told]

    stage.until(lambda: codes() == ["not_chosen", "no_driver"], "both reasons are told")
    told = stage.get(f"/v1/workloads/{work}/explain").json
    by_name = {one["cluster"]: one for one in told["decision"]["candidates"]}
    assert "tier" in by_name["lab"]["reasons"][0]["sentence"]
    apply(stage, PLACEMENT + LAB)
    stage.end(stage.started(work))
    stage.until(lambda: stage.phase(work) == "Succeeded", "it has run")


def test_work_waits_in_words_for_a_placement_that_is_gone(stage: Stage) -> None:
    """One that never was is refused at once, with the one that was meant."""
    answer = stage.post("/v1/workloads", {"text": TASK, "file": "job.yaml"})
    assert (answer.status, answer.json["code"]) == (422, "submit/placement")
    apply(stage, PLACEMENT + FAR)
    near = stage.post("/v1/workloads", {"text": TASK.replace("gold", "golt"), "file": "job.yaml"})
    assert near.json["problems"][0]["help"] == "did you mean `default/gold`?"
    work = stage.submit(TASK)["id"]
    assert stage.post("/v1/placements/default/gold/delete", {}).json == {"key": "default/gold"}

    def reasons() -> list[dict[str, Any]]:
        told: list[dict[str, Any]] = stage.get(f"/v1/workloads/{work}").json["reasons"]
        return told

    stage.until(lambda: [one["code"] for one in reasons()] == ["no_placement"], "it is told")
    assert reasons()[0]["tier"] == "blocked"
    assert history(stage)[0]["deleted"]
    apply(stage, PLACEMENT + LAB)
    stage.started(work)


def test_what_isn_t_there_is_told(stage: Stage) -> None:
    """Placements, decisions and clusters that nobody knows."""
    assert stage.get("/v1/placements/default/gold").json["code"] == "find/placement"
    assert stage.get("/v1/placed/pd-0/replay").json["code"] == "find/decision"
    apply(stage, PLACEMENT + FAR)
    told = stage.post("/v1/placements/default/gold/explain", {"clusters": ["afra"]}).json
    assert (told["code"], told["problems"][0]["help"]) == ("find/cluster", "did you mean `afar`?")
    assert apply(stage, PLACEMENT, 422, name="../x")["problems"][0]["code"] == "fleet/name"


def test_a_command_that_tells_scores_moves_a_decision(stage: Stage, tmp_path: Path) -> None:
    """Its numbers are shown with their age and validity; a fault of its object has its place."""
    file = tmp_path / "scores.json"
    file.write_text('{"afar": 90, "near": 10}')
    source = f"""
---
apiVersion: stellwerk/v1
kind: ScoreSource
name: idle
command: [cat, {file}]
every: 1s
valid: 1h
"""
    ranked = """
  prioritizerPolicy:
    mode: Exact
    configurations:
    - weight: 3
      scoreCoordinate: {type: AddOn, addOn: {resourceName: idle, scoreName: value}}
"""
    told = apply(stage, PLACEMENT.rstrip() + ranked + FAR + NEAR + source)
    assert told["placements"][0]["clusters"] == ["afar"]
    facts = stage.get("/v1/clusters/afar").json["facts"]
    [score] = facts["scores"]
    assert (score["name"], score["value"], score["stale"]) == ("idle/value", 90, False)
    assert score["source"] == "source idle"
    file.write_text('{"afar": 10, "near": 90}')
    stage.until(lambda: show(stage)["row"]["clusters"] == ["near"], "the decision moves")
    assert history(stage)[0]["moves"][0]["code"] == "better_cluster"
    wrong = source.replace("every: 1s", "every: 10ms").replace("command: [", "comand: [")
    codes = [one["code"] for one in apply(stage, PLACEMENT + wrong, 422)["problems"]]
    assert sorted(codes) == ["spec/missing", "spec/unknown-field", "spec/value"]
