"""Decides what annotations `stellwerk/…` say about a placement.

A Placement stays valid for Open Cluster Management because annotations may hold any text.
"""

from __future__ import annotations

import re
from typing import Any, get_args

from msgspec import Struct

from stellwerk.core.data.names import trouble_of
from stellwerk.core.describe.fields import (
    Reader,
    amount,
    did_you_mean,
    filled_text,
    integer,
    number,
    one_of,
    size,
    unknown_field,
)
from stellwerk.core.describe.fleet_amounts import from_text, latency, moment
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.selectors import selector_text
from stellwerk.core.model.devices import (
    ACCELERATOR_HELP,
    VENDORS,
    AcceleratorSelector,
    NamedAccelerator,
    parse_accelerator,
)
from stellwerk.core.model.placement import Limits, Objective, Prioritizer
from stellwerk.core.model.quantity import BadQuantity, parse_cpus, parse_memory
from stellwerk.core.model.resources import GpuRequest, Request

PREFIX = "stellwerk/"
OBJECTIVES: tuple[str, ...] = get_args(Objective)
OWN_PRIORITIZERS = (
    "Cost", "Start", "Transfer", "Latency", "Energy", "Reliability", "Fragmentation",
)  # fmt: skip
WEIGHT = integer(-10, 10)
_WEIGHED = re.compile(r"([A-Za-z]+)(?:\s*=\s*([+-]?[0-9]{1,6}))?")
_NUMBER = re.compile(r"[0-9.+-]+")
_COUNT = re.compile(r"[1-9][0-9]{0,5}|0?\.[0-9]{1,3}")


class Extras(Struct, frozen=True):
    """What the annotations of one placement say."""

    compat: Any = ""
    objective: Any = "score"
    usd_per_hour_of_waiting: float = 0.0
    limits: Limits = Limits()
    demand: Request | None = None
    num_nodes: int = 1
    standby: int = 0
    move_gain: int = 10
    data: tuple[str, ...] = ()
    prioritizers: tuple[Prioritizer, ...] = ()


def listed(report: Report, node: Node, path: str) -> tuple[str, ...] | None:
    """`a, b`: names divided by commas, each once."""
    return tuple(dict.fromkeys(_names(report, node, path))) or None


def _names(report: Report, node: Node, path: str) -> list[str]:
    written = filled_text(report, node, path)
    names = [name.strip() for name in written.split(",")] if written is not None else []
    if not all(names):
        report.problem("spec/value", node, path, f"`{path}`: a name is missing", "write `a,b`")
        return []
    return names


def data_names(report: Report, node: Node, path: str) -> tuple[str, ...] | None:
    """Names of data sets; those of the hub with the commit that is meant."""
    names = listed(report, node, path)
    troubles = [trouble for name in names or () if (trouble := trouble_of(name))]
    for one in troubles:
        report.problem(one.code, node, path, one.message, one.help)
    return None if troubles else names


def gpus(report: Report, node: Node, path: str) -> GpuRequest | None:
    """`4` of any kind, `A100-80GB:4`, `A100:0.5`, `24GB+:2`, `nvidia:24GB+:2`, `nvidia:2`."""
    written = str(node.value).strip()
    if _COUNT.fullmatch(written):
        count, fraction = _cards(float(written))
        return GpuRequest(count, fraction_milli=fraction)
    found = parse_accelerator(written)
    if isinstance(found, NamedAccelerator) and _NUMBER.fullmatch(found.name):
        found = BadQuantity(f"`{path}`: {node.short()} isn't a number of cards", ACCELERATOR_HELP)
    if isinstance(found, BadQuantity):
        report.problem("spec/accelerator", node, path, found.message, found.help)
        return None
    count, fraction = _cards(found.count)
    if max(found.count, 1) != count:
        message = f"`{path}`: {node.short()} is neither whole cards nor a part of one"
        report.problem("spec/accelerator", node, path, message, ACCELERATOR_HELP)
        return None
    return _request(found, count, fraction)


def _cards(count: float) -> tuple[int, int]:
    """A number of cards and the thousandths of each: below one, a part of one card's memory."""
    return (int(count), 1000) if count >= 1 else (1, max(1, round(count * 1000)))


def _request(
    found: NamedAccelerator | AcceleratorSelector, count: int, fraction: int
) -> GpuRequest:
    if isinstance(found, AcceleratorSelector):
        return GpuRequest(
            count,
            vendor=found.vendor or "",
            fraction_milli=fraction,
            memory_min_bytes=found.memory_bytes if found.at_least else 0,
            memory_exact_bytes=0 if found.at_least else found.memory_bytes,
        )
    if found.name.lower() in VENDORS:
        return GpuRequest(count, vendor=found.name.lower(), fraction_milli=fraction)
    return GpuRequest(count, kind=found.name, fraction_milli=fraction)


