"""Task files mean what SkyPilot's own parser makes of them: the cases of `sky_tasks.yaml`.

One test for each case, called `sky_tasks/<id>`. STELLWERK_CASES names another folder of cases; a
file that isn't there gives no test; a key that nobody knows fails its case.
"""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from stellwerk.core.describe.overrides import Overrides
from stellwerk.core.describe.tasks import read_tasks
from stellwerk.core.model.errors import SpecError
from stellwerk.core.model.launch import (
    common_environment,
    node_environment,
    setup_environment,
)
from stellwerk.core.model.task import Dag, Task
from tests import yamls
from tests.conformance.sky_compare import differences
from tests.conformance.sky_resources import PROSE

FOLDER = Path(os.environ.get("STELLWERK_CASES") or Path(__file__).parent / "cases")
FILES = ("sky_tasks", "sky_tasks_more")
FILE_KEYS = {"version", "cases", *PROSE}
CASE_KEYS = {
    "id", "kind", "yaml", "cli", "expect", "expect_error", "expect_with_cli", "runtime", *PROSE,
}  # fmt: skip
RUNTIME_PARTS = ("per_node", "setup")
OUTSIDE = ("SKYPILOT_NUM_JOBS", "SKYPILOT_HOOK_EVENT", "SKYPILOT_SERVE_REPLICA_ID")
"""Variables that depend on how a task is submitted, not on the task."""

Case = dict[str, Any]


def load(folder: Path) -> Iterator[tuple[str, Case]]:
    """The cases of the files that are there, with the ids of their tests."""
    for stem in FILES:
        path = folder / f"{stem}.yaml"
        if not path.is_file():
            continue
        data = yamls.read(path.read_text(encoding="utf-8"))
        stray = set(data) - FILE_KEYS
        for case in data["cases"]:
            yield f"{stem}/{case['id']}", case | dict.fromkeys(sorted(stray), True)


CASES = list(load(FOLDER))

if CASES:

    @pytest.mark.parametrize("case", [pytest.param(case, id=id) for id, case in CASES])
    def test_case(case: Case) -> None:
        """The task, its refusal, its flags and what a node sees are as the case says."""
        assert not check(case)


def check(case: Case) -> list[str]:
    """Every way in which a case isn't met."""
    result = [f"unknown key `{key}`" for key in case if key not in CASE_KEYS]
    flags, stray = _flags(case.get("cli") or {})
    result += [f"unknown flag `{key}`" for key in stray]
    with_flags = "expect_with_cli" in case
    plain = {} if with_flags else flags
    if not {"expect", "expect_error", "expect_with_cli"} & case.keys():
        result.append("the case expects nothing")
    if "expect_error" in case:
        result += _refusal(case, plain)
    if "expect" in case:
        result += _parse(case, plain, case["expect"], partly=False)
    if with_flags:
        base = case.get("expect") or {}
        wanted = {**base, **case["expect_with_cli"]}
        lines = _parse(case, flags, wanted, partly=not base)
        result += [f"with flags: {line}" for line in lines]
    if "runtime" in case and "expect_error" not in case:
        result += _runtime(case, flags)
    return result


def _flags(written: Any) -> tuple[dict[str, Any], list[str]]:
    """The flags as arguments of `read_tasks`, and those that there are not."""
    cli = written if isinstance(written, dict) else _words(written)
    flags: dict[str, Any] = {}
    overrides: dict[str, Any] = {}
    stray: list[str] = []
    for key, value in cli.items():
        name = key.lstrip("-").replace("-", "_")
        if name in {"env", "envs"}:
            flags["env"] = _pairs(value)
        elif name in {"secret", "secrets"}:
            flags["secrets"] = _pairs(value)
        elif name in Overrides.__struct_fields__ and name != "unknown":
            overrides[name] = value
        elif key not in PROSE:
            stray.append(key)
    return ({**flags, "overrides": overrides} if overrides else flags), stray


def _words(written: str | list[str]) -> dict[str, Any]:
    """Flags as on a command line: `--env A=1 --gpus=A100`."""
    words = shlex.split(written) if isinstance(written, str) else [str(word) for word in written]
    cli: dict[str, Any] = {}
    while words:
        name, equals, value = words.pop(0).partition("=")
        value = value if equals else words.pop(0) if words else ""
        if name in {"--env", "--secret"}:
            cli.setdefault(name, []).append(value)
        else:
            cli[name] = value
    return cli


