"""The reasons about memory of shared GPUs."""

from stellwerk.core.model.reasons import Entry

OF_GPUS = {
    "gpu_over_asked": Entry(
        "capacity",
        "you",
        "it holds {used_bytes} of GPU {gpu} and asked for {asked_bytes}",
        "ask for as much as it takes with `--gpu-memory`, or have it take less: it is stopped "
        "where another run on that card can't get what it asked for",
    ),
    "gpu_over_harms": Entry(
        "ended",
        "you",
        "it held {used_bytes} of GPU {gpu}, of which it had asked for {asked_bytes}, and {other} "
        "could get only {left_bytes} of its {other_bytes}",
        "submit it again with as much `--gpu-memory` as it takes; `--resume` goes on from its last "
        "checkpoint",
    ),
}
