"""The reasons for which a placement keeps work from a cluster."""

from stellwerk.core.model.reasons import Entry

OF_STANDING = {
    "not_chosen": Entry(
        "blocked",
        "cluster owner",
        "placement {placement} doesn't choose {cluster}[: {rule}][, and {found}]"
        "[, nor {others} more]",
        "`stw placement explain {placement} --cluster {cluster}` says what would admit it",
    ),
    "no_driver": Entry(
        "unknown",
        "cluster owner",
        "placement {placement} chose {cluster}, which no driver here reaches"
        "[, as it did {others} more]",
        "it is only declared; `stw clusters` lists those that can run work",
    ),
    "nothing_chosen": Entry(
        "blocked",
        "cluster owner",
        "placement {placement} has chosen no cluster",
        "`stw placement explain {placement}` says of each cluster why not",
    ),
    "not_decided": Entry(
        "unknown",
        "stellwerk",
        "placement {placement} has not been decided yet",
        "wait a moment; `stw placement show {placement}` tells when it is",
    ),
    "no_placement": Entry(
        "blocked",
        "you",
        "there is no placement {placement} any more",
        "apply it again with `stw placement apply`, or cancel and submit without the label",
    ),
}
