"""A change goes over clusters as the reference lets it: the cases of `ocm_rollout.yaml`.

One test for each case, called `ocm_rollout/<id>`. STELLWERK_CASES names another folder of cases;
a file that isn't there gives no test; a key that nobody knows fails its case.
"""

from datetime import datetime

import pytest

from stellwerk.core.describe.nodes import Report
from stellwerk.core.describe.plain import node_of
from stellwerk.core.describe.rollout_strategy import rollout_strategy
from stellwerk.core.model.rollout import ClusterProgress, RolloutGroup
from stellwerk.core.rollout.step import next_step
from tests.conformance.cases import FOLDER, Case, load
from tests.conformance.sky_resources import PROSE

FILES = ("ocm_rollout", "ocm_rollout_more")
CASE_KEYS = {"id", "strategy", "groups", "state", "expect", "_meta", *PROSE}
EXPECT_KEYS = {"rollout", "timedOut", "removed", "breach", "recheckIn", "error", *PROSE}

CASES = list(load(FOLDER, FILES))

if CASES:

    @pytest.mark.parametrize("case", [pytest.param(case, id=id) for id, case in CASES])
    def test_case(case: Case) -> None:
        """What may be done now is as the case says."""
        assert not check(case)

    @pytest.mark.parametrize("case", [pytest.param(case, id=id) for id, case in CASES])
    def test_a_changed_expectation_fails(case: Case) -> None:
        """Each thing that a case expects is looked at."""
        for key, value in case["expect"].items():
            if key not in PROSE:
                other = not value if isinstance(value, bool) else ["otherwise"]
                assert check({**case, "expect": {**case["expect"], key: other}}), key


def check(case: Case) -> list[str]:
    """Every way in which a case isn't met."""
    result = [f"unknown key `{key}`" for key in case if key not in CASE_KEYS]
    expected = case.get("expect") or {}
    result += [f"unknown key `expect.{key}`" for key in expected if key not in EXPECT_KEYS]
    if not expected:
        result.append("the case expects nothing")
    found = described(case)
    for key, wanted in {"breach": False, "error": False, **expected}.items():
        if key not in PROSE and (key == "error" or not found["error"]):
            result += [] if found[key] == wanted else [f"{key}: {wanted}, found {found[key]}"]
    return result


def described(case: Case) -> Case:
    """What came of it, in the words of the cases."""
    clock = datetime.fromisoformat(str(case["_meta"].get("clock", "2026-01-15T12:00:00Z")))
    now_ms = int(clock.timestamp() * 1000)
    strategy = rollout_strategy(Report("case"), node_of(case["strategy"]), "strategy")
    if strategy is None:
        return {"error": True}
    groups = [RolloutGroup(one["name"], tuple(one["clusters"])) for one in case["groups"]]
    progress = [
        ClusterProgress(
            one["cluster"],
            one["status"],
            None if one.get("since") is None else now_ms - int(one["since"] * 1000),
        )
        for one in case.get("state") or ()
    ]
    step = next_step(strategy, groups, progress, now_ms)
    at_ms = step.recheck_at_ms
    return {
        "error": False,
        "rollout": [f"{one.cluster}:{one.status}" for one in step.places],
        "timedOut": list(step.timed_out),
        "removed": list(step.removed),
        "breach": step.breach,
        "recheckIn": None if at_ms is None else (at_ms - now_ms) / 1000,
    }
