"""The runner of the task file cases itself: it sees every change, and knows what it may not."""

import copy
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conformance.sky_resources import PROSE
from tests.conformance.test_sky_tasks import check, load

OWN = Path(__file__).parent / "cases"
CASES = dict(load(OWN))
PARSED = [(id, case) for id, case in CASES.items() if "expect" in case]
NOTHING: tuple[object, ...] = (None, False, {}, [], "")
SUMMARIES = ("service", "hooks", "setup", "run", "config")
"""What is compared as far as the case goes."""


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The paths to all values below a value."""
    items = value.items() if isinstance(value, dict) else enumerate(value)
    found: list[tuple[Any, ...]] = []
    for key, inner in items:
        found.append((*path, key))
        if isinstance(inner, dict | list):
            found += leaves(inner, (*path, key))
    return found


def changed(case: dict[str, Any], path: tuple[Any, ...], value: Any) -> dict[str, Any]:
    """The case with one value of `expect` replaced, or removed if it is the marker."""
    result = copy.deepcopy(case)
    target = result["expect"]
    for key in path[:-1]:
        target = target[key]
    if value is ...:
        del target[path[-1]]
    else:
        target[path[-1]] = value
    return result


def other(value: Any) -> Any:
    """A value of the same kind that is another one."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 7
    if isinstance(value, str):
        return "otherwise" if not value[:1].isdigit() else f"7{value}"
    if isinstance(value, dict):
        return {**value, "otherwise": "x"}
    return [*value, "otherwise"] if value is not None else "otherwise"


@pytest.mark.parametrize(("id", "case"), PARSED, ids=[id for id, _ in PARSED])
def test_a_changed_expectation_fails(id: str, case: dict[str, Any]) -> None:
    """Each value of a case, made another one, is seen; `choice` may have several right values."""
    for path in leaves(case["expect"]):
        value = case["expect"]
        for key in path:
            value = value[key]
        if path[-1] in PROSE:
            continue
        assert check(changed(case, path, other(value))), (id, path)


@pytest.mark.parametrize(("id", "case"), PARSED, ids=[id for id, _ in PARSED])
def test_a_missing_expectation_fails(id: str, case: dict[str, Any]) -> None:
    """A field that is set and that the case leaves out is seen."""
    for path in leaves(case["expect"]):
        value = case["expect"]
        for key in path:
            value = value[key]
        summary = path[0] in SUMMARIES or path[-1] in {"choice", "down", "mount_path", "tasks"}
        default = value in NOTHING or value in (1, "MOUNT", "serial", 0)
        if summary or default or (path[0] == "tasks" and isinstance(path[-1], int)):
            continue
        if path[0] in {"dag", "execution", "inter_connection", "count"}:
            continue
        assert check(changed(case, path, ...)), (id, path)


@pytest.mark.parametrize(
    "extra",
    [
        {"surprise": 1},
        {"expect": {"num_nodes": 1, "surprise": 1}},
        {"expect": {"num_nodes": 1, "resources": [{"surprise": 1}]}},
        {"cli": {"surprise": 1}},
        {"runtime": {"surprise": "1"}},
        {"runtime": {"SKYPILOT_NUM_NODES": "2"}},
        {"runtime": {"SKYPILOT_NODE_RANK": "1..2"}},
        {"runtime": {"SKYPILOT_SURPRISE": "what a sentence describes"}},
        {"runtime": {"per_node": [{"SKYPILOT_NODE_RANK": "0"}, {"SKYPILOT_NODE_RANK": "1"}]}},
        {"runtime": {"MASTER_ADDR": "10.0.0.1"}},
        {"expect_error": "refused"},
    ],
)
def test_what_a_case_may_not_have(extra: dict[str, Any]) -> None:
    """Unknown keys, flags and variables, wrong values, a refusal that doesn't come."""
    case: dict[str, Any] = {"id": "a", "yaml": "run: x", "expect": {"num_nodes": 1}}
    assert not check(case)
    assert check(case | extra)


def test_prose_is_not_compared() -> None:
    """Wherever it stands."""
    prose = dict.fromkeys(PROSE, "a sentence")
    case = {
        "id": "a",
        "yaml": "run: x",
        "expect": {"num_nodes": 1, "resources": [prose], **prose},
        "runtime": {"SKYPILOT_NUM_NODES": 1, **prose},
        **prose,
    }
    assert not check(case)


def test_flags_in_words() -> None:
    """As on a command line, or as a map."""
    case: dict[str, Any] = {"id": "a", "yaml": "envs: {A: null}\nrun: x", "expect_error": "A"}
    wanted = {"envs": {"A": "1"}, "resources": {"cpus": "4+"}}
    case["expect_with_cli"] = wanted
    for cli in (
        "--env A=1 --cpus=4+",
        ["--env", "A=1", "--cpus", "4+"],
        {"env": "A=1", "cpus": "4+"},
    ):
        assert not check(case | {"cli": cli})
    assert check(case | {"cli": "--env A=2 --cpus 4+"})
    assert check(case | {"cli": "--env A=1"})


def test_labels_that_leak_in_skypilot() -> None:
    """A case with the labels of all entries in each is met, one with any other mixture isn't."""
    text = "resources: {labels: {a: b}, ordered: [{cpus: 1, labels: {c: d}}, {cpus: 2}]}"
    case: dict[str, Any] = {"id": "a", "yaml": text}

    def met(first: dict[str, str], second: dict[str, str]) -> bool:
        resources = [{"cpus": 1, "labels": first}, {"cpus": 2, "labels": second}]
        return not check(case | {"expect": {"choice": "ordered", "resources": resources}})

    assert met({"a": "b", "c": "d"}, {"a": "b"})
    assert met({"a": "b", "c": "d"}, {"a": "b", "c": "d"})
    assert not met({"a": "b"}, {"a": "b"})
    assert not met({"a": "b"}, {"a": "b", "c": "d"})


def test_a_refusal_must_come() -> None:
    """And a task that should be read must not be refused."""
    assert not check({"id": "a", "yaml": "nam: x", "expect_error": "any words"})
    assert check({"id": "a", "yaml": "nam: x", "expect": {"num_nodes": 1}})
    assert check({"id": "a", "yaml": "run: x\n---\nrun: y", "expect": {"num_nodes": 1}})


def test_files_that_are_not_there_give_no_test(tmp_path: Path) -> None:
    """And an unknown key of a file fails its cases."""
    assert list(load(tmp_path)) == []
    case = {"id": "a", "yaml": "run: x", "expect": {"num_nodes": 1}}
    content = yaml.safe_dump({"version": 1, "surprise": 1, "cases": [case]})
    (tmp_path / "sky_tasks.yaml").write_text(content, encoding="utf-8")
    ((id, loaded),) = load(tmp_path)
    assert id == "sky_tasks/a"
    assert check(loaded)
