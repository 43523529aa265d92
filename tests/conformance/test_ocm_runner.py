"""The runner of the placement cases itself: it sees every change, and knows what it may not."""

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.cases import load
from tests.conformance.test_ocm_placement import FILES, check

CASES = dict(load(Path(__file__).parent / "cases", FILES))


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if value is None:
        return 7
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + 3
    if isinstance(value, str):
        return f"{value}otherwise"
    if isinstance(value, list):
        return [*value, "otherwise"]
    return {**value, "otherwise": {"weight": 1, "values": {"a": 1}}}


@pytest.mark.parametrize("id", CASES)
def test_a_changed_expectation_fails(id: str) -> None:
    """Each thing that a case expects is looked at."""
    case = CASES[id]
    for key, value in case["expect"].items():
        if key == "note":
            continue
        other = copy.deepcopy(case)
        other["expect"][key] = changed(value)
        if key == "filter":
            other["expect"][key] = {stage: [*names, "z"] for stage, names in value.items()}
        assert check(other), key


def test_what_nobody_knows_fails() -> None:
    """An unknown key of a case, its expectation, a cluster or the spec is told."""
    case = CASES["ocm_placement/pred-label-equality"]
    changes: tuple[dict[str, Any], ...] = (
        {"strange": 1},
        {"expect": {**case["expect"], "strange": 1}},
        {"clusters": [{"name": "a", "strange": 1}]},
        {"spec": {"strange": 1}},
        {"expect": {}},
    )
    for change in changes:
        assert check({**case, **change})


def test_clusters_are_generated() -> None:
    """More than a hundred clusters need more than one object."""
    case = {
        "id": "many",
        "generate": {"prefix": "c", "count": 205},
        "spec": {"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "60%"}}},
        "expect": {
            "unscheduled": 0,
            "groups": [
                {"index": 0, "pd": ["p-decision-1", "p-decision-2"], "count": 123},
                {"index": 1, "pd": ["p-decision-3"], "count": 82},
            ],
        },
        "_meta": next(iter(CASES.values()))["_meta"],
    }
    assert check(case) == []
