"""Which nodes carry the labels of a flavor: by themselves, or as all of their cluster does."""

from __future__ import annotations

from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.queueing import HOSTNAME
from stellwerk.core.place.near import Labels, own_labels

ACCELERATOR, PRODUCT = "stellwerk/accelerator", "nvidia.com/gpu.product"


def nodes_with(cluster: Cluster, labels: Labels) -> list[Node]:
    """The nodes of a cluster that carry all of some labels."""
    own = own_labels(cluster)
    left = [one for one in labels if own.get(one[0]) != one[1]]
    return [node for node in cluster.nodes if all(carries(node, *one) for one in left)]


def carries(node: Node, key: str, value: str) -> bool:
    """Whether a node carries a label by itself."""
    if key == HOSTNAME:
        return node.name == value
    if key == ACCELERATOR:
        return any(device.kind == value for device in node.devices)
    if key == PRODUCT:
        return any(device.product.replace(" ", "-") == value for device in node.devices)
    return node.domains.get(key) == value
