"""`stw resume`: one node, or all of a cluster that are quarantined; refusals are told."""

import json
from typing import Any

from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer, refuses


def node(name: str, state: str) -> dict[str, Any]:
    return {
        "name": name,
        "state": state,
        "note": "3 workloads in a row" if state != "ready" else "",
    }


FLEET = {
    "items": [
        {
            "name": "room",
            "nodes": [node("a", "quarantined"), node("b", "ready"), node("c", "quarantined")],
        },
        {"name": "lab", "nodes": [node("n1", "ready")]},
    ]
}


def answering(server: FakeServer) -> None:
    """A server that has a fleet and takes nodes back."""
    server.on("GET", "/v1/clusters", FLEET)
    done = {"cluster": "room", "node": "a", "state": "ready"}
    server.on("POST", "/v1/clusters/room/nodes/[a-z]/resume", done)


def test_a_cluster_means_all_of_its_quarantined_nodes(server: FakeServer, stw: Stw) -> None:
    """Nodes that work are left alone; each request has a key of its own."""
    answering(server)
    result = stw("resume", "room")
    assert (result.code, result.out) == (0, "")
    posts = [asked for asked in server.asked if asked.method == "POST"]
    assert [asked.path.split("/")[5] for asked in posts] == ["a", "c"]
    assert "room/a is ready" in result.err
    assert "next: stw clusters" in result.err


def test_a_node_is_named_with_its_cluster(server: FakeServer, stw: Stw) -> None:
    """Without asking what else there is."""
    answering(server)
    shown = json.loads(stw("resume", "room/a", "room/a", "-o", "json").out)
    assert shown == [{"cluster": "room", "node": "a", "state": "ready"}]
    assert [asked.method for asked in server.asked if asked.path != "/v1/server"] == ["POST"]


def test_nothing_to_resume_is_said(server: FakeServer, stw: Stw) -> None:
    """It is no error."""
    answering(server)
    result = stw("resume", "lab")
    assert (result.code, result.out) == (0, "")
    assert "no node there is quarantined" in result.err


def test_an_unknown_cluster_and_a_refusal_end_with_their_codes(
    server: FakeServer, stw: Stw
) -> None:
    """One refusal doesn't keep the others."""
    answering(server)
    result = stw("resume", "nowhere")
    assert result.code == 3
    assert "there is no cluster `nowhere`  help: there is: room, lab" in result.err
    sentence = "lab/n1 is ready, not quarantined"
    refused = refuses("phase/not-quarantined", sentence, status=409, exit_code=1)
    server.on("POST", "/v1/clusters/lab/nodes/n1/resume", refused)
    result = stw("resume", "lab/n1", "room/a")
    assert result.code == 1
    assert "lab/n1 is ready, not quarantined" in result.err
    assert "room/a is ready" in result.err
