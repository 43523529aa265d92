"""Decides what one task document means: every key of it, with all faults reported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from stellwerk.core.describe.environment import Environment, Given, read_environment
from stellwerk.core.describe.extras import fill_extras, read_extras, task_fields
from stellwerk.core.describe.fields import (
    Reader,
    boolean,
    did_you_mean,
    expected,
    filled_text,
    integer,
    map_of,
    number,
    plain,
    plain_map,
    read_map,
    text,
)
from stellwerk.core.describe.fill import fill
from stellwerk.core.describe.mounts import read_file_mounts, read_volumes
from stellwerk.core.describe.names import task_name
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.recovery import hooks
from stellwerk.core.describe.resources import RESOURCE_KEYS, Resources, read_resources
from stellwerk.core.describe.service import read_pool, read_service
from stellwerk.core.model.task import GitWorkdir, Hook, ResourceRequest, Task

_FILLED = ("file_mounts", "volumes", "service", "workdir")
_CONFIG = (
    "active_workspace", "aws", "azure", "docker", "gcp", "kubernetes", "nvidia_gpus", "oci",
    "slurm", "ssh", "vast",
)  # fmt: skip
_IGNORED = {
    "inputs": "`inputs` only matters for what clouds charge for traffic",
    "outputs": "`outputs` only matters for what clouds charge for traffic",
    "api_server_access": "`api_server_access` is internal to SkyPilot",
    "file_mounts_mapping": "`file_mounts_mapping` is internal to SkyPilot",
    "volume_mounts": "`volume_mounts` is internal to SkyPilot",
    "_metadata": "`_metadata` is internal to SkyPilot",
}


class OneTask(NamedTuple):
    """A task, the values of its secrets, and where in the text those stand."""

    task: Task
    secrets: dict[str, str]
    spans: tuple[tuple[int, int], ...]


def read_task(report: Report, node: Node, given: Given) -> OneTask:
    """One document. What can't be read is left out of the task and stands in the report."""
    ignored, notices = len(report.ignored), len(report.notices)
    environment = read_environment(report, node, given)
    filled = _filled(report, node, environment)
    found = read_map(report, filled, "", _FIELDS, hints=_HINTS)
    for key, message in _IGNORED.items():
        if key in found:
            report.ignore(found.keys[key], key, message)
    if "service" in found and "pool" in found:
        message = "a task is a service or a pool, not both"
        report.problem("spec/service", found.keys["pool"], "pool", message, "keep one")
    config, config_hooks = found.get("config", ({}, []))
    mounts = read_file_mounts(
        report, found.nodes.get("file_mounts"), has_workdir="workdir" in found
    )
    resources = read_resources(report, found.nodes.get("resources"))
    labels = [fill_extras(report, one, environment) for one in resources.label_nodes]
    extras = _with_priority(task_fields(read_extras(report, labels)), resources)
    task = Task(
        name=found.get("name"),
        workdir=found.get("workdir"),
        num_nodes=found.get("num_nodes", 1),
        choice=resources.choice,
        resources=resources.requests,
        envs=environment.envs,
        secrets=tuple(environment.secrets),
        managed_secrets=environment.managed,
        file_mounts=mounts.copies,
        storage=mounts.storage,
        volumes=read_volumes(report, found.nodes.get("volumes")),
        setup=found.get("setup", ""),
        run=found.get("run", ""),
        service=found.get("service"),
        pool=found.get("pool"),
        config=config,
        hooks=(*config_hooks, *resources.hooks),
        event_callback=found.get("event_callback"),
        inputs=found.get("inputs", {}),
        outputs=found.get("outputs", {}),
        labels=_common_labels(resources.requests),
        ignored=tuple(report.ignored[ignored:]),
        notices=tuple(report.notices[notices:]),
        **extras,
    )
    return OneTask(task, environment.secrets, environment.spans)


def _filled(report: Report, node: Node, environment: Environment) -> Node:
    if node.kind != "map":
        return node
    filled = Node("map", node.line, node.column)
    for entry in node.entries:
        value = entry.value
        if entry.key in _FILLED and not value.is_null:
            value = fill(report, value, entry.key, environment)
        filled.entries.append(type(entry)(entry.key, entry.key_node, value))
    return filled


