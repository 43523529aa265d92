"""Decides what a task file says: one task, a pipeline, or a group of tasks started together.

The way in: `read` gives everything, `read_tasks` the tasks alone. Both raise a `SpecError` with
all problems at once.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from msgspec import structs

from stellwerk.core.describe.environment import Given, read_environment
from stellwerk.core.describe.fields import (
    boolean,
    expected,
    list_of,
    one_of,
    read_map,
    text,
)
from stellwerk.core.describe.fill import fill
from stellwerk.core.describe.names import is_group_name, task_name
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.overrides import Overrides, apply_overrides
from stellwerk.core.describe.reader import read_documents
from stellwerk.core.describe.support import ONLY_OF_SOUND_TASKS, refusals, unsupported
from stellwerk.core.describe.task import TASK_KEYS, OneTask, read_task
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.quantity import BadQuantity, parse_duration
from stellwerk.core.model.task import Dag, GitWorkdir, Task

MOST_TASKS = 500
_HEADER = ("name", "execution", "primary_tasks", "termination_delay", "inter_connection")


class Reading(NamedTuple):
    """What a text says.

    `secrets` has the values of secrets, a map for each task in order; they are to be sealed, and
    are in no other part. `text` is the text with those values blanked, fit to be stored; it is
    empty if that can't be done. `refusals` is what keeps the task from being run at present.
    """

    task: Task | Dag
    secrets: tuple[dict[str, str], ...]
    text: str
    refusals: tuple[Problem, ...] = ()


def read_tasks(
    text: str,
    *,
    file: str = "",
    env: Mapping[str, str | None] | None = None,
    secrets: Mapping[str, str] | None = None,
    name: str | None = None,
    overrides: Overrides | Mapping[str, Any] | None = None,
) -> Task | Dag:
    """The task of a file, or the Dag of a file with several.

    `env` and `secrets` are those of flags (`None` leaves a variable to the file); `overrides` are
    the other flags. Raises SpecError with every problem found.
    """
    return read(text, file=file, env=env, secrets=secrets, name=name, overrides=overrides).task


def read(
    text: str,
    *,
    file: str = "",
    env: Mapping[str, str | None] | None = None,
    secrets: Mapping[str, str] | None = None,
    name: str | None = None,
    overrides: Overrides | Mapping[str, Any] | None = None,
) -> Reading:
    """As `read_tasks`, with the values of secrets and the text that may be stored."""
    report = Report(file)
    flags = Overrides.of(overrides, name)
    given = Given(env or {}, secrets or {})
    documents = [node for node in read_documents(text, report) if not node.is_null]
    if not documents:
        if not report.problems:
            nothing = Node("scalar", 1, 1)
            report.problem("spec/empty", nothing, "", "the file holds no task", "add `run:`")
        report.finish()
    _refuse_objects(report, documents[0])
    if len(documents) > MOST_TASKS:
        message = f"the file holds {len(documents)} tasks, {MOST_TASKS} may be"
        report.problem("spec/too-large", documents[MOST_TASKS], "", message)
        report.finish()
    header = _header(documents)
    bodies = documents[1 if header else 0 :]
    read = [read_task(report, node, given) for node in bodies]
    task = _combined(report, documents, header, read)
    changed = apply_overrides(report, task, flags)
    refused = refusals(changed, bodies, file)
    if report.problems:
        # Nobody should mend what is refused anyway.
        report.problems += (one for one in refused if one.code not in ONLY_OF_SOUND_TASKS)
    report.finish()
    spans = [span for one in read for span in one.spans]
    return Reading(changed, tuple(one.secrets for one in read), _blanked(text, spans), refused)


def read_command(
    argv: Sequence[str],
    *,
    env: Mapping[str, str | None] | None = None,
    secrets: Mapping[str, str] | None = None,
    overrides: Overrides | Mapping[str, Any] | None = None,
) -> Reading:
    """A task that runs one command; its words are quoted so that bash gives them on unchanged."""
    report = Report("")
    empty = Node("map", 0, 0)
    environment = read_environment(report, empty, Given(env or {}, secrets or {}))
    run = shlex.join(argv)
    if not run.strip():
        report.problem("spec/empty", None, "", "there is no command")
    elif "\0" in run:
        report.problem("spec/character", None, "", "the command holds a NUL byte")
    task = Task(run=run, envs=environment.envs, secrets=tuple(environment.secrets))
    changed = apply_overrides(report, task, Overrides.of(overrides, None))
    report.finish()
    return Reading(changed, (environment.secrets,), run, tuple(unsupported(changed)))


def workdir_of(
    text: str, *, file: str = "", env: Mapping[str, str | None] | None = None
) -> str | None:
    """The local `workdir` of a file with one task, filled in; None without one.

    Quick and lenient: only a text that can't be read at all raises.
    """
    report = Report(file)
    documents = [node for node in read_documents(text, report) if not node.is_null]
    report.finish()
    if len(documents) != 1 or documents[0].kind != "map":
        return None
    node = documents[0].get("workdir")
    if node is None or node.text is None:
        return None
    aside = Report(file)
    environment = read_environment(aside, documents[0], Given(env or {}))
    return fill(aside, node, "workdir", environment).text


def _refuse_objects(report: Report, first: Node) -> None:
    """A file of a fleet or of Kubernetes objects is named as what it is, not field by field."""
    if first.kind != "map" or first.get("apiVersion") is None or first.get("kind") is None:
        return
    message = "this is no task file: objects with `apiVersion` and `kind` describe a fleet"
    help = "`stw plan --fleet FLEET.yaml TASK.yaml` plans a task on the fleet of such a file"
    report.problem("spec/no-task", first, "", message, help)
    report.finish()


def _header(documents: list[Node]) -> Node | None:
    """The first document, if it says something about the others instead of being a task."""
    first = documents[0]
    keys = {entry.key for entry in first.entries}
    if len(documents) == 1 or first.kind != "map" or not keys:
        return None
    execution = first.get("execution")
    is_group = execution is not None and execution.text == "parallel"
    return first if is_group or keys <= set(_HEADER) else None


def _combined(
    report: Report, documents: list[Node], header: Node | None, read: list[OneTask]
) -> Task | Dag:
    tasks = tuple(one.task for one in read)
    if header is None:
        return tasks[0] if len(tasks) == 1 else Dag(tasks=tasks)
    found = read_map(
        report,
        header,
        "",
        {
            "name": task_name,
            "execution": one_of(("serial", "parallel"), keep_case=True),
            "primary_tasks": list_of(text),
            "termination_delay": _delays,
            "inter_connection": boolean,
        },
        hints=dict.fromkeys(TASK_KEYS, "a task of its own: begin it with a line `---`"),
    )
    parallel = found.get("execution") == "parallel"
    if parallel:
        _check_group(report, header, documents[1:], tasks)
        _check_named(report, header, tasks, found.get("primary_tasks", []), "primary_tasks")
        delays = [key for key in found.get("termination_delay", {}) if key != "default"]
        _check_named(report, header, tasks, delays, "termination_delay")
    else:
        for key in ("primary_tasks", "termination_delay", "inter_connection"):
            if key in found:
                message = f"`{key}` is for tasks that are started together"
                remedy = "add `execution: parallel`"
                report.problem("spec/group", found.keys[key], key, message, remedy)
        if len(tasks) == 1:
            return structs.replace(tasks[0], name=found.get("name") or tasks[0].name)
    return Dag(
        name=found.get("name"),
        execution="parallel" if parallel else "serial",
        tasks=tasks,
        primary_tasks=tuple(found.get("primary_tasks", ())),
        termination_delay_ms=found.get("termination_delay", {}),
        inter_connection=found.get("inter_connection"),
    )


def _check_group(
    report: Report, header: Node, documents: list[Node], tasks: tuple[Task, ...]
) -> None:
    if header.get("name") is None:
        report.problem("spec/group", header, "name", "a group needs a `name`", "add `name`")
    names: dict[str, int] = {}
    for node, task in zip(documents, tasks, strict=True):
        place = node.get("name") or node
        if task.name is None:
            if node.get("name") is None:
                message = "a task of a group needs a `name`"
                report.problem("spec/group", place, "name", message, "add `name`")
            continue
        if not is_group_name(task.name):
            message = f"`{task.name}` can't be the name of a task in a group"
            remedy = "letters, digits, `-` and `_`: it becomes a host name"
            report.problem("spec/group", place, "name", message, remedy)
        if task.name in names:
            message = f"two tasks of the group are called `{task.name}`"
            remedy = f"the first is in line {names[task.name]}"
            report.problem("spec/group", place, "name", message, remedy)
        names.setdefault(task.name, place.line)


def _check_named(
    report: Report, header: Node, tasks: tuple[Task, ...], names: Sequence[str], key: str
) -> None:
    known = {task.name: None for task in tasks if task.name}
    for name in names:
        if name not in known:
            place = header.get(key) or header
            remedy = "tasks are " + ", ".join(f"`{one}`" for one in list(known)[:10])
            message = f"`{key}` names `{name[:60]}`, which is no task of the group"
            report.problem("spec/group", place, key, message, remedy)


def _delays(report: Report, node: Node, path: str) -> dict[str, int] | None:
    """One time for all, or a map of task names (and `default`) to times."""
    delays: dict[str, int] = {}
    entries = [(entry.key, entry.value) for entry in node.entries]
    for key, value in entries if node.kind == "map" else [("default", node)]:
        where = f"{path}.{key}" if node.kind == "map" else path
        written = value.value
        if not isinstance(written, int | str) or isinstance(written, bool):
            expected(report, value, where, "a time such as `30s`")
            continue
        delay = parse_duration(written)
        if isinstance(delay, BadQuantity):
            report.problem("spec/value", value, where, delay.message, delay.help)
        else:
            delays[key] = delay
    return delays


def _blanked(text: str, spans: list[tuple[int, int]]) -> str:
    """The text without the values of secrets; empty if it then no longer reads."""
    if not spans:
        return text
    blanked, end = "", 0
    for start, stop in sorted(spans):
        if start >= end:
            blanked += text[end:start] + "null"
            end = stop
    blanked += text[end:]
    report = Report("")
    read_documents(blanked, report)
    return "" if report.problems else blanked


def local_workdir(task: Task) -> str | None:
    """The folder to be packed for a task; None for a repository or without one."""
    return None if isinstance(task.workdir, GitWorkdir) else task.workdir
