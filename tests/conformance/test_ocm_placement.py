"""Under `compat: ocm` a placement does what the reference does: the cases of `ocm_placement.yaml`.

One test for each case, called `ocm_placement/<id>`. STELLWERK_CASES names another folder of cases;
a file that isn't there gives no test; a key that nobody knows fails its case.
"""

from datetime import datetime
from typing import Any

import numpy as np
import pytest

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.placing import Choice, PlacingContext
from stellwerk.core.place.placing import choose
from stellwerk.core.place.scores import unpacked
from tests.conformance.cases import FOLDER, Case, load
from tests.conformance.ocm_objects import Strange, existing_of, fleet_of, placement_of
from tests.conformance.sky_resources import PROSE

FILES = ("ocm_placement", "ocm_placement_more")
CASE_KEYS = {
    "id", "clusters", "sets", "bindings", "existing", "generate", "spec", "expect", *PROSE,
}  # fmt: skip
EXPECT_KEYS = {
    "selected", "scores", "totals", "groups", "filter", "satisfied", "satisfiedMessage",
    "misconfigured", "status", "unscheduled", "requeueIn", *PROSE,
}  # fmt: skip

CASES = list(load(FOLDER, FILES))

if CASES:

    @pytest.mark.parametrize("case", [pytest.param(case, id=id) for id, case in CASES])
    def test_case(case: Case) -> None:
        """What is chosen, and what is said about it, is as the case says."""
        assert not check(case)


def check(case: Case) -> list[str]:
    """Every way in which a case isn't met."""
    meta = case.get("_meta") or {}
    result = [f"unknown key `{key}`" for key in case if key not in CASE_KEYS | {"_meta"}]
    expected = case.get("expect") or {}
    result += [f"unknown key `expect.{key}`" for key in expected if key not in EXPECT_KEYS]
    if not expected:
        result.append("the case expects nothing")
    clock = datetime.fromisoformat(str(meta.get("clock", "2026-01-15T12:00:00Z")))
    now_ms = int(clock.timestamp() * 1000)
    try:
        fleet = fleet_of(case, meta.get("defaults") or {}, now_ms)
        placement = placement_of(case.get("spec") or {})
        context = PlacingContext(now_ms, existing_of(case))
    except Strange as error:
        return [*result, str(error)]
    found = described(fleet, placement, context)
    for key, wanted in expected.items():
        if key in PROSE or key not in EXPECT_KEYS:
            continue
        result += differences(key, wanted, found[key])
    return result


def described(fleet: Fleet, placement: Placement, context: PlacingContext) -> dict[str, Any]:
    """What came of it, in the words of the cases."""
    columns = FleetColumns(fleet)
    choice = choose(placement, columns, context)
    of_type = {one.type: one for one in choice.conditions}
    satisfied = of_type["PlacementSatisfied"]
    requeue = choice.requeue_at_ms - context.now_ms if choice.requeue_at_ms else None
    scores, totals = scored(columns, choice)
    return {
        "selected": list(choice.clusters),
        "scores": scores,
        "totals": totals,
        "groups": [
            {
                "index": one.index,
                "name": one.name,
                "pd": list(one.objects),
                "clusters": list(one.clusters),
                "count": len(one.clusters),
            }
            for one in choice.groups
        ],
        "filter": filtered(columns, choice),
        "satisfied": [satisfied.status, satisfied.reason],
        "satisfiedMessage": satisfied.message,
        "misconfigured": of_type["PlacementMisconfigured"].status == "True",
        "status": {
            "code": choice.status.code,
            "plugin": choice.status.plugin,
            "contains": choice.status.message,
        },
        "unscheduled": choice.unscheduled,
        "requeueIn": None if requeue is None else requeue / 1000,
    }


def bits(data: bytes, size: int) -> np.ndarray[Any, Any]:
    """Unpacked bits."""
    return np.unpackbits(np.frombuffer(data, np.uint8), bitorder="little", count=size).astype(bool)


def scored(columns: FleetColumns, choice: Choice) -> tuple[dict[str, Any], dict[str, int]]:
    """The scores and totals that the explanation holds."""
    explanation = choice.explanation
    passed = bits(explanation.passed, columns.size) if explanation.passed else np.zeros(0, bool)
    rows = np.flatnonzero(passed).tolist()
    names = [columns.clusters[row].name for row in rows]
    totals = dict.fromkeys(names, 0)
    scores: dict[str, Any] = {}
    shared = explanation.shared.scores if explanation.shared else ()
    for one in (*shared, *explanation.scores):
        values = dict(zip(names, unpacked(one.values).tolist(), strict=True))
        scores[one.title] = {"weight": one.weight, "values": values}
        for name, value in values.items():
            totals[name] += one.weight * value
    return scores, totals


def filtered(columns: FleetColumns, choice: Choice) -> dict[str, list[str]]:
    """The clusters left after each stage."""
    shared = choice.explanation.shared
    if shared is None:
        return {}
    left = bits(shared.candidates, shared.size)
    stages, chain = {}, []
    for one in shared.filters[:2]:
        left &= ~bits(one.failed, shared.size)
        chain.append(one.name)
        stages[",".join(chain)] = [columns.clusters[row].name for row in np.flatnonzero(left)]
    return stages


def differences(key: str, wanted: Any, found: Any) -> list[str]:
    """How one expectation isn't met."""
    if key == "satisfiedMessage":
        good = wanted in found
    elif key == "filter":
        good = all(sorted(names) == sorted(found.get(stage, ())) for stage, names in wanted.items())
    elif key == "status":
        good = set(wanted) <= {"code", "plugin", "contains"} and all(
            value in found[part] if part == "contains" else value == found[part]
            for part, value in wanted.items()
        )
    elif key == "groups":
        good = len(wanted) == len(found) and all(
            one == {part: other.get(part) for part in one}
            for one, other in zip(wanted, found, strict=True)
        )
    elif key == "scores":
        good = bool(wanted) or not found
        good &= all(t in found and _same_score(one, found[t]) for t, one in wanted.items())
    else:
        good = wanted == found
    return [] if good else [f"{key}: wanted {wanted}, found {found}"]


def _same_score(wanted: Case, found: Case) -> bool:
    """Weights and values; a cluster that isn't scored counts as 0."""
    if (
        set(wanted) - {"weight", "values"}
        or wanted.get("weight", found["weight"]) != found["weight"]
    ):
        return False
    other: Case = found["values"]
    values: Case = wanted.get("values") or other
    names = sorted({*values, *other})
    return all(values.get(name, 0) == other.get(name, 0) for name in names)
