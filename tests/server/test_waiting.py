"""What waits is told by the numbers of now; the journal isn't written for that."""

import pytest
from msgspec.structs import replace

from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.view import View
from stellwerk.server import waiting
from tests.server.stage import Stage


def test_reasons_drift_with_what_is_free_and_nothing_is_written(stage: Stage) -> None:
    """Page, list and explanation tell of what is free now; the stored decision stays as it was."""
    small = stage.submit("cpus 1", overrides={"name": "small"})
    large = stage.submit("cpus 3", overrides={"name": "large"})
    for one in (small, large):
        stage.report(stage.started(one["id"]), "Running")
    waits = stage.submit("cpus 4", overrides={"name": "late"})
    path = f"/v1/workloads/{waits['id']}"
    stage.until(lambda: stage.get(f"{path}/explain").json["decision"], "it waits")
    before = stage.get(f"{path}/explain").json
    [short] = before["current"]["candidates"][0]["shortfalls"]
    assert (short["resource"], short["free"]) == ("CPUs", 0)

    stage.end(f"{small['id']}-1")
    stage.until(lambda: stage.phase(small["id"]) == "Succeeded", "room is given back")
    after = stage.get(f"{path}/explain").json
    [short] = after["current"]["candidates"][0]["shortfalls"]
    assert (short["resource"], short["free"]) == ("CPUs", 1000)
    assert after["current"]["at_ms"] >= after["decision"]["at_ms"]
    assert after["decision"]["id"] == before["decision"]["id"], "it is told once"
    told = after["reasons"][0]["sentence"]
    assert told != before["reasons"][0]["sentence"]
    [row] = stage.get("/v1/workloads?phase=Pending").json["items"]
    assert row["reason"]["sentence"] == told
    assert stage.get(path).json["reasons"][0]["sentence"] == told
    records = stage.get("/v1/events?limit=1000").json["items"]
    assert [one["event"]["type"] for one in records].count("shape-waits") == 1


def test_who_passed_is_told_and_until_when_others_may(stage: Stage) -> None:
    """A small one behind it took room that it couldn't use."""
    first = stage.submit("cpus 3", overrides={"name": "first"})
    stage.report(stage.started(first["id"]), "Running")
    waits = stage.submit("cpus 2", overrides={"name": "late"})
    path = f"/v1/workloads/{waits['id']}/explain"
    stage.until(lambda: stage.get(path).json["decision"], "it waits")
    later = stage.submit("cpus 1", overrides={"name": "later"})
    stage.report(stage.started(later["id"]), "Running")
    told = stage.get(path).json
    assert {one["name"]: one["passed"] for one in told["holders"]} == {
        "first": False,
        "later": True,
    }
    assert told["passed_until_ms"] > told["current"]["at_ms"]


def test_what_is_asked_again_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as nothing happens; what costs much also for a while after that."""
    asked: list[int] = []

    def look(view: View, *_: object) -> dict[ShapeId, Decision]:
        asked.append(view.seq)
        return {}

    monkeypatch.setattr(waiting, "waiting_now", look)
    view = View(seq=1, now_ms=1_000, seed=0, clusters=(), shapes=(), stops=())
    found = waiting.Waiting()
    shape = ShapeId("s")
    assert found.now(view, []) == {}
    for now_ms in (1_000, 1_500, 2_600):
        found.now(replace(view, now_ms=now_ms), [shape])
    assert asked == [1, 1], "the second one is fresh, the third isn't"
    found.now(replace(view, seq=2, now_ms=2_600), [shape])
    assert asked == [1, 1, 2]
    found._cost_ms = 30.0
    found.now(replace(view, seq=3, now_ms=3_000), [shape])
    assert asked == [1, 1, 2], "600 ms must do"
    found.now(replace(view, seq=3, now_ms=3_300), [shape])
    found.now(replace(view, seq=3, now_ms=3_300), [shape, ShapeId("t")])
    assert asked == [1, 1, 2, 3, 3]
