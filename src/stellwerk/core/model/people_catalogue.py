"""The reasons that only a server of several people has: whose runtime, whose cluster, how much."""

from stellwerk.core.model.reasons import Entry

OF_PEOPLE = {
    "no_runtime": Entry(
        "held",
        "you",
        "no runtime of {person} is connected for {cluster}, and nobody else may start their work",
        "on that machine, as {person}: `stw agent start`",
    ),
    "not_yours": Entry(
        "blocked",
        "cluster owner",
        "{cluster} belongs to {owner}, so nothing of {person} can start there",
        "ask {owner} to share it (`stw share {cluster} {person}`), or add a login of your own",
    ),
    "limit_running": Entry(
        "turn",
        "time",
        "{who} has {running} runs, and may have {limit} at a time",
        "wait until one of them ends, or ask an administrator of the server for more",
    ),
    "limit_never": Entry(
        "blocked",
        "you",
        "it asks for {wanted} GPUs, and {who} may have {limit} at a time",
        "ask for at most {limit}, or ask an administrator of the server for more",
    ),
    "limit_gpus": Entry(
        "turn",
        "time",
        "{who} holds {held} GPUs and asks for {wanted} more, of {limit} at a time",
        "wait until some are given back, ask for fewer, or ask an administrator for more",
    ),
}
