"""Asks one cluster what a selector says; the same rules as over columns, for a few clusters."""

from collections.abc import Mapping

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.selectors import Requirement, Selector


def meets(values: Mapping[str, str], one: Requirement) -> bool:
    """Whether labels or claims meet a condition."""
    has = one.key in values
    match one.operator:
        case "In":
            return has and values[one.key] in one.values
        case "NotIn":
            return not has or values[one.key] not in one.values
        case "Exists":
            return has
        case _:
            return not has


def matches(cluster: Cluster, labels: Selector, claims: tuple[Requirement, ...] = ()) -> bool:
    """Whether a cluster meets a selector of labels, and conditions on claims."""
    return (
        all(cluster.labels.get(key) == value for key, value in labels.equal.items())
        and all(meets(cluster.labels, one) for one in labels.requirements)
        and all(meets(cluster.claims, one) for one in claims)
    )
