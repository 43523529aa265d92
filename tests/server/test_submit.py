"""From a real task file, batch script or command to the order that a driver gets."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.server.peer import own_uid, user_name
from stellwerk.server.reading import read_item
from tests.server.stage import Stage

SECRET = "hunter2-is-not-a-password"


@pytest.fixture
def real(home_of_its_own: str) -> Iterator[Stage]:
    """A server that reads as the real one does."""
    with Stage(Path(home_of_its_own), read=read_item) as stage:
        yield stage


def everything_stored(stage: Stage) -> bytes:
    """All bytes of the state but the key of the secrets."""
    files = (path for path in (stage.home / "state").rglob("*") if path.is_file())
    return b"\n".join(path.read_bytes() for path in files if path.name != "secrets.key")


def test_a_task_file_becomes_an_order(real: Stage) -> None:
    """Its script, its variables with those of the flags, and what it asks for."""
    text = "name: train\nenvs: {EPOCHS: 3, LR: 0.1}\nresources: {cpus: 2}\nrun: python train.py\n"
    told = real.submit(text, env={"LR": "0.5"}, overrides={"priority": 5})
    assert told["name"] == "train"
    real.started(told["id"])
    order = real.driver.started[0]
    assert order.script.strip() == "python train.py"
    assert (order.env["EPOCHS"], order.env["LR"]) == ("3", "0.5")
    show = real.get("/v1/workloads/train").json
    assert (show["wants"], show["priority"], show["task"]) == ("2 CPUs", 5, text)


def test_secrets_reach_the_job_and_nothing_else(real: Stage) -> None:
    """Not the stored text, a blob, the journal, a page or a log; the order has them."""
    text = f"secrets:\n  TOKEN: {SECRET}\n  OTHER: null\nrun: echo $TOKEN\n"
    told = real.submit(text, secrets={"OTHER": SECRET[::-1]})
    real.started(told["id"])
    assert real.driver.started[0].secrets == {"TOKEN": SECRET, "OTHER": SECRET[::-1]}
    for page in ("", "/explain", "/logs"):
        body = real.get(f"/v1/workloads/{told['id']}{page}").body
        assert SECRET.encode() not in body
    assert SECRET.encode() not in real.get("/v1/events?limit=1000").body
    stored = everything_stored(real)
    assert SECRET.encode() not in stored
    assert SECRET[::-1].encode() not in stored


def test_a_secret_without_a_value_is_refused(real: Stage) -> None:
    """Before anything is queued."""
    text = "secrets: {TOKEN: null}\nrun: echo $TOKEN\n"
    answer = real.post("/v1/workloads", {"text": text, "file": "t.yaml"})
    assert answer.status == 422, answer.body
    assert "TOKEN" in answer.json["problems"][0]["message"]
    assert real.get("/v1/workloads?all=1").json["items"] == []


def test_a_command_in_place_runs_with_the_environment_of_its_caller(real: Stage) -> None:
    """Word by word, in its folder; the environment is sealed, and sealed once."""
    item = {
        "kind": "argv",
        "argv": ["/usr/bin/env", "-u", "a b", "'"],
        "in_place": True,
        "cwd": "/tmp",
        "caller_env": {"PATH": "/bin", "API_KEY": SECRET},
    }
    first = real.post("/v1/workloads", item).json
    second = real.post("/v1/workloads", item).json
    assert (first["name"], second["name"]) == ("env", "env-2")
    real.started(first["id"])
    real.started(second["id"])
    for order in real.driver.started:
        assert (order.argv, order.cwd) == (("/usr/bin/env", "-u", "a b", "'"), "/tmp")
        assert order.inherit_env
        assert order.secrets == {"PATH": "/bin", "API_KEY": SECRET}
    assert SECRET.encode() not in everything_stored(real)
    assert len(real.store.secrets.list("default", user_name(own_uid()))) == 1


def test_a_batch_script_is_read(real: Stage) -> None:
    """Its #SBATCH lines say what it asks for."""
    text = "#!/bin/bash\n#SBATCH --job-name=sim\n#SBATCH --cpus-per-task=3\nhostname\n"
    manifest = b'{"v":1,"files":[]}'
    name = hashlib.sha256(manifest).hexdigest()
    assert real.ask("PUT", f"/v1/blobs/{name}", manifest).status == 204
    told = real.submit(text, kind="sbatch", file="job.sh", snapshot=name)
    assert told["name"] == "sim"
    assert real.get("/v1/workloads/sim").json["wants"].startswith("3 CPUs")


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("run: [", "spec/"),
        ("nonsense: 1\nrun: x", "spec/unknown-field"),
        ("service: {readiness_probe: /}\nrun: x", "unsupported/service"),
        ("workdir: .\nrun: x", "submit/no-snapshot"),
        ("resources: {cpus: 400}\nrun: x", "place/never-fits"),
        ("name: a\n---\nname: b\nrun: x\n---\nname: c\nrun: y", "unsupported/tasks"),
        ("\0", "spec/"),
    ],
)
def test_what_is_refused_says_why_and_where(real: Stage, text: str, code: str) -> None:
    """Every problem has a code, a sentence, and the file's name."""
    answer = real.post("/v1/workloads", {"text": text, "file": "train.yaml"})
    assert answer.status == 422, answer.body
    assert answer.json["code"].startswith(code), answer.body
    assert answer.json["exit"] == 2
    for problem in answer.json["problems"]:
        assert problem["file"] == "train.yaml", problem
        assert problem["message"]


def test_what_was_accepted_without_effect_is_told(real: Stage) -> None:
    """A key for clouds is named, and the task runs."""
    told = real.submit("resources: {disk_tier: best}\nrun: x\n")
    assert any("disk_tier" in one["message"] for one in told["notices"]), told


