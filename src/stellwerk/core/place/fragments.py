"""How much of a cluster's free device memory would stay usable as whole cards.

It is the measure by which nodes are packed (decision 0021). There the shapes that run on a cluster
say what is useful; clusters are compared with each other, so one shape counts for all of them.
"""

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.resources import Allocation, GpuRequest, Request
from stellwerk.core.place.packing import weighed
from stellwerk.core.place.room import Room, usable_after

WHOLE_CARDS = weighed({Request(cpus_milli=0, gpu=GpuRequest(1)): 1})


def usable(
    cluster: Cluster, taken: tuple[Allocation, ...], request: Request | None, num_nodes: int
) -> float:
    """Gives the part (0..1) of free device memory that stays usable, with demand placed."""
    return usable_after(Room(cluster, taken), request, WHOLE_CARDS, num_nodes)
