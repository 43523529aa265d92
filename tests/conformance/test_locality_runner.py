"""The runner of the locality cases itself: it sees what is wrong, and knows what it may not."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.test_data_locality import check, load

OWN = Path(__file__).parent / "cases"
CASES = {id: (case, cases) for id, case, cases in load(OWN)}
NUMBERS = [
    (id, name, key)
    for id, (case, _) in CASES.items()
    for name, numbers in case["expect"].get("sites", {}).items()
    for key in numbers
]


def changed(id: str, **expect: Any) -> list[str]:
    """What the runner says of a case that expects something else."""
    case, cases = CASES[id]
    return check({**case, "expect": {**case["expect"], **expect}}, cases)


def test_every_number_that_differs_is_seen() -> None:
    """One hundredth more is too much; of clock times, one second."""
    assert len(NUMBERS) > 60
    for id, name, key in NUMBERS:
        sites = copy.deepcopy(CASES[id][0]["expect"]["sites"])
        value = sites[name][key]
        sites[name][key] = value * 1.01 + 0.001 if isinstance(value, int | float) else "01:02:03"
        found = changed(id, sites=sites)
        assert len(found) == 1, (id, name, key, found)


@pytest.mark.parametrize(
    ("id", "expect"),
    [
        ("data_locality/L01", {"ranking": ["cloud-a", "lab-server"]}),
        ("data_locality/L07", {"rejected": {"us-spot": "disk"}}),
        ("data_locality/L07", {"rejected": {"eu-k8s": "residency"}}),
        ("data_locality/L07", {"alerts": ["replica of patients on eu-k8s breaks residency EU"]}),
        ("data_locality/L09", {"explain_has": ["5 min too late"]}),
        ("data_locality/L11", {"source": {"cloud-b": "s3-us"}}),
        ("data_locality/L11", {"rejected_sources": {"r2": "deadline"}}),
        ("data_locality/L11", {"explain_has": ["s3-us costs 91 USD more"]}),
        ("data_locality/L11", {"explain_has": ["lab-server would finish 26 min late"]}),
        ("data_locality/L13", {"warnings": {"ocm-1": "cache state unknown"}, "ranking": []}),
        ("data_locality_more/M03", {"evict_gb": {"tidy": 51}}),
        ("data_locality_more/M04", {"action": "move"}),
        ("data_locality_more/M04", {"action": {"wait": "cold"}}),
        ("data_locality_more/M05", {"action": "wait"}),
        ("data_locality/L01", {"colour": "red"}),
        ("data_locality/L01", {"sites": {"nowhere": {"missing_gb": 0}}}),
        ("data_locality/L01", {"sites": {"cloud-a": {"colour": 0}}}),
    ],
)
def test_what_differs_is_seen(id: str, expect: dict[str, Any]) -> None:
    """In every kind of expectation."""
    assert changed(id) == []
    assert changed(id, **expect)


@pytest.mark.parametrize("where", ["", "job", "data", "sites", "links"])
def test_a_key_that_nobody_knows_fails(where: str) -> None:
    """Wherever it stands."""
    case, cases = CASES["data_locality/L01"]
    odd = copy.deepcopy(case)
    target = odd[where] if where else odd
    (target[0] if isinstance(target, list) else target)["colour"] = "red"
    prefix = f"{where}." if where else ""
    assert check(odd, cases) == [f"unknown key `{prefix}colour`"]


def test_a_case_that_expects_nothing_fails() -> None:
    """Prose is no expectation."""
    case, cases = CASES["data_locality/L01"]
    assert check({**case, "expect": {"note": "nothing"}}, cases) == ["the case expects nothing"]


def test_a_case_that_builds_on_none_fails() -> None:
    """It isn't taken as one of its own."""
    assert check({"id": "x", "same_as": "L99", "expect": {}}, {}) == [
        "it builds on case L99, which isn't there"
    ]


def test_files_that_are_not_there_give_no_tests(tmp_path: Path) -> None:
    """And a stray key of a file fails all of its cases."""
    assert list(load(tmp_path)) == []
    text = yaml.safe_dump({"version": 1, "colour": 1, "cases": [{"id": "A", "expect": {}}]})
    (tmp_path / "data_locality.yaml").write_text(text, encoding="utf-8")
    ((id, case, _),) = load(tmp_path)
    assert id == "data_locality/A"
    assert "unknown key `colour`" in check(case, {})
