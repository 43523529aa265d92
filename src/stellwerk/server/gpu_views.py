"""Adds to the clusters who holds how much of each GPU now; and gives the history of GPUs."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from stellwerk.core.model.telemetry import GpusHeld
from stellwerk.server.fleet_models import ClusterView, DeviceView, GpuUserView
from stellwerk.server.seeing import Seeing
from stellwerk.server.services import Services
from stellwerk.telemetry.gpu_history import EVERY_MS, KEPT_MS, GpuHistory


class OnGpus(msgspec.Struct, frozen=True):
    """A live run with devices: its name, as far as it is seen, and what was sampled of it."""

    name: str
    held: GpusHeld | None


class GpuPointsView(msgspec.Struct, frozen=True):
    """How full and busy a device was: `[at_ms, used_bytes, busy_percent]` for each five minutes."""

    cluster: str
    node: str
    device: str
    points: list[tuple[int, int, int | None]]


class GpuHistoryView(msgspec.Struct, frozen=True):
    """The history of all GPUs on which runs were; a point stands for ``every_ms`` from its time."""

    items: list[GpuPointsView]
    every_ms: int = EVERY_MS
    kept_ms: int = KEPT_MS


def on_gpus(services: Services, eyes: Seeing) -> dict[str, OnGpus]:
    """All live runs with devices; to be asked where the engine's loop runs."""
    state, found = services.engine.state, {}
    for id, run in state.running.items():
        workload = state.workloads[id]
        live = workload.live_run
        if live is not None and any(part.devices for part in live.allocation.nodes):
            sees = eyes.how(workload.owner) != "nothing"
            # Over several machines a sample doesn't say of which of them a card is.
            on_one = len({part.node for part in live.allocation.nodes}) == 1
            found[str(run)] = OnGpus(
                workload.name if sees else "",
                services.engine.measures.gpus(run) if on_one else None,
            )
    return found


def with_users(cluster: ClusterView, runs: Mapping[str, OnGpus]) -> ClusterView:
    """A cluster with what the samples say of its devices."""
    if not any(name in runs for name in cluster.runs):
        return cluster
    nodes = [
        replace(node, devices=[_device(device, runs) for device in node.devices])
        if node.devices
        else node
        for node in cluster.nodes
    ]
    return replace(cluster, nodes=nodes)


def _device(device: DeviceView, runs: Mapping[str, OnGpus]) -> DeviceView:
    users, newest, free, busy = [], 0, device.free_bytes, device.busy_percent
    for user in device.users:
        known = runs.get(user.run)
        users.append(_user(user, device.index, known))
        held = known.held if known is not None else None
        for gpu in held.gpus if held is not None and held.at_ms > newest else ():
            if held is not None and gpu.index == device.index:
                newest, free, busy = held.at_ms, gpu.free_bytes, gpu.busy_percent
    return replace(device, users=users, free_bytes=free, busy_percent=busy)


def _user(user: GpuUserView, index: int, known: OnGpus | None) -> GpuUserView:
    if known is None:
        return user
    if known.held is None:
        return replace(user, name=known.name)
    used = next((gpu.memory_bytes for gpu in known.held.gpus if gpu.index == index), None)
    return replace(user, name=known.name, used_bytes=used, idle_ms=known.held.idle_ms)


def history_view(history: GpuHistory, cluster: str, since_ms: int) -> GpuHistoryView:
    """What is kept of one cluster's devices, or of all (``cluster`` empty)."""
    return GpuHistoryView(
        [
            GpuPointsView(*place, [(one.at_ms, one.used_bytes, one.busy_percent) for one in points])
            for place, points in history.points(since_ms)
            if cluster in {"", place[0]}
        ]
    )
