"""Decides on which machines of a cluster work with data goes: on those that have all of it, if they
have room; else wherever it fits, and it fetches what is missing there.
"""

from __future__ import annotations

from stellwerk.core.data.names import on_hub
from stellwerk.core.inventory.caches import is_whole
from stellwerk.core.model.cluster import Node
from stellwerk.core.model.resources import NodeAllocation, Request, Shape
from stellwerk.core.place.room import Room, fit


def fit_with_data(room: Room, request: Request, shape: Shape) -> tuple[NodeAllocation, ...] | None:
    """Fits all replicas of a shape, or none."""
    wanted = [one for one in (shape.wishes.data if shape.wishes else ()) if on_hub(one)]
    if wanted and room.near is None and not shape.person:
        having = {name: True for name, one in room.nodes.items() if _has(one.node, wanted)}
        if having and len(having) < len(room.nodes):
            nodes = fit(room.on(having), request, shape.num_nodes)
            if nodes is not None:
                return nodes
    return fit(room, request, shape.num_nodes)


def _has(node: Node, wanted: list[str]) -> bool:
    there = {f"{one.data}@{one.revision}": True for one in node.held if is_whole(one)}
    return all(one in there for one in wanted)
