"""Clusters over SSH through the API: what is kept of them, what is refused, what is asked first."""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.core.lower import Lowered, lower
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.reports import ClusterReport
from stellwerk.core.model.task import Task
from stellwerk.server.accept import stay_here
from stellwerk.testing.builders import a_cluster
from tests.drivers.sshd import Sshd, an_sshd, be_a_person
from tests.server.stage import Stage


@pytest.fixture
def sshd(home_of_its_own: str) -> Iterator[Sshd]:
    with an_sshd(Path(tempfile.mkdtemp(prefix="stw-sshd-")) / "s") as sshd:
        sshd.admit("ada")
        yield sshd


def test_a_cluster_is_kept_once_its_host_is_trusted(stage: Stage, sshd: Sshd) -> None:
    """First its key is shown, then it is looked at and served; removed, it is served no more."""
    be_a_person(Path.home(), opens=sshd)
    host = f"ada@127.0.0.1:{sshd.port}"
    wish: dict[str, object] = {"name": "k017", "hosts": [host]}
    first = stage.post("/v1/ssh-clusters", wish).json
    (look,) = first["hosts"]
    assert (first["added"], look["code"], look["fingerprint"]) == (
        False,
        "ssh/host-key-unknown",
        sshd.fingerprint,
    )
    assert stage.get("/v1/ssh-clusters").json["items"] == []
    added = stage.post("/v1/ssh-clusters", {**wish, "accept_host_keys": [sshd.fingerprint]}).json
    assert (added["added"], added["hosts"][0]["code"]) == (True, ""), added
    stage.until(
        lambda: "k017" in [one["name"] for one in stage.get("/v1/clusters").json["items"]],
        "the cluster is observed",
    )
    kept = json.loads((stage.home / "clusters.json").read_text())
    assert kept["clusters"][0]["hosts"][0]["folder"] == added["hosts"][0]["folder"]
    again = stage.post("/v1/ssh-clusters", wish)
    assert (again.status, again.json["code"]) == (422, "ssh/host")
    kept_so = {"name": "k017", "hosts": [host], "joined": False}
    assert stage.get("/v1/ssh-clusters").json["items"] == [kept_so]
    assert stage.post("/v1/ssh-clusters/k017/probe").json["hosts"][0]["code"] == ""
    twin = stage.post("/v1/ssh-clusters", {**wish, "name": "k018"}).json
    assert (twin["added"], twin["hosts"][0]["code"]) == (False, "ssh/same-machine")
    assert twin["hosts"][0]["message"].endswith("is the same machine as " + host + " of k017")
    drained = stage.post("/v1/clusters/k017/drain", {}).json
    (node,) = drained["nodes"]
    assert (node["state"], "drained by " in node["note"]) == ("drained", True), drained
    assert stage.post("/v1/clusters/k017/drain", {"nodes": ["pc9"]}).json["code"] == "find/node"
    one = {"nodes": [node["name"]]}
    whole = stage.post("/v1/clusters/k017/resume", one)
    assert (whole.status, whole.json["code"]) == (409, "phase/drained-whole")
    back = {"cluster": "k017", "node": node["name"], "state": "ready"}
    assert stage.post("/v1/clusters/k017/resume", {}).json["nodes"] == [back]
    assert stage.post("/v1/clusters/k017/resume", {}).json["nodes"] == []
    folder = Path(added["hosts"][0]["folder"])
    assert (folder / "runtime" / "agent.lock").exists()
    removed = stage.ask("DELETE", "/v1/ssh-clusters/k017?purge=true")
    (left,) = removed.json["hosts"]
    assert (left["agent"], left["purged"], left["message"]) == ("ended", True, "")
    assert not folder.exists()
    assert "k017" not in [one["name"] for one in stage.get("/v1/clusters").json["items"]]
    assert "cluster-removed" in stage.get("/v1/events").body.decode()
    assert stage.get("/v1/ssh-clusters").json["items"] == []
    gone = stage.post("/v1/ssh-clusters/k017/probe")
    assert (gone.status, gone.json["code"]) == (404, "find/cluster")


