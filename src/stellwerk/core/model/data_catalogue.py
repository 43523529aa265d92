"""The part of the catalogue of reasons that says why data keeps work from a cluster."""

from stellwerk.core.model.reasons import Entry

OF_DATA = {
    "data_residency": Entry(
        "blocked",
        "you",
        "{data} may lie only in {allowed}, and {cluster} is {where}",
        "choose a cluster in {allowed}, or have the residency of {data} changed",
    ),
    "data_no_source": Entry(
        "blocked",
        "you",
        "{cluster} lacks {missing} of {data}, and no replica of it can be brought there[: {note}]",
        "describe a link to {cluster} from where {data} lies, or put {data} onto {cluster}",
    ),
    "data_room": Entry(
        "capacity",
        "cluster owner",
        "{missing} of data must come, {cluster} has {free} free for it"
        "[ and could give up {evictable}][; {pinned} of what it holds are pinned]",
        "free {short} more on {cluster}",
    ),
    "window_too_short": Entry(
        "capacity",
        "you",
        "it would be over {late} after the window of {cluster} closes, so {late} too late",
        "make it {enough} shorter[, have {moved} moved there before], or wait for a longer window",
    ),
    "window_over": Entry(
        "held",
        "cluster owner",
        "{cluster} has no window that is still to come",
        "have its calendar continued",
    ),
    "after_deadline": Entry(
        "blocked",
        "you",
        "on {cluster} it would be over {late} after its deadline",
        "put the deadline {enough} later, or make it shorter",
    ),
    "data_egress_denied": Entry(
        "blocked",
        "you",
        "{data} may not leave {source}",
        "choose a cluster that holds {data}, or have that rule changed",
    ),
    "source_incomplete": Entry(
        "capacity",
        "cluster owner",
        "{source} itself holds only {held} of {size} of {data}",
        "have the rest of {data} fetched to {source}",
    ),
    "source_away": Entry(
        "unknown",
        "cluster owner",
        "{source} holds it and doesn't answer",
        "`stw clusters` shows what is wrong with {source}",
    ),
    "link_unusable": Entry(
        "blocked",
        "cluster owner",
        "the link from {source} to {cluster} is no use: {note}",
        "correct the link where the fleet is described",
    ),
}
