"""`stw explain` with what it can be asked beyond the decision: the right question and code."""

import json

import pytest

from tests.cli.conftest import Stw
from tests.client.fake_server import FakeServer

WAITS: dict[str, list[object]] = {"reasons": [], "candidates": []}
REPLAYED = {
    "decision": "d-1",
    "key": "train",
    "identical": True,
    "same_version": True,
    "core_version": "0.1.0",
}


def test_one_candidate(server: FakeServer, stw: Stw) -> None:
    """By name, of a run where that is said; as data too."""
    told = {"name": "train", "cluster": "rack", "alternatives": [{"verdict": "never"}]}
    server.on("GET", "/v1/workloads/train/explain/rack", told)
    result = stw("explain", "train", "--cluster", "rack", "--run", "2")
    assert (result.code, server.asked[-1].query) == (0, {"run": "2"})
    assert result.lines[0].startswith("train on rack: never (as of ")
    told = json.loads(stw("explain", "train", "--cluster", "rack", "-o", "json").out)
    assert told["alternatives"][0]["verdict"] == "never"


def test_what_if(server: FakeServer, stw: Stw) -> None:
    """Changes go as they are typed, in their order; the list needs no server."""
    server.on("POST", "/v1/workloads/train/if", {"name": "train", "before": WAITS, "after": WAITS})
    result = stw("explain", "train", "--if", "free rack", "--if", "ask gpus=2")
    assert (result.code, result.lines[-1]) == (0, "  then  the same")
    assert json.loads(server.asked[-1].body) == {"changes": ["free rack", "ask gpus=2"]}
    listed = stw("explain", "--if", "help")
    assert listed.code == 0
    assert "free CLUSTER [gpus=4] " in listed.out
    assert "where the work names a placement, what that looks at:" in listed.lines


def test_why_it_changed(server: FakeServer, stw: Stw) -> None:
    """Of the last two decisions, or of those that are named."""
    told = {"first": "d-1", "second": "d-2", "key": "train", "inputs": ["only the time"]}
    server.on("GET", "/v1/workloads/train/difference", told)
    result = stw("explain", "train", "--diff")
    assert (result.code, result.lines[0]) == (0, "train: d-1 -> d-2")
    assert server.asked[-1].query == {}
    stw("explain", "train", "--diff", "d-1", "now")
    assert server.asked[-1].query == {"first": "d-1", "second": "now"}


def test_deciding_again(server: FakeServer, stw: Stw) -> None:
    """What doesn't come out again by the same version is an error; by another it is told."""
    server.on("GET", "/v1/workloads/train/replay", REPLAYED)
    assert stw("explain", "train", "--replay").lines == [
        "d-1 of train: computed again, it is identical"
    ]
    stw("explain", "train", "--replay", "d-1")
    assert server.asked[-1].query == {"decision": "d-1"}
    other = {**REPLAYED, "identical": False, "differences": ["lab: fits -> later"]}
    server.on("GET", "/v1/workloads/odd/replay", other)
    odd = stw("explain", "odd", "--replay")
    assert (odd.code, odd.lines[1]) == (1, "  lab: fits -> later")
    assert "error[explain/replay]  d-1 does not come out again" in odd.err
    older = {**other, "same_version": False, "core_version": "0.0.9", "now": ["lab"]}
    server.on("GET", "/v1/workloads/old/replay", older)
    old = stw("explain", "old", "--replay")
    assert (old.code, old.lines) == (
        0,
        ["d-1 of train was made by version 0.0.9", "  this version would decide lab now"],
    )


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--diff", "--replay"], "--diff and --replay can't be asked together"),
        (["train", "--run", "1", "--diff"], "--run and --diff can't be asked together"),
        (["train", "d-1"], "`d-1` is one word too many"),
        (["train", "--replay", "d-1", "d-2"], "`d-2` is one word too many"),
        (["--diff"], "the name of a workload is missing"),
    ],
)
def test_what_can_not_be_asked(stw: Stw, words: list[str], said: str) -> None:
    """Is refused before anything is asked."""
    result = stw("explain", *words)
    assert (result.code, result.out) == (2, "")
    assert said in result.err
