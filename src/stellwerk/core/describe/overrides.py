"""Decides what flags change in a task that has been read.

A flag holds before the file: `--gpus` before every entry of a choice, `--priority` before labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct, structs

from stellwerk.core.describe.accelerators import (
    ANY_KIND,
    MOST_ALONE,
    Wish,
    accelerators,
    any_kind,
)
from stellwerk.core.describe.extras import EXTRAS, EXTRAS_WITH_FLAGS, task_fields
from stellwerk.core.describe.fields import Reader, amount, did_you_mean, filled_text, integer
from stellwerk.core.describe.infra import Where, infra
from stellwerk.core.describe.names import task_name
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.shells import as_shell
from stellwerk.core.model.devices import NamedAccelerator
from stellwerk.core.model.quantity import parse_cpus, parse_memory
from stellwerk.core.model.task import Choice, Dag, ResourceRequest, Task


class Overrides(Struct, frozen=True, omit_defaults=True):
    """Flags as they were typed; an empty one was not given."""

    name: str = ""
    workdir: str = ""
    gpus: str = ""
    cpus: str = ""
    memory: str = ""
    num_nodes: str = ""
    infra: str = ""
    priority: str = ""
    queue: str = ""
    gpu_memory: str = ""
    time_limit: str = ""
    min_nodes: str = ""
    checkpoint_grace: str = ""
    protected: str = ""
    idle_limit: str = ""
    shell: str = ""
    """Not its `run`, but a shell in its place, with this idle limit where the task has none."""
    unknown: tuple[str, ...] = ()

    @classmethod
    def of(cls, flags: Overrides | Mapping[str, Any] | None, name: str | None) -> Overrides:
        """From a map of flag names (`gpu_memory` or `gpu-memory`) to what was typed."""
        if flags is None:
            return cls(name=name or "")
        if isinstance(flags, Overrides):
            return structs.replace(flags, name=name) if name else flags
        given = (item for item in flags.items() if item[1] is not None)
        texts = {key.replace("-", "_"): str(value) for key, value in given}
        if name:
            texts["name"] = name
        unknown = tuple(sorted(key for key in texts if key not in _FLAGS))
        known = {key: value for key, value in texts.items() if key in _FLAGS}
        return structs.replace(cls(unknown=unknown), **known)


_FLAGS = tuple(field for field in Overrides.__struct_fields__ if field != "unknown")


def apply_overrides(report: Report, task: Task | Dag, flags: Overrides) -> Task | Dag:
    """The task as the flags want it; faults of flags go into the report."""
    read = _Flags(report, flags)
    if isinstance(task, Dag):
        tasks = tuple(_applied(one, read, {}) for one in task.tasks)
        name = read.named.get("name", task.name)
        changed: Task | Dag = structs.replace(task, name=name, tasks=tasks)
    else:
        changed = _applied(task, read, read.named)
    if flags.shell:
        return as_shell(report, changed, flags.shell, read.named.get("name", ""))
    return changed


class _Flags:
    """The flags, read once."""

    def __init__(self, report: Report, flags: Overrides) -> None:
        self.report = report
        for flag in flags.unknown:
            message = f"there is no flag `--{flag[:40].replace('_', '-')}`"
            report.problem("spec/flag", None, f"--{flag}", message, did_you_mean(flag, _FLAGS))
        self.named: dict[str, Any] = self._some(flags, {"name": task_name})
        self.task = self._some(flags, {"workdir": filled_text, "num_nodes": _count})
        self.extras = task_fields(self._extras(flags))
        self.request = self._some(
            flags, {"cpus": amount(parse_cpus), "memory": amount(parse_memory)}
        )
        where: Where | None = self._one("infra", flags.infra, infra)
        if where is not None:
            self.request["infra"] = where.text()
        self.wish: Wish | None = self._one("gpus", flags.gpus, _gpus)

    def _one(self, flag: str, written: str, reader: Reader) -> Any:
        if not written:
            return None
        return reader(self.report, Node("scalar", 0, 0, written), f"--{flag}")

    def _some(self, flags: Overrides, readers: Mapping[str, Reader]) -> dict[str, Any]:
        values = {
            field: self._one(field.replace("_", "-"), getattr(flags, field), reader)
            for field, reader in readers.items()
        }
        return {field: value for field, value in values.items() if value is not None}

    def _extras(self, flags: Overrides) -> dict[str, Any]:
        values = {
            name: self._one(name, getattr(flags, name.replace("-", "_")), EXTRAS[name])
            for name in EXTRAS_WITH_FLAGS
        }
        return {name: value for name, value in values.items() if value is not None}


def _applied(task: Task, flags: _Flags, named: Mapping[str, Any]) -> Task:
    extras = dict(flags.extras)
    if "priority" in extras:
        extras["priority_class"] = None
    elif "priority_class" in extras:
        extras["priority"] = None
    choice, resources = _resources(task, flags)
    return structs.replace(
        task, **{**flags.task, **extras, **named, "choice": choice, "resources": resources}
    )


def _resources(task: Task, flags: _Flags) -> tuple[Choice, tuple[ResourceRequest, ...]]:
    requests: list[ResourceRequest] = []
    for request in task.resources:
        changed = structs.replace(request, **flags.request) if flags.request else request
        for wanted in _with_gpus(changed, flags.wish):
            if wanted not in requests:
                requests.append(wanted)
    choice = task.choice
    if len(requests) == 1:
        choice = "one"
    elif flags.wish is not None and task.choice == "one":
        choice = "ordered" if flags.wish.ordered else "any_of"
    return choice, tuple(requests)


def _with_gpus(request: ResourceRequest, wish: Wish | None) -> list[ResourceRequest]:
    if wish is None:
        return [request]
    return [
        structs.replace(request, accelerators={kind.name: kind.count}, selector=None)
        if isinstance(kind, NamedAccelerator)
        else structs.replace(request, accelerators={}, selector=kind)
        for kind in wish.kinds
    ]


def read_flag(flag: str, written: str) -> Any:
    """What a flag says by itself, where there is no task; raises SpecError."""
    report = Report("")
    value = EXTRAS[flag](report, Node("scalar", 0, 0, written), f"--{flag}")
    report.finish()
    return value


def _count(report: Report, node: Node, path: str) -> int | None:
    written = str(node.value).strip()
    if written.isascii() and written.isdigit() and len(written) < 10:
        number = Node("scalar", node.line, node.column, int(written))
        value: int | None = integer(1)(report, number, path)
        return value
    report.problem("spec/value", node, path, f"`{path}` takes a whole number")
    return None


def _gpus(report: Report, node: Node, path: str) -> Wish | None:
    """`A100:2`, `2` of any kind, or several with commas between them, of which any will do."""
    parts = [part.strip() for part in str(node.value).split(",")]
    kinds: list[Any] = []
    for part in parts:
        if (number := part.removeprefix(ANY_KIND)).isdecimal() and 0 < int(number) <= MOST_ALONE:
            kinds.append(any_kind(int(number)))
            continue
        one = accelerators(report, Node("scalar", node.line, node.column, part), path)
        if one is not None:
            kinds += [kind for kind in one.kinds if kind not in kinds]
    return Wish(tuple(kinds)) if kinds else None


def read_env_flag(written: str, environ: Mapping[str, str]) -> tuple[str, str | None]:
    """`NAME=VALUE`, or `NAME` for the caller's own value (None if there is none)."""
    name, equals, value = written.partition("=")
    return (name, value) if equals else (name, environ.get(name))
