"""`POST /v1/whatif`: who would start, wait, or be stopped; nothing is changed by asking."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stellwerk.core.forecast import compared
from stellwerk.engine.foresee import Question
from stellwerk.server import outlook
from stellwerk.server.reading import read_item
from tests.server.stage import Stage
from tests.server.test_queueing import TEAM, apply, submit


@pytest.fixture
def stage(home_of_its_own: str) -> Iterator[Stage]:
    """A server that reads as the real one does, over one node of four CPUs."""
    with Stage(Path(home_of_its_own), read=read_item) as running:
        yield running


def ask(stage: Stage, *changes: str, status: int = 200, **more: object) -> dict[str, Any]:
    """What would become of all work."""
    answer = stage.post("/v1/whatif", {"changes": list(changes), **more})
    assert answer.status == status, answer.body
    told: dict[str, Any] = answer.json
    return told


async def looked_ahead(question: bytes, limit_s: float) -> bytes:
    """What the program that looks ahead would answer, without its start."""
    asked = msgspec.json.decode(question, type=Question)
    assert asked.after is not None
    assert limit_s > 0
    return msgspec.json.encode(compared(asked.view, asked.after, asked.known, asked.wanted))


def test_changes_are_told_and_not_made(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    """Quota, files, an end, a priority, a task more; slips all at once."""
    apply(stage, TEAM)
    work = [submit(stage) for _ in range(4)]
    names = [one["name"] for one in work]
    for one in work[:2]:
        stage.started(one["id"])
    stage.until(lambda: stage.phase(names[2]) == "Pending", "it waits")
    told = ask(stage, "quota team here cpu=3")
    by_name = {one["name"]: one for one in told["items"]}
    assert by_name[names[2]]["after"]["what"] == "starts now"
    assert by_name[names[2]]["before"]["code"] == "queue_quota"
    assert by_name[names[2]]["before"]["forecast"]["likely_ms"] is None
    assert by_name[names[2]]["earlier"] == by_name[names[2]]["futures"] > 0
    monkeypatch.setattr(outlook, "_run", looked_ahead)
    assert ask(stage, text=TEAM.replace("nominalQuota: 2", "nominalQuota: 3"))["items"]
    assert ask(stage, f"cancel {names[0]}")["items"][0]["name"] == names[2]
    moved = ask(stage, f"priority {names[3]} 9", f"cancel {names[0]}")["items"]
    assert [one["name"] for one in moved if one["after"]["what"] == "starts now"] == [names[3]]
    assert ask(stage, "quota team here cpu=1")["over"][0]["name"] in {"lab", "team"}
    task = {"text": "name: more\nresources: {cpus: 1}\nrun: 'true'\n"}
    [one] = ask(stage, "submit more.yaml", task=task)["items"]
    assert (one["name"], one["after"]["what"]) == ("more", "starts now")
    refused = ask(stage, "quota teem here cpu=1", "drain lap", "dance", status=422)
    assert [one["code"] for one in refused["problems"]] == ["if/change"] * 3
    assert ask(stage, status=422)["code"] == "if/change"
    assert ask(stage, "cancel nobody", status=404)["code"] == "find/workload"
    assert stage.phase(names[2]) == "Pending"


def test_how_waiting_work_stands_and_who_holds_what_it_lacks(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Explained with place, contenders and ways in; the line has every reason and the holders."""
    apply(stage, TEAM)
    work = [submit(stage) for _ in range(4)]
    names = [one["name"] for one in work]
    for one in work[:2]:
        stage.started(one["id"])
    stage.until(lambda: stage.phase(names[3]) == "Pending", "it waits")
    told = stage.get(f"/v1/workloads/{names[3]}/explain").json["standing"]
    assert (told["queue"], told["place"], told["waiting"]) == ("team", 2, 2)
    assert told["ahead_wants"] == {"cpu": "1"}
    assert told["narrow"][0]["available"] == "0"
    assert {one["name"] for one in told["contenders"]} == {*names[:2]}
    assert "withinClusterQueue: Never" in told["contenders"][0]["why"]
    [quota, end] = stage.get(f"/v1/workloads/{names[2]}/explain").json["standing"]["ways"][::-1]
    assert quota["change"] == "quota team here cpu=+1"
    assert end["change"] == f"cancel {names[0]}"
    monkeypatch.setattr(outlook, "_run", looked_ahead)
    assert ask(stage, end["change"])["items"][0]["name"] == names[2]
    items = stage.get("/v1/queueing/line").json["items"]
    assert [one["id"] for one in items] == [one["id"] for one in work[2:]]
    assert items[0]["reasons"][0]["code"] == "queue_quota"
    assert set(items[0]["held_by"]) == {*names[:2]}


def test_shares_over_time_and_the_numbers_of_now(stage: Stage) -> None:
    """What was held by queue and person; the same as metrics, for everybody who may look."""
    half = "apiVersion: config.kueue.x-k8s.io/v1beta2\nkind: Configuration\nadmissionFairSharing:\n"
    apply(stage, f"{TEAM}---\n{half}  usageHalfLifeTime: 1h\n")
    work = [submit(stage) for _ in range(3)]
    for one in work[:2]:
        stage.started(one["id"])
    stage.until(lambda: stage.get("/v1/fair").json["queues"][1]["pairs"][0]["held_h"], "it lasts")
    told = stage.get("/v1/fair").json
    cohort, queue = told["queues"]
    assert (cohort["name"], queue["pairs"][0]["part"]) == ("lab", 1.0)
    assert cohort["pairs"][0]["held_h"] == queue["pairs"][0]["held_h"] > 0
    assert (queue["pairs"][0]["borrowed_h"], queue["pairs"][0]["own_part"]) == (0.0, 1.0)
    assert told["half_life_ms"] == 3_600_000
    assert told["past_use"][0]["local_queue"] == "default/team"
    assert told["past_use"][0]["used"]["cpu"] > 0
    answer = stage.get("/metrics")
    assert (answer.status, answer.headers["content-type"][:10]) == (200, "text/plain")
    page = answer.body.decode()
    for line in (
        'kueue_pending_workloads{cluster_queue="team",status="active"} 1',
        'kueue_admitted_active_workloads{cluster_queue="team"} 2',
        (
            'kueue_cluster_queue_nominal_quota{cohort="lab",cluster_queue="team",flavor="here",'
            'resource="cpu"} 2'
        ),
        'kueue_quota_reserved_wait_time_seconds_count{cluster_queue="team"} 2',
        "# TYPE kueue_quota_reserved_wait_time_seconds histogram",
        'stellwerk_workloads{phase="Pending"} 1',
    ):
        assert f"{line}\n" in page, line
