"""Under `compat: kueue` the queue decides as the reference: the cases of `kueue_scheduling.yaml`.

One test for each case, called `kueue_scheduling/<id>`. STELLWERK_CASES names another folder of
cases; a file that isn't there gives no test; a key that nobody knows fails its case.
"""

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from stellwerk.core.queue.cycle import decide
from stellwerk.core.queue.live import Queues
from tests import yamls
from tests.conformance.kueue_objects import NOW_MS, objects_of, pending, running
from tests.conformance.ocm_objects import Strange
from tests.conformance.sky_resources import PROSE

FOLDER = Path(os.environ.get("STELLWERK_CASES") or Path(__file__).parent / "cases")
FILES = ("kueue_scheduling", "kueue_scheduling_more")
CASE_KEYS = {
    "id", "options", "flavors", "topologies", "nodes", "cohorts", "queues", "local_queues",
    "running", "pending", "expect", *PROSE,
}  # fmt: skip
EXPECT_KEYS = {"admitted", "pending", "preempted", "parked", "counts", "domains", *PROSE}

Case = dict[str, Any]


@cache
def load(folder: Path) -> tuple[tuple[str, Case], ...]:
    """The cases of the files that are there, with the ids of their tests; read once."""
    return tuple(_read(folder))


def _read(folder: Path) -> Iterator[tuple[str, Case]]:
    for stem in FILES:
        path = folder / f"{stem}.yaml"
        if path.is_file():
            data = yamls.read(path.read_text(encoding="utf-8"))
            for case in data["cases"]:
                yield f"{stem}/{case['id']}", case


CASES = load(FOLDER)

if CASES:

    @pytest.mark.parametrize("case", [pytest.param(case, id=id) for id, case in CASES])
    def test_case(case: Case) -> None:
        """Who is admitted where, who is evicted and who waits is as the case says."""
        assert not check(case)


def check(case: Case) -> list[str]:
    """Every way in which a case isn't met."""
    result = [f"unknown key `{key}`" for key in case if key not in CASE_KEYS]
    expected = case.get("expect") or {}
    result += [f"unknown key `expect.{key}`" for key in expected if key not in EXPECT_KEYS]
    if not expected:
        result.append("the case expects nothing")
    try:
        found = described(case)
    except (Strange, KeyError, TypeError) as error:
        return [*result, f"{type(error).__name__}: {error}"]
    wanted = {
        "admitted": expected.get("admitted") or {},
        "pending": sorted(expected.get("pending") or []),
        "preempted": expected.get("preempted") or {},
        "counts": expected.get("counts") or {},
    }
    if "parked" in expected:
        wanted["parked"] = sorted(expected["parked"] or [])
    if "domains" in expected:
        wanted["domains"] = expected["domains"]
    return result + [
        f"{key}: wanted {value}, found {found[key]}"
        for key, value in wanted.items()
        if value != found[key]
    ]


def described(case: Case) -> dict[str, Any]:
    """What came of the cycles, in the words of the cases."""
    objects = objects_of(case)
    queues = Queues(objects, now_ms=NOW_MS)
    doors = {one.name: one.queue for one in objects.local_queues}
    for one in case.get("running") or ():
        queues.hold(running(one, doors))
    written = {one["name"]: pending(one) for one in case.get("pending") or ()}
    for workload in written.values():
        queues.submit(workload)
    admitted: dict[str, Any] = {}
    counts: dict[str, Any] = {}
    domains: dict[str, Any] = {}
    preempted: dict[str, str] = {}
    for _ in range((case.get("options") or {}).get("cycles", 1)):
        for key in preempted:
            if f"team/{key}" in queues.holders:
                queues.release(f"team/{key}")
        outcome = decide(queues, NOW_MS)
        queues.apply(outcome, NOW_MS)
        for start in outcome.admitted:
            name = name_of(start.key)
            admitted[name] = {one.name: dict(one.flavors) for one in start.pod_sets}
            sizes = {one.name: one.count for one in written[name].pod_sets}
            if any(one.count != sizes[one.name] for one in start.pod_sets):
                counts[name] = {one.name: one.count for one in start.pod_sets}
            placed = {one.name: dict(one.domains) for one in start.pod_sets if one.domains}
            if placed:
                domains[name] = placed
        for gone in outcome.evicted:
            preempted[name_of(gone.key)] = gone.reason
    waiting = [name_of(key) for key in (*queues.waiters, *queues.refused)]
    return {
        "admitted": admitted,
        "counts": counts,
        "domains": domains,
        "preempted": preempted,
        "pending": sorted(waiting),
        "parked": sorted(name_of(one.key) for one in queues.pending() if one.parked),
    }


def name_of(key: str) -> str:
    """The name without its namespace."""
    return key.partition("/")[2]
