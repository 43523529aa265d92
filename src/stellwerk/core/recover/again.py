"""What a workload asks for when it is tried again: more memory, or another node. Pure."""

from collections.abc import Iterable

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.resources import Alternative, Request, Shape
from stellwerk.core.place.candidates import answers_to, cannot
from stellwerk.core.place.room import Room, capacity, fit, fit_node

GROWTH_PERCENT = 150
AVOIDED_MOST = 3
"""Nodes that a workload is moved away from before its failures count as its own."""


def with_more_memory(
    shape: Shape, alternative: int, used_bytes: int, clusters: Iterable[Cluster]
) -> Shape | None:
    """Gives the shape with half as much memory again, as far as the largest node has it.

    What was too little is what was asked for, or, where nothing was, what the run had used. The
    other alternatives get no less. None where no alternative can be given more.
    """
    failed = shape.alternatives[alternative].request.memory_bytes or used_bytes
    if failed <= 0:
        return None
    wanted = failed * GROWTH_PERCENT // 100
    known = tuple(clusters)
    grown = tuple(_grown(one, wanted, shape.num_nodes, known) for one in shape.alternatives)
    if max(one.request.memory_bytes for one in grown) <= failed or grown == shape.alternatives:
        return None
    return replace(shape, alternatives=grown)


def _grown(
    one: Alternative, wanted: int, num_nodes: int, clusters: tuple[Cluster, ...]
) -> Alternative:
    asked = one.request.memory_bytes
    largest = max(
        (
            _largest_memory(capacity(cluster), one.request, num_nodes)
            for cluster in clusters
            if answers_to(cluster, one.infra) and not cannot(cluster, one)
        ),
        default=0,
    )
    given = min(wanted, largest)
    if given <= asked:
        return one
    return replace(one, request=replace(one.request, memory_bytes=given))


def _largest_memory(whole: Room, request: Request, num_nodes: int) -> int:
    """The most memory that each replica could have on a cluster, with all else it asks for."""
    able = (node for node in whole.nodes.values() if fit_node(node, request, (0,)) is not None)
    sizes = sorted((node.memory_bytes for node in able), reverse=True)
    if whole.together and sizes:
        return sizes[0] // num_nodes
    return sizes[num_nodes - 1] if len(sizes) >= num_nodes else 0


def on_another_node(
    shape: Shape, cluster: str, node: str, clusters: Iterable[Cluster]
) -> Shape | None:
    """Gives the shape that is kept off a node, if there is another one, ready, that could do."""
    avoid = (*shape.avoid, f"{cluster}/{node}")
    if len(avoid) > AVOIDED_MOST:
        return None
    known = tuple(clusters)
    for alternative in shape.alternatives:
        for one in known:
            if not answers_to(one, alternative.infra) or cannot(one, alternative):
                continue
            others = capacity(one).without(avoid).only_ready(one)
            if fit(others, alternative.request, shape.num_nodes) is not None:
                return replace(shape, avoid=avoid)
    return None
