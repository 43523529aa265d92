"""The fleet: one line per cluster with what is free."""

from collections import Counter
from collections.abc import Sequence

from stellwerk.cli.render.phases import phase_cell
from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import duration, size
from stellwerk.client.fleet import ClusterView, DeviceView, NodeView
from stellwerk.core.data.windows import join
from stellwerk.core.model.calendars import FOREVER_MS, next_closure
from stellwerk.core.model.draining import moment

UNKNOWN = "?"


def columns(now_ms: int = 0) -> list[Column[ClusterView]]:
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
        Column("note", "NOTE", lambda one: _notes(one, now_ms), grows=True),
    ]


def kind_of(cluster: ClusterView) -> str:
    """`ssh room`; one that dials in is no machine over SSH, though it is named `ssh/…`."""
    if cluster.kind == cluster.driver or cluster.kind.startswith("joined "):
        return cluster.kind
    return f"{cluster.driver} {cluster.kind}".strip()


def _notes(cluster: ClusterView, now_ms: int) -> str:
    return "; ".join(filter(None, (window(cluster, now_ms), note(cluster))))


def window(cluster: ClusterView, now_ms: int) -> str:
    """When it closes or opens next; nothing where that isn't known to happen."""
    return when(cluster.windows, now_ms)


def when(windows: Sequence[tuple[int, int]], now_ms: int) -> str:
    """When that closes or opens next which has these windows."""
    closed = next_closure(join(windows) or windows, now_ms)
    if closed is None:
        return ""
    if closed[0] > now_ms:
        return f"closes {moment(closed[0])}"
    return "closed" if closed[1] >= FOREVER_MS else f"closed until {moment(closed[1])}"


def note(cluster: ClusterView) -> str:
    """What is to be said of its nodes: once where it is the same of several. Those that are
    drained are named where not all are.
    """
    said: dict[str, list[NodeView]] = {}
    for node in cluster.nodes:
        if text := _note(node):
            said.setdefault(text, []).append(node)
    return "; ".join(
        f"{', '.join(node.name for node in nodes)}: {text}"
        if nodes[0].state == "drained" and len(nodes) < len(cluster.nodes)
        else text
        for text, nodes in said.items()
    )


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
    unheld = Counter(device.kind for node in ready for device in node.devices if is_free(device))
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


def _amounts(cpus: float, memory_bytes: int, devices: Counter[str]) -> str:
    parts = [f"{cpus:g} CPU{'' if cpus == 1 else 's'}", size(memory_bytes)]
    parts += [f"{count}x{kind}" for kind, count in sorted(devices.items())]
    return ", ".join(parts)


def is_free(device: DeviceView) -> bool:
    """Whether nobody has anything of it."""
    foreign = device.foreign_bytes or device.foreign_compute
    return not (device.held_bytes or foreign or device.fault)
