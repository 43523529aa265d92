"""The reasons why a workload waits in a cluster queue, in the house's tiers."""

from stellwerk.core.model.reasons import Entry

OF_QUEUES = {
    "queue_missing": Entry(
        "blocked",
        "you",
        "there is no queue `{queue}` for it",
        "name a LocalQueue of its namespace that leads to a ClusterQueue that is there",
    ),
    "queue_inactive": Entry(
        "blocked",
        "queue owner",
        "{queue} takes nothing in: {note}",
        "`stw queues check` names what is missing",
    ),
    "queue_namespace": Entry(
        "blocked",
        "queue owner",
        "{queue} takes no work of the namespace {name}",
        "have its `namespaceSelector` match, or use another queue",
    ),
    "queue_no_flavor": Entry(
        "blocked",
        "you",
        "no flavor of {queue} suits it: {note}",
        "tolerate or select what one of its flavors has, or use another queue",
    ),
    "queue_exceeds": Entry(
        "blocked",
        "you",
        "{wanted} {resource} asked, {queue} can have at most {largest} in {flavor}"
        "[, and no more in {others} other flavors]",
        "ask for at most {largest}, or have quota or a borrowing limit raised",
    ),
    "queue_stopped": Entry(
        "held",
        "queue owner",
        "{queue} is stopped ({note})",
        "wait until its `stopPolicy` is None again",
    ),
    "queue_budget": Entry(
        "held",
        "queue owner",
        "{queue} has used {used} of the {most} {resource} hours that it has for a {period}, "
        "until {until}",
        "wait until then, use another queue, or have `stellwerk/budget` raised",
    ),
    "queue_suspended": Entry(
        "held", "you", "it is kept out of the queue: {note}", "let it in, then it is looked at"
    ),
    "queue_backing_off": Entry(
        "held", "time", "it waits {delay_ms} after it was put back", "nothing to do"
    ),
    "queue_quota": Entry(
        "capacity",
        "time",
        "{wanted} {resource} asked, {queue} can get {free} in {flavor} now, {missing} too little"
        "[; {where} is the narrowest][; too little in {others} other flavors]",
        "wait until running work ends[, or have {where} given {missing} more]",
    ),
    "queue_topology": Entry(
        "capacity",
        "time",
        "{free} of {wanted} pods fit as near to each other as asked[ ({note})] in {flavor}",
        "wait until running work ends, or ask for a wider level or `preferred`",
    ),
    "check_pending": Entry(
        "held",
        "queue owner",
        "it has quota and room on {cluster}, and waits for the check {check} of {controller}"
        "[, and for {others} more]",
        "wait for its answer; who may answer says `stw check NAME {check} ready`",
    ),
    "check_retry": Entry(
        "held",
        "time",
        "the check {check} asked for another try[: {note}]",
        "nothing to do; it is put into its queue again after a while",
    ),
    "check_rejected": Entry(
        "held",
        "you",
        "the check {check} rejected it[: {note}]",
        "change what the check asks for, then `stw release`; or `stw cancel`",
    ),
    "check_given_up": Entry(
        "held",
        "you",
        "the check {check} asked for another try {times} times in a row",
        "ask who answers {check}, then `stw release`",
    ),
    "check_not_asked": Entry(
        "ended",
        "you",
        "the check {check} isn't asked about it now",
        "`stw show` tells which checks it waits for",
    ),
    "not_ready_in_time": Entry(
        "held",
        "time",
        "it didn't run its script within {within_ms} of its start",
        "`stw logs NAME --setup` shows what took so long; it is tried again, ever later",
    ),
    "never_ready": Entry(
        "held",
        "you",
        "{times} times in a row it wasn't ready in time",
        "`stw logs NAME --setup` shows what took so long, then `stw release`",
    ),
    "near_no_room": Entry(
        "capacity",
        "time",
        "{free} of {wanted} nodes fit as near to each other as asked[ (one {level})] on {cluster} "
        "now, {largest} when it is empty",
        "wait until running work ends, or ask for a wider level or `preferred`",
    ),
    "near_nowhere": Entry(
        "blocked",
        "cluster owner",
        "no node that could be used is known to stand near to others as asked"
        "[: none has the level `{level}`]",
        "name a level that nodes have (`stw clusters show NAME`), or have theirs told",
    ),
    "near_never": Entry(
        "blocked",
        "you",
        "at most {largest} of {wanted} nodes fit as near to each other as asked[ (one {level})] "
        "on {cluster}",
        "ask for a wider level, `preferred`, or at most {largest} nodes",
    ),
    "queue_victims": Entry(
        "capacity",
        "time",
        "it waits for {name} to go, which it preempts[, and for {others} more]",
        "nothing to do; it starts when they are gone",
    ),
    "stops_used_up": Entry(
        "turn",
        "time",
        "others could be stopped for it on {cluster}, where as many were as may be in an hour: "
        "again from {until} on",
        "wait until then, or for work that ends; `preemptions_per_hour` says how many may be",
    ),
    "queue_strict": Entry(
        "turn",
        "time",
        "{name} is before it in {queue}, which lets nobody pass",
        "wait until that one starts; `stw queue` shows the order",
    ),
    "queue_no_cluster": Entry(
        "blocked",
        "cluster owner",
        "no cluster or node has the labels of the flavor {flavor}: {note}",
        "give a cluster these labels, or have {queue} use another flavor",
    ),
    "queue_not_of_flavor": Entry(
        "blocked",
        "cluster owner",
        "{cluster} has not the labels of {flavor}",
        "nothing to do; another flavor of its queue may have it",
    ),
    "queue_drained": Entry(
        "held",
        "queue owner",
        "{queue} gives up all that runs in it",
        "wait until its `stopPolicy` is None again",
    ),
    "queue_preempted": Entry(
        "turn",
        "time",
        "{name} in {queue} needs its room[ ({why})]",
        "nothing to do; it is put back and resumes from its last checkpoint",
    ),
    "queue_passed": Entry(
        "turn",
        "time",
        "in this cycle others took the room that it would have got",
        "nothing to do; it is looked at again in the next cycle",
    ),
    "queue_next": Entry(
        "turn", "time", "it is next in {queue}", "nothing to do; the next cycle looks at it"
    ),
    "queue_behind": Entry(
        "turn",
        "time",
        "{ahead} before it in {queue}",
        "wait, or give it a higher priority",
    ),
    "objects_refused": Entry(
        "ended",
        "you",
        "nothing of it was taken over: {note}",
        "look at what there is with `stw get all`, and ask again",
    ),
}
