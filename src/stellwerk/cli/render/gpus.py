"""GPUs: a line for each with a bar of its memory, who holds what of it, and how full it was."""

from collections.abc import Iterable

from msgspec import Struct

from stellwerk.cli.render.clusters import facts_age, is_free
from stellwerk.cli.render.table import Column
from stellwerk.cli.render.units import duration, plural, size
from stellwerk.cli.terminal import Terminal
from stellwerk.client.fleet import ClusterView, DeviceView, GpuHistory, GpuPoints, GpuUser

BAR = 22
GIB = 2**30
MOST_USERS = 4
IDLE_MS = 5 * 60_000
"""From so long on a GPU that a run holds counts as idle."""

SPARKS = "▁▂▃▄▅▆▇█"
PLAIN_SPARKS = "0123456789"
WIDEST = 72


class GpuLine(Struct):
    """A device with the place it is in."""

    cluster: str
    node: str
    facts_age_ms: int | None
    device: DeviceView


def gpu_lines(clusters: tuple[ClusterView, ...], wanted: str | None) -> list[GpuLine]:
    """All devices, of all clusters or of one."""
    return [
        GpuLine(cluster.name, node.name, cluster.facts_age_ms, device)
        for cluster in clusters
        if wanted == cluster.name or (wanted is None and cluster.state != "declared")
        for node in cluster.nodes
        for device in node.devices
    ]


def idle_lines(lines: Iterable[GpuLine]) -> list[GpuLine]:
    """Those that runs hold and none of them has used for a while, idle longest first."""
    idle = [line for line in lines if (idle_ms(line.device) or 0) >= IDLE_MS]
    return sorted(idle, key=lambda line: -(idle_ms(line.device) or 0))


def idle_ms(device: DeviceView) -> int | None:
    """For how long no run on it was busy; None where nobody holds it or nobody could tell."""
    known = [user.idle_ms for user in device.users]
    told = [one for one in known if one is not None]
    return min(told) if told and len(told) == len(known) else None


def gpu_columns(terminal: Terminal) -> list[Column[GpuLine]]:
    """What `gpu` shows."""
    return [
        Column("cluster", "CLUSTER", lambda line: line.cluster),
        Column("node", "NODE", lambda line: line.node),
        Column("device", "DEVICE", lambda line: f"{label(line.device)} {line.device.kind}"),
        Column(
            "memory",
            "MEMORY",
            lambda line: bar(line.device, terminal),
            lambda line: line.device.held_bytes + line.device.foreign_bytes,
        ),
        Column(
            "used",
            "USED",
            lambda line: "-" if used(line.device) is None else size(used(line.device) or 0),
            lambda line: used(line.device) or 0,
            right=True,
        ),
        Column(
            "busy",
            "BUSY",
            lambda line: (
                "-" if line.device.busy_percent is None else f"{line.device.busy_percent}%"
            ),
            lambda line: line.device.busy_percent or 0,
            right=True,
        ),
        Column(
            "idle",
            "IDLE",
            lambda line: _idle(line.device),
            lambda line: idle_ms(line.device) or 0,
            right=True,
        ),
        Column("runs", "RUNS", lambda line: _users(line.device)),
        Column("facts", "FACTS", lambda line: facts_age(line.facts_age_ms), right=True),
        Column("health", "HEALTH", lambda line: line.device.health or "?"),
        Column("note", "NOTE", lambda line: _note(line.device), grows=True),
        Column("uuid", "UUID", lambda line: line.device.uuid, wide=True),
    ]


def label(device: DeviceView) -> str:
    """`1`, or `1:2` for slice 2 of GPU 1."""
    return device.label or str(device.index)


def used(device: DeviceView) -> int | None:
    """Memory in use by anybody, as last sampled; None where nobody looked."""
    if device.free_bytes is None:
        return None
    return max(device.memory_bytes - device.reserved_bytes - device.free_bytes, 0)


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


def _idle(device: DeviceView) -> str:
    found = idle_ms(device)
    return "-" if found is None or found < 1000 else duration(found // 1000 * 1000)


def _users(device: DeviceView) -> str:
    """`train 9.1/18 GiB, eval ?/10 GiB`: what each holds of what it was given."""
    if not device.users:
        return ",".join(device.runs) or "-"
    shown = [_user(user) for user in device.users[:MOST_USERS]]
    more = len(device.users) - len(shown)
    return ", ".join(shown) + (f" and {more} more" if more else "")


def _user(user: GpuUser) -> str:
    holds = "?" if user.used_bytes is None else f"{user.used_bytes / GIB:.1f}".removesuffix(".0")
    return f"{user.name or user.run} {holds}/{size(user.asked_bytes)}"


def _note(device: DeviceView) -> str:
    if device.fault:
        return f"gets nothing new: {device.fault}"
    parts = []
    if device.foreign_bytes:
        parts.append(f"{size(device.foreign_bytes)} held outside of this Stellwerk")
    elif device.foreign_compute:
        parts.append("a process outside of this Stellwerk computes on it")
    if device.unified:
        parts.append("its memory is the machine's")
    return "; ".join(parts)


def summary(lines: list[GpuLine]) -> str:
    """What there is in one sentence."""
    idle = sum(is_free(line.device) for line in lines)
    return f"{plural(len(lines), 'GPU')}, {idle} of them free"


def history_lines(history: GpuHistory, terminal: Terminal) -> list[str]:
    """A line of small bars for each device: the most memory that was in use, oldest first."""
    if not history.items:
        return ["nothing is known yet: GPUs are looked at while runs are on their machine"]
    room = max(10, min(WIDEST, terminal.width - 32)) if terminal.is_tty else WIDEST
    lines = []
    for one in history.items:
        most = max((point[1] for point in one.points), default=0)
        busy = [point[2] for point in one.points if point[2] is not None]
        mean = f", {sum(busy) // len(busy)}% busy" if busy else ""
        marks = _sparks(one, room, terminal, history.every_ms)
        lines.append(f"{one.node}/{one.device}  {marks}  at most {size(most)}{mean}")
    return lines


def _sparks(one: GpuPoints, room: int, terminal: Terminal, every_ms: int) -> str:
    """One mark for equal stretches of time; a blank where nobody looked."""
    marks = SPARKS if terminal.unicode else PLAIN_SPARKS
    first, last = one.points[0][0], one.points[-1][0]
    stretch = max(every_ms, -(-(last - first + every_ms) // room))
    most = max(1, *(point[1] for point in one.points))
    highest: dict[int, int] = {}
    for at_ms, bytes_, _ in one.points:
        place = (at_ms - first) // stretch
        highest[place] = max(highest.get(place, 0), bytes_)
    count = (last - first) // stretch + 1
    return "".join(
        marks[highest[place] * (len(marks) - 1) // most] if place in highest else " "
        for place in range(count)
    )
