"""Submitting, listing, showing and steering over a real socket."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.core.model.task import JobRecovery
from stellwerk.server.accept import Read
from stellwerk.server.models import SubmitItem
from tests.server.stage import Stage, read_item


def test_a_job_from_submit_to_its_end(stage: Stage) -> None:
    """The row, the page and the explanation tell the same story."""
    told = stage.submit("echo hi", overrides={"name": "digits"})
    run = stage.started(told["id"])
    stage.report(run, "Running")
    stage.end(run)
    row = stage.get("/v1/workloads/digits/wait?timeout_ms=5000").json
    assert (row["phase"], row["exit_code"], row["runs"]) == ("Succeeded", 0, 1)
    assert row["reason"]["code"] == "succeeded"
    show = stage.get(f"/v1/workloads/{told['id']}").json
    assert show["task"] == "echo hi"
    assert (show["output_dir"], show["work_dir"]) == (f"/results/{run}", None)
    assert [one["node"] for one in show["runs"]] == ["n1"]
    assert [moment["what"] for moment in show["timeline"]][-1].startswith("Succeeded:")
    explained = stage.get("/v1/workloads/digits/explain").json
    assert explained["decision"]["chosen"] == "lab"
    assert explained["decision"]["id"] == show["runs"][0]["decision"]


def test_a_workload_is_found_by_the_beginning_of_its_id(stage: Stage) -> None:
    """A unique beginning is enough; an ambiguous or unknown one is refused in words."""
    first, second = stage.submit(), stage.submit()
    stage.until(lambda: len(stage.get("/v1/workloads?all=1").json["items"]) == 2, "both listed")
    assert stage.get(f"/v1/workloads/{first['id'][:-1]}").json["id"] == first["id"]
    ambiguous = stage.get(f"/v1/workloads/{second['id'][:4]}")
    assert (ambiguous.status, ambiguous.json["exit"]) == (409, 3)
    unknown = stage.get("/v1/workloads/jop")
    assert (unknown.status, unknown.json["exit"]) == (404, 3)
    assert "did you mean `job" in unknown.json["problems"][0]["help"]


def test_names_are_made_unique(stage: Stage) -> None:
    """The second job of a file is another workload with a name of its own."""
    assert [stage.submit()["name"] for _ in range(3)] == ["job", "job-2", "job-3"]


def test_a_waiting_workload_says_why_and_where_it_stands(stage: Stage) -> None:
    """Reasons come from its shape, its place from the queue."""
    stage.started(stage.submit("cpus 4")["id"])
    waiting = stage.submit("cpus 4")
    last = stage.submit("cpus 4")
    stage.until(
        lambda: (
            (stage.get(f"/v1/workloads/{waiting['id']}").json["reason"] or {}).get("code")
            == "no_room"
        ),
        "its reason is told",
    )
    show = stage.get(f"/v1/workloads/{last['id']}").json
    assert show["position"] == {"place": 2, "ahead": 1}
    assert "4 CPUs asked, 0 free on lab" in show["reasons"][0]["sentence"]
    explained = stage.get(f"/v1/workloads/{last['id']}/explain").json
    assert explained["decision"]["chosen"] is None
    assert explained["decision"]["candidates"][0]["shortfalls"][0]["text"] == (
        "CPUs: 4 wanted, 0 free, 4 at most"
    )


def test_one_that_isnt_due_yet_has_no_reason_of_another(home_of_its_own: str) -> None:
    """What others of its shape once waited for doesn't hold for a try that waits for its time."""

    def tried_twice(item: SubmitItem) -> Read:
        read = read_item(item)
        again = JobRecovery(max_restarts_on_errors=1)
        resources = tuple(replace(one, job_recovery=again) for one in read.task.resources)
        return replace(read, task=replace(read.task, resources=resources))

    with Stage(Path(home_of_its_own), tried_twice) as stage:
        first, second = stage.submit("cpus 4"), stage.submit("cpus 4")
        path = f"/v1/workloads/{second['id']}"
        stage.until(lambda: stage.get(path).json["decision"], "it waits for room")
        stage.post(f"/v1/workloads/{first['id']}/cancel")
        stage.end(stage.started(first["id"]))
        stage.end(stage.started(second["id"]), 1)
        stage.until(lambda: stage.phase(second["id"]) == "Pending", "it is tried again")
        show, explained = stage.get(path).json, stage.get(f"{path}/explain").json
        assert [one["code"] for one in show["reasons"]] == ["retrying"]
        assert (show["decision"], explained["decision"]) == (None, None)


