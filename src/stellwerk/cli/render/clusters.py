"""The fleet: one line per cluster with what is free; one per GPU with a bar of its memory."""

from collections import Counter

from msgspec import Struct

from stellwerk.cli.render.phases import phase_cell
from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import duration, plural, size
from stellwerk.cli.terminal import Terminal
from stellwerk.client.fleet import ClusterView, DeviceView, NodeView

BAR = 22
GIB = 2**30
UNKNOWN = "?"


class GpuLine(Struct):
    """A device with the place it is in."""

    cluster: str
    node: str
    facts_age_ms: int | None
    device: DeviceView


def columns() -> list[Column[ClusterView]]:
    """What `clusters` shows."""
    return [
        Column("name", "NAME", lambda one: one.name),
        Column("kind", "KIND", kind_of),
        Column("state", "STATE", lambda one: phase_cell(one.state)),
        Column(
            "nodes",
            "NODES",
            lambda one: str(len(one.nodes)),
            lambda one: len(one.nodes),
            right=True,
        ),
        Column("free", "FREE", free),
        Column("total", "OF", total),
        Column(
            "runs", "RUNS", lambda one: str(len(one.runs)), lambda one: len(one.runs), right=True
        ),
        Column(
            "facts",
            "FACTS",
            lambda one: facts_age(one.facts_age_ms),
            lambda one: one.facts_age_ms or 0,
            right=True,
        ),
        Column(
            "labels",
            "LABELS",
            lambda one: ",".join(f"{k}={v}" for k, v in one.labels.items()),
            wide=True,
        ),
        Column("note", "NOTE", note, grows=True),
    ]


def kind_of(cluster: ClusterView) -> str:
    """`ssh room`; one that dials in is no machine over SSH, though it is named `ssh/…`."""
    if cluster.kind == cluster.driver or cluster.kind.startswith("joined "):
        return cluster.kind
    return f"{cluster.driver} {cluster.kind}".strip()


def note(cluster: ClusterView) -> str:
    """What is to be said of its nodes: once where it is the same of several."""
    return "; ".join(dict.fromkeys(filter(None, map(_note, cluster.nodes))))


def _note(node: NodeView) -> str:
    """What is to be said of a node; one that gets nothing new is named."""
    if node.state == "quarantined":
        return f"{node.name} is quarantined: {node.note}"
    return node.note


def free(cluster: ClusterView) -> str:
    """`6 CPUs, 14 GiB, 2xA100`: what a new run could get, over all nodes that are ready; `?` where
    nobody says which nodes there are.
    """
    if not cluster.nodes:
        return UNKNOWN
    ready = [node for node in cluster.nodes if node.state == "ready"]
    unheld = Counter(device.kind for node in ready for device in node.devices if _is_free(device))
    cpus = sum(node.cpus_free for node in ready)
    memory = sum(node.memory_free_bytes for node in ready)
    return _amounts(cpus, memory, unheld)


def total(cluster: ClusterView) -> str:
    """What there is."""
    if not cluster.nodes:
        return UNKNOWN
    devices = Counter(device.kind for node in cluster.nodes for device in node.devices)
    cpus = sum(node.cpus for node in cluster.nodes)
    return _amounts(cpus, sum(node.memory_bytes for node in cluster.nodes), devices)


def facts_age(age_ms: int | None) -> str:
    """How old what is known of it is."""
    return "-" if age_ms is None else duration(age_ms // 1000 * 1000) if age_ms >= 1000 else "now"


def gpu_lines(clusters: tuple[ClusterView, ...], wanted: str | None) -> list[GpuLine]:
    """All devices, of all clusters or of one."""
    return [
        GpuLine(cluster.name, node.name, cluster.facts_age_ms, device)
        for cluster in clusters
        if wanted == cluster.name or (wanted is None and cluster.state != "declared")
        for node in cluster.nodes
        for device in node.devices
    ]


def gpu_columns(terminal: Terminal) -> list[Column[GpuLine]]:
    """What `gpu` shows."""
    return [
        Column("cluster", "CLUSTER", lambda line: line.cluster),
        Column("node", "NODE", lambda line: line.node),
        Column("device", "DEVICE", lambda line: f"{line.device.index} {line.device.kind}"),
        Column(
            "memory",
            "MEMORY",
            lambda line: bar(line.device, terminal),
            lambda line: line.device.held_bytes + line.device.foreign_bytes,
        ),
        Column("runs", "RUNS", lambda line: ",".join(line.device.runs) or "-"),
        Column("facts", "FACTS", lambda line: facts_age(line.facts_age_ms), right=True),
        Column("health", "HEALTH", lambda line: line.device.health or "?"),
        Column("note", "NOTE", lambda line: _device_note(line.device), grows=True),
        Column("uuid", "UUID", lambda line: line.device.uuid, wide=True),
    ]


def bar(device: DeviceView, terminal: Terminal) -> str:
    """`[#####xx...........] 20/80`: held by runs (#), by others (x), free (.), in GiB."""
    full, other, empty = ("█", "▒", "·") if terminal.unicode else ("#", "x", ".")
    numbers = (
        f"{(device.held_bytes + device.foreign_bytes) / GIB:.0f}/{device.memory_bytes / GIB:.0f}"
    )
    if not terminal.is_tty:
        return numbers
    scale = BAR / max(1, device.memory_bytes)
    held = min(BAR, round(device.held_bytes * scale))
    foreign = min(BAR - held, round(device.foreign_bytes * scale))
    return f"[{full * held}{other * foreign}{empty * (BAR - held - foreign)}] {numbers:>7}"


def _is_free(device: DeviceView) -> bool:
    foreign = device.foreign_bytes or device.foreign_compute
    return not (device.held_bytes or foreign or device.fault)


def _device_note(device: DeviceView) -> str:
    if device.fault:
        return f"gets nothing new: {device.fault}"
    if device.foreign_compute and not device.foreign_bytes:
        return "a process outside Stellwerk computes on it"
    if not device.foreign_bytes:
        return ""
    return f"{size(device.foreign_bytes)} held by processes outside Stellwerk"


def _amounts(cpus: float, memory_bytes: int, devices: Counter[str]) -> str:
    parts = [f"{cpus:g} CPU{'' if cpus == 1 else 's'}", size(memory_bytes)]
    parts += [f"{count}x{kind}" for kind, count in sorted(devices.items())]
    return ", ".join(parts)


def summary(lines: list[GpuLine]) -> str:
    """What there is in one sentence."""
    idle = sum(_is_free(line.device) for line in lines)
    return f"{plural(len(lines), 'GPU')}, {idle} of them free"
