"""Decides what nodes a cluster in a fleet file has: names in ranges, cards, what of it is free."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from stellwerk.core.describe.fields import (
    Found,
    Reader,
    amount,
    did_you_mean,
    expected,
    filled_text,
    integer,
    one_of,
    read_map,
    size,
)
from stellwerk.core.describe.nodes import Node as Value
from stellwerk.core.describe.nodes import Report
from stellwerk.core.describe.selectors import texts
from stellwerk.core.model.cluster import Device, Node
from stellwerk.core.model.device_table import DEVICES
from stellwerk.core.model.devices import (
    AcceleratorSelector,
    canonical_name,
    find_device,
    parse_accelerator,
    vendor_of,
)
from stellwerk.core.model.quantity import GIB, BadQuantity, parse_cpus, show_bytes, show_cpus
from stellwerk.core.model.resources import DeviceShare, NodeAllocation

MOST_NODES = 20_000
"""Of one cluster."""
MOST_DEVICES = 1024
STATES = ("ready", "unreachable", "quarantined", "drained", "in_use")
LEVELS = ("rack", "switch")
NAMES_HELP = "write `pc07`, a range `pc[01-18]`, or a list `pc[01-03,07],server`"
GPUS_HELP = "write `A100-80GB:8`, or a list of such"
_RANGE = re.compile(r"([0-9]{1,6})(?:-([0-9]{1,6}))?")
_NODE_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_BRACKETS = re.compile(r"([^\[\],]*)(?:\[([^\[\]]*)\]([^\[\],]*))?")


class Machines(NamedTuple):
    """Equal nodes, and what each of them has in use."""

    nodes: tuple[Node, ...]
    used: NodeAllocation | None


class _Free(NamedTuple):
    cpus_milli: int | None
    memory_bytes: int | None
    disk_bytes: int | None
    devices: int | tuple[int, ...] | None


def node_names(report: Report, node: Value, path: str) -> tuple[str, ...] | None:
    """Names in the way of Slurm: `pc[01-18],server`; leading zeros are kept."""
    written = filled_text(report, node, path)
    if written is None:
        return None
    found = _expanded(written)
    if isinstance(found, str):
        report.problem("fleet/names", node, path, f"`{path}`: {found}", NAMES_HELP)
        return None
    return found


def _expanded(written: str) -> tuple[str, ...] | str:
    found: dict[str, None] = {}
    position = 0
    while position <= len(written):
        match = _BRACKETS.match(written, position)
        if match is None or (match.end() < len(written) and written[match.end()] != ","):
            return f"`{written[:60]}` isn't a list of names"
        for name in _of_range(match):
            if not _NODE_NAME.fullmatch(name):
                return f"`{name[:60]}` can't be the name of a node"
            if name in found:
                return f"`{name[:60]}` is there twice"
            found[name] = None
            if len(found) > MOST_NODES:
                return f"these are more than {MOST_NODES:,} nodes"
        position = match.end() + 1
    return tuple(found)


def _of_range(match: re.Match[str]) -> Iterator[str]:
    before, numbers, after = match[1].strip(), match[2], (match[3] or "").strip()
    if numbers is None:
        yield before
        return
    for part in numbers.split(","):
        one = _RANGE.fullmatch(part.strip())
        if one is None or (one[2] and int(one[2]) < int(one[1])):
            yield f"{before}[{part}]"
            return
        for number in range(int(one[1]), int(one[2] or one[1]) + 1):
            yield f"{before}{number:0{len(one[1])}d}{after}"


def cards(report: Report, node: Value, path: str) -> list[tuple[str, int]] | None:
    """Accelerators of a node: `A100-80GB:8`, a list of such, or a map of names to counts."""
    if node.kind == "map":
        written = [(entry.value, f"{entry.key}:{entry.value.value}") for entry in node.entries]
    elif node.kind == "list":
        written = [(item, str(item.value)) for item in node.items]
    elif node.text:
        written = [(node, part) for part in node.text.split(",")]
    else:
        expected(report, node, path, "accelerators", GPUS_HELP)
        return None
    found: list[tuple[str, int]] = []
    for place, each in written:
        one = _cards(report, place, path, each.strip())
        if one is not None:
            found.append(one)
    if sum(count for _, count in found) > MOST_DEVICES:
        report.problem("spec/too-large", node, path, f"`{path}`: more than {MOST_DEVICES} devices")
        return None
    return found


def _cards(report: Report, node: Value, path: str, written: str) -> tuple[str, int] | None:
    found = parse_accelerator(written)
    if isinstance(found, BadQuantity):
        report.problem("spec/accelerator", node, path, f"`{path}`: {found.message}", GPUS_HELP)
    elif isinstance(found, AcceleratorSelector):
        message = f"`{path}`: `{written[:60]}` doesn't say which cards they are"
        report.problem("spec/accelerator", node, path, message, GPUS_HELP)
    elif found.count != int(found.count):
        message = f"`{path}`: a node has whole cards, not {found.count:g}"
        report.problem("spec/accelerator", node, path, message, GPUS_HELP)
    else:
        return found.name, int(found.count)
    return None


def _free_cards(report: Report, node: Value, path: str) -> int | tuple[int, ...] | None:
    """How many cards are wholly free, or the free memory of each card in order."""
    if node.kind != "list":
        found: int | None = integer(0, MOST_DEVICES)(report, node, path)
        return found
    sizes = [0 if item.value == 0 else size(report, item, f"{path}[{i}]")
             for i, item in enumerate(node.items)]  # fmt: skip
    return tuple(each for each in sizes if each is not None)


def _no_less(reader: Reader) -> Reader:
    """An amount that may be nothing."""

    def read(report: Report, node: Value, path: str) -> Any:
        return 0 if node.value in (0, "0") else reader(report, node, path)

    return read


def _free(report: Report, node: Value, path: str) -> _Free:
    fields: dict[str, Reader] = {
        "cpus": _no_less(amount(parse_cpus)),
        "memory": _no_less(size),
        "disk": _no_less(size),
        "gpus": _free_cards,
    }
    found = read_map(report, node, path, fields)
    cpus = found.get("cpus")
    milli = cpus.value if cpus else cpus
    return _Free(milli, found.get("memory"), found.get("disk"), found.get("gpus"))


NODE_FIELDS: dict[str, Reader] = {
    "cpus": amount(parse_cpus),
    "memory": size,
    "disk": size,
    "gpus": cards,
    "gpu_memory": size,
    "free": _free,
    "state": one_of(STATES),
    "address": filled_text,
    "rack": filled_text,
    "switch": filled_text,
    "domains": texts,
}
_NAMED: dict[str, Reader] = {"name": node_names, "names": node_names, **NODE_FIELDS}


def machines(report: Report, node: Value, path: str) -> Machines | None:
    """One entry of `nodes`: a node, or several that are equal."""
    found = read_map(report, node, path, _NAMED)
    names = found.get("names") or found.get("name")
    if "name" in found and "names" in found:
        remedy = "keep one of the two"
        message = f"`{path}` has both `name` and `names`"
        report.problem("spec/value", found.place("name"), path, message, remedy)
    elif "name" not in found and "names" not in found:
        report.problem("spec/missing", node, path, f"`{path}` needs `name` or `names`", NAMES_HELP)
    return machines_of(report, found, names or (), path)


def machine_list(report: Report, node: Value, path: str) -> list[Machines] | None:
    """The entries of `nodes`, as long as they aren't too many nodes."""
    if node.kind != "list":
        expected(report, node, path, "a list of nodes", "begin each node with `- name:`")
        return None
    found: list[Machines] = []
    count = 0
    for at, item in enumerate(node.items):
        one = machines(report, item, f"{path}[{at}]")
        if one is not None:
            found.append(one)
            count += len(one.nodes)
        if count > MOST_NODES:
            message = f"`{path}` holds more than {MOST_NODES:,} nodes"
            report.problem("spec/too-large", item, path, message, "make several clusters of them")
            return None
    return found