def test_what_can_never_fit_is_refused_with_the_largest_that_would(stage: Stage) -> None:
    """Nothing is submitted, and the answer names what would fit."""
    answer = stage.post("/v1/workloads", {"text": "cpus 64", "file": "big.yaml"})
    assert (answer.status, answer.json["code"], answer.json["exit"]) == (422, "place/never-fits", 2)
    assert "can give at most 4" in answer.json["problems"][0]["message"]
    assert stage.get("/v1/workloads?all=1").json["items"] == []


def test_all_problems_of_a_task_are_told_at_once(stage: Stage) -> None:
    """Each with its file, line, column and remedy."""
    answer = stage.post("/v1/workloads", {"text": "bad", "file": "train.yaml"})
    assert answer.status == 422
    assert [(one["code"], one["line"], one["column"]) for one in answer.json["problems"]] == [
        ("spec/unknown-field", 3, 3),
        ("spec/value", 8, 12),
    ]
    assert answer.json["problems"][0]["help"] == "did you mean …?"


def test_cancel_ends_a_waiting_one_at_once_and_gives_a_running_one_notice(stage: Stage) -> None:
    """The answer tells the phase after the command."""
    running = stage.submit("cpus 4")
    run = stage.started(running["id"])
    stage.report(run, "Running")
    waiting = stage.submit("cpus 4")
    answer = stage.post(f"/v1/workloads/{waiting['id']}/cancel").json
    assert (answer["phase"], answer["over_since_ms"]) == ("Cancelled", None)
    stage.post(f"/v1/workloads/{running['id']}/cancel")
    stage.until(lambda: stage.driver.stopped, "the notice arrives")
    assert stage.driver.stopped[0].run == run
    stage.end(run, 143)
    row = stage.get(f"/v1/workloads/{running['id']}/wait?timeout_ms=5000").json
    assert row["phase"] == "Cancelled"
    again = stage.post(f"/v1/workloads/{running['id']}/cancel", {"now": True})
    assert (again.status, again.json["phase"]) == (200, "Cancelled")
    assert again.json["over_since_ms"] >= row["ended_ms"], "it says that it was over before"


def test_hold_release_and_priority(stage: Stage) -> None:
    """A held workload waits until it is released; what can't be done is refused in words."""
    held = stage.submit("true", held=True)
    assert held["phase"] == "Held"
    assert stage.get(f"/v1/workloads/{held['id']}").json["reason"]["sentence"].startswith("held by")
    assert stage.post(f"/v1/workloads/{held['id']}/priority", {"priority": 7}).status == 200
    assert stage.get(f"/v1/workloads/{held['id']}").json["priority"] == 7
    twice = stage.post(f"/v1/workloads/{held['id']}/hold")
    assert (twice.status, twice.json["phase"]) == (200, "Held")
    stage.post(f"/v1/workloads/{held['id']}/release")
    stage.started(held["id"])
    late = stage.post(f"/v1/workloads/{held['id']}/priority", {"priority": 9})
    assert late.status == 409
    lost = stage.post(f"/v1/workloads/{held['id']}/lost")
    assert (lost.status, lost.json["code"]) == (409, "phase/reachable")


def test_what_can_not_be_moved_goes_on(stage: Stage) -> None:
    """Where it is, or to what isn't there; what waits isn't moved either."""
    running, held = stage.submit("true"), stage.submit("true", held=True)
    stage.started(running["id"])
    cluster = stage.get(f"/v1/workloads/{running['id']}").json["runs"][0]["cluster"]
    for id, to, why in (
        (running["id"], {"cluster": cluster}, "it is there already"),
        (running["id"], {"cluster": "moon"}, "there is no cluster moon"),
        (held["id"], {"cluster": cluster}, "it is Held"),
    ):
        refused = stage.post(f"/v1/workloads/{id}/move", to)
        assert (refused.status, refused.json["code"]) == (409, "phase/not-movable")
        assert why in refused.json["detail"]
    assert stage.get(f"/v1/workloads/{running['id']}").json["runs"][0]["notice"] == ""


def test_a_repeated_key_is_the_same_request(stage: Stage) -> None:
    """A client that lost the answer asks again and gets the same workload."""
    first = stage.submit(key="k1")
    again = stage.submit(key="k1")
    assert (again["id"], again["name"]) == (first["id"], first["name"])
    assert stage.submit(key="k2")["id"] != first["id"]