def test_a_known_key_gives_the_first_workload(stage: Stage) -> None:
    """With its phase of now and when it was submitted; another secret value is the same task."""
    first = stage.submit("cpus 4", key="k", secrets={"TOKEN": "a"})
    stage.started(first["id"])
    again = stage.submit("cpus 4", key="k", secrets={"TOKEN": "b"})
    assert (again["id"], again["phase"], again["repeated"]) == (first["id"], "Starting", True)
    assert again["submitted_ms"] == first["submitted_ms"] > 0
    assert not first["repeated"]
    batch = {"item": {"text": "true"}, "count": 3, "key": "b"}
    assert stage.post("/v1/workloads/batch", batch).json["repeated"] == 0
    told = stage.post("/v1/workloads/batch", {**batch, "count": 4}).json
    assert (told["repeated"], len(set(told["ids"]))) == (3, 4)


@pytest.mark.parametrize(
    "other",
    [
        {"text": "false"},
        {"overrides": {"name": "other"}},
        {"labels": {"a": "b"}},
        {"held": True},
        {"env": {"EPOCHS": "3"}},
        {"secrets": {"TOKEN": "a"}},
    ],
)
def test_a_key_of_another_task_is_refused(stage: Stage, other: dict[str, Any]) -> None:
    """Both are named, and nothing is submitted."""
    first = stage.submit("true", key="k")
    body = {"text": "true", "file": "job.yaml", "key": "k", **other}
    answer = stage.post("/v1/workloads", body)
    assert (answer.status, answer.json["code"], answer.json["exit"]) == (
        409,
        "key/other-content",
        2,
    )
    assert f"for job ({first['id']})" in answer.json["detail"]
    name = other.get("overrides", {}).get("name", "job")
    assert f"this `{name}` is something else" in answer.json["detail"]
    assert len(stage.get("/v1/workloads?all=1").json["items"]) == 1


def test_a_key_of_another_command_is_refused(stage: Stage) -> None:
    """Not only a submission has one."""
    for name in ("a", "b"):
        stage.submit(held=True, overrides={"name": name})
    key = {"Idempotency-Key": "k"}
    assert stage.ask("POST", "/v1/workloads/a/cancel", {}, key).status == 200
    answer = stage.ask("POST", "/v1/workloads/b/cancel", {}, key)
    assert (answer.status, answer.json["code"]) == (409, "key/other-content")
    assert stage.phase("b") == "Held"


def test_a_queue_that_is_not_there_is_named(real: Stage) -> None:
    """With the one that was meant; nothing waits where nobody looks."""
    for queue, help in (("defualt", "did you mean `default`?"), ("night", "leave `queue` out")):
        body = {"text": "run: x\n", "file": "a.yaml", "overrides": {"queue": queue}}
        answer = real.post("/v1/workloads", body)
        assert (answer.status, answer.json["code"], answer.json["exit"]) == (422, "submit/queue", 2)
        [problem] = answer.json["problems"]
        assert problem["message"] == f"there is no queue `{queue}`; there is only `default`"
        assert (help in problem["help"], problem["file"]) == (True, "a.yaml")
    assert real.post("/v1/workloads", {**body, "overrides": {"queue": "default"}}).status == 201


def test_a_priority_is_a_number(real: Stage) -> None:
    """However long; a class that nobody has made is refused, but noted in the field of `sky`."""
    text = "resources: {labels: {stellwerk/priority: '%s'}}\nrun: x\n"
    answer = real.post("/v1/workloads", {"text": text % ("9" * 40), "file": "a.yaml"})
    assert (answer.status, answer.json["code"]) == (422, "spec/value")
    assert "from -1000 to 1000" in answer.json["detail"]
    flag = {"text": "run: x\n", "file": "a.yaml", "overrides": {"priority": "high"}}
    for body in (flag, {"text": text % "high", "file": "a.yaml"}):
        answer = real.post("/v1/workloads", body)
        assert (answer.status, answer.json["code"]) == (422, "submit/priority-class")
    theirs = {"text": "resources: {priority_class: high}\nrun: x\n", "file": "a.yaml"}
    told = real.post("/v1/workloads", theirs).json
    assert [one["code"] for one in told["notices"]] == ["priority/no-class"]


def test_labels_of_ours_count_like_flags_or_are_refused(real: Stage) -> None:
    """Beside a task as from the command line; in a batch too, with the number of the item."""
    labels = {"stellwerk/priority": "7", "stellwerk/time-limit": "2h", "team": "x"}
    body = {"text": "run: x\n", "file": "a.yaml", "labels": labels}
    made = real.post("/v1/workloads", body).json
    shown = real.get(f"/v1/workloads/{made['id']}").json
    assert (shown["priority"], shown["labels"]) == (7, {"team": "x"})
    assert shown["policies"]["time_limit_ms"] == 7_200_000
    wins = real.post("/v1/workloads", {**body, "overrides": {"priority": "9"}}).json
    assert real.get(f"/v1/workloads/{wins['id']}").json["priority"] == 9
    for label, code in (("shell", "submit/label"), ("timelimit", "spec/unknown-field")):
        wrong = {**body, "labels": {f"stellwerk/{label}": "1"}}
        answer = real.post("/v1/workloads", wrong)
        assert (answer.status, answer.json["code"]) == (422, code)
        assert real.post("/v1/plan", wrong).json["code"] == code
    many = real.post("/v1/workloads/batch", {"items": [body, wrong]}).json
    assert many["problems"][0]["message"].startswith("item 1: unknown label")
