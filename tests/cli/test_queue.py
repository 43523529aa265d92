"""Who waits, in a queue that there is."""

import json
from typing import Any

from tests.cli.conftest import Stw
from tests.client.fake_server import Asked, FakeServer, row


def test_a_queue_that_never_was_is_no_empty_one(server: FakeServer, stw: Stw) -> None:
    """Its name may be a slip; the default one, and one that had something, may be empty."""

    def rows(asked: Asked) -> dict[str, Any]:
        is_known = asked.query.get("queue") == "night" and asked.query["all"] == "1"
        return {"items": [row("x")] if is_known else [], "seq": 1, "next": None, "total": 0}

    server.on("GET", "/v1/workloads", rows)
    server.on("GET", "/v1/forecast", {"items": [], "seq": 1})
    result = stw("queue", "defalt")
    assert result.code == 3
    assert "there is no queue `defalt`; there is only `default`" in result.err
    assert "did you mean `default`?" in result.err
    for known in ("default", "night"):
        assert stw("queue", known).err.startswith(f"nothing waits in queue {known}")


def test_a_cluster_queue_lists_all_that_lead_to_it_with_every_reason(
    server: FakeServer, stw: Stw
) -> None:
    """Its quota beside the list; in the list who holds what is lacking, for programs as well."""
    rows = [row("a", phase="Pending", queue="main"), row("b", phase="Pending", queue="else")]
    server.on("GET", "/v1/workloads", {"items": rows, "seq": 1, "next": None, "total": 2})
    server.on("GET", "/v1/forecast", {"items": [], "seq": 1})
    pair = {"flavor": "f", "resource": "cpu", "quota": "8", "used": "6", "available": "2"}
    one = {"name": "team", "pending": 1, "admitted": 2, "strategy": "StrictFIFO"}
    one |= {"status": "Ready", "local_queues": ["default/main", "x/main"]}
    server.on("GET", "/v1/queueing/queues", {"items": [one], "seq": 1})
    server.on("GET", "/v1/queueing/quota", {"items": [{"name": "team", "pairs": [pair]}], "seq": 1})
    why = {
        "code": "queue_quota",
        "tier": "capacity",
        "sentence": "too little",
        "remedy": "",
        "who": "you",
        "params": {},
    }
    rows[0]["reason"] = why
    turn = {**why, "code": "behind", "tier": "turn", "sentence": "2 ahead"}
    line = {"id": rows[0]["id"], "reasons": [why, turn], "held_by": ["big"], "more_holders": 1}
    server.on("GET", "/v1/queueing/line", {"items": [line], "seq": 1})
    told = stw("queue", "team")
    assert told.code == 0, told.err
    assert "ClusterQueue team: 1 waits, 2 run, StrictFIFO" in told.err
    assert "  f cpu: 6 of 8 used, 2 more to be had" in told.err
    assert len(told.lines) == 2
    assert told.lines[1].endswith("capacity: too little | turn: 2 ahead; held by big and 1 more")
    [item] = json.loads(stw("queue", "team", "-o", "json").out)
    assert (item["name"], item["held_by"]) == ("a", ["big"])
    assert [reason["code"] for reason in item["reasons"]] == ["queue_quota", "behind"]