def prioritize(report: Report, node: Node, path: str) -> tuple[Prioritizer, ...] | None:
    """`Cost=3,Latency`: scores that only Stellwerk has, with weights."""
    found: list[Prioritizer] = []
    for name in _names(report, node, path):
        match = _WEIGHED.fullmatch(name)
        known = {own.lower(): own for own in OWN_PRIORITIZERS}
        own = known.get(match[1].lower()) if match else None
        if match is None or own is None:
            remedy = did_you_mean(match[1] if match else name, OWN_PRIORITIZERS)
            choices = ", ".join(f"`{each}`" for each in OWN_PRIORITIZERS)
            message = f"`{path}`: `{name[:60]}` is no score"
            report.problem("spec/value", node, path, message, remedy or f"one of {choices}")
            continue
        number_node = Node("scalar", node.line, node.column, int(match[2] or 1))
        weight = WEIGHT(report, number_node, path)
        if weight is not None:
            found.append(Prioritizer(own, weight))
    return tuple(found) or None


EXTRAS: dict[str, Reader] = {
    "compat": one_of(("ocm", "default"), keep_case=True),
    "objective": one_of(OBJECTIVES, keep_case=True),
    "usd-per-hour-of-waiting": from_text(number(0)),
    "standby": from_text(integer(0, 1000)),
    "move-gain": from_text(integer(0, 10_000)),
    "max-usd": from_text(number(above=0)),
    "max-usd-per-hour": from_text(number(above=0)),
    "finish-by": moment,
    "require": selector_text,
    "max-latency": latency,
    "clients": listed,
    "gpus": from_text(gpus),
    "gpu-memory": from_text(size),
    "cpus": from_text(amount(parse_cpus)),
    "memory": from_text(amount(parse_memory)),
    "disk": from_text(size),
    "nodes": from_text(integer(1, 10_000)),
    "data": data_names,
    "prioritize": prioritize,
}
_DEMAND = ("gpus", "gpu-memory", "cpus", "memory", "disk")


def read_extras(report: Report, node: Node | None, path: str) -> Extras:
    """The extras among the annotations; one that nobody knows is a slip of the hand."""
    values: dict[str, Any] = {}
    for entry in node.entries if node is not None and node.kind == "map" else ():
        if not entry.key.startswith(PREFIX):
            continue
        name, where = entry.key.removeprefix(PREFIX), f"{path}.{entry.key}"
        reader = EXTRAS.get(name)
        if reader is None:
            known = [PREFIX + each for each in EXTRAS]
            unknown_field(report, entry.key_node, where, entry.key, known)
        else:
            value = reader(report, entry.value, where)
            if value is not None:
                values[name] = value
    _check_latency(report, node, path, values)
    return Extras(
        compat="ocm" if values.get("compat") == "ocm" else "",
        objective=values.get("objective", "score"),
        usd_per_hour_of_waiting=float(values.get("usd-per-hour-of-waiting", 0)),
        limits=_limits(values),
        demand=_demand(values),
        num_nodes=values.get("nodes", 1),
        standby=values.get("standby", 0),
        move_gain=values.get("move-gain", 10),
        data=values.get("data", ()),
        prioritizers=values.get("prioritize", ()),
    )


def _check_latency(report: Report, node: Node | None, path: str, values: dict[str, Any]) -> None:
    if "max-latency" in values and "clients" not in values:
        report.problem(
            "spec/missing",
            node,
            path,
            f"`{PREFIX}max-latency` needs to know from where",
            f"name regions of clients: `{PREFIX}clients: eu-west,us-east`",
        )


def _limits(values: dict[str, Any]) -> Limits:
    return Limits(
        claims=values.get("require", ()),
        usd_max=float(values.get("max-usd", 0)),
        usd_per_hour_max=float(values.get("max-usd-per-hour", 0)),
        finish_by_ms=values.get("finish-by", 0),
        latency_ms=values.get("max-latency", 0.0),
        client_regions=values.get("clients", ()),
    )


def _demand(values: dict[str, Any]) -> Request | None:
    if not any(name in values for name in _DEMAND):
        return None
    gpu: GpuRequest | None = values.get("gpus")
    share = values.get("gpu-memory", 0)
    if share:
        gpu = _sharing(gpu or GpuRequest(1), share)
    return Request(
        cpus_milli=values["cpus"].value if "cpus" in values else 1000,
        memory_bytes=values["memory"].value if "memory" in values else 0,
        disk_bytes=values.get("disk", 0),
        gpu=gpu,
    )


def _sharing(gpu: GpuRequest, share: int) -> GpuRequest:
    return GpuRequest(
        gpu.count,
        gpu.kind,
        gpu.vendor,
        gpu.fraction_milli,
        share,
        gpu.memory_min_bytes,
        gpu.memory_exact_bytes,
    )
