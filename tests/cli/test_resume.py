"""`stw resume` and `stw cluster drain|resume`: nodes or all of a cluster; refusals are told."""

import json
from typing import Any

import pytest

from stellwerk.cli.commands.cluster_course import read_time
from stellwerk.cli.errors import CommandError
from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer, refuses, row


def answering(server: FakeServer) -> None:
    """A server that takes nodes back, and keeps some free."""
    done = [{"cluster": "room", "node": "a", "state": "ready"}]
    server.on("POST", "/v1/clusters/room/resume", {"cluster": "room", "nodes": done})
    server.on("POST", "/v1/clusters/lab/resume", {"cluster": "lab", "nodes": []})
    note = "drained by ada since 2026-12-01 08:00 UTC"
    nodes = [{"name": "pc1", "state": "drained", "note": note}]
    told = {"cluster": "room", "nodes": nodes, "runs": ["w-1-1"]}
    server.on("POST", "/v1/clusters/room/drain", told)
    rows = [row("digits", "Running") | {"id": "w-1"}]
    server.on("GET", "/v1/workloads", {"items": rows, "seq": 1, "next": None})


def posted(server: FakeServer) -> list[Any]:
    """The bodies of what was asked for."""
    return [json.loads(asked.body) for asked in server.asked if asked.method == "POST"]


def test_places_become_the_nodes_of_clusters(server: FakeServer, stw: Stw) -> None:
    """A cluster means all of its nodes, and one request tells of all that are named."""
    answering(server)
    result = stw("resume", "room/a", "room/c", "room/a", "lab")
    assert (result.code, result.out) == (0, "")
    assert posted(server) == [{"nodes": ["a", "c"]}, {"nodes": []}]
    assert "room/a is ready" in result.err
    assert "next: stw clusters" in result.err
    shown = json.loads(stw("cluster", "resume", "room", "a", "-o", "json").out)
    assert shown == [{"cluster": "room", "node": "a", "state": "ready"}]


def test_nothing_to_resume_is_said(server: FakeServer, stw: Stw) -> None:
    """It is no error."""
    answering(server)
    result = stw("resume", "lab")
    assert (result.code, result.out) == (0, "")
    assert "no node there is drained or quarantined" in result.err


def test_an_unknown_cluster_ends_with_its_code(server: FakeServer, stw: Stw) -> None:
    """One refusal doesn't keep the others."""
    answering(server)
    refused = refuses("find/cluster", "there is no cluster `nowhere`", status=404, exit_code=3)
    server.on("POST", "/v1/clusters/nowhere/resume", refused)
    result = stw("resume", "nowhere", "room/a")
    assert result.code == 3
    assert "there is no cluster `nowhere`" in result.err
    assert "room/a is ready" in result.err


def test_a_drain_says_who_and_what_goes_on(server: FakeServer, stw: Stw) -> None:
    """With the time at which it ends; two of them, or one that is over, are refused."""
    answering(server)
    result = stw("cluster", "drain", "room", "pc1", "--for", "2h")
    assert result.code == 0
    assert "room/pc1: drained by ada since" in result.out + result.err
    assert "runs there go on to their end: digits\n" in result.out + result.err
    (body,) = posted(server)
    assert (body["nodes"], body["now"]) == (["pc1"], False)
    assert body["until_ms"] > 1_700_000_000_000
    for wrong in (
        ("--for", "2h", "--until", "18:00"),
        ("--for", "soon"),
        ("--until", "2001-01-01"),
    ):
        assert stw("cluster", "drain", "room", *wrong).code == 2


def test_removing_what_lies_there_is_asked_first(server: FakeServer, stw: Stw) -> None:
    """Where nobody can be asked, it must be said; what couldn't be done is told."""
    assert stw("cluster", "rm", "room", "--purge").code == 2
    assert stw("cluster", "rm", "room", "--now").code == 2
    lost = "pc2: it can't be reached, so its agent may go on"
    hosts = [
        {"host": "pc1", "agent": "ended", "purged": True},
        {"host": "pc2", "agent": "unknown", "message": lost},
    ]
    server.on("DELETE", "/v1/ssh-clusters/room", {"name": "room", "hosts": hosts})
    result = stw("cluster", "rm", "room", "--purge", "--yes")
    assert result.code == 1
    assert "pc1: nothing of it is left" in result.err
    assert lost in result.err


def test_times_of_day_are_the_next_that_comes() -> None:
    """And a date with a time is taken as it is."""
    noon_ms = read_time("2031-05-05T12:00", 0)
    assert read_time("12:30", noon_ms) - noon_ms == 30 * 60_000
    assert 22 * 3_600_000 < read_time("11:00", noon_ms) - noon_ms < 24 * 3_600_000
    with pytest.raises(CommandError):
        read_time("noon", noon_ms)
