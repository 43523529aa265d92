"""States the shape of a task file as JSON Schema, so that editors complete and check it.

An editor's check is coarser than the reader's: it knows keys and kinds of values, not what they
mean together. The keys are those of the reader itself, so the two can't drift apart.
"""

from __future__ import annotations

from typing import Any

from stellwerk.core.describe.extras import EXTRAS, LAUNCHERS, PREFIX, SHELLS
from stellwerk.core.describe.mounts import MODES, STORES, TYPES
from stellwerk.core.describe.recovery import HOOK_EVENTS
from stellwerk.core.describe.resources import RESOURCE_KEYS
from stellwerk.core.describe.service import BALANCING
from stellwerk.core.describe.task import TASK_KEYS

Schema = dict[str, Any]
DRAFT = "https://json-schema.org/draft/2020-12/schema"
NAME_PATTERN = "^[a-zA-Z0-9]+([._-]{1,2}[a-zA-Z0-9]+)*$"

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_NUMBER: Schema = {"type": "number"}
_SWITCH: Schema = {"type": "boolean"}
_AMOUNT: Schema = {"type": ["number", "string"]}


def _map(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _closed(properties: dict[str, Schema], *required: str) -> Schema:
    schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


def _said(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _words(words: tuple[str, ...]) -> Schema:
    """Words that the reader takes in any case."""
    return {"type": "string", "enum": [*words, *(word.lower() for word in words if word.isupper())]}


_LABELS = _map(_TEXT) | {
    "properties": {
        **{PREFIX + name: _TEXT for name in EXTRAS},
        f"{PREFIX}launcher": _words(LAUNCHERS),
        f"{PREFIX}shell": _words(SHELLS),
    }
}
_HOOK = _closed(
    {"run": _TEXT, "events": _list({"enum": list(HOOK_EVENTS)}), "timeout": _WHOLE}, "run"
)
_RECOVERY: Schema = {
    "anyOf": [
        _TEXT,
        {
            "type": "object",
            "properties": {
                "strategy": {"type": ["string", "null"]},
                "max_restarts_on_errors": {"type": "integer", "minimum": 0},
                "recover_on_exit_codes": {"type": ["integer", "array"]},
            },
        },
    ]
}
_AUTOSTOP: Schema = {
    "anyOf": [
        {"type": ["boolean", "integer", "string"]},
        _closed(
            {
                "idle_minutes": _WHOLE,
                "down": _SWITCH,
                "wait_for": _TEXT,
                "hook": _TEXT,
                "hook_timeout": _WHOLE,
            }
        ),
    ]
}
_ONE_ACCELERATOR: Schema = {"type": ["string", "object"]}
_RESOURCES: dict[str, Schema] = {
    "infra": _said(_TEXT, "where: ssh/POOL, slurm/CLUSTER/PARTITION, k8s/CONTEXT, CLOUD/REGION"),
    "accelerators": _said(
        {"type": ["string", "object", "array"]},
        "A100:2, 24GB+:2; a list is an order of preference, a map a set",
    ),
    "gpus": {"type": ["string", "object", "array"]},
    "accelerator_args": {"type": "object"},
    "cpus": _said(_AMOUNT, "4 exactly, 4+ at least"),
    "memory": _said(_AMOUNT, "GiB: 16 exactly, 16+ at least; or with a unit, 64Gi"),
    "use_spot": _said(_SWITCH, "may be taken away"),
    "disk_size": {"type": ["integer", "string"]},
    "ephemeral_storage": {"type": ["integer", "string"]},
    "max_hourly_cost": _NUMBER,
    "ports": {"type": ["integer", "string", "array"]},
    "labels": _LABELS,
    "image_id": {"type": ["string", "object"]},
    "autostop": _AUTOSTOP,
    "job_recovery": _RECOVERY,
    "priority": {"type": "integer", "minimum": -1000, "maximum": 1000},
    "volumes": _list({"type": "object"}),
}
_STORAGE = {
    "type": "object",
    "properties": {
        "name": _TEXT,
        "source": {"type": ["string", "array"]},
        "store": _words(STORES),
        "persistent": _SWITCH,
        "mode": _words(MODES),
        "type": _words(TYPES),
        "config": {"type": "object"},
    },
}
_SERVICE: dict[str, Schema] = {
    "readiness_probe": {"type": ["string", "object"]},
    "replica_policy": {"type": "object", "required": ["min_replicas"]},
    "replicas": _WHOLE,
    "workers": _WHOLE,
    "load_balancing_policy": _words(BALANCING),
    "load_balancer": {"type": "object"},
    "ports": _WHOLE,
    "tls": _closed({"keyfile": _TEXT, "certfile": _TEXT}, "keyfile", "certfile"),
}
_POOL: dict[str, Schema] = {
    "workers": _WHOLE,
    "min_workers": _WHOLE,
    "max_workers": _WHOLE,
    "queue_length_threshold": _WHOLE,
    "upscale_delay_seconds": _NUMBER,
    "downscale_delay_seconds": _NUMBER,
}
_TASK: dict[str, Schema] = {
    "name": _TEXT | {"pattern": NAME_PATTERN},
    "workdir": {"anyOf": [_TEXT, _closed({"url": _TEXT, "ref": _TEXT}, "url")]},
    "num_nodes": {"type": "integer", "minimum": 1},
    "envs": _said({"type": "object"}, "variables; null must be given by --env; values become text"),
    "secrets": _said({"type": ["object", "array"]}, "by name: null is given by --secret"),
    "managed_secrets": _list({"type": ["string", "object"]}),
    "file_mounts": _map({"anyOf": [_TEXT, _STORAGE]}),
    "volumes": _map({"type": ["string", "object"]}),
    "setup": _said(_TEXT, "bash, once before run"),
    "run": _said(_TEXT, "bash, on every node"),
    "service": _closed(_SERVICE),
    "pool": _closed(_POOL),
    "config": {"type": "object", "properties": {"hooks": _list(_HOOK)}},
    "event_callback": _TEXT,
    "inputs": _map(_NUMBER),
    "outputs": _map(_NUMBER),
    "api_server_access": _SWITCH,
}
_HEADER: dict[str, Schema] = {
    "execution": _words(("serial", "parallel")),
    "primary_tasks": _list(_TEXT),
    "termination_delay": {"type": ["string", "integer", "object"]},
    "inter_connection": _SWITCH,
}


def task_schema() -> Schema:
    """The JSON Schema of one document of a task file."""
    part = {key: _or_null(_RESOURCES.get(key, _TEXT)) for key in RESOURCE_KEYS}
    for key in ("any_of", "ordered"):
        del part[key]
    entry = _closed({**part, "accelerators": _ONE_ACCELERATOR, "gpus": _ONE_ACCELERATOR})
    resources = _closed({**part, "any_of": _list(entry), "ordered": _list(entry)})
    task = {key: _or_null(_TASK.get(key, {})) for key in TASK_KEYS}
    task["resources"] = _or_null(resources)
    header = {key: _or_null(schema) for key, schema in _HEADER.items()}
    return {
        "$schema": DRAFT,
        "title": "Stellwerk task file",
        "description": "A SkyPilot task file; extras stand under resources.labels as stellwerk/…",
        **_closed({**task, **header}),
    }


def _or_null(schema: Schema) -> Schema:
    """A key without a value counts as absent."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return {**schema, "type": [kind, "null"]} if "enum" not in schema else schema
    if isinstance(kind, list):
        return {**schema, "type": [*kind, "null"]}
    return {"anyOf": [schema, {"type": "null"}]} if schema else schema