def machines_of(report: Report, found: Found, names: tuple[str, ...], path: str) -> Machines | None:
    """The nodes of these names that have what a map says."""
    for key in ("cpus", "memory"):
        if key not in found:
            report.problem("spec/missing", found.node, path, f"`{path}` needs `{key}`")
    devices = _devices(report, found, path)
    cpus, memory = found.get("cpus"), found.get("memory")
    if not names or cpus is None or memory is None or devices is None:
        return None
    levels = {level: found.get(level) for level in LEVELS if level in found.values}
    one = Node(
        name=names[0],
        cpus_milli=cpus.value,
        memory_bytes=memory,
        disk_bytes=found.get("disk", 0),
        devices=devices,
        state=found.get("state", "ready"),
        address=found.get("address", ""),
        domains={**found.get("domains", {}), **levels},
    )
    nodes = tuple(replace(one, name=name) for name in names)
    free = found.get("free")
    used = _used(report, found.place("free"), f"{path}.free", one, free) if free else None
    return Machines(nodes, used)


def _devices(report: Report, found: Found, path: str) -> tuple[Device, ...] | None:
    devices: list[Device] = []
    given = found.get("gpu_memory", 0)
    for name, count in found.get("gpus", ()):
        known = find_device(name)
        memory = given or (known.memory_gib * GIB if known else 0)
        if not memory:
            remedy = did_you_mean(name, (each.name for each in DEVICES), cutoff=0.7)
            message = f"`{name[:60]}` isn't in the table of devices, and nothing says its memory"
            remedy = remedy or "add `gpu_memory: 48GB`"
            report.problem("spec/accelerator", found.nodes["gpus"], f"{path}.gpus", message, remedy)
            return None
        kind, vendor = canonical_name(name), vendor_of(name) or "nvidia"
        first = len(devices)
        devices += [Device(first + index, kind, memory, vendor=vendor) for index in range(count)]
    return tuple(devices)


