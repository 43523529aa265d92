"""Decides which accelerators are cleared of others so that enough are free, on one node if it can.

Work asks for accelerators on each of its nodes, so as few nodes as possible are cleared: first the
one on which the least is in the way. Those that can't be used come last.
"""

from __future__ import annotations

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.resources import Allocation, Request
from stellwerk.core.place.filters_demand import lacking

Card = tuple[str, int]
Taken = tuple[Allocation, ...]


def cards_freed(cluster: Cluster, taken: Taken, wanted: int) -> tuple[Cluster, Taken]:
    """A cluster with so many wholly free accelerators together, and what is in use of it then.

    Where no node has as many, whole nodes are cleared until there are enough.
    """
    cleared = _cleared(cluster, _held(cluster, taken), wanted)
    nodes = tuple(
        replace(
            node,
            devices=tuple(
                replace(one, foreign_bytes=0, foreign_compute=False)
                if (node.name, one.index) in cleared
                else one
                for one in node.devices
            ),
        )
        for node in cluster.nodes
    )
    left = tuple(
        replace(
            one,
            nodes=tuple(
                replace(
                    part,
                    devices=tuple(s for s in part.devices if (part.node, s.index) not in cleared),
                )
                for part in one.nodes
            ),
        )
        if one.cluster == cluster.name
        else one
        for one in taken
    )
    return replace(cluster, nodes=nodes), left


def fewest_cards(cluster: Cluster, taken: Taken, request: Request, nodes: int) -> int:
    """How many free accelerators let a request in, if that alone does; 0 = it doesn't."""
    each = request.gpu.count if request.gpu is not None else 0
    most = sum(len(node.devices) for node in cluster.nodes)
    for wanted in dict.fromkeys((each, each * nodes)):
        if 0 < wanted <= most and not lacking(*cards_freed(cluster, taken, wanted), request, nodes):
            return wanted
    return 0


def _held(cluster: Cluster, taken: Taken) -> dict[Card, bool]:
    held = {
        (part.node, share.index): True
        for one in taken
        if one.cluster == cluster.name
        for part in one.nodes
        for share in part.devices
    }
    foreign = {
        (node.name, device.index): True
        for node in cluster.nodes
        for device in node.devices
        if device.foreign_bytes > 0 or device.foreign_compute
    }
    return held | foreign


def _cleared(cluster: Cluster, held: dict[Card, bool], wanted: int) -> dict[Card, bool]:
    """The accelerators that are free then, those first that are already."""

    def in_the_way(node: Node) -> tuple[bool, int, int]:
        busy = sum((node.name, one.index) in held for one in node.devices)
        size, down = len(node.devices), node.state != "ready"
        if size < wanted:
            return down, -size, busy
        return down, -wanted, max(0, wanted - size + busy)

    found: dict[Card, bool] = {}
    for node in sorted(cluster.nodes, key=in_the_way):
        cards = sorted(
            ((node.name, one.index) for one in node.devices), key=lambda card: card in held
        )
        found |= dict.fromkeys(cards[: wanted - len(found)], True)
    return found
