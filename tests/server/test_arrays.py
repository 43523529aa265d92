"""Arrays, sweeps and what starts after other work, over the API."""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.server.reading import read_item
from tests.server.stage import Stage

TASK = "resources: {cpus: 1}\nrun: python train.py\n"


@pytest.fixture
def real(home_of_its_own: str) -> Iterator[Stage]:
    """A server that reads as the real one does; its node has room for four."""
    with Stage(Path(home_of_its_own), read=read_item) as stage:
        yield stage


def submitted(stage: Stage, name: str, **more: Any) -> dict[str, Any]:
    return stage.submit(f"name: {name}\n{TASK}", **more)


def over(stage: Stage, name: str, code: int = 0) -> None:
    """Ends the run of a workload."""
    stage.end(stage.started(stage.get(f"/v1/workloads/{name}").json["id"]), code)


def phases(stage: Stage, name: str) -> dict[str, int]:
    found: dict[str, int] = stage.get(f"/v1/arrays/{name}").json["phases"]
    return found


def reason(stage: Stage, name: str) -> str:
    return str(stage.get(f"/v1/workloads/{name}").json["reason"]["code"])


def test_an_array_is_many_under_one_name(real: Stage) -> None:
    """Each element has its index; no more are under way than may be, and the others say why."""
    told = submitted(real, "fit", array="0-9:3%2")
    assert (told["name"], told["count"]) == ("fit", 4)
    real.until(lambda: len(real.driver.started) == 2, "two are started")
    environments = [order.env for order in real.driver.started]
    assert sorted(one["SLURM_ARRAY_TASK_ID"] for one in environments) == ["0", "3"]
    assert environments[0]["SLURM_ARRAY_JOB_ID"] == environments[1]["SLURM_ARRAY_JOB_ID"]
    assert phases(real, "fit") == {"Pending": 2, "Starting": 2}
    waits = real.get("/v1/workloads/fit-9").json["reason"]
    assert waits["sentence"] == "at most 2 of fit may be under way at a time"
    over(real, "fit-0", 0)
    real.until(lambda: len(real.driver.started) == 3, "the next one follows")
    listed = real.get("/v1/arrays").json["items"]
    assert [(one["name"], one["count"], one["limit"], one["over"]) for one in listed] == [
        ("fit", 4, 2, False)
    ]
    assert real.get("/v1/workloads?elements=0").json["items"] == []


def test_a_sweep_gives_each_its_values(real: Stage) -> None:
    """Every combination; also of a variable that the task file wants to be given."""
    text = "name: fit\nenvs: {lr: null, bs: 8}\nresources: {cpus: 1}\nrun: python train.py\n"
    told = real.submit(text, sweep={"lr": ["0.1", "0.2"], "bs": ["32", "64"]}, array="%3")
    assert told["count"] == 4
    real.until(lambda: len(real.driver.started) == 3, "three are started")
    given = [(one.env["lr"], one.env["bs"]) for one in real.driver.started]
    assert sorted(given) == [("0.1", "32"), ("0.1", "64"), ("0.2", "32")]
    element = real.get("/v1/workloads/fit-2").json["element"]
    assert (element["index"], element["count"]) == (2, 4)
    assert element["env"] == {"lr": "0.2", "bs": "32"}


def test_the_whole_array_is_cancelled_by_its_name(real: Stage) -> None:
    """Those that wait are over at once, those that run are told to stop."""
    submitted(real, "fit", array="0-7")
    real.until(lambda: len(real.driver.started) == 4, "four are started")
    answer = real.post("/v1/workloads/fit/cancel")
    assert answer.status == 200
    assert answer.json["name"] == "fit"
    assert phases(real, "fit")["Cancelled"] == 4
    real.until(lambda: len(real.driver.stopped) == 4, "the others are told")


def test_what_a_cancelled_array_came_to_is_told_of_those_that_were_cancelled(real: Stage) -> None:
    """However many were over by then; of one that was over as a whole it says so, and how."""
    submitted(real, "fit", array="0-3")
    real.until(lambda: len(real.driver.started) == 4, "all are started")
    over(real, "fit-0")
    over(real, "fit-1")
    over(real, "fit-2", 1)
    real.until(lambda: phases(real, "fit").get("Failed") == 1, "three are over")
    answer = real.post("/v1/workloads/fit/cancel").json
    assert answer["phase"] in {"Starting", "Running", "Stopping", "Cancelled"}
    assert answer.get("over_since_ms") is None
    over(real, "fit-3")
    real.until(lambda: real.get("/v1/arrays/fit").json["over"], "all are over")
    answer = real.post("/v1/workloads/fit/cancel").json
    assert answer["phase"] == "Failed"
    assert answer["over_since_ms"] > 0


def test_names_of_arrays_meet_no_others(real: Stage) -> None:
    """Another array of the name is numbered as a whole, and so is one whose element is taken."""
    assert submitted(real, "fit", array="0-3")["name"] == "fit"
    assert submitted(real, "fit", array="0-3")["name"] == "fit-4"
    assert submitted(real, "fit-0")["name"] == "fit-0-2"
    assert submitted(real, "run-3")["name"] == "run-3"
    assert submitted(real, "run", array="2-5")["name"] == "run-2"
    assert real.get("/v1/workloads/run-2-5").status == 200