def _with_priority(extras: dict[str, Any], resources: Resources) -> dict[str, Any]:
    for name in ("priority", "priority_class"):
        stated = (getattr(request, name) for request in resources.requests)
        value = next((value for value in stated if value is not None), None)
        if value is not None and not {"priority", "priority_class"} & extras.keys():
            extras = {**extras, name: value}
    return extras


def _common_labels(requests: tuple[ResourceRequest, ...]) -> dict[str, str]:
    """The labels that hold wherever the task runs."""
    first, *others = requests
    return {
        key: value
        for key, value in first.labels.items()
        if all(other.labels.get(key) == value for other in others)
    }


def _workdir(report: Report, node: Node, path: str) -> str | GitWorkdir | None:
    if node.kind != "map":
        return filled_text(report, node, path)
    found = read_map(report, node, path, {"url": filled_text, "ref": text}, required=("url",))
    url = found.get("url")
    return GitWorkdir(url, found.get("ref")) if url else None


def _script(report: Report, node: Node, path: str) -> str | None:
    if node.kind == "list":
        remedy = "write one text: `|` behind the key, then the lines"
        expected(report, node, path, "a bash text", remedy)
        return None
    return text(report, node, path)


def _config(report: Report, node: Node, path: str) -> tuple[dict[str, Any], list[Hook]] | None:
    config = plain_map(report, node, path)
    if config is None:
        return None
    found: list[Hook] | None = None
    for entry in node.entries:
        where = f"{path}.{entry.key}"
        if entry.key == "hooks":
            found = None if entry.value.is_null else hooks(report, entry.value, where)
        elif entry.key in _CONFIG:
            message = f"`config.{entry.key}` sets up an engine for `sky`, which isn't used here"
            report.ignore(entry.key_node, where, message)
        else:
            known = (*_CONFIG, "hooks")
            remedy = "" if report.crowded else did_you_mean(entry.key, known, cutoff=0.75)
            if remedy:
                message = f"unknown field `{entry.key[:60]}`"
                report.problem("spec/unknown-field", entry.key_node, where, message, remedy)
            else:
                report.ignore(entry.key_node, where, f"`config.{entry.key[:60]}` is unknown here")
    config.pop("hooks", None)
    return config, found or []


def _sizes(report: Report, node: Node, path: str) -> dict[str, float] | None:
    sizes: dict[str, float] | None = map_of(number())(report, node, path)
    if len(node.entries) > 1:
        report.problem("spec/value", node, path, f"`{path}` takes one entry")
    return sizes


_FIELDS: Mapping[str, Reader] = {
    "name": task_name,
    "workdir": _workdir,
    "num_nodes": integer(1),
    "resources": plain,
    "envs": plain,
    "secrets": plain,
    "managed_secrets": plain,
    "file_mounts": plain,
    "volumes": plain,
    "setup": _script,
    "run": _script,
    "service": lambda report, node, _path: read_service(report, node),
    "pool": lambda report, node, _path: read_pool(report, node),
    "config": _config,
    "event_callback": text,
    "inputs": _sizes,
    "outputs": _sizes,
    "api_server_access": boolean,
    "file_mounts_mapping": plain,
    "volume_mounts": plain,
    "_metadata": plain,
}
TASK_KEYS = tuple(_FIELDS)
_HINTS = {
    "command": "did you mean `run`?",
    "cmd": "did you mean `run`?",
    "script": "did you mean `run`?",
    "env": "did you mean `envs`?",
    "environment": "did you mean `envs`?",
    "nodes": "did you mean `num_nodes`?",
    "hooks": "hooks stand under `config.hooks`",
    "stellwerk": "extras stand under `resources.labels` as `stellwerk/…`, so that `sky` reads on",
    "labels": "labels stand under `resources`",
    **dict.fromkeys(
        ("execution", "primary_tasks", "termination_delay", "inter_connection"),
        "this key stands in the first document of a file with several tasks",
    ),
    **{key: f"`{key}` stands under `resources`" for key in RESOURCE_KEYS if key not in TASK_KEYS},
}
