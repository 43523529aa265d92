"""Asks one cluster what a selector says; the same rules as over columns, for a few clusters."""

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.selectors import Requirement, Selector, meets, selects

__all__ = ["matches", "meets"]


def matches(cluster: Cluster, labels: Selector, claims: tuple[Requirement, ...] = ()) -> bool:
    """Whether a cluster meets a selector of labels, and conditions on claims."""
    return selects(labels, cluster.labels) and all(meets(cluster.claims, one) for one in claims)
