"""A workload's task can be run again, as it was the first time."""

from tests.server.stage import Stage


def test_a_task_is_run_again(stage: Stage) -> None:
    """Beside the first one: with its script, its variables and its sealed secrets."""
    first = stage.submit(
        "echo $TOKEN", env={"A": "1"}, secrets={"TOKEN": "s3cret"}, labels={"team": "x"}
    )
    stage.end(stage.started(first["id"]))
    again = stage.post(f"/v1/workloads/{first['name']}/rerun")
    assert again.status == 201
    second = again.json
    assert second["id"] != first["id"]
    assert second["name"] != first["name"]
    stage.started(second["id"])
    one, two = stage.driver.started[-2:]
    assert (two.script, two.env["A"], two.secrets) == (one.script, "1", {"TOKEN": "s3cret"})
    assert stage.get(f"/v1/workloads/{second['id']}").json["labels"] == {"team": "x"}


def test_a_rerun_of_a_rerun_is_counted_on(stage: Stage) -> None:
    """Unless the number belongs to the name that somebody gave."""
    stage.submit(overrides={"name": "fit"})
    names = [stage.post(f"/v1/workloads/{name}/rerun").json["name"] for name in ("fit", "fit-2")]
    assert names == ["fit-2", "fit-3"]
    stage.submit(overrides={"name": "llama-7"})
    assert stage.post("/v1/workloads/llama-7/rerun").json["name"] == "llama-7-2"


def test_a_repeated_key_is_the_same_workload(stage: Stage) -> None:
    """A request whose answer was lost may be sent again."""
    first = stage.submit()
    answers = [
        stage.post(f"/v1/workloads/{first['id']}/rerun", {"key": "k"}).json for _ in range(2)
    ]
    assert answers[0]["id"] == answers[1]["id"]


def test_what_is_not_there_can_not_be_run_again(stage: Stage) -> None:
    """Like any other look-up."""
    assert stage.post("/v1/workloads/nope/rerun").status == 404
    unknown = stage.post(f"/v1/workloads/{stage.submit()['id']}/rerun", {"kye": "k"})
    assert unknown.status == 400
