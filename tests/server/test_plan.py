"""`POST /v1/plan` tells what a submission would become, and a submission can be held to it."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.core.intake import on_command
from stellwerk.core.lower import lower
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.model.task import Task
from stellwerk.core.preview import preview
from stellwerk.core.state import State, fold
from stellwerk.core.view import Viewer
from stellwerk.server.accept import Accepted, Read
from stellwerk.server.planning import answer
from stellwerk.server.reading import read_item
from stellwerk.testing.builders import a_cluster, a_node, a_request, a_shape
from tests.server.stage import Stage

TASK = "name: train\nresources: {cpus: 2}\nrun: python train.py\n"
SECRET = "hunter2-is-not-a-password"


@pytest.fixture
def real(home_of_its_own: str) -> Iterator[Stage]:
    """A server that reads as the real one does, over one node of four CPUs."""
    with Stage(Path(home_of_its_own), read=read_item) as stage:
        yield stage


def planned(stage: Stage, text: str = TASK, **more: object) -> dict[str, Any]:
    """Plans a task, and gives the answer."""
    answer = stage.post("/v1/plan", {"text": text, "file": "train.yaml", **more})
    assert answer.status == 200, answer.body
    told: dict[str, Any] = answer.json
    return told


def test_what_fits_starts_now_and_nothing_is_written(real: Stage) -> None:
    """The candidate with its scores, no reasons; journal, inbox, blobs and secrets stay as they
    are.
    """
    before = real.store.seq()
    text = TASK + f"secrets: {{TOKEN: {SECRET}}}\n"
    told = planned(real, text, snapshot="0" * 64)
    assert (told["name"], told["wants"], told["starts_now"]) == ("train", "2 CPUs", True)
    assert (told["chosen"], told["reasons"], told["ahead"]) == ("lab", [], 0)
    [candidate] = told["candidates"]
    assert (candidate["verdict"], candidate["scores"]) == ("chosen", {"room": 50})
    since = [record.event for record in real.store.records(before)]
    assert [event for event in since if not isinstance(event, ev.ClusterObserved)] == []
    assert real.store.take(0) == []
    assert not real.store.blobs.root.exists()
    assert real.store.secrets.list("default", "") == []


def test_what_waits_has_its_reasons_and_what_would_change_it(real: Stage) -> None:
    """With three of four CPUs taken, two have to wait."""
    run = real.started(real.submit("resources: {cpus: 3}\nrun: x\n")["id"])
    told = planned(real)
    assert not told["starts_now"]
    assert [reason["code"] for reason in told["reasons"]] == ["no_room"]
    assert told["candidates"][0]["verdict"] == "later"
    assert told["change"] == ["starts now on lab with CPUs: 2 -> 1"]
    real.end(run)


def test_a_true_plan_is_submitted(real: Stage) -> None:
    """Asked again it is the same plan, and a submission with it starts."""
    told = planned(real)
    assert planned(real)["id"] == told["id"]
    comment = planned(real, "# the same, with a comment\n" + TASK)
    assert comment["id"] == told["id"]
    submitted = real.submit(TASK, plan=told["id"])
    real.started(submitted["id"])


def test_a_plan_that_is_not_true_any_more_is_refused(real: Stage) -> None:
    """Exit 5, with what changed: other work on the cluster, another task."""
    told = planned(real)
    other = real.post("/v1/workloads", {"text": TASK + "setup: more\n", "plan": told["id"]})
    assert (other.status, other.json["code"], other.json["exit"]) == (409, "plan/changed", 5)
    assert other.json["detail"].endswith("changed since: the task")
    run = real.started(real.submit("run: x\n")["id"])
    late = real.post("/v1/workloads", {"text": TASK, "file": "train.yaml", "plan": told["id"]})
    assert late.json["detail"].endswith("changed since: what runs hold")
    assert real.get("/v1/workloads?name=train*").json["items"] == []
    real.end(run)
    real.until(lambda: planned(real)["id"] == told["id"], "the cluster is as it was")


def test_a_repeated_submission_is_not_held_to_its_plan_again(real: Stage) -> None:
    """The first one made the plan untrue; its repetition gets the same workload."""
    item = {"text": TASK, "file": "train.yaml", "plan": planned(real)["id"], "key": "once"}
    first = real.post("/v1/workloads", item)
    again = real.post("/v1/workloads", item)
    assert (first.status, again.status) == (201, 201)
    assert first.json["id"] == again.json["id"]


def test_values_of_secrets_do_not_count_their_names_do(real: Stage) -> None:
    """No id tells whether a guess at a secret is right."""
    text = TASK + "secrets: {TOKEN: null}\n"
    ids = [planned(real, text, secrets={"TOKEN": value})["id"] for value in (SECRET, "other")]
    assert ids[0] == ids[1]
    more = TASK + "secrets: {TOKEN: null, MORE: null}\n"
    assert planned(real, more, secrets={"TOKEN": SECRET, "MORE": "x"})["id"] != ids[0]


def test_what_counts_as_the_task(real: Stage) -> None:
    """Code, variables, labels, flags and the folder of a command each make another plan."""
    command = {"kind": "argv", "argv": ["true"], "in_place": True, "cwd": "/tmp", "caller_env": {}}
    ids = [
        planned(real)["id"],
        planned(real, snapshot=hashlib.sha256(b"code").hexdigest())["id"],
        planned(real, env={"LR": "1"})["id"],
        planned(real, labels={"team": "a"})["id"],
        planned(real, overrides={"priority": 1})["id"],
        planned(real, overrides={"time_limit": "1h"})["id"],
        planned(real, "", **command)["id"],
        planned(real, "", **{**command, "cwd": "/"})["id"],
        planned(real, "", **{**command, "argv": ["false"]})["id"],
    ]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("nonsense: 1\nrun: x", "spec/unknown-field"),
        ("resources: {cpus: 400}\nrun: x", "place/never-fits"),
        ("secrets: {TOKEN: null}\nrun: x", "secret/"),
        ("workdir: .\nrun: x", "submit/no-snapshot"),
    ],
)
def test_it_refuses_as_a_submission_would(real: Stage, text: str, code: str) -> None:
    """With the same problems."""
    item = {"text": text, "file": "train.yaml"}
    plan, submit = real.post("/v1/plan", item), real.post("/v1/workloads", item)
    assert plan.status == 422
    assert plan.json["code"].startswith(code) or code == "secret/", plan.body
    assert plan.json == submit.json


def test_ids_that_are_none_and_batches_are_refused(real: Stage) -> None:
    """Before anything is looked at."""
    wrong = real.post("/v1/workloads", {"text": TASK, "plan": "p-7f2c"})
    assert (wrong.status, wrong.json["exit"]) == (400, 2)
    item = {"text": TASK, "plan": planned(real)["id"]}
    many = real.post("/v1/workloads/batch", {"item": item, "count": 2})
    assert (many.status, many.json["exit"]) == (400, 2)
    assert "one workload" in many.json["detail"]
    assert real.post("/v1/workloads/batch", {"item": item}).status == 201


def test_hundreds_before_it_are_its_reason(real: Stage) -> None:
    """Behind what waits with its priority it isn't its turn; above them it is first."""
    real.post("/v1/workloads/batch", {"item": {"text": "resources: {cpus: 4}\nrun: x"}, "count": 9})
    told = planned(real)
    assert (told["ahead"], told["starts_now"]) == (8, False)
    assert planned(real, overrides={"priority": 1})["ahead"] == 0


def test_nothing_is_chosen_before_its_turn() -> None:
    """With more ahead than a cycle starts it would fit, and that is all that is said."""
    state = State()
    machine = a_cluster("lab", a_node("n1", cpus=4_000))
    facts: list[ev.Event] = [ev.ClusterObserved(machine)]
    for number in range(300):
        submit = cmd.Submit(
            WorkloadId(f"w-{number}"), "x", "p", a_shape(a_request(cpus=1)), BlobHash("0")
        )
        facts += on_command(state, submit, "me")
    for seq, event in enumerate(facts, 1):
        fold(state, ev.Record(seq, 1_000, 1, "me", "p", event))
    task = Task(run="x")
    one = Accepted(Read(task), lower(task), "x", {})
    found = preview(Viewer(state).take(1_000), one.lowered.shape, 0, "spec", "lab-queue")
    told = answer(found, one, [], 7)
    assert (told.starts_now, told.chosen, told.ahead) == (False, "lab", 300)
    assert [candidate.verdict for candidate in told.candidates] == ["fits"]
    assert told.reasons[0].sentence == "300 ahead of it in queue lab-queue"