def _pairs(written: Any) -> dict[str, str]:
    if isinstance(written, dict):
        return {name: str(value) for name, value in written.items()}
    pairs = written if isinstance(written, list) else [written]
    return {name: value for name, _, value in (str(pair).partition("=") for pair in pairs)}


def _read(case: Case, flags: dict[str, Any]) -> Task | Dag:
    return read_tasks(case["yaml"], file=f"{case['id']}.yaml", **flags)


def _refusal(case: Case, flags: dict[str, Any]) -> list[str]:
    try:
        _read(case, flags)
    except SpecError as error:
        bare = [str(problem) for problem in error.problems if not problem.message]
        return [f"a problem says nothing: {line}" for line in bare]
    return ["it should have been refused, and was accepted"]


def _parse(
    case: Case, flags: dict[str, Any], expected: dict[str, Any], *, partly: bool
) -> list[str]:
    try:
        found = _read(case, flags)
    except SpecError as error:
        return [f"it was refused: {problem}" for problem in error.problems]
    if isinstance(found, Dag) and case.get("kind") != "dag":
        return ["it is a Dag, the case is of one task"]
    try:
        return differences(expected, found, partly=partly)
    except (AssertionError, AttributeError, LookupError, TypeError, ValueError) as error:
        return [f"the expectation isn't in the form of the cases: {error!r}"]


def _runtime(case: Case, flags: dict[str, Any]) -> list[str]:
    try:
        task = _read(case, flags)
    except SpecError as error:
        return [f"it was refused: {problem}" for problem in error.problems]
    if isinstance(task, Dag):
        task = task.tasks[0]
    runtime = dict(case["runtime"])
    per_node = runtime.pop("per_node", [])
    in_setup = runtime.pop("setup", {})
    addresses = _addresses(runtime, task.num_nodes)
    result: list[str] = []
    nodes = per_node.items() if isinstance(per_node, dict) else enumerate(per_node)
    if per_node and len(per_node) != task.num_nodes:
        result.append(f"per_node has {len(per_node)} nodes, the task {task.num_nodes}")
    for rank in range(task.num_nodes):
        seen = _seen(task, rank, addresses)
        result += [f"rank {rank}: {line}" for line in _unmet(runtime, seen, task.num_nodes)]
        setup = setup_environment(task, addresses=addresses, rank=rank) | task.envs
        result += [f"setup: {line}" for line in _unmet(in_setup, setup, task.num_nodes)]
    for rank, wanted in nodes:
        seen = _seen(task, int(rank), addresses)
        result += [f"rank {rank}: {line}" for line in _unmet(wanted, seen, task.num_nodes)]
    return result


def _seen(task: Task, rank: int, addresses: list[str]) -> dict[str, str]:
    setup = setup_environment(task, addresses=addresses, rank=rank)
    common = common_environment(
        task,
        task_id="sky-managed-1_job_1",
        user="user",
        cluster="cluster",
        cloud="local",
        job_number=1,
        addresses=addresses,
    )
    return {**setup, **common, **node_environment(task, rank), **task.envs}


def _addresses(runtime: dict[str, Any], count: int) -> list[str]:
    """The addresses that a case names, or some."""
    named = str(runtime.get("SKYPILOT_NODE_IPS", "")).split()
    if len(named) == count and all(part.replace(".", "").isdigit() for part in named):
        return named
    return [f"10.0.0.{rank + 1}" for rank in range(count)]


def _unmet(wanted: dict[str, Any], seen: dict[str, str], nodes: int) -> list[str]:
    result: list[str] = []
    for name, value in wanted.items():
        if name in PROSE:
            continue
        written = str(value)
        if not name.isupper():
            result.append(f"unknown key `{name}`")
        elif " " in written.strip() or name in OUTSIDE:
            # A sentence says what may stand there; the variable must exist if it is the task's.
            if name.startswith("SKYPILOT_") and name not in seen and name not in OUTSIDE:
                result.append(f"`{name}` isn't set")
        elif not _fits(written, seen.get(name), nodes):
            result.append(f"`{name}` is {seen.get(name)!r}, not {written!r}")
    return result


def _fits(written: str, actual: str | None, nodes: int) -> bool:
    if actual is None:
        return False
    if written.strip() == actual:
        return True
    if "|" in written:
        return any(_fits(part, actual, nodes) for part in written.split("|"))
    first, dots, last = written.partition("..")
    if dots and first.isdigit() and actual.isdigit():
        most = nodes - 1 if last == "n-1" else int(last)
        return int(first) <= int(actual) <= most
    return False
