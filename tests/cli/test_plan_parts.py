"""`stw plan --fleet` with what is only partly known: pipelines without lengths, broken policies."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Stw
from tests.cli.test_plan_fleet import FLEET, TRAIN


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with a fleet and a task."""
    monkeypatch.chdir(tmp_path)
    Path("fleet.yaml").write_text(FLEET)
    Path("train.yaml").write_text(TRAIN)


def test_an_expression_that_is_none_is_told_however_lenient(stw: Stw) -> None:
    """Nothing follows from a policy with it, so a task that names it goes nowhere, and says so."""
    selector = {"celSelector": {"celExpressions": ["managedCluster.nosuch("]}}
    spec = json.dumps({"predicates": [{"requiredClusterSelector": selector}]})
    Path("fleet.yaml").write_text(FLEET.replace("spec: {}", f"spec: {spec}"))
    other = TRAIN.replace("name: train", "name: free").replace("stellwerk/placement: gpu, ", "")
    Path("free.yaml").write_text(other)
    strict = stw("plan", "--fleet", "fleet.yaml", "free.yaml")
    assert (strict.code, strict.out) == (2, "")
    assert strict.err.startswith("error[placement/spec]  fleet.yaml:22:87  ")
    assert "compilation failed: 1:23: " in strict.err
    lenient = stw("plan", "--fleet", "fleet.yaml", "free.yaml", "--lenient")
    assert (lenient.code, lenient.err.splitlines()[0]) == (0, strict.err.splitlines()[0])
    assert "  -> big (2 A100-80GB): starts now, over in 2 h, 4 USD" in lenient.lines
    named = stw("plan", "--fleet", "fleet.yaml", "train.yaml", "--lenient")
    assert (named.code, named.out) == (2, "")
    assert "compilation failed: 1:23: " in named.err


def test_tasks_of_a_pipeline_follow_each_other(stw: Stw) -> None:
    """Each starts when the one before is over, wherever that is; an unknown end is told."""
    again = TRAIN.replace("name: train", "name: evaluate").replace("A100-80GB:2", "T4:1")
    last = again.replace("name: evaluate", "name: report").replace(
        ", stellwerk/expected-runtime: 2h", ""
    )
    Path("pipe.yaml").write_text(f"name: pipe\n---{TRAIN}---{again}---{last}---{last}")
    result = stw("plan", "--fleet", "fleet.yaml", "pipe.yaml", "-o", "json")
    assert result.code == 0, result.err
    record = json.loads(result.out)
    starts = [one["clusters"][0]["figures"]["starts_s"] for one in record["tasks"]]
    assert starts == [0, 7200, 14_400, 14_400]
    after = [one["clusters"][0].get("after", "") for one in record["tasks"]]
    assert after[:3] == ["", "train", "evaluate"]
    told = "report-2 follows report, and nobody knows when that is over: its times are as if that"
    assert [note for note in record["notes"] if "follows" in note] == [f"{told} took none"]
