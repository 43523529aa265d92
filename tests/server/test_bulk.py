"""One request for many workloads: chosen by names or filters, ordered together, done once."""

from typing import Any

import pytest

from tests.server.stage import Answer, Stage

CHANGE = "/v1/workloads/change"


def change(stage: Stage, verb: str, key: str = "", **body: Any) -> Answer:
    headers = {"Idempotency-Key": key} if key else {}
    return stage.ask("POST", CHANGE, {"verb": verb, **body}, headers)


def full(stage: Stage) -> dict[str, Any]:
    """One that takes the whole cluster, so that others wait."""
    first = stage.submit("cpus 4", overrides={"name": "full"})
    stage.started(first["id"])
    return first


def many(stage: Stage, name: str, count: int, **more: Any) -> list[str]:
    item = {"text": "cpus 4", "overrides": {"name": name}, **more}
    ids: list[str] = stage.post("/v1/workloads/batch", {"item": item, "count": count}).json["ids"]
    return ids


def phases(stage: Stage) -> dict[str, str]:
    rows = stage.get("/v1/workloads?all=1").json["items"]
    return {row["name"]: row["phase"] for row in rows}


def test_all_are_cancelled_by_one_request(stage: Stage) -> None:
    """Who waits is over at once and first; who runs is asked; the numbers say so."""
    full(stage)
    many(stage, "w", 50)
    answer = change(stage, "cancel", all=True, show=2)
    assert answer.status == 200
    told = answer.json
    assert (told["count"], told["refused"]) == (51, [])
    assert told["phases"]["Cancelled"] == 50
    assert [one["name"] for one in told["items"]] == ["w-50", "w-49"]
    stage.until(lambda: stage.driver.stopped, "it is asked to end")
    assert len(stage.driver.started) == 1


def test_filters_hold_together(stage: Stage) -> None:
    """Labels, a phase, and what the verb can be for at all."""
    full(stage)
    many(stage, "red", 3, labels={"c": "red"})
    many(stage, "blue", 2, labels={"c": "blue"})
    many(stage, "kept", 1, labels={"c": "red"}, held=True)
    assert change(stage, "hold", labels={"c": "red"}).json["count"] == 3
    assert phases(stage)["red-2"] == "Held"
    assert phases(stage)["blue"] == "Pending"
    assert change(stage, "release", labels={"c": "red"}, phases=["held"]).json["count"] == 4
    assert change(stage, "priority", all=True, priority=5).json["phases"] == {"Pending": 6}
    assert stage.get("/v1/workloads/blue-2").json["priority"] == 5
    assert change(stage, "cancel", phases=["Pending"]).json["count"] == 6
    assert set(phases(stage).values()) == {"Starting", "Cancelled"}
    again = change(stage, "cancel", names=["red-2", "full"]).json["items"]
    since = {one["name"]: one["over_since_ms"] for one in again}
    assert (since["full"], since["red-2"] > 0) == (None, True), "which of them was over before"


def test_names_and_patterns(stage: Stage) -> None:
    """Every name that can't be served is told, and doesn't keep the others from being."""
    full(stage)
    many(stage, "sweep", 12)
    many(stage, "eval", 1)
    stage.submit(held=True, overrides={"name": "kept"})
    told = change(stage, "hold", names=["sweep-1*", "eval", "evil", "kept", "full", "no-*"]).json
    assert told["count"] == 5
    assert told["phases"] == {"Held": 5}
    assert [(one["name"], one["code"], one["exit"]) for one in told["refused"]] == [
        ("evil", "find/workload", 3),
        ("full", "phase/not-pending", 1),
        ("no-*", "find/workload", 3),
    ]
    assert "did you mean `eval`?" in told["refused"][0]["help"]
    now = phases(stage)
    assert {name for name in now if now[name] == "Held"} == {
        "sweep-10",
        "sweep-11",
        "sweep-12",
        "eval",
        "kept",
    }


def test_the_same_key_does_it_once(stage: Stage) -> None:
    """A repetition tells of the same workloads, whatever came meanwhile; another is refused."""
    full(stage)
    many(stage, "w", 3)
    first = change(stage, "hold", key="k1", all=True).json
    many(stage, "late", 1)
    again = change(stage, "hold", key="k1", all=True).json
    assert (first["count"], first["repeated"]) == (3, False)
    assert (again["count"], again["repeated"]) == (3, True)
    assert phases(stage)["late"] == "Pending"
    other = change(stage, "release", key="k1", all=True)
    assert (other.status, other.json["code"], other.json["exit"]) == (409, "key/other-content", 2)
    assert phases(stage)["w"] == "Held"


def test_a_dry_run_orders_nothing(stage: Stage) -> None:
    """It counts, and leaves all as it is."""
    full(stage)
    many(stage, "w", 3)
    told = change(stage, "cancel", names=["w*"], dry_run=True).json
    assert (told["count"], told["phases"]) == (3, {"Pending": 3})
    assert phases(stage)["w"] == "Pending"


@pytest.mark.parametrize(
    ("body", "what"),
    [
        ({}, "say which workloads"),
        ({"all": True, "names": ["a"]}, "say which workloads"),
        ({"names": ["a"], "labels": {"a": "b"}}, "say which workloads"),
        ({"all": True, "priority": 3}, "belongs to the verb"),
        ({"all": True, "phases": ["Failed"]}, "cancel does nothing to what is Failed"),
        ({"all": True, "phases": ["Nonsense"]}, "`Nonsense` is no phase"),
        ({"all": True, "colour": "red"}, "colour"),
    ],
)
def test_what_makes_no_sense_is_refused(stage: Stage, body: dict[str, Any], what: str) -> None:
    """In words, and nothing is done."""
    held = stage.submit(held=True)
    answer = change(stage, "cancel", **body)
    assert (answer.status, answer.json["code"]) == (400, "request/invalid")
    assert what in answer.json["detail"]
    assert stage.phase(held["id"]) == "Held"
