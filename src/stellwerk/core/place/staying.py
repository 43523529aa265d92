"""Leaves the machines of a gang, and their ranks, as they were when its last run ended.

What they have prepared for it needn't be made again: code, setup, images, checkpoints. Only what
has no room for it any more is replaced.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from stellwerk.core.model.past import LastPlace
from stellwerk.core.model.resources import NodeAllocation, Shape
from stellwerk.core.place.node import fit_node
from stellwerk.core.place.room import Room
from stellwerk.core.place.rooms import ClusterRoom

REPAIR_MS = 15 * 60_000
"""So long what is left of a gang is kept for it where no machine is there for the lost one."""


def stayed(
    parts: tuple[NodeAllocation, ...],
    last: LastPlace | None,
    room: Room,
    shape: Shape,
    alternative: int,
) -> tuple[NodeAllocation, ...]:
    """Gives the same number of parts, on the nodes of before where those have room.

    Where one domain must hold all, they stay where they were chosen.
    """
    bound = shape.topology is not None and shape.topology.spot == "required"
    if last is None or bound or room.together or room.cluster.name != last.cluster:
        return parts
    if len(parts) != len(last.nodes):
        return parts
    return _filled(_still_there(last, room, shape, alternative), parts)


def survivors(
    last: LastPlace, rooms: Mapping[str, ClusterRoom], shape: Shape
) -> tuple[NodeAllocation, ...]:
    """Gives what a gang needs of the machines that it had and that have room for it now."""
    if last.cluster not in rooms:
        return ()
    room = rooms[last.cluster].open
    return tuple(_still_there(last, room, shape, last.alternative).values())


def _still_there(
    last: LastPlace, room: Room, shape: Shape, alternative: int
) -> dict[int, NodeAllocation]:
    """Gives the parts by rank."""
    request = shape.alternatives[alternative].request
    left = room.without(shape.avoid)
    return {
        rank: found
        for rank, name in enumerate(last.nodes)
        if name in left.nodes and (found := fit_node(left.nodes[name], request, (rank,)))
    }


def _filled(
    there: dict[int, NodeAllocation], parts: Sequence[NodeAllocation]
) -> tuple[NodeAllocation, ...]:
    """Gives the ranks that have no node one of those that were chosen and aren't taken."""
    used = {part.node: True for part in there.values()}
    others = [part for part in parts if part.node not in used]
    return tuple(
        there[rank] if rank in there else replace(others.pop(0), ranks=(rank,))
        for rank in range(len(parts))
    )
