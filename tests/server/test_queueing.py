"""Queues through the API: applied, looked at, used by work, deleted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.server.reading import read_item
from tests.server.stage import Stage

KUEUE = "kueue.x-k8s.io/v1beta2"


def obj(kind: str, name: str, spec: str = "", more: str = "") -> str:
    """An object in one line."""
    told = f", spec: {{{spec}}}" if spec else ""
    return f"--- \n{{apiVersion: {KUEUE}, kind: {kind}, metadata: {{name: {name}}}{told}{more}}}\n"


def queue(name: str, cpus: int, more: str = "") -> str:
    """A queue with so many CPUs of the flavor `here`, and its LocalQueue."""
    quota = f"resources: [{{name: cpu, nominalQuota: {cpus}}}]"
    groups = f"[{{coveredResources: [cpu], flavors: [{{name: here, {quota}}}]}}]"
    spec = f"namespaceSelector: {{}}, resourceGroups: {groups}{more}"
    return obj("ClusterQueue", name, spec) + obj("LocalQueue", name, f"clusterQueue: {name}")


HERE = obj("ResourceFlavor", "here")
URGENT = obj("WorkloadPriorityClass", "urgent", more=", value: 5000")
TEAM = HERE + queue("team", 2, ", cohortName: lab") + URGENT


@pytest.fixture
def stage(home_of_its_own: str) -> Iterator[Stage]:
    """A server that reads as the real one does, over one node of four CPUs."""
    with Stage(Path(home_of_its_own), read=read_item) as running:
        yield running


def apply(stage: Stage, text: str, status: int = 200, **more: object) -> dict[str, Any]:
    """Applies a file."""
    answer = stage.post("/v1/apply", {"text": text, "file": "queues.yaml", **more})
    assert answer.status == status, answer.body
    told: dict[str, Any] = answer.json
    return told


def changes(told: dict[str, Any]) -> dict[str, str]:
    """What became of each object."""
    return {f"{one['kind']} {one['name']}": one["change"] for one in told["objects"]}


def submit(stage: Stage, more: str = "", status: int = 201) -> dict[str, Any]:
    """A task of one CPU for the queue `team`."""
    labels = f"labels: {{stellwerk/queue: team{more}}}"
    text = f"resources: {{cpus: 1, {labels}}}\nrun: 'true'\n"
    answer = stage.post("/v1/workloads", {"text": text, "file": "job.yaml"})
    assert answer.status == status, answer.body
    told: dict[str, Any] = answer.json
    return told


def test_objects_are_applied_looked_at_and_deleted(stage: Stage) -> None:
    """As an API server says it; a dry run changes nothing and gives both sides."""
    dry = apply(stage, TEAM, dry_run=True)
    assert set(changes(dry).values()) == {"created"}
    assert dry["objects"][0]["after"]["kind"] == "ResourceFlavor"
    assert stage.get("/v1/queueing/objects").json["items"] == []
    told = apply(stage, TEAM)
    assert changes(told)["ClusterQueue team"] == "created"
    assert (told["placements"], told["clusters"]) == ([], 0)
    assert stage.store.declared() == [], "a file of queues alone declares no fleet"
    assert set(changes(apply(stage, TEAM)).values()) == {"unchanged"}
    more = apply(stage, TEAM.replace("nominalQuota: 2", "nominalQuota: 3"))
    [field] = next(one for one in more["objects"] if one["change"] == "configured")["fields"]
    path = "spec.resourceGroups[0].flavors[here].resources[cpu].nominalQuota"
    assert field == {"path": path, "before": "2", "after": "3"}
    [one] = stage.get("/v1/queueing/objects?kind=ClusterQueue&name=team").json["items"]
    assert one["object"]["apiVersion"] == KUEUE
    assert (one["generation"], one["about"]) == (2, "cohort lab; BestEffortFIFO; here")
    assert one["by"] == one["created_by"] != ""
    assert one["applied_ms"] >= one["created_ms"] > 0
    keys = [{"kind": "ClusterQueue", "name": "team"}]
    answer = stage.post("/v1/queueing/objects/delete", {"objects": keys})
    assert (answer.status, answer.json["code"]) == (409, "queue/in-use")
    assert "LocalQueue default/team" in answer.json["detail"]
    keys.append({"kind": "LocalQueue", "name": "team"})
    assert stage.post("/v1/queueing/objects/delete", {"objects": keys}).status == 200
    assert stage.get("/v1/queueing/queues").json["items"] == []


def test_with_one_fault_nothing_is_applied(stage: Stage) -> None:
    """All faults at once, in the order of the file, also beside what there is."""
    apply(stage, TEAM)
    loop = obj("Cohort", "lab", "parentName: lab")
    moved = obj("LocalQueue", "team", "clusterQueue: other")
    twice = HERE + HERE
    told = apply(stage, loop + moved + twice + obj("Cohort", "fine"), 422)
    assert [one["code"] for one in told["problems"]] == [
        "queue/cohort-cycle", "queue/immutable", "queue/duplicate",
    ]  # fmt: skip
    assert [one["line"] for one in told["problems"]] == [2, 4, 8]
    assert stage.get("/v1/queueing/objects?kind=Cohort").json["items"] == []
    told = apply(stage, "{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}}", 422)
    assert told["code"] == "apply/nothing"
    assert apply(stage, "", 422)["code"] == "apply/nothing"
    answer = stage.get("/v1/queueing/objects?kind=ClusterQueue&name=teem")
    assert (answer.status, answer.json["problems"][0]["help"]) == (404, "did you mean `team`?")
    assert stage.get("/v1/queueing/objects?kind=Queue&name=x").json["code"] == "find/kind"
    assert stage.get("/v1/queueing/quota?name=teem").json["code"] == "find/queue"


def test_work_uses_quota_and_has_the_value_of_its_class(stage: Stage) -> None:
    """The quota tells it, deletion is refused for it, and a dry run says what follows for it."""
    apply(stage, TEAM)
    first = submit(stage, ", kueue.x-k8s.io/priority-class: urgent")
    stage.started(first["id"])
    assert stage.get(f"/v1/workloads/{first['name']}").json["priority"] == 5000
    for _ in range(2):
        submit(stage)
    stage.until(
        lambda: stage.get("/v1/queueing/queues").json["items"][0]["admitted"] == 2, "two started"
    )
    [row] = stage.get("/v1/queueing/queues").json["items"]
    assert (row["pending"], row["reserving"], row["status"]) == (1, 2, "Ready")
    cohort, own = stage.get("/v1/queueing/quota?name=team").json["items"]
    assert (cohort["name"], own["depth"]) == ("lab", 1)
    assert own["pairs"][0]["used"] == own["pairs"][0]["quota"] == "2"
    assert (own["pairs"][0]["used_share"], own["pairs"][0]["available"]) == (1.0, "0")
    door = {"objects": [{"kind": "LocalQueue", "name": "team"}]}
    refused = stage.post("/v1/queueing/objects/delete", door)
    assert (refused.status, "3 live workloads" in refused.json["detail"]) == (409, True)
    told = apply(stage, TEAM.replace("nominalQuota: 2", "nominalQuota: 3"), dry_run=True)
    [moved] = told["consequences"]["moved"]
    assert (moved["before"], moved["after"]) == ("waits", "starts now")
    told = apply(stage, TEAM.replace("nominalQuota: 2", "nominalQuota: 1"), dry_run=True)
    assert [one["name"] for one in told["consequences"]["over"]] == ["lab", "team"]
    gone = stage.post("/v1/queueing/objects/delete", {**door, "force": True}).json
    assert (gone["uses"][0]["live"], gone["objects"][0]["change"]) == (3, "deleted")


def test_a_queue_and_a_class_that_are_not_there_are_refused(stage: Stage) -> None:
    """With what was meant; a class that changes later changes nothing of what is submitted."""
    refused = submit(stage, status=422)
    assert refused["code"] == "submit/queue"
    apply(stage, TEAM)
    refused = submit(stage, ", kueue.x-k8s.io/priority-class: urgnet", 422)
    assert refused["code"] == "submit/priority-class"
    assert refused["problems"][0]["help"] == "did you mean `urgent`?"
    told = submit(stage, ", stellwerk/priority: urgent")
    apply(stage, URGENT.replace("5000", "7"))
    assert stage.get(f"/v1/workloads/{told['name']}").json["priority"] == 5000


def test_a_check_is_answered_over_the_api(stage: Stage) -> None:
    """What has quota and room waits for it, tells so, and starts when it is ready."""
    check = obj("AdmissionCheck", "budget", "controllerName: example.com/budget")
    apply(stage, HERE + queue("team", 2, ", admissionChecks: [budget]") + check)
    name = submit(stage)["name"]
    path = f"/v1/workloads/{name}"
    stage.until(lambda: stage.get(path).json["checks"], "it is asked about")
    assert [one["state"] for one in stage.get(path).json["checks"]] == ["Pending"]
    stage.until(lambda: stage.get(path).json["reasons"], "a reason is told")
    assert stage.get(path).json["reasons"][0]["code"] == "check_pending"
    wrong = stage.post(f"{path}/check", {"check": "papers", "state": "Ready"})
    assert (wrong.status, wrong.json["code"]) == (409, "phase/not-asked")
    told = stage.post(f"{path}/check", {"check": "budget", "state": "Ready", "message": "fine"})
    assert told.status == 200
    stage.until(lambda: stage.phase(name) != "Pending", "it starts")
    [said] = stage.get(path).json["checks"]
    assert (said["state"], said["message"]) == ("Ready", "fine")
    assert said["by"]


def faults(told: dict[str, Any]) -> list[tuple[str, str, int]]:
    """What is wrong: code, field, line."""
    return [(one["code"], one["path"], one["line"]) for one in told["problems"]]


def test_bad_input_is_told_by_its_field_and_stops_nobody_else(stage: Stage) -> None:
    """Each by itself beside a queue that works; what is refused changes nothing there."""
    apply(stage, HERE + queue("team", 3))
    loop = obj("Cohort", "a", "parentName: b") + obj("Cohort", "b", "parentName: a")
    cycle = ("queue/cohort-cycle", "spec.parentName")
    assert cycle in [one[:2] for one in faults(apply(stage, loop, 422))]
    quota = "[{name: here, resources: [{name: RESOURCE, nominalQuota: 1}]}]"
    groups = ", ".join(
        f"{{coveredResources: [{name}], flavors: {quota.replace('RESOURCE', name)}}}"
        for name in ("cpu", "memory")
    )
    twice = obj("ClusterQueue", "x", f"resourceGroups: [{groups}]")
    where = "spec.resourceGroups[1].flavors[0].name"
    assert faults(apply(stage, twice, 422)) == [("queue/twice", where, 2)]
    where = "spec.resourceGroups[0].flavors[0].resources[0].nominalQuota"
    for amount in ("-1", "1e40", "much", ".nan", "[1]"):
        told = apply(stage, queue("team", 3).replace("Quota: 3", f"Quota: {amount}"), 422)
        assert [one[1:] for one in faults(told)] == [(where, 2)], amount
    lost = obj("LocalQueue", "lost", "clusterQueue: nowhere")
    closed = queue("closed", 1).replace("{}", "{matchLabels: {team: nobody}}")
    notes = {one["code"]: one["path"] for one in apply(stage, lost + closed)["notices"]}
    assert notes["queue/points-nowhere"] == "spec.clusterQueue"
    waiting = {}
    for name, code in (("lost", "queue_missing"), ("closed", "queue_namespace")):
        text = f"resources: {{cpus: 1, labels: {{stellwerk/queue: {name}}}}}\nrun: 'true'\n"
        sent = stage.post("/v1/workloads", {"text": text, "file": "job.yaml"}).json["name"]
        waiting[sent] = code
    first = [submit(stage) for _ in range(3)]
    for one in first:
        stage.started(one["id"])
    for name, code in waiting.items():
        told = stage.get(f"/v1/workloads/{name}").json
        assert [reason["code"] for reason in told["reasons"]] == [code]
    apply(stage, queue("team", 1) + queue("next", 1))
    late = submit(stage)["name"]
    assert [look(stage, one)["phase"] for one in first] == ["Starting"] * 3
    keys = [{"kind": kind, "name": "team"} for kind in ("ClusterQueue", "LocalQueue")]
    gone = {"objects": keys, "force": True}
    assert stage.post("/v1/queueing/objects/delete", gone).status == 200
    text = "resources: {cpus: 1, labels: {stellwerk/queue: next}}\nrun: 'true'\n"
    stage.started(stage.post("/v1/workloads", {"text": text, "file": "job.yaml"}).json["id"])
    told = stage.get(f"/v1/workloads/{late}").json
    assert [reason["code"] for reason in told["reasons"]] == ["queue_missing"]
    assert [look(stage, one)["runs"][-1]["phase"] for one in first] == ["Starting"] * 3


def look(stage: Stage, one: dict[str, Any]) -> dict[str, Any]:
    """A workload as it is now."""
    told: dict[str, Any] = stage.get(f"/v1/workloads/{one['name']}").json
    return told
