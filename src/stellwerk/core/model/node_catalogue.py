"""The reasons that a single machine gives to what runs on it."""

from stellwerk.core.model.reasons import Entry

OF_NODES = {
    "console_in_use": Entry(
        "turn",
        "time",
        "somebody works at {cluster}[: {note}][, and at {others} more]",
        "wait: it is used again some minutes after they have left; who may configure the cluster "
        "decides by `console=ignore` whether people at a machine come first",
    ),
    "node_faulty": Entry(
        "held",
        "cluster owner",
        "{times} workloads in a row ended there within {quick_ms}: {failure}",
        "mend it, then `stw resume {cluster}/{node}`",
    ),
    "machine_cut_off": Entry(
        "turn",
        "you",
        "{node} was cut off from its other machines for {after_ms}, so they were told to end",
        "it goes on when {node} is back, from its last checkpoint; if it never will be, "
        "`stw lost NAME`",
    ),
}
