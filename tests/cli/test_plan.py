"""`stw plan`: what is asked, what is said, and the command that runs it."""

import json
from pathlib import Path

import pytest

from stellwerk.cli.commands.plan import run_line
from tests.cli.conftest import Stw
from tests.cli.jobs import Job
from tests.client.fake_server import FakeServer, refuses, row

ID = "p-77777da844f56dad1c3b"
ANSWER = {
    "id": ID,
    "name": "digits",
    "wants": "1 CPU",
    "starts_now": True,
    "chosen": "laptop",
    "candidates": [{"cluster": "laptop", "verdict": "chosen", "scores": {"room": 50}, "total": 50}],
    "queue": "default",
    "notices": [{"code": "spec/ignored", "message": "`disk_tier` is for rented disks"}],
}


@pytest.fixture
def asked(server: FakeServer) -> FakeServer:
    server.on("POST", "/v1/plan", ANSWER)
    return server


def test_it_asks_and_sends_nothing_else(asked: FakeServer, stw: Stw, task: str) -> None:
    """One request; the answer on stdout, notices and the next command on stderr."""
    result = stw("plan", task, "--cpus", "2", "--env", "A=1")
    assert result.code == 0
    assert result.lines[0] == "digits  1 CPU"
    assert result.lines[-1] == f"plan {ID} is valid until facts change"
    assert result.err.splitlines() == [
        "note[spec/ignored]: `disk_tier` is for rented disks",
        f"run it: stw run task.yaml --cpus 2 --env A=1 --plan {ID}",
    ]
    assert [(one.method, one.path) for one in asked.asked] == [("POST", "/v1/plan")]
    body = asked.bodies("POST", "/v1/plan")[0]
    assert (body["overrides"], body["env"]) == ({"cpus": "2"}, {"A": "1"})


def test_code_is_packed_and_stays_here(asked: FakeServer, stw: Stw, task: str) -> None:
    """Its hash counts; no content is sent."""
    Path("code").mkdir()
    Path("code/train.py").write_text("print()\n")
    Path(task).write_text("workdir: code\nrun: python train.py\n")
    result = stw("plan", task)
    assert "packed 1 file, 8 B (nothing sent)" in result.err
    assert len(asked.bodies("POST", "/v1/plan")[0]["snapshot"]) == 64
    assert [one.path for one in asked.asked] == ["/v1/plan"]


def test_programs_get_the_answer_or_the_id(asked: FakeServer, stw: Stw, task: str) -> None:
    """And nothing is narrated."""
    answer = stw("plan", task, "-o", "json")
    assert json.loads(answer.out)["candidates"][0]["verdict"] == "chosen"
    name = stw("plan", task, "-o", "name")
    assert (answer.err, name.out, name.err) == ("", f"{ID}\n", "")


def test_mistakes_are_told_all_at_once(asked: FakeServer, stw: Stw, task: str) -> None:
    """As `run` tells them."""
    Path(task).write_text("run: x\nresorces: {}\nnum_nodes: none\n")
    result = stw("plan", task)
    assert result.code == 2
    assert result.err.splitlines()[-1] == "2 errors, nothing was planned (exit 2)"
    assert stw("plan").err.startswith("error[usage/what]  got nothing to run  help: stw plan FILE")


def test_a_run_that_is_not_as_planned_ends_with_5(job: Job, stw: Stw, task: str) -> None:
    """The id travels with the submission, and the refusal says what changed."""
    job.server.on(
        "POST",
        "/v1/workloads",
        refuses("plan/changed", f"plan {ID} isn't true any more; changed since: …", 409, 5),
    )
    result = stw("run", task, "--plan", ID)
    assert result.code == 5
    assert job.submitted["plan"] == ID
    assert result.err.splitlines()[-1] == "1 error, nothing was submitted (exit 5)"


@pytest.mark.parametrize(
    ("typed", "line"),
    [
        (["t.yaml"], f"stw run t.yaml --plan {ID}"),
        (["-o", "wide", "t.yaml", "--ascii"], f"stw run t.yaml --plan {ID}"),
        (["-ojson", "a b.yaml"], f"stw run 'a b.yaml' --plan {ID}"),
        (["--cpus", "2", "--", "sh", "-o", "x"], f"stw run --cpus 2 --plan {ID} -- sh -o x"),
    ],
)
def test_the_command_that_runs_it(typed: list[str], line: str) -> None:
    """The same words, without those about the answer's form."""
    assert run_line(typed, ID) == line


def test_explain_and_queue_tell_when_it_could_start(server: FakeServer, stw: Stw) -> None:
    """Of what waits; a server that can't tell is no failure."""
    waits = row("eval", "Pending")
    server.on("GET", "/v1/workloads", {"items": [waits], "seq": 1, "next": None})
    explained = {"id": waits["id"], "name": "eval", "phase": "Pending", "reasons": []}
    server.on("GET", "/v1/workloads/eval/explain", explained)
    assert "its start isn't known" not in stw("explain", "eval").out
    assert stw("queue", "--columns", "name,starts", "--no-headers").out == "eval\t-\n"
    forecast = {"at_ms": 1, "confidence": "none", "unknown": 2}
    items = [{"id": waits["id"], "name": "eval", "forecast": forecast}]
    server.on("GET", "/v1/forecast", {"items": items, "seq": 1})
    assert stw("explain", "eval").lines[-1] == (
        "its start isn't known: nobody knows how long 2 pieces of work before it will take"
    )
    assert server.asked[-1].query == {"workload": waits["id"]}
    assert stw("queue", "--columns", "name,starts", "--no-headers").out == "eval\tnot known\n"
    assert stw("queue", "-o", "name").out == "eval\n"
    assert [one.path for one in server.asked].count("/v1/forecast") == 4
