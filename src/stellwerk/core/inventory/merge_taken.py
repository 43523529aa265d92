"""Decides what is in use on a cluster where several sources say something of it: the larger amount.

A fleet file may say what is free on machines on which runs are placed here as well. Neither hides
the other: of each resource of each node as much is in use as the one says that says most. What runs
hold stays theirs, so that it can be given back; what others have beyond that is added.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from stellwerk.core.model.quantity import show_bytes, show_cpus
from stellwerk.core.model.resources import Allocation, DeviceShare, NodeAllocation


class InUse(NamedTuple):
    """What a source says is in use; ``holds`` = it is what runs hold."""

    source: str
    taken: tuple[Allocation, ...]
    holds: bool


class Amounts(NamedTuple):
    """Amounts in use on one node, of devices by index."""

    cpus_milli: int
    memory_bytes: int
    disk_bytes: int
    devices: dict[int, int]


def larger(cluster: str, said: Sequence[InUse]) -> tuple[Allocation, ...]:
    """What is in use by all that is said of a cluster, the most trusted first."""
    if not said:
        return ()
    first = next((one for one in said if one.holds), said[0])
    taken = first.taken
    for one in said:
        if one is not first:
            more = _beyond(amounts_of(one.taken), amounts_of(taken))
            taken = (*taken, Allocation(cluster, more)) if more else taken
    return taken


def differing(said: Sequence[InUse]) -> tuple[tuple[str, str], ...]:
    """Each source with what it says is in use, where they don't say the same."""
    found = [amounts_of(one.taken) for one in said]
    if all(one == found[0] for one in found[1:]):
        return ()
    return tuple((one.source, _told(amounts)) for one, amounts in zip(said, found, strict=True))


def amounts_of(taken: Iterable[Allocation]) -> dict[str, Amounts]:
    """The amounts that are in use, by node."""
    found: dict[str, Amounts] = {}
    for part in (part for one in taken for part in one.nodes):
        had = found.get(part.node, Amounts(0, 0, 0, {}))
        devices = dict(had.devices)
        for share in part.devices:
            devices[share.index] = devices.get(share.index, 0) + share.memory_bytes
        found[part.node] = Amounts(
            had.cpus_milli + part.cpus_milli,
            had.memory_bytes + part.memory_bytes,
            had.disk_bytes + part.disk_bytes,
            devices,
        )
    return found


def _beyond(wanted: dict[str, Amounts], have: dict[str, Amounts]) -> tuple[NodeAllocation, ...]:
    """What is lacking until as much is in use as is wanted."""
    parts = []
    for node, amounts in wanted.items():
        mine = have.get(node, Amounts(0, 0, 0, {}))
        part = NodeAllocation(
            node,
            max(0, amounts.cpus_milli - mine.cpus_milli),
            max(0, amounts.memory_bytes - mine.memory_bytes),
            max(0, amounts.disk_bytes - mine.disk_bytes),
            _devices_beyond(amounts.devices, mine.devices),
        )
        if part.cpus_milli or part.memory_bytes or part.disk_bytes or part.devices:
            parts.append(part)
    return tuple(parts)


def _devices_beyond(wanted: dict[int, int], have: dict[int, int]) -> tuple[DeviceShare, ...]:
    """More of the devices that are held already, and as many others as are lacking.

    Two sources needn't mean the same device when they say that one is in use.
    """
    more = {index: size - have[index] for index, size in wanted.items() if index in have}
    others = [index for index in wanted if index not in have]
    lacking = max(0, len(wanted) - len(have))
    more.update((index, wanted[index]) for index in others[:lacking])
    return tuple(DeviceShare(index, size) for index, size in sorted(more.items()) if size > 0)


def _told(amounts: dict[str, Amounts]) -> str:
    """`n1: 8 CPUs, 64 GiB, 2 devices; n2: …`."""
    nodes = []
    for name in sorted(amounts):
        one = amounts[name]
        parts = [show_cpus(one.cpus_milli) + " CPUs"] if one.cpus_milli else []
        parts += [show_bytes(one.memory_bytes)] if one.memory_bytes else []
        parts += [f"{len(one.devices)} devices"] if one.devices else []
        nodes.append(f"{name}: {', '.join(parts) or 'nothing'}")
    return "; ".join(nodes) or "nothing"
