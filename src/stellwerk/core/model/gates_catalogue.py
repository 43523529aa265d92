"""The reasons of what waits for others to end, or for its place in an array."""

from stellwerk.core.model.reasons import Entry

OF_GATES = {
    "after": Entry(
        "turn",
        "time",
        "it waits for {waits_for}",
        "wait until {names} ended, or `stw cancel` it and submit it without --after",
    ),
    "array_limit": Entry(
        "turn",
        "time",
        "at most {limit} of {array} may be under way at a time",
        "wait until another element of {array} has ended",
    ),
    "after_never": Entry(
        "ended",
        "you",
        "it was to start after {wanted}, but {name} {ended}",
        "see to {name}, then `stw rerun` this one; `any:{name}` starts however that ends",
    ),
}
