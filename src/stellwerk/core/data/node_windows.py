"""Says of which nodes of a cluster a calendar speaks, and when each may be used."""

from collections.abc import Iterable
from fnmatch import fnmatchcase

from msgspec.structs import replace

from stellwerk.core.data.windows import join
from stellwerk.core.model.calendars import Calendar, Window, next_closure
from stellwerk.core.model.cluster import Cluster, Node

NODES_HELP = "write names, `pc-0*`, or LEVEL=VALUE as the nodes have it, apart by commas"


def matches(nodes: str, node: Node) -> bool:
    """Whether a calendar speaks of a node: by its name, a pattern of it, or where it stands."""
    for word in (one.strip() for one in nodes.split(",")):
        level, is_level, value = word.partition("=")
        if is_level and node.domains.get(level) == value:
            return True
        if not is_level and fnmatchcase(node.name, word):
            return True
    return False


def both(some: Iterable[Window], others: Iterable[Window]) -> tuple[Window, ...]:
    """The times that lie in windows of both."""
    right = join(others)
    shared = (
        (max(one[0], other[0]), min(one[1], other[1]))
        for one in join(some)
        for other in right
        if one[0] < other[1] and other[0] < one[1]
    )
    return tuple(join(shared))


def with_windows(cluster: Cluster, calendar: Calendar) -> Cluster:
    """A cluster whose windows, and those of its nodes, are what a calendar says."""
    nodes = cluster.nodes
    if calendar.parts:
        nodes = tuple(_with_own(node, calendar) for node in nodes)
    return replace(cluster, windows=calendar.spans, nodes=nodes)


def _with_own(node: Node, calendar: Calendar) -> Node:
    own = [one.windows for one in calendar.parts if matches(one.nodes, node)]
    if not own:
        return node
    found = own[0]
    for other in own[1:]:
        found = both(found, other)
    return replace(node, windows=found or ((0, 0),))


def closures_of(cluster: Cluster, now_ms: int) -> dict[Window, list[Node]]:
    """From when until when which nodes are closed next, or now; those that never are aren't in it.

    In the order in which they close.
    """
    known: dict[tuple[Window, ...], Window | None] = {}
    found: dict[Window, list[Node]] = {}
    for node in cluster.nodes:
        windows = node.windows or cluster.windows
        if windows not in known:
            known[windows] = next_closure(join(windows) or windows, now_ms)
        closed = known[windows]
        if closed is not None:
            found.setdefault(closed, []).append(node)
    return dict(sorted(found.items()))


def is_windowed(cluster: Cluster) -> bool:
    """Whether it, or a node of it, isn't always open."""
    return bool(cluster.windows) or any(node.windows for node in cluster.nodes)


class Closings:
    """When nodes of one cluster close next, for many runs there."""

    def __init__(self, cluster: Cluster, now_ms: int) -> None:
        self._by_node = {
            node.name: closed
            for closed, nodes in closures_of(cluster, now_ms).items()
            for node in nodes
        }
        self._whole = next_closure(join(cluster.windows) or cluster.windows, now_ms)
        self._known = {node.name: True for node in cluster.nodes}

    def of(self, nodes: Iterable[str]) -> Window | None:
        """When the first of some nodes closes; a node that is gone closes with its cluster."""
        closed = [self._by_node.get(name) if name in self._known else self._whole for name in nodes]
        return min((one for one in closed if one is not None), default=None)


def closing_of(cluster: Cluster, nodes: Iterable[str], now_ms: int) -> Window | None:
    """When the first of some nodes closes, and until when; None = it isn't known to."""
    return Closings(cluster, now_ms).of(nodes) if is_windowed(cluster) else None
