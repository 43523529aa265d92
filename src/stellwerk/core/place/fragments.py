"""How much of a cluster's free device memory would stay usable as whole devices."""

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.resources import Allocation, Request
from stellwerk.core.place.room import Room, fit, free_bytes, is_whole


def usable(
    cluster: Cluster, taken: tuple[Allocation, ...], request: Request | None, num_nodes: int
) -> float:
    """Gives the part (0..1) of free device memory that whole devices have, with demand placed.

    1 where no device memory is free: there is nothing that could be wasted.
    """
    room = Room(cluster, taken)
    given = fit(room, request, num_nodes) if request is not None else None
    if given is not None:
        for part in given:
            room.nodes[part.node].take(part)
    free = whole = 0
    for node in room.nodes.values():
        for device in node.node.devices:
            left = max(0, free_bytes(node, device))
            free += left
            whole += left if is_whole(node, device) else 0
    return whole / free if free else 1.0
