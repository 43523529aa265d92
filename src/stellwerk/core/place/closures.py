"""Keeps nodes for nobody while their windows are closed, and says how long those are open.

The end of a window is a reservation by nobody of all nodes that close then: who is over before, or
goes on from what it saves and can be stopped in time, may start there, and all others wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from stellwerk.core.data.node_windows import closing_of, closures_of, is_windowed
from stellwerk.core.data.windows import join
from stellwerk.core.model.calendars import FOREVER_MS
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.draining import moment
from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.resources import Allocation
from stellwerk.core.place.kept import Kept
from stellwerk.core.place.reservable import whole_node
from stellwerk.core.place.rooms import RESERVATION, WINDOW, ClusterRoom
from stellwerk.core.view import View


def closures(view: View, by_name: Mapping[str, ClusterRoom]) -> list[Kept]:
    """What is kept for nobody, of those clusters that aren't always open."""
    found = []
    for part in view.clusters:
        cluster = part.cluster
        if not is_windowed(cluster):
            continue
        for number, (closed, nodes) in enumerate(closures_of(cluster, view.now_ms).items()):
            parts = tuple(whole_node(node) for node in nodes)
            until_ms = closed[0] if closed[0] > view.now_ms else 0
            name = f"{WINDOW}{cluster.name}{f' {number}' if number else ''}"
            found.append(Kept(WorkloadId(name), name, cluster.name, parts, until_ms, None, closed))
            by_name[cluster.name].keep(parts, name)
    return found


def window_of(cluster: Cluster, allocation: Allocation, now_ms: int) -> Kept | None:
    """What is kept for nobody of some nodes of a cluster, from when the first of them closes."""
    closed = closing_of(cluster, (one.node for one in allocation.nodes), now_ms)
    if closed is None:
        return None
    name, until_ms = f"{WINDOW}{cluster.name}", closed[0] if closed[0] > now_ms else 0
    return Kept(WorkloadId(name), name, cluster.name, allocation.nodes, until_ms, None, closed)


def opened(lenders: Mapping[str, list[Kept]]) -> dict[str, list[Kept]]:
    """Of what a workload may use that is kept, the windows that stay open for long enough."""
    found = {name: [one for one in kept if one.closed] for name, kept in lenders.items()}
    return {name: kept for name, kept in found.items() if kept}


def longest(one: Kept, cluster: Cluster, now_ms: int) -> Kept:
    """What is kept for nobody, as if the longest window that is known of its nodes began now."""
    names = {part.node: True for part in one.parts}
    known = dict.fromkeys(
        node.windows or cluster.windows for node in cluster.nodes if node.name in names
    )
    lasts = [
        FOREVER_MS if closes_ms >= FOREVER_MS else closes_ms - max(opens_ms, now_ms)
        for windows in known
        for opens_ms, closes_ms in join(windows)
        if closes_ms > now_ms
    ]
    return one._replace(until_ms=now_ms + max(lasts, default=0))


def told_too_short(one: Kept, lasts_ms: int | None, now_ms: int) -> Reason:
    """That even the longest window is too short, against how long a workload needs it."""
    params: dict[str, Param] = {"cluster": one.cluster, "longest_ms": one.until_ms - now_ms}
    if lasts_ms is None:
        params["unknown"] = "it"
    else:
        params["lasts_ms"] = lasts_ms
    return Reason("window_never_fits", params)


def told_window(one: Kept, lasts_ms: int | None, now_ms: int) -> Reason:
    """Until when a window is open, against how long a workload needs it; or when it opens."""
    assert one.closed is not None, "only what is kept for nobody tells of a window"
    closes_ms, opens_ms = one.closed
    params: dict[str, Param] = {"cluster": one.cluster}
    if opens_ms < FOREVER_MS:
        params["opens"] = moment(opens_ms)
    if not one.until_ms:
        return Reason("window_closed", params)
    params["closes"], params["left_ms"] = moment(closes_ms), closes_ms - now_ms
    if lasts_ms is None:
        params["unknown"] = "it"
    else:
        params["lasts_ms"] = lasts_ms
    return Reason("window_closes", params)


def told_other(one: Kept) -> Reason:
    """What else is kept in a window in which a workload would fit."""
    code = "room_kept" if one.reservation is None else "room_reserved"
    name = one.name.removeprefix(RESERVATION)
    return Reason(code, {"cluster": one.cluster, "name": name})


def change_times(reserved: Iterable[Kept]) -> list[int]:
    """When a window closes or opens next."""
    return [at for one in reserved for at in one.closed or () if at < FOREVER_MS]
