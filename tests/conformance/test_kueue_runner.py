"""The runner of the queueing cases itself: it sees every change, and knows what it may not."""

import copy
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.test_kueue_scheduling import check, load

CASES = dict(load(Path(__file__).parent / "cases"))


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, list):
        return [*value, "otherwise"]
    return {**value, "otherwise": "InClusterQueue"}


@pytest.mark.parametrize("id", CASES)
def test_a_changed_expectation_fails(id: str) -> None:
    """Each thing that a case expects is looked at."""
    case = CASES[id]
    assert check(case) == []
    for key, value in case["expect"].items():
        other = copy.deepcopy(case)
        other["expect"][key] = changed(value)
        assert check(other), key


def test_what_nobody_knows_fails() -> None:
    """An unknown key anywhere in a case is told, and a case that expects nothing."""
    case = CASES["kueue_scheduling/E02-fill-back-minimal-set"]
    changes: tuple[dict[str, Any], ...] = (
        {"strange": 1},
        {"expect": {}},
        {"expect": {**case["expect"], "strange": 1}},
        {"options": {"strange": 1}},
        {"flavors": [{"name": "std", "strange": 1}]},
        {"queues": [{**case["queues"][0], "strange": 1}]},
        {"queues": [{**case["queues"][0], "preemption": {"strange": 1}}]},
        {"pending": [{**case["pending"][0], "strange": 1}]},
        {"running": [{**case["running"][0], "strange": 1}]},
    )
    for change in changes:
        assert check({**case, **change}), change
