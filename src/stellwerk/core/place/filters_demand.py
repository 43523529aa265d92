"""The filter of demand: where what a placement asks of each cluster is free now.

Clusters whose nodes are known are asked node by node, with what is in use taken off; of others only
totals are known. The verdict on a cluster is kept until its nodes or what is in use change.
"""

from __future__ import annotations

import numpy as np

from stellwerk.core.inventory.columns import Bits, FleetColumns, Rows, laid_out
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.decisions import Shortfall
from stellwerk.core.model.resources import Allocation, Request
from stellwerk.core.place.amounts import amount, apart
from stellwerk.core.place.filters import Verdict
from stellwerk.core.place.lacks import ever, lack
from stellwerk.core.place.room import Room, capacity, fit, gpu_name

KINDS = ("gpu.model", "gpu.kind", "accelerator", "nvidia.com/gpu.product")
"""Claims and labels that may name the kind of the devices of a cluster whose nodes aren't known."""
MOST = 256
"""Requests whose verdicts are kept."""
DEVICES = ("nvidia.com/gpu", "amd.com/gpu", "gpu.intel.com/i915", "google.com/tpu")


class Asked:
    """What is known of one request: who has no room for it, as of which state."""

    __slots__ = ("at", "failed", "layout")

    def __init__(self, size: int, layout: int) -> None:
        self.layout = layout
        self.at: Rows = np.zeros(size, np.int64)
        self.failed: Bits = np.zeros(size, np.bool_)


class Demands:
    """Verdicts on requests over one fleet; it changes no result."""

    def __init__(self) -> None:
        self._known: dict[tuple[Request, int], Asked] = {}

    def verdict(
        self,
        columns: FleetColumns,
        request: Request,
        num_nodes: int,
        among: Bits,
        own: tuple[Allocation, ...] = (),
    ) -> Verdict:
        """Says who has no room, even with what ``own`` holds given back."""
        asked = self._known.get((request, num_nodes))
        rows = None if asked is None else columns.rows_since(asked.layout)
        if asked is None or rows is None:
            if len(self._known) >= MOST:
                self._known.pop(next(iter(self._known)))
            asked = self._known[request, num_nodes] = Asked(columns.size, columns.layout)
        elif asked.layout != columns.layout:
            asked.at, asked.failed = laid_out(asked.at, rows), laid_out(asked.failed, rows)
            asked.layout = columns.layout
        newest = np.maximum(columns.facts_at, columns.taken_at)
        for row in np.flatnonzero(among & (asked.at < newest)).tolist():
            asked.failed[row] = bool(shortfalls(columns, row, request, num_nodes))
            asked.at[row] = columns.stamp
        verdict = Verdict("Demand", asked.failed.copy())
        for name in dict.fromkeys(one.cluster for one in own):
            row = columns.row.get(name, -1)
            if row >= 0 and among[row] and verdict.failed[row]:
                verdict.failed[row] = bool(shortfalls(columns, row, request, num_nodes, own))
        return verdict


def shortfalls(
    columns: FleetColumns,
    row: int,
    request: Request,
    num_nodes: int,
    own: tuple[Allocation, ...] = (),
) -> tuple[Shortfall, ...]:
    """What a cluster lacks for a request now; none = there is room."""
    cluster = columns.clusters[row]
    taken = _without(columns.taken.get(cluster.name, ()), own)
    return lacking(cluster, taken, request, num_nodes)


def lacking(
    cluster: Cluster, taken: tuple[Allocation, ...], request: Request, num_nodes: int
) -> tuple[Shortfall, ...]:
    """What a cluster lacks for a request beside what is taken of it; none = there is room."""
    if not cluster.nodes:
        return _of_totals(cluster, request, num_nodes, taken)
    room = Room(cluster, taken)
    if fit(room, request, num_nodes) is not None:
        return ()
    whole = capacity(cluster)
    found = lack(room, whole, request, num_nodes, ever(whole, request, num_nodes))
    if found.missing:
        return (Shortfall("ready nodes", num_nodes, 0, num_nodes),)
    return found.shortfalls or (Shortfall("nodes at once", num_nodes, 0, 0),)


def told(short: Shortfall) -> str:
    """A shortfall in words: ``asks for 4 A100, 2 free of 8``."""
    wanted = apart(short.wanted, short.free, short.unit)
    free = amount(max(short.free, 0), short.unit, down=True)
    largest = amount(max(short.largest, 0), short.unit, down=True)
    return f"asks for {wanted} {short.resource}, {free} free of {largest}"


def more(short: Shortfall) -> str:
    """What would have to be free beside: ``2 more A100 free``."""
    return f"{amount(short.wanted - max(short.free, 0), short.unit)} more {short.resource} free"


def _without(taken: tuple[Allocation, ...], own: tuple[Allocation, ...]) -> tuple[Allocation, ...]:
    """What others hold: each allocation of ``own`` is taken off once."""
    left = list(taken)
    for one in own:
        if one in left:
            left.remove(one)
    return tuple(left)


def _of_totals(
    cluster: Cluster, request: Request, num_nodes: int, taken: tuple[Allocation, ...]
) -> tuple[Shortfall, ...]:
    parts = [part for one in taken for part in one.nodes]
    have = cluster.allocatable
    rows = [
        ("CPUs", request.cpus_milli, have.get("cpu", 0), sum(p.cpus_milli for p in parts), "milli"),
        (
            "memory",
            request.memory_bytes,
            have.get("memory", 0) // 1000,
            sum(part.memory_bytes for part in parts),
            "bytes",
        ),
        (
            "disk",
            request.disk_bytes,
            have.get("ephemeral-storage", 0) // 1000,
            sum(part.disk_bytes for part in parts),
            "bytes",
        ),
    ]
    if request.gpu is not None:
        devices = sum(have.get(name, 0) for name in DEVICES) // 1000
        if request.gpu.kind and not _names(cluster, request.gpu.kind):
            devices = 0
        used = sum(len(part.devices) for part in parts)
        rows.append((gpu_name(request.gpu), request.gpu.count, devices, used, ""))
    return tuple(
        Shortfall(name, wanted * num_nodes, total - used, total, unit)
        for name, wanted, total, used, unit in rows
        if wanted and wanted * num_nodes > total - used
    )


def _names(cluster: Cluster, kind: str) -> bool:
    """Whether a cluster says that its devices are of a kind."""
    told_kinds = [cluster.claims.get(key) or cluster.labels.get(key) or "" for key in KINDS]
    return any(kind.lower() in told_kind.lower() for told_kind in told_kinds if told_kind)