@pytest.mark.parametrize(
    "wish",
    [
        {"name": "K 17", "hosts": ["pc1"]},
        {"name": "k017", "hosts": ["a b"]},
        {"name": "k017", "hosts": ["pc1", "pc1"]},
        {"name": "k017", "hosts": ["pc1"], "folder": "relative"},
        {"name": "k017", "hosts": ["pc1:99999"]},
    ],
)
def test_what_can_be_no_cluster_is_refused(stage: Stage, wish: dict[str, object]) -> None:
    """Before anybody is connected to."""
    refused = stage.post("/v1/ssh-clusters", wish)
    assert (refused.status, refused.json["code"], refused.json["exit"]) == (422, "ssh/host", 2)
    assert refused.json["problems"][0]["help"]


def _lowered(infra: str) -> Lowered:
    lowered = lower(Task(run="true"))
    (one,) = lowered.shape.alternatives
    changed = (replace(one, infra=infra),)
    return replace(lowered, shape=replace(lowered.shape, alternatives=changed))


@pytest.mark.parametrize(
    ("drivers", "infra", "becomes", "codes"),
    [
        (["local"], "", "", []),
        (["simulated"], "", "", []),
        (["local", "ssh"], "", "local", []),
        (["local", "ssh"], "vm", "vm", []),
        (["local", "ssh"], "ssh/k017", "ssh/k017", ["submit/in-place"]),
    ],
)
def test_a_command_in_place_stays(
    drivers: list[str], infra: str, becomes: str, codes: list[str]
) -> None:
    """Where there are other machines too, it is bound to the one it was given on."""
    problems: list[Problem] = []
    clusters = [a_cluster(driver, driver=driver) for driver in drivers]
    kept = stay_here(_lowered(infra), clusters, problems)
    assert [one.infra for one in kept.shape.alternatives] == [becomes]
    assert [one.code for one in problems] == codes


def test_a_cluster_that_nobody_serves_can_go(stage: Stage) -> None:
    """One that was added by a server that forgot it; what a driver here serves isn't touched."""
    gone = a_cluster("old", driver="ssh")
    stage.loop.call_soon_threadsafe(stage.engine.drivers.__setitem__, "old", stage.driver)
    stage.loop.call_soon_threadsafe(stage.engine.watch._report, ClusterReport(gone))

    def known() -> list[str]:
        return [one["name"] for one in stage.get("/v1/clusters").json["items"]]

    stage.until(lambda: "old" in known(), "it is known")
    stage.loop.call_soon_threadsafe(stage.engine.drivers.pop, "old")
    assert stage.ask("DELETE", "/v1/ssh-clusters/old").json == {"name": "old", "hosts": []}
    assert "old" not in known()
    refused = stage.ask("DELETE", "/v1/ssh-clusters/lab")
    assert (refused.status, refused.json["code"]) == (404, "find/cluster")
    assert "lab" in known()


def test_a_machine_whose_secret_is_taken_back_is_no_node(stage: Stage) -> None:
    """Its token makes the cluster; once nothing runs there, neither is left."""
    made = stage.post("/v1/clusters/far/tokens", {"ttl_ms": 60_000}).json
    assert (made["cluster"], made["token"][:5], made["url"]) == ("far", "stwj-", "")
    (row,) = stage.get("/v1/clusters/far/tokens").json["tokens"]
    assert row["id"] == made["id"]
    assert made["token"] not in (stage.home / "joins.json").read_text()
    machines = stage.machines
    stage.wait_for(machines.tokens.join("far", "pc1", "m-1", 0))
    stage.wait_for(machines.keep_member("far", "pc1"))
    listed = {"name": "far", "hosts": ["pc1"], "joined": True}
    assert stage.get("/v1/ssh-clusters").json["items"] == [listed]
    assert stage.ask("DELETE", "/v1/clusters/far/tokens/pc9").json["code"] == "find/token"
    assert stage.ask("DELETE", "/v1/clusters/far/tokens/all").json == {"gone": [made["id"], "pc1"]}
    assert stage.get("/v1/clusters/far/tokens").json == {"tokens": [], "machines": []}
    assert stage.get("/v1/ssh-clusters").json["items"] == [{**listed, "hosts": []}]
    assert stage.post("/v1/clusters/lab/tokens", {}).status == 422
    assert stage.ask("DELETE", "/v1/ssh-clusters/far").status == 200
