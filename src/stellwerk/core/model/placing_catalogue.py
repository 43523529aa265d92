"""The reasons why the clusters of a placement changed."""

from stellwerk.core.model.reasons import Entry

OF_MOVES = {
    "infra_differs": Entry(
        "blocked",
        "you",
        "{cluster} isn't asked for: infra is `{infra}`",
        "leave infra out, or name {cluster}",
    ),
    "better_cluster": Entry(
        "turn",
        "time",
        "{cluster} is better than {left} by {gain}",
        "nothing to do; with a higher move gain it would have stayed",
    ),
    "no_longer_passes": Entry(
        "blocked",
        "cluster owner",
        "[{cluster} ]no longer passes[ the filter {filter}]",
        "see in its explanation which rule it fails, and what would turn it",
    ),
    "cluster_gone": Entry(
        "blocked",
        "cluster owner",
        "{cluster} isn't in the fleet any more",
        "nothing to do, unless it should be there",
    ),
    "not_in_sets": Entry(
        "blocked",
        "cluster owner",
        "{cluster} is being removed, or in no set any more that the placement may choose from",
        "put it into a set that is bound to the namespace",
    ),
    "no_binding": Entry(
        "blocked",
        "cluster owner",
        "{cluster} may not be chosen: no set that the placement may choose from is bound to its"
        " namespace",
        "a ManagedClusterSetBinding is missing: apply one in the namespace of the placement",
    ),
    "not_in_bound_sets": Entry(
        "blocked",
        "cluster owner",
        "{cluster} isn't in any set that is bound to the namespace of the placement ({sets})",
        "put it into such a set, or bind one that it is in: a ManagedClusterSetBinding is missing",
    ),
    "fewer_wanted": Entry(
        "turn",
        "you",
        "{cluster} isn't among as many clusters as are wanted now",
        "nothing to do, unless `numberOfClusters` or a spread constraint is wrong",
    ),
    "more_wanted": Entry(
        "turn",
        "you",
        "more clusters are wanted than there were, and {cluster} is the best of the others",
        "nothing to do",
    ),
}