def _used(
    report: Report, place: Value, path: str, node: Node, free: _Free
) -> NodeAllocation | None:
    """What is in use, from what is free; more free than there is can't be."""
    told = (
        ("cpus", free.cpus_milli, node.cpus_milli, show_cpus),
        ("memory", free.memory_bytes, node.memory_bytes, show_bytes),
        ("disk", free.disk_bytes, node.disk_bytes, show_bytes),
    )
    used: dict[str, int] = {}
    for what, rest, whole, show in told:
        if rest is not None and rest > whole:
            message = f"`{path}.{what}`: {show(rest)} free of {show(whole)}"
            report.problem("fleet/free", place, f"{path}.{what}", message, "nothing is free twice")
        used[what] = whole - rest if rest is not None else 0
    shares = _shares(report, place, f"{path}.gpus", node, free.devices)
    if not any(used.values()) and not shares:
        return None
    return NodeAllocation(node.name, used["cpus"], used["memory"], used["disk"], shares)


def _shares(
    report: Report, place: Value, path: str, node: Node, free: int | tuple[int, ...] | None
) -> tuple[DeviceShare, ...]:
    """The memory in use of each card: by a number, the last ones are in use."""
    if free is None:
        return ()
    devices = node.devices
    if isinstance(free, int):
        rest = [each.memory_bytes if at < free else 0 for at, each in enumerate(devices)]
        fits = free <= len(devices)
    else:
        rest = list(free)
        fits = len(rest) == len(devices) and all(
            size <= each.memory_bytes for size, each in zip(rest, devices, strict=True)
        )
    if not fits:
        message = f"`{path}` doesn't fit a node with {len(devices)} cards"
        remedy = "give the number of free cards, or the free memory of each in order"
        report.problem("fleet/free", place, path, message, remedy)
        return ()
    return tuple(
        DeviceShare(each.index, each.memory_bytes - size)
        for each, size in zip(devices, rest, strict=True)
        if size < each.memory_bytes
    )
