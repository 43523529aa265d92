"""The reasons that a single machine gives to what runs on it."""

from stellwerk.core.model.reasons import Entry

OF_NODES = {
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