def test_the_key_of_an_array_gives_it_again(real: Stage) -> None:
    """Repeated, it is the same array; with another limit it is refused."""
    first = submitted(real, "fit", array="0-3", key="k")
    again = submitted(real, "fit", array="0-3", key="k")
    assert (again["id"], again["name"], again["repeated"]) == (first["id"], "fit", True)
    body = {"text": f"name: fit\n{TASK}", "array": "0-3%2", "key": "k"}
    assert real.post("/v1/workloads", body).json["code"] == "key/other-content"


def test_an_element_runs_again_by_itself(real: Stage) -> None:
    """With its index, and without becoming part of the array."""
    submitted(real, "fit", array="5,6", sweep={})
    real.until(lambda: len(real.driver.started) == 2, "both are started")
    over(real, "fit-6", 1)
    assert real.post("/v1/workloads/fit-6/rerun").status == 201
    real.until(lambda: len(real.driver.started) == 3, "it is started again")
    assert real.driver.started[2].env["STELLWERK_ARRAY_INDEX"] == "6"
    assert sum(phases(real, "fit").values()) == 2


def test_one_starts_after_others(real: Stage) -> None:
    """Also after an array, and after what is over already."""
    submitted(real, "data")
    submitted(real, "fit", array="0-1", after=["ok:data"])
    submitted(real, "report", after=["any:fit"])
    assert reason(real, "fit-1") == reason(real, "report") == "after"
    over(real, "data", 0)
    real.until(lambda: len(real.driver.started) == 3, "the array starts")
    for name in ("fit-0", "fit-1"):
        over(real, name, 1)
    real.until(lambda: len(real.driver.started) == 4, "the report starts")
    late = submitted(real, "late", after=["fail:fit", "ok:data"])
    real.started(late["id"])
    submitted(real, "never", after=["ok:fit"])
    real.until(lambda: reason(real, "never") == "after_never", "it can't come true")
    show = real.get("/v1/workloads/never").json
    assert show["phase"] == "Cancelled"
    assert "to start after ok:fit" in show["timeline"][0]["what"]


def test_a_task_file_or_a_batch_script_says_the_same(real: Stage) -> None:
    """By labels, or by #SBATCH lines with names in place of numbers."""
    submitted(real, "data")
    text = "resources: {cpus: 1, labels: {stellwerk/array: 1-2, stellwerk/after: 'any:data'}}\n"
    assert real.submit(f"name: fit\n{text}run: 'true'\n")["count"] == 2
    assert reason(real, "fit-2") == "after"
    script = (
        "#!/bin/bash\n#SBATCH --job-name=batch --array=0-2%1 --dependency=afterok:data\n"
        "#SBATCH --chdir=/tmp\npython train.py $SLURM_ARRAY_TASK_ID\n"
    )
    packed = b'{"files": []}'
    digest = hashlib.sha256(packed).hexdigest()
    assert real.ask("PUT", f"/v1/blobs/{digest}", packed).status < 300
    told = real.submit(script, kind="sbatch", snapshot=digest)
    assert (told["name"], told["count"]) == ("batch", 3)
    assert not [one for one in told["notices"] if "SLURM_ARRAY" in one["message"]]
    assert reason(real, "batch-0") == "after"


@pytest.mark.parametrize(
    ("wish", "code", "said"),
    [
        ({"array": "5-2"}, "spec/array", "there is nothing in `5-2`"),
        ({"array": "0-9%0"}, "spec/array", "must be a number from 1 on"),
        ({"array": "%4"}, "spec/array", "names no index"),
        ({"array": "0-999999"}, "spec/array", "at most 100,000"),
        ({"sweep": {"lr": ["1", "1"]}}, "spec/array", "has a value twice"),
        ({"sweep": {"l r": ["1"]}}, "spec/env-name", "l r"),
        ({"sweep": {"lr": ["1"]}, "array": "0-3"}, "spec/array", "numbers its elements itself"),
        ({"after": ["ok:nobody"]}, "find/workload", "no workload `nobody`"),
        ({"after": ["soon:data"]}, "spec/after", "can be waited for"),
    ],
)
def test_what_makes_no_sense_is_refused(
    real: Stage, wish: dict[str, Any], code: str, said: str
) -> None:
    """With what to write instead, and nothing is submitted."""
    answer = real.post("/v1/workloads", {"text": f"name: fit\n{TASK}", **wish})
    [problem] = answer.json["problems"]
    assert (problem["code"], bool(problem["help"])) == (code, True)
    assert said in problem["message"]
    assert real.get("/v1/workloads?all=1").json["items"] == []


def test_thousands_in_one_request(real: Stage) -> None:
    """They are taken down together, and a list of arrays stays one line."""
    assert submitted(real, "fit", array="0-2999%4")["count"] == 3_000
    real.until(lambda: sum(phases(real, "fit").values()) == 3_000, "all are there")
    real.until(lambda: len(real.driver.started) == 4, "four are started")
