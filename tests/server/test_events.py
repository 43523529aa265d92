"""The journal as pages and as server-sent events with resume."""

import json
from collections.abc import Iterator
from http.client import HTTPResponse

from tests.server.stage import Stage


def events(answer: HTTPResponse) -> Iterator[dict[str, str]]:
    """Reads server-sent events, comments as `comment`."""
    event: dict[str, str] = {}
    for raw in answer:
        line = raw.decode().rstrip("\n")
        if not line and event:
            yield event
            event = {}
        elif line:
            name, _, value = line.partition(": ")
            event[name or "comment"] = value


def test_pages_go_on_where_they_ended(stage: Stage) -> None:
    """Every record once, in order, with its type."""
    stage.started(stage.submit()["id"])
    first = stage.get("/v1/events?limit=2").json
    rest = stage.get(f"/v1/events?after={first['next']}").json
    seqs = [one["seq"] for one in (*first["items"], *rest["items"])]
    assert seqs == list(range(1, len(seqs) + 1))
    types = [one["event"]["type"] for one in rest["items"]]
    assert types[:2] == ["submitted", "run-planned"]
    assert stage.get("/v1/events?after=100000").json["items"] == []


def test_events_of_one_workload(stage: Stage) -> None:
    """Only those that are about it."""
    stage.submit()
    second = stage.submit(held=True)
    stage.until(lambda: stage.get("/v1/workloads/job-2").status == 200, "known")
    page = stage.get("/v1/events?workload=job-2").json
    assert [one["event"]["submit"]["id"] for one in page["items"]] == [second["id"]]


def test_a_stream_tells_what_was_and_what_comes(stage: Stage) -> None:
    """`id` is the sequence number, `event` the type, `data` the record."""
    answer = stage.stream("/v1/events?follow=1&after=0")
    assert answer.headers["content-type"].startswith("text/event-stream")
    stream = events(answer)
    assert "comment" in next(stream)
    assert next(stream)["event"] == "leader-changed"
    assert next(stream)["event"] == "cluster-observed"
    told = stage.submit(held=True)
    event = next(stream)
    assert (event["event"], event["id"]) == ("submitted", "3")
    assert json.loads(event["data"])["event"]["submit"]["id"] == told["id"]
    stage.hang_up(answer)


def test_a_stream_resumes_after_the_last_event_seen(stage: Stage) -> None:
    """None is missing, none comes twice; a filtered stream resumes too."""
    for _ in range(3):
        stage.submit(held=True)
    stage.until(lambda: stage.get("/v1/server").json["seq"] == 5, "all are journaled")
    headers = {"Accept": "text/event-stream", "Last-Event-ID": "3"}
    answer = stage.stream("/v1/events", headers)
    stream = events(answer)
    next(stream)
    assert [next(stream)["id"], next(stream)["id"]] == ["4", "5"]
    stage.hang_up(answer)
    one = stage.stream("/v1/events?follow=1&workload=job-2", {"Last-Event-ID": "1"})
    filtered = events(one)
    next(filtered)
    assert next(filtered)["id"] == "4"
    stage.hang_up(one)
    wrong = stage.ask("GET", "/v1/events?follow=1", headers={"Last-Event-ID": "yesterday"})
    assert (wrong.status, wrong.json["code"]) == (400, "request/invalid")


def test_a_client_that_reads_nothing_holds_up_nobody(stage: Stage) -> None:
    """Others are told everything meanwhile."""
    idle = stage.stream("/v1/events?follow=1")
    other = stage.stream("/v1/events?follow=1&after=2")
    stage.post("/v1/workloads/batch", {"item": {"text": "x" * 1000, "held": True}, "count": 600})
    seen = 0
    for event in events(other):
        seen += event.get("event") == "submitted"
        if seen == 600:
            break
    assert seen == 600
    stage.hang_up(idle)
    stage.hang_up(other)
