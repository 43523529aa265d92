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
    "own_not_decided": Entry(
        "turn",
        "stellwerk",
        "it is being decided which clusters meet what its task wishes",
        "wait a moment; if it stays so, the server's log says what is wrong",
    ),
    "wish_unmet": Entry(
        "blocked",
        "you",
        "{cluster} doesn't meet what the task wishes: {found} (wanted: {rule})"
        "[, nor do {others} more]",
        "[{change}; or ]change the labels `stellwerk/…` of the task, or what is declared of it",
    ),
    "wish_broken": Entry(
        "blocked",
        "you",
        "what the task wishes makes no sense on this fleet: {problem}",
        "[{help}; or ]cancel it, mend its labels `stellwerk/…`, and submit it again",
    ),
    "opens_later": Entry(
        "turn",
        "time",
        "{cluster} may be used again from {opens} on",
        "wait until then, or have a window of {cluster} opened earlier",
    ),
    "better_opens": Entry(
        "turn",
        "time",
        "{cluster} is worse by its objective than {better}, which has room and opens at {opens}",
        "wait until {opens}; submitted with `stellwerk/objective: start` it would take the first",
    ),
    "own_no_driver": Entry(
        "unknown",
        "cluster owner",
        "{cluster} would meet what the task wishes, and no driver here reaches it"
        "[, nor {others} more]",
        "it is only declared; `stw clusters` lists those that can run work",
    ),
}
