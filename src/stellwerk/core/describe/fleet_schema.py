"""States the shape of a fleet file as JSON Schema, so that editors complete and check it.

An editor's check is coarser than the reader's: it knows keys and kinds of values, not what they
mean together. The keys are those of the reader itself, so the two can't drift apart.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from stellwerk.core.describe.fleet import KINDS
from stellwerk.core.describe.fleet_links import DATA_FIELDS, LATENCY_FIELDS, LINK_FIELDS
from stellwerk.core.describe.fleet_nodes import NODE_FIELDS, STATES
from stellwerk.core.describe.fleet_short import (
    API_VERSION,
    CLUSTER_FIELDS,
    COST_FIELDS,
    HELD_FIELDS,
    TYPES,
)
from stellwerk.core.describe.placement_extras import EXTRAS, OBJECTIVES, PREFIX
from stellwerk.core.describe.placements import SPEC_KEYS
from stellwerk.core.describe.schemas import DRAFT, Schema
from stellwerk.core.describe.score_sources import FIELDS as SOURCE_FIELDS

_TEXT: Schema = {"type": "string"}
_SWITCH: Schema = {"type": "boolean"}
_NUMBER: Schema = {"type": "number"}
_AMOUNT: Schema = {"type": ["number", "string"]}
_TEXTS: Schema = {"type": "object", "additionalProperties": _TEXT}


def _said(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description}


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def _closed(keys: Iterable[str], known: dict[str, Schema], *required: str) -> Schema:
    properties = {key: known.get(key, {}) for key in keys}
    schema: Schema = {"type": "object", "properties": properties, "additionalProperties": False}
    return {**schema, "required": list(required)} if required else schema


_GPUS = _said({"type": ["string", "array", "object"]}, "A100-80GB:8, or a list of such")
_FREE = _closed(
    ("cpus", "memory", "disk", "gpus"),
    {
        "cpus": _AMOUNT,
        "memory": _AMOUNT,
        "disk": _AMOUNT,
        "gpus": _said(
            {"type": ["integer", "array"]}, "how many cards are free, or the free memory of each"
        ),
    },
)
_NODE: dict[str, Schema] = {
    "name": _TEXT,
    "names": _said(_TEXT, "pc[01-18],server"),
    "cpus": _AMOUNT,
    "memory": _said(_AMOUNT, "GiB, or with a unit: 64GB"),
    "disk": _said(_AMOUNT, "GiB, or with a unit: 2TB"),
    "gpus": _GPUS,
    "gpu_memory": _said(_AMOUNT, "of each card, where the table of devices doesn't know it"),
    "free": _said(_FREE, "what of it is free now; what isn't named is all free"),
    "state": {"enum": list(STATES)},
    "address": _TEXT,
    "rack": _TEXT,
    "switch": _TEXT,
    "domains": _said(_TEXTS, "where it stands, by level"),
}
_TAINT: Schema = {"type": ["string", "object"]}
_WINDOW: Schema = {"type": ["string", "object"]}
_HELD: Schema = {
    "anyOf": [
        _TEXT,
        _closed(
            HELD_FIELDS,
            {
                "data": _TEXT,
                "revision": _TEXT,
                "bytes": _AMOUNT,
                "part": _AMOUNT,
                "pinned": _SWITCH,
            },
            "data",
        ),
    ]
}
_COSTS = _closed(
    COST_FIELDS,
    {
        "usd_per_hour": _said(_NUMBER, "for a node while it is used"),
        "usd_per_gpu_hour": {"type": "object", "additionalProperties": _NUMBER},
        "watts": _said(_NUMBER, "of a node under load"),
    },
)
_CLUSTER: dict[str, Schema] = {
    **_NODE,
    "name": _TEXT,
    "driver": _said(_TEXT, "how it is reached; none = it is only declared"),
    "type": {"enum": list(TYPES)},
    "region": _said(_TEXT, "also a claim, and the label topology.kubernetes.io/region"),
    "zone": _said(_TEXT, "also a claim, and the label topology.kubernetes.io/zone"),
    "set": _said(_TEXT, "the exclusive cluster set that it is in"),
    "owner": _TEXT,
    "labels": _TEXTS,
    "claims": _TEXTS,
    "taints": _said(_list(_TAINT), "key=value:NoSelect, or {key, value, effect, timeAdded}"),
    "nodes": _list(_closed(("name", "names", *NODE_FIELDS), _NODE, "cpus", "memory")),
    "costs": _COSTS,
    "speed": _said(_NUMBER, "relative to the machine that estimates are made for"),
    "wait": _said(_AMOUNT, "how long its own queue keeps work waiting: 20m"),
    "reliability": _said(_AMOUNT, "the part of runs that it doesn't end: 98%"),
    "windows": _said(_list(_WINDOW), "{from, to}; none = always"),
    "room": _said(_AMOUNT, "where data can be put"),
    "evictable": _said(_AMOUNT, "what could be thrown away for it"),
    "holds": _said(_list(_HELD), "DATA@REVISION, or {data, revision, bytes or part, pinned}"),
    "scores": {"type": "object", "additionalProperties": {"type": "object"}},
    "available": _SWITCH,
}
_LINK: dict[str, Schema] = {
    "from": _TEXT,
    "to": _TEXT,
    "between": _said(_list(_TEXT), "both ways"),
    "rate": _said(_TEXT, "10Gbit/s, 1.2GB/s"),
    "usd_per_gb": _NUMBER,
    "shared": _said(_SWITCH, "those who use it at the same time divide it"),
    "egress": {"enum": ["allow", "deny"]},
}
_LATENCY: dict[str, Schema] = {
    "observed": _TEXT,
    "source": _TEXT,
    "matrix": _said({"type": "object", "additionalProperties": _TEXTS}, "REGION: {CLUSTER: 12ms}"),
}
_DATA: dict[str, Schema] = {
    "name": _TEXT,
    "revision": _TEXT,
    "size": _AMOUNT,
    "type": {"enum": ["dataset", "model"]},
    "residency": _said({"type": ["string", "array"]}, "the regions that it may lie in"),
    "content": _said(_TEXT, "equal hashes are the same content"),
    "origin": _TEXT,
    "movable": _SWITCH,
}
_HTTP = _closed(("url", "at"), {"url": _TEXT, "at": _TEXT}, "url")
_PROMETHEUS = _closed(("url", "query"), {"url": _TEXT, "query": _TEXT}, "url", "query")
_SOURCE: dict[str, Schema] = {
    "name": _said(_TEXT, "of the score object that it becomes"),
    "command": _said(_list(_TEXT), "prints JSON: {CLUSTER: NUMBER} or {CLUSTER: {NAME: NUMBER}}"),
    "http": _said(_HTTP, "the same over HTTP; `at` is the way to it in the answer"),
    "prometheus": _said(_PROMETHEUS, "a query, whose results name their cluster by `label`"),
    "label": _TEXT,
    "score": _said(_TEXT, "what a plain number is called; `value` if not said"),
    "every": _AMOUNT,
    "valid": _said(_AMOUNT, "how long a score holds; five times `every` if not said"),
    "timeout": _AMOUNT,
    "scale": _said(_list(_NUMBER), "[LOW, HIGH]: the numbers that become -100 and 100"),
}


def fleet_schema() -> Schema:
    """The JSON Schema of one document of a fleet file."""
    short = {
        "Cluster": _document("Cluster", CLUSTER_FIELDS, _CLUSTER, "name"),
        "Link": _document("Link", ("apiVersion", "kind", *LINK_FIELDS), _LINK, "rate"),
        "Links": _links(),
        "Latency": _document("Latency", LATENCY_FIELDS, _LATENCY, "matrix"),
        "ScoreSource": _document("ScoreSource", SOURCE_FIELDS, _SOURCE, "name"),
    }
    for kind in ("Data", "Dataset", "Model"):
        short[kind] = _document(kind, DATA_FIELDS, _DATA, "name", "revision", "size")
    objects = {kind: _object(kind, version) for kind, (version, _) in KINDS.items()}
    objects["Placement"]["properties"] |= _placement()
    return {
        "$schema": DRAFT,
        "title": "Stellwerk fleet file",
        "description": "Clusters and what is around them: the short form beside objects of OCM",
        "anyOf": [short.get(kind, objects[kind]) for kind in KINDS],
    }


def _document(kind: str, keys: Iterable[str], known: dict[str, Schema], *required: str) -> Schema:
    head: dict[str, Schema] = {"apiVersion": {"enum": [API_VERSION]}, "kind": {"enum": [kind]}}
    return _closed(keys, {**known, **head}, "apiVersion", "kind", *required)


def _links() -> Schema:
    one = _closed(LINK_FIELDS, _LINK, "rate")
    return _document("Links", ("apiVersion", "kind", "links"), {"links": _list(one)}, "links")


def _object(kind: str, version: str) -> Schema:
    """An object of an API server: what people write of it is checked by the reader alone."""
    group = version.rpartition("/")[0]
    properties: dict[str, Any] = {
        "apiVersion": {"type": "string", "pattern": f"^{group}/"},
        "kind": {"enum": [kind]},
        "metadata": {"type": "object"},
    }
    required = ["apiVersion", "kind", "metadata"]
    return {"type": "object", "properties": properties, "required": required}


def _placement() -> dict[str, Schema]:
    extras: dict[str, Schema] = {PREFIX + name: _TEXT for name in EXTRAS}
    extras[f"{PREFIX}compat"] = {"enum": ["ocm", "default"]}
    extras[f"{PREFIX}objective"] = {"enum": list(OBJECTIVES)}
    annotations = {"type": "object", "properties": extras, "additionalProperties": _TEXT}
    metadata = {"type": "object", "properties": {"annotations": annotations}, "required": ["name"]}
    return {"metadata": metadata, "spec": _closed(SPEC_KEYS, {"clusterSets": _list(_TEXT)})}
