"""Decides what the short form of a fleet file says of a cluster (`stellwerk/v1`, `kind: Cluster`).

What it says is an administrator's word: it holds before what a driver finds.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from stellwerk.core.describe.fields import (
    Found,
    Reader,
    boolean,
    duration,
    filled_text,
    list_of,
    map_of,
    number,
    one_of,
    plain,
    read_map,
)
from stellwerk.core.describe.fleet_amounts import data_size, moment, parse_moment, part
from stellwerk.core.describe.fleet_gather import SHORT, Gathered, Holding
from stellwerk.core.describe.fleet_nodes import NODE_FIELDS, Machines, machine_list, machines_of
from stellwerk.core.describe.fleet_objects import score, taint
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.selectors import labels, texts
from stellwerk.core.model.cluster import Costs, ScoreObject
from stellwerk.core.model.devices import find_device
from stellwerk.core.model.domains import REGION_LABEL, ZONE_LABEL
from stellwerk.core.model.fleet import SET_LABEL, ClusterSet
from stellwerk.core.model.resources import Allocation

API_VERSION = "stellwerk/v1"
TYPES = ("machine", "room", "slurm", "kubernetes", "cloud")
WINDOW_HELP = "write `{from: 2026-12-01T18:00:00Z, to: 2026-12-02T07:00:00Z}`"
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_COPIED = ("driver", "owner", "speed", "reliability")
_METADATA_HINT = "the short form has `name` and `labels` at the top, and no `metadata` or `spec`"
HINTS = {"metadata": _METADATA_HINT, "spec": _METADATA_HINT}


def short_name(report: Report, node: Node, path: str) -> str | None:
    """A name, such as other documents call it by."""
    value = filled_text(report, node, path)
    if value is None or _NAME.fullmatch(value):
        return value
    message = f"{node.short()} can't be a name"
    remedy = "letters and digits, with `.`, `_` or `-` between them"
    report.problem("spec/name", node, path, message, remedy)
    return None


def _costs(report: Report, node: Node, path: str) -> Costs:
    found = read_map(report, node, path, COST_FIELDS)
    by_kind = found.get("usd_per_gpu_hour", {})
    named: dict[str, float] = {}
    for entry in found.nodes["usd_per_gpu_hour"].entries if by_kind else ():
        device = find_device(entry.key)
        if device is None:
            report.notice(
                "spec/unknown-accelerator",
                entry.key_node,
                f"{path}.usd_per_gpu_hour",
                f"`{entry.key[:60]}` isn't in the table of devices",
            )
        if entry.key in by_kind:
            named[device.name if device else entry.key] = float(by_kind[entry.key])
    hourly, watts = found.get("usd_per_hour", 0), found.get("watts", 0)
    return Costs(float(hourly), named, float(watts))


def _window(report: Report, node: Node, path: str) -> tuple[int, int] | None:
    if node.kind == "scalar":
        ends = [parse_moment(end) for end in str(node.value).split("/")]
        if len(ends) != 2 or any(end is None or end.tzinfo is None for end in ends):
            report.problem("spec/value", node, path, f"`{path}` isn't a window", WINDOW_HELP)
            return None
        opens, closes = (round(end.timestamp() * 1000) for end in ends if end is not None)
    else:
        found = read_map(
            report, node, path, {"from": moment, "to": moment}, required=("from", "to")
        )
        opens, closes = found.get("from"), found.get("to")
        if opens is None or closes is None:
            return None
    if closes <= opens:
        message = f"`{path}` closes before it opens"
        report.problem("spec/value", node, path, message, WINDOW_HELP)
        return None
    return opens, closes


Draft = Callable[[str], Holding]


def _held(report: Report, node: Node, path: str) -> Draft | None:
    """What is held, of the cluster whose name is known only when the whole map is read."""
    if node.text is not None:
        found = Found(node)
        written = node.text
    else:
        found = read_map(report, node, path, HELD_FIELDS, required=("data",))
        written = found.get("data", "")
        if "data" not in found.values:
            return None
    if "bytes" in found and "part" in found:
        message = f"`{path}` gives both `bytes` and `part`"
        report.problem("spec/value", found.place("part"), path, message, "keep one of the two")
    data, _, revision = written.strip().partition("@")
    if not data:
        message = f"`{path}`: {node.short()} names no data"
        report.problem("spec/value", node, path, message, "write `NAME` or `NAME@REVISION`")
        return None
    revision = found.get("revision", revision)
    held, fraction, pinned = found.get("bytes"), found.get("part"), found.get("pinned", False)
    return lambda cluster: Holding(cluster, data, revision, held, fraction, pinned, node)


def _nothing_or(reader: Reader) -> Reader:
    def read(report: Report, node: Node, path: str) -> Any:
        return 0 if node.value in (0, "0") else reader(report, node, path)

    return read


COST_FIELDS: dict[str, Reader] = {
    "usd_per_hour": number(0),
    "usd_per_gpu_hour": map_of(number(0)),
    "watts": number(0),
}
HELD_FIELDS: dict[str, Reader] = {
    "data": filled_text,
    "revision": filled_text,
    "bytes": _nothing_or(data_size),
    "part": part,
    "pinned": boolean,
}
CLUSTER_FIELDS: dict[str, Reader] = {
    "apiVersion": plain,
    "kind": plain,
    "name": short_name,
    "driver": filled_text,
    "type": one_of(TYPES),
    "region": filled_text,
    "zone": filled_text,
    "set": filled_text,
    "owner": filled_text,
    "labels": labels,
    "claims": texts,
    "taints": list_of(taint),
    "nodes": machine_list,
    **NODE_FIELDS,
    "costs": _costs,
    "speed": number(above=0),
    "wait": duration(),
    "reliability": part,
    "windows": list_of(_window),
    "room": _nothing_or(data_size),
    "evictable": data_size,
    "holds": list_of(_held),
    "scores": map_of(map_of(score)),
    "available": boolean,
}


def short_cluster(gathered: Gathered, report: Report, node: Node) -> None:
    """One cluster; what it needs of other documents is settled when all are read."""
    found = read_map(report, node, "", CLUSTER_FIELDS, hints=HINTS)
    name = found.get("name")
    if name is None:
        if "name" not in found and node.get("metadata") is None:
            report.problem("spec/missing", node, "name", "the cluster has no `name`")
        return
    gathered.first("Cluster", name, node=node)
    draft = gathered.draft(SHORT, name)
    draft |= {key: found.values[key] for key in _COPIED if key in found.values}
    draft |= _renamed(found)
    _put_labels(gathered, found, draft)
    _put_nodes(gathered, report, found, name, draft)
    gathered.holdings += [held(name) for held in found.get("holds", ())]


def _renamed(found: Found) -> dict[str, Any]:
    draft: dict[str, Any] = {}
    for key, field in (
        ("type", "kind"),
        ("costs", "costs"),
        ("room", "room_bytes"),
        ("evictable", "evictable_bytes"),
    ):
        if key in found.values:
            draft[field] = found.values[key]
    for key in ("taints", "windows"):
        if found.get(key):
            draft[key] = tuple(found.get(key))
    if "wait" in found.values:
        draft["wait_s"] = found.get("wait") / 1000
    if "available" in found.values:
        draft["available"] = "True" if found.get("available") else "False"
    if found.get("scores"):
        objects = found.get("scores").items()
        draft["scores"] = {key: ScoreObject(values, source="declared") for key, values in objects}
    return draft


def _put_labels(gathered: Gathered, found: Found, draft: dict[str, Any]) -> None:
    """Region and zone are a claim and the label that Kubernetes has for them; a set is a label."""
    labels, claims = dict(found.get("labels", {})), dict(found.get("claims", {}))
    for key, label in (("region", REGION_LABEL), ("zone", ZONE_LABEL)):
        if key in found.values:
            claims[key] = found.get(key)
            labels.setdefault(label, found.get(key))
    if "set" in found.values:
        labels[SET_LABEL] = found.get("set")
        gathered.implied_sets[found.get("set")] = ClusterSet(found.get("set"))
    if labels:
        draft["labels"] = labels
    if claims:
        draft["claims"] = claims


def _put_nodes(
    gathered: Gathered, report: Report, found: Found, name: str, draft: dict[str, Any]
) -> None:
    """The nodes listed, or the one that the cluster itself is."""
    listed: list[Machines] = found.get("nodes", [])
    own = [key for key in NODE_FIELDS if key in found]
    if own and "nodes" in found:
        message = f"`{own[0]}` stands beside `nodes`"
        remedy = "say it of the nodes, or leave `nodes` out if the cluster is one machine"
        report.problem("spec/value", found.place(own[0]), own[0], message, remedy)
        return
    if own:
        one = machines_of(report, found, (name,), name)
        listed = [one] if one is not None else []
    nodes: dict[str, Any] = {}
    for node in (node for group in listed for node in group.nodes):
        if node.name in nodes:
            message = f"the node `{node.name}` is there twice"
            remedy = "give each node a name of its own"
            report.problem("fleet/duplicate", found.place("nodes"), "nodes", message, remedy)
        nodes[node.name] = node
    if nodes:
        draft["nodes"] = tuple(nodes[each] for each in sorted(nodes))
    _put_used(gathered, name, listed)


def _put_used(gathered: Gathered, name: str, listed: list[Machines]) -> None:
    used = [
        replace(group.used, node=node.name)
        for group in listed
        if group.used is not None
        for node in group.nodes
    ]
    if used:
        gathered.taken.append(Allocation(name, tuple(sorted(used, key=lambda each: each.node))))
