"""Several people on one server: what each sees, does, may have and has used; whose clusters."""

import os
from pathlib import Path

import pytest
from msgspec.structs import replace

from stellwerk.config import load
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.limits import Limit
from stellwerk.core.model.resources import DeviceShare
from stellwerk.core.model.workload import RunEnd
from stellwerk.server import peer
from stellwerk.server.belongings import Belongings
from stellwerk.server.limiting import people_of
from stellwerk.server.machine_models import AddCluster
from stellwerk.server.owning import foreign_logins
from stellwerk.server.peer import Peer
from stellwerk.server.people import People
from stellwerk.server.policy import Policy
from stellwerk.server.usage import UsedLine, add_up, month_of, next_month_ms, pieces
from stellwerk.testing.builders import a_cluster, a_node, a_run, a_workload, an_allocation
from tests.server.stage import Answer, Stage

ADA, BEN, CYD = 7001, 7002, 7003
HOUR = 3_600_000


class Crowd:
    """A stage on which several users call, as the kernel would say it."""

    def __init__(self, stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
        self.stage = stage
        self.calls = os.geteuid()
        monkeypatch.setattr(peer, "peer_of", lambda _: Peer(self.calls, 1))
        monkeypatch.setattr(peer, "alone", lambda _: stage.services.people)
        self.settle()

    def settle(self, **policy: object) -> None:
        """Says what people may do."""
        self.stage.services.people = People(
            os.geteuid() or 9999,
            shared=True,
            policy=replace(Policy(), **policy),
            projects={"uid-7001": "vision"},
        )

    def ask(self, uid: int, method: str, path: str, body: object = None) -> Answer:
        self.calls = uid
        try:
            return self.stage.ask(method, path, body)
        finally:
            self.calls = 0

    def submit(self, uid: int, text: str = "true", **more: object) -> Answer:
        item = {"text": text, "file": "job.yaml", **more}
        return self.ask(uid, "POST", "/v1/workloads", item)


@pytest.fixture
def crowd(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Crowd:
    return Crowd(stage, monkeypatch)


def test_people_see_and_steer_what_is_theirs(crowd: Crowd) -> None:
    """A story of two: names are seen, texts and output aren't, and nothing of it can be stopped."""
    told = crowd.submit(ADA, "echo secret", overrides={"name": "fit"}, env={"KEY": "k"})
    assert told.status == 201, told.body
    run = crowd.stage.started(told.json["id"])
    crowd.stage.report(run, "Running")
    crowd.stage.print(run, b"secret output")
    assert crowd.stage.driver.started[-1].person == "uid-7001"
    page = crowd.ask(BEN, "GET", "/v1/workloads/fit")
    assert page.json["owner"] == "uid-7001"
    assert page.json["cluster"] == "lab"
    assert b"secret" not in page.body
    assert page.json["can_read"] is False
    assert crowd.ask(ADA, "GET", "/v1/workloads/fit").json["task"] == "echo secret"
    for method, path in (
        ("GET", "/logs"),
        ("GET", "/files"),
        ("GET", "/content?path=a"),
        ("POST", "/exec"),
        ("POST", "/cancel"),
        ("POST", "/hold"),
        ("POST", "/rerun"),
        ("POST", "/lost"),
    ):
        refused = crowd.ask(BEN, method, f"/v1/workloads/fit{path}")
        assert (refused.status, refused.json["code"]) == (403, "auth/not-yours"), path
        assert "uid-7001" in refused.json["detail"]
    change = {"verb": "cancel", "names": ["fit", "f*"]}
    changed = crowd.ask(BEN, "POST", "/v1/workloads/change", change).json
    assert changed["count"] == 0
    assert [one["code"] for one in changed["refused"]] == ["auth/not-yours", "find/workload"]
    everything = {"verb": "cancel", "all": True}
    assert crowd.ask(BEN, "POST", "/v1/workloads/change", everything).json["count"] == 0
    theirs = {"verb": "cancel", "owner": "uid-7001"}
    assert crowd.ask(BEN, "POST", "/v1/workloads/change", theirs).status == 403
    assert page.json["project"] == "vision"
    events = crowd.ask(BEN, "GET", "/v1/events").json["items"]
    assert events
    assert all(one["event"]["type"] != "submitted" for one in events)
    mine = crowd.ask(ADA, "GET", "/v1/events").json["items"]
    assert [
        (one["actor"], one["project"], one["event"]["owner"])
        for one in mine
        if one["event"]["type"] == "submitted"
    ] == [("uid-7001", "vision", "uid-7001")]
    planned = [one for one in mine if one["event"]["type"] == "run-planned"]
    assert [(one["actor"], one["project"]) for one in planned] == [("engine", "vision")]
    assert crowd.ask(ADA, "GET", "/v1/workloads/fit/logs").body == b"secret output"
    assert crowd.ask(ADA, "POST", "/v1/workloads/fit/cancel").status == 200
    assert crowd.ask(BEN, "POST", "/v1/server/stop").json["code"] == "auth/admins-only"
    who = crowd.ask(BEN, "GET", "/v1/server").json
    assert (who["shared"], who["you"]["name"], who["you"]["is_admin"]) == (True, "uid-7002", False)


def test_names_are_one_space_and_stop_nothing_of_others(crowd: Crowd) -> None:
    """The second of a name gets a number; who names the first is told which are theirs."""
    crowd.submit(ADA, overrides={"name": "fit"})
    change = {"verb": "cancel", "names": ["fit"]}
    told = crowd.submit(BEN, overrides={"name": "fit"})
    assert told.json["name"] == "fit-2", "a name stays that of the first one"
    [refused] = crowd.ask(BEN, "POST", "/v1/workloads/change", change | {"names": ["fit"]}).json[
        "refused"
    ]
    assert refused["help"] == "ask uid-7001; yours: `fit-2`"
    ended = crowd.ask(BEN, "POST", "/v1/workloads/change", change | {"names": ["fit-2"]}).json
    assert (ended["count"], ended["refused"]) == (1, [])


def test_where_only_ones_own_is_seen_the_rest_is_not_there(crowd: Crowd) -> None:
    """Not in lists, not by name, not in a refusal."""
    crowd.settle(visibility="own")
    crowd.submit(ADA, overrides={"name": "fit"})
    assert crowd.ask(BEN, "GET", "/v1/workloads?all=1").json["items"] == []
    assert crowd.ask(BEN, "GET", "/v1/workloads?owner=uid-7001").json["items"] == []
    assert len(crowd.ask(ADA, "GET", "/v1/workloads?all=1").json["items"]) == 1
    for path in ("/v1/workloads/fit", "/v1/workloads/fit/explain", "/v1/workloads/nothing"):
        assert crowd.ask(BEN, "GET", path).json["code"] == "find/workload"
    assert crowd.ask(BEN, "POST", "/v1/workloads/fit/cancel").json["code"] == "find/workload"
    used = crowd.ask(BEN, "GET", "/v1/usage").json["items"]
    assert used == []


def test_limits_of_what_waits_and_of_priority(crowd: Crowd) -> None:
    """Refused with numbers and what to do; an administrator isn't bound by the priority."""
    crowd.settle(max_priority=5)
    services = crowd.stage.services
    limits = replace(services.people.limits, people={"uid-7001": Limit(pending=2)})
    services.people = replace(services.people, limits=limits, admins=("uid-7003",))
    held = [crowd.submit(ADA, held=True, overrides={"name": f"h{n}"}) for n in range(3)]
    assert [one.status for one in held] == [201, 201, 422]
    assert held[2].json["code"] == "submit/too-many"
    assert "2 workloads waiting and may have 2" in held[2].json["detail"]
    raised = crowd.ask(ADA, "POST", "/v1/workloads/h0/priority", {"priority": 6})
    assert raised.json["code"] == "auth/priority"
    assert crowd.ask(ADA, "POST", "/v1/workloads/h0/priority", {"priority": 5}).status == 200
    assert crowd.ask(CYD, "POST", "/v1/workloads/h0/priority", {"priority": 9}).status == 200


def test_settings_of_people_are_read_or_told_what_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits, projects and what is seen; every mistake at once."""
    monkeypatch.setenv("STELLWERK_LIMITS", "uid-7001: running=8 gpus=4; project vision: gpus=16")
    monkeypatch.setenv("STELLWERK_PROJECTS", "vision: uid-7001 uid-7002; speech: uid-7003")
    monkeypatch.setenv("STELLWERK_MAX_RUNNING", "3")
    found = people_of(load(), 7009, "lab")
    assert found.limits.of_person("uid-7001") == Limit(8, 4)
    assert found.limits.of_person("uid-7002") == Limit(3)
    assert found.limits.of_project("vision") == Limit(gpus=16)
    caller = found.caller(7002)
    assert (caller.person, caller.project, caller.actor.is_admin) == ("uid-7002", "vision", False)
    assert found.caller(7009).person == ""
    assert not people_of(load(), 7009, "").caller(7002).person
    monkeypatch.setenv("STELLWERK_LIMITS", "ada: runing=8; ben")
    monkeypatch.setenv("STELLWERK_VISIBILITY", "some")
    monkeypatch.setenv("STELLWERK_PROJECTS", "a: ada; b: ada")
    with pytest.raises(StellwerkError) as caught:
        people_of(load(), 7009, "lab")
    assert len(caught.value.problems) == 5


def test_a_cluster_belongs_to_who_added_it(tmp_path: Path) -> None:
    """Whom it serves follows from that, and is remembered."""
    path = tmp_path / "belongings.json"
    cluster = replace(a_cluster("k017", a_node("pc1")), driver="ssh")
    kept = Belongings(path, "ben", shared=True)
    assert kept.marked(cluster).serves == ("",)
    kept.put("k017", "ada")
    assert (kept.marked(cluster).serves, kept.marked(cluster).owner) == (("ada",), "ada")
    kept.share("k017", ("cyd", "ben", "cyd"))
    again = Belongings(path, "ben", shared=True)
    assert again.marked(cluster).serves == ("ada", "cyd", "")
    again.share("k017", ("*",))
    assert again.marked(cluster).serves == ()
    assert Belongings(path, "ben", shared=False).marked(cluster) == cluster
    again.remove("k017")
    assert again.owner_of("k017") == "ben"
    path.write_text("{")
    with pytest.raises(StellwerkError, match=r"belongings\.json"):
        Belongings(path, "ben", shared=True)


def test_people_add_machines_by_logins_of_their_own() -> None:
    """The server's keys may open other accounts, which nobody may lend themselves."""
    assert not foreign_logins("ada", AddCluster("k", ["ada@pc1", "ada@pc2:22"]))
    for host in ("ben@pc1", "pc1", "root@pc1"):
        [problem] = foreign_logins("ada", AddCluster("k", [host]))
        assert (problem.code, "ada@pc1" in problem.help) == ("auth/login", True)


def test_a_name_under_which_nothing_came_about_is_nobodys(crowd: Crowd) -> None:
    """A token that can't be made leaves no owner behind, and none is made for ever or for less."""
    unknown = crowd.ask(ADA, "POST", "/v1/clusters/nonesuch/drain", {})
    assert unknown.json["code"] == "find/cluster"
    for name, wish in (("Bad_Name", {}), ("room", {"ttl_ms": -5}), ("room", {"ttl_ms": 10**22})):
        refused = crowd.ask(ADA, "POST", f"/v1/clusters/{name}/tokens", wish)
        assert refused.status in {400, 422}, refused
        assert not crowd.stage.services.belongings.known_owner(name)


def test_use_is_what_runs_held_each_month_its_part() -> None:
    """GPU, processor and memory time by person and project; what goes on counts until now."""
    december = 1_796_083_200_000
    assert (month_of(december - 1), month_of(december)) == ("2026-11", "2026-12")
    assert next_month_ms(december - 1) == december
    held = an_allocation("lab", "n1")
    node = replace(held.nodes[0], cpus_milli=2000, devices=(DeviceShare(0, 1), DeviceShare(1, 1)))
    held = replace(held, nodes=(node,), project="vision")
    begun = december - HOUR
    over = replace(a_run(), number=1, allocation=held, started_ms=begun, ended_ms=december + HOUR)
    live = replace(over, started_ms=december, ended_ms=0)
    first = replace(a_workload(), owner="ada", submitted_ms=begun - 1000, runs=(over,))
    second = replace(a_workload(), owner="ben", submitted_ms=december, runs=(live,))
    now = december + 3 * HOUR
    lines = add_up([first, second], "person", 0, now, months=True)
    assert [(one.month, one.who, one.gpu_ms // HOUR) for one in lines] == [
        ("2026-11", "ada", 2),
        ("2026-12", "ben", 6),
        ("2026-12", "ada", 2),
    ]
    assert sum(one.runs for one in lines) == 2
    assert [one.live for one in lines] == [0, 1, 0]
    [both] = add_up([first, second], "project", december, now, months=False)
    assert (both.who, both.gpu_ms // HOUR, both.cpu_ms // HOUR) == ("vision", 8, 8)
    assert (both.workloads, both.started, both.wait_ms) == (1, 1, 0)
    assert isinstance(both, UsedLine)
    unseen = replace(over, started_ms=0, end=RunEnd("exited", started_at_ms=begun + 10))
    [line] = add_up([replace(first, runs=(unseen,))], "person", 0, now, months=False)
    assert (line.runs, line.started, line.gpu_ms) == (1, 1, 2 * (2 * HOUR - 10))
    assert list(pieces(5, 5, months=False)) == [(5, 5)]
