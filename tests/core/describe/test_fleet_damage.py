"""However a fleet file is damaged, reading it ends in problems with places, never otherwise."""

import json
from random import Random
from typing import Any

import yaml
from hypothesis import given
from hypothesis import strategies as st

from stellwerk.core.describe.fleet import FleetRead, fleet_of, read_fleet
from tests import yamls
from tests.core.describe import test_fleet, test_fleet_short
from tests.core.describe.test_placements import WHOLE

GOOD = [yamls.read(text) for text in (*test_fleet.ALL, *test_fleet_short.ALL, WHOLE)]
DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
ODD: list[Any] = [
    None, True, 0, -1, 10**30, 1.5, float("nan"), float("inf"), "", " ", "x", "1", "a@b", "a/b/c",
    "{", "\u202e", "x" * 300, [], [[]], [None], {}, {"a": {}}, ["a", 1], {"name": "a"},
    "2026-13-01",
]  # fmt: skip


def damaged(value: Any, dice: Random) -> Any:
    """The same with one value, somewhere in it, replaced, doubled or taken away."""
    if not isinstance(value, dict | list) or not value or dice.random() < 0.15:
        return dice.choice(ODD)
    if isinstance(value, list):
        at = dice.randrange(len(value))
        middle = [damaged(value[at], dice)]
        if dice.random() < 0.1:
            middle = dice.choice([[], [value[at], value[at]]])
        return [*value[:at], *middle, *value[at + 1 :]]
    key = dice.choice(list(value))
    if dice.random() < 0.1:
        return {name: each for name, each in value.items() if name != key}
    name = dice.choice([key, key, key, key, key, f"{key}x", 7])
    return {other: each for other, each in value.items() if other != key} | {
        name: damaged(value[key], dice)
    }


def check(found: FleetRead, told: bool) -> None:
    """Problems have codes and texts, and what counts is whole."""
    for problem in found.problems:
        assert problem.code
        assert problem.message
        assert problem.line > 0 or not told or problem.code == "spec/more"
    names = [cluster.name for cluster in found.fleet.clusters]
    assert names == sorted(dict.fromkeys(names))
    assert found.fleet.told.keys() <= {*names}
    json.dumps([str(problem) for problem in found.problems])


@given(st.randoms(use_true_random=False), st.integers(1, 4))
def test_damage(dice: Random, times: int) -> None:
    """Values of other kinds, missing and doubled entries, unknown keys, in any document."""
    documents = dice.sample(GOOD, 4)
    for at in range(times):
        documents[at] = damaged(documents[at], dice)
    text = yaml.dump_all(documents, Dumper=DUMPER)
    check(read_fleet(text, file="fleet.yaml"), told=True)
    objects = [each for each in documents if isinstance(each, dict)]
    check(fleet_of(objects), told=False)


@given(st.randoms(use_true_random=False))
def test_damaged_text(dice: Random) -> None:
    """Characters taken away, doubled and exchanged."""
    text = "---\n".join(dice.sample([*test_fleet.ALL, *test_fleet_short.ALL, WHOLE], 3))
    for _ in range(3):
        at = dice.randrange(len(text))
        piece = dice.choice(
            ["", text[at] * 2, "\t", "'", '"', ": ", "{", "]", "- ", "&a ", "*a", "\n"]
        )
        text = text[:at] + piece + text[at + 1 :]
    check(read_fleet(text, file="fleet.yaml"), told=False)
