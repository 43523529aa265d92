"""Decides what a node is of which several sources speak, the most trusted first.

A node that an administrator declared and a driver found is one node: numbers are as declared, and
what only the driver can know (identity, state, foreign memory on its cards) is the driver's.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from msgspec.structs import replace

from stellwerk.core.model.cluster import Costs, Device, Node

_DEFAULTS = Node("", 0, 0)
_FIELDS = tuple(field for field in Node.__struct_fields__ if field not in {"name", "devices"})
_DIFFERS_BY = 10
"""Sizes that differ by less than this part (1/10) are the same: a system keeps some for itself."""


def merge_node(said: Sequence[Node]) -> Node:
    """One node of all that is said of it."""
    if len(said) == 1:
        return said[0]
    found: dict[str, Any] = {}
    for field in _FIELDS:
        values = (getattr(node, field) for node in said)
        known = (value for value in values if value != getattr(_DEFAULTS, field))
        found[field] = next(known, getattr(_DEFAULTS, field))
    found["domains"] = {
        level: name for node in reversed(said) for level, name in node.domains.items()
    }
    listed = [node.devices for node in said if node.devices]
    devices = tuple(_device(each, listed[1:]) for each in listed[0]) if listed else ()
    return Node(name=said[0].name, devices=devices, **found)


def _device(device: Device, others: Sequence[tuple[Device, ...]]) -> Device:
    for devices in others:
        for other in devices:
            if other.index == device.index and other.kind == device.kind:
                device = replace(
                    device,
                    uuid=device.uuid or other.uuid,
                    product=device.product or other.product,
                    foreign_bytes=device.foreign_bytes or other.foreign_bytes,
                    foreign_compute=device.foreign_compute or other.foreign_compute,
                    health=device.health or other.health,
                    fault=device.fault or other.fault,
                )
    return device


def node_conflicts(said: Sequence[Node]) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """What is said differently: the fact, and who (by place in the list) says what."""
    cpus = [(at, node.cpus_milli) for at, node in enumerate(said) if node.cpus_milli]
    memory = [(at, node.memory_bytes) for at, node in enumerate(said) if node.memory_bytes]
    devices = [(at, _cards(node)) for at, node in enumerate(said) if node.devices]
    if any(value != cpus[0][1] for _, value in cpus[1:]):
        yield "cpus_milli", [(at, str(value)) for at, value in cpus]
    if any(abs(value - memory[0][1]) * _DIFFERS_BY > memory[0][1] for _, value in memory[1:]):
        yield "memory_bytes", [(at, str(value)) for at, value in memory]
    if any(value != devices[0][1] for _, value in devices[1:]):
        yield "devices", devices


def _cards(node: Node) -> str:
    kinds = [device.kind for device in node.devices]
    return ", ".join(f"{kind}:{kinds.count(kind)}" for kind in dict.fromkeys(sorted(kinds)))


def shown(value: Any) -> str:
    """A value as a person would write it."""
    if isinstance(value, Costs):
        parts = {"usd_per_hour": value.usd_per_hour, "watts": value.watts}
        parts |= value.usd_per_device_hour
        return ", ".join(f"{name} {amount:g}" for name, amount in parts.items() if amount)
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)