def test_lists_are_filtered_and_paged(stage: Stage) -> None:
    """By phase, label, name and owner; newest first; `next` goes on where a page ended."""
    ids = [stage.submit(labels={"team": "a" if n % 2 else "b"}, held=True)["id"] for n in range(5)]
    team = stage.get("/v1/workloads?label=team=a").json["items"]
    assert [row["id"] for row in team] == [ids[3], ids[1]]
    first = stage.get("/v1/workloads?limit=2").json
    second = stage.get(f"/v1/workloads?limit=9&after={first['next']}").json
    assert [row["id"] for row in (*first["items"], *second["items"])] == ids[::-1]
    assert second["next"] is None
    assert stage.get("/v1/workloads?phase=running").json["items"] == []
    assert len(stage.get("/v1/workloads?phase=held&phase=running&name=job-*").json["items"]) == 4
    wrong = stage.get("/v1/workloads?phase=sleeping&label=x")
    assert (wrong.status, wrong.json["code"]) == (400, "request/invalid")


def test_wait_answers_at_the_end_of_its_time(stage: Stage) -> None:
    """Long polls are bounded; the row says how far it is."""
    held = stage.submit(held=True)
    row = stage.get(f"/v1/workloads/{held['id']}/wait?timeout_ms=50")
    assert (row.status, row.json["phase"]) == (200, "Held")


@pytest.mark.parametrize("count", [1, 25])
def test_a_batch_is_all_or_nothing(stage: Stage, count: int) -> None:
    """Copies of one item, or many items; one bad item refuses all of them, and is named."""
    copies = stage.post(
        "/v1/workloads/batch", {"item": {"text": "cpus 4", "file": "s.yaml"}, "count": count}
    )
    assert (copies.status, len(set(copies.json["ids"]))) == (201, count)
    assert copies.json["names"] == ["s", *(f"s-{n}" for n in range(2, count + 1))]
    items = [{"text": "true"}] * count + [{"text": "bad"}]
    bad = stage.post("/v1/workloads/batch", {"items": items})
    assert bad.status == 422
    assert bad.json["problems"][0]["message"].startswith(f"item {count}: ")
    stage.until(
        lambda: len(stage.get("/v1/workloads?all=1").json["items"]) == count, "no more than those"
    )
    both = stage.post("/v1/workloads/batch", {"items": items, "item": items[0]})
    assert both.status == 400


def test_a_list_goes_on_where_the_page_before_ended(stage: Stage) -> None:
    """Newest first or as they stand in line; each once, and the count is that of all pages."""
    for n in range(7):
        stage.submit(held=True, overrides={"name": f"j{n}"})
        ref = f"j{n}"
        if n in {1, 4}:
            stage.post(f"/v1/workloads/{ref}/priority", {"priority": 5 - 10 * (n == 4)})
    assert names_of_pages(stage, "") == [f"j{n}" for n in (6, 5, 4, 3, 2, 1, 0)]
    line = [f"j{n}" for n in (1, 0, 2, 3, 5, 6, 4)]
    assert names_of_pages(stage, "&sort=line") == line
    assert names_of_pages(stage, "&sort=line&queue=night") == []
    assert stage.get("/v1/workloads?after=x").status == 400


def names_of_pages(stage: Stage, more: str) -> list[str]:
    names: list[str] = []
    after = ""
    while True:
        page = stage.get(f"/v1/workloads?limit=2&total=1{more}&after={after}").json
        names += [one["name"] for one in page["items"]]
        if page["next"] is None:
            assert page["total"] == len(names)
            return names
        after = page["next"]


def test_a_run_out_of_reach_says_since_when_and_why(stage: Stage) -> None:
    """In the list, on its page and in its explanation; a waiting one of that shape doesn't."""
    told = stage.submit("cpus 4", overrides={"name": "far"})
    run = stage.started(told["id"])
    stage.submit("cpus 4", overrides={"name": "waits"})
    stage.until(lambda: "waits" in names(stage), "it is known")
    stage.cut_off("no route to lab")
    stage.until(lambda: stage.get("/v1/workloads/far").json["reasons"], "that is noticed")
    for answer in ("/v1/workloads/far", "/v1/workloads/far/explain"):
        [reason] = stage.get(answer).json["reasons"]
        assert (reason["code"], reason["tier"]) == ("out_of_reach", "unknown")
        assert re.fullmatch(
            r"lab has been out of reach for .*: no route to lab", reason["sentence"]
        )
        since = reason["params"]["since_ms"]
        assert 0 <= stage.clock.now_ms() - since < 60_000
    rows = {row["name"]: row for row in stage.get("/v1/workloads").json["items"]}
    assert rows["far"]["reason"]["code"] == "out_of_reach"
    assert rows["waits"]["reason"]["code"] != "out_of_reach"
    stage.driver.reachable = True
    stage.until(lambda: not stage.get("/v1/workloads/far").json["reasons"], "it answers again")
    stage.end(run)


def names(stage: Stage) -> set[str]:
    return {row["name"] for row in stage.get("/v1/workloads").json["items"]}
