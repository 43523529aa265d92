"""The catalogue of reasons: for each code its tier, who can act, a sentence and a remedy.

The texts are templates over a reason's parameters. Those that end in ``_bytes`` and ``_ms`` are
shown as sizes and durations; a part in [brackets] is left out where a parameter of it isn't
recorded. Codes are interface: they are added, never reused.
"""

import re

from stellwerk.core.model.data_catalogue import OF_DATA
from stellwerk.core.model.endings import ENDED
from stellwerk.core.model.gates_catalogue import OF_GATES
from stellwerk.core.model.gpu_catalogue import OF_GPUS
from stellwerk.core.model.node_catalogue import OF_NODES
from stellwerk.core.model.people_catalogue import OF_PEOPLE
from stellwerk.core.model.placing_catalogue import OF_MOVES
from stellwerk.core.model.quantity import show_bytes, show_duration
from stellwerk.core.model.queueing_catalogue import OF_QUEUES
from stellwerk.core.model.reasons import TIERS, Entry, Reason, RenderedReason, Tier
from stellwerk.core.model.standing_catalogue import OF_STANDING

WAITING = {
    "never_fits": Entry(
        "blocked",
        "you",
        "{wanted} {resource} asked, {cluster} can give at most {largest}"
        "[, {others} more not enough either]",
        "ask for at most {largest}, or add a cluster that has more",
    ),
    "has_none": Entry(
        "blocked",
        "you",
        "{wanted} {resource} asked, {cluster} has none[, nor have {others} more]",
        "ask for something that `stw clusters` lists, or add a cluster that has it",
    ),
    "no_namespaces": Entry(
        "blocked",
        "you",
        "it mounts outside of `~/sky_workdir`, or runs in an image, for which {cluster} gives no "
        "user a view of their own[ ({note})]",
        "mount below `~/sky_workdir/`, or have user namespaces allowed on {cluster}",
    ),
    "no_images": Entry(
        "blocked",
        "you",
        "it runs in an image, which {cluster} can't get[: {note}]",
        "install podman or apptainer on {cluster}, or leave `image_id` out and install things in "
        "`setup`",
    ),
    "no_such_infra": Entry(
        "blocked",
        "you",
        "no cluster answers to infra `{infra}`",
        "leave infra out, or name one that `stw clusters` lists",
    ),
    "no_cluster": Entry(
        "unknown",
        "stellwerk",
        "no cluster has been looked at yet",
        "wait some seconds; `stw clusters` shows what answers",
    ),
    "not_ready": Entry(
        "unknown",
        "cluster owner",
        "{cluster} is {state}[: {note}][, and {others} more aren't ready]",
        "`stw clusters` shows what is wrong; it is used again as soon as it is ready",
    ),
    "quarantined": Entry(
        "held",
        "cluster owner",
        "{cluster} is quarantined[: {note}][, and {others} more are]",
        "mend it, then `stw resume {cluster}`",
    ),
    "drained": Entry(
        "held",
        "cluster owner",
        "{cluster} takes nothing new[: {note}][, nor do {others} more]",
        "wait, let it go elsewhere, or `stw cluster resume` takes it back into use",
    ),
    "gpu_sick": Entry(
        "capacity",
        "cluster owner",
        "nothing new is put on GPU {gpu} of {place}[ and on {others} more]: {fault}",
        "mend it; it is used again when its driver says so, or by `stw resume {place}`",
    ),
    "nodes_avoided": Entry(
        "capacity",
        "time",
        "{cluster} has no other node than those it failed on for a fault of the machine",
        "wait until another cluster has room; `stw story` tells what happened",
    ),
    "no_room": Entry(
        "capacity",
        "time",
        "{wanted} {resource} asked, {free} free on {cluster}[, too little on {others} more]",
        "wait until running work ends[, or ask for at most {instead}]",
    ),
    "behind": Entry(
        "turn",
        "time",
        "{ahead} ahead of it in queue {queue}",
        "wait; `stw queue` shows who they are, `stw prio` changes the order",
    ),
    "room_kept": Entry(
        "turn",
        "time",
        "what it needs on {cluster} is kept for {name}, which goes first"
        "[, and so it is on {others} more]"
        "[; it may run for {lasts_ms}, and the room may be needed in {needed_ms}]"
        "[; how long {unknown} runs isn't known, so it can't go first]",
        "wait until {name} has started",
    ),
    "room_reserved": Entry(
        "turn",
        "time",
        "what it needs on {cluster} is reserved as {name}[ for {holder}][ from {opens}]"
        "[ until {until}][; it may run for {lasts_ms}][; how long {unknown} runs isn't known]"
        "[, and the room is needed in {needed_ms}]",
        "wait until then; a time limit (--time-limit) that ends before lets it start now, and so "
        "does work that goes on from its checkpoints",
    ),
    "drain_breaks_promise": Entry(
        "capacity",
        "cluster owner",
        "its machine is drained, which breaks the promise that it may run until {until}",
        "it goes on from its last checkpoint where there is room",
    ),
    "window_closes": Entry(
        "capacity",
        "time",
        "{cluster} isn't open for long enough[: it closes at {closes}][, in {left_ms}]"
        "[; this needs {lasts_ms}]"
        "[; how long {unknown} runs isn't known][; it opens again at {opens}]",
        "a time limit (--time-limit) that ends before lets it start now, and so does work that "
        "goes on from its checkpoints; or wait for a longer window: `stw calendar show {cluster}`",
    ),
    "window_closed": Entry(
        "capacity",
        "time",
        "{cluster} is closed[ until {opens}]",
        "wait until then; `stw calendar show {cluster}` shows the next days",
    ),
    "window_never_fits": Entry(
        "capacity",
        "you",
        "no window of {cluster} that is known is long enough: the longest is open for "
        "{longest_ms}[; this needs {lasts_ms}][; how long {unknown} runs isn't known]",
        "give it a shorter time limit (--time-limit), let it go on from its checkpoints, or have "
        "that opened for longer: `stw calendar override {cluster} open`",
    ),
    "window_ends": Entry(
        "capacity",
        "time",
        "{cluster} closes at {closes}",
        "it goes on from its last checkpoint where there is room, or when that opens again",
    ),
    "reservation_begins": Entry(
        "capacity",
        "time",
        "{cluster} is reserved as {name} for {holder} from {opens}",
        "it goes on from its last checkpoint where there is room",
    ),
    "reservation_refused": Entry(
        "blocked",
        "cluster owner",
        "{name} can't be reserved: {note}",
        "ask for less, for another time or another cluster; `stw reserve list` shows who has what",
    ),
    "not_planned": Entry("unknown", "stellwerk", "it has not been looked at yet", "wait a moment"),
    "held": Entry("held", "you", "held by {actor}", "`stw release` lets it start"),
    "held_no_progress": Entry(
        "held",
        "you",
        "it was stopped {times} times in a row and wrote no new checkpoint",
        "write checkpoints to $STELLWERK_CHECKPOINT_DIR, or give it more time to do so with "
        "--checkpoint-grace, then `stw release`",
    ),
    "held_checkpoint_away": Entry(
        "held",
        "you",
        "it was tried {times} times: {message}",
        "bring that machine back, then `stw release`; or `stw cancel` and `stw rerun NAME "
        "--resume` to go on from the copy at home",
    ),
    "checkpoint_away": Entry(
        "capacity",
        "cluster owner",
        "{message}[; it is tried again after {delay_ms}]",
        "bring that machine back; or `stw cancel` and `stw rerun NAME --resume` to go on from the "
        "copy at home",
    ),
    "backing_off": Entry(
        "turn",
        "time",
        "it asked to be put back {times} times in a row after less than {quick_ms}, so the next "
        "run waits {delay_ms}",
        "nothing to do; a run that works longer before it asks is started again at once",
    ),
}

GOING_BACK = {
    "checkpointed": Entry(
        "turn",
        "time",
        "the job asked to be put back[ (exit code {exit_code})]",
        "nothing to do; it resumes from its last checkpoint",
    ),
    "preempted": Entry(
        "turn",
        "time",
        "it was stopped because {why}",
        "nothing to do; it resumes from its last checkpoint, or starts anew if it wrote none",
    ),
    "retrying": Entry(
        "turn",
        "time",
        "try {attempt} of {limit} failed: {failure}[; the next one waits {delay_ms}]"
        "[ and asks for {more_bytes} of memory]",
        "nothing to do; `stw logs NAME` shows what it printed",
    ),
    "moving": Entry(
        "turn",
        "time",
        "the machine was at fault: {failure}; the next run waits {delay_ms} and goes to another "
        "node than {node}",
        "nothing to do",
    ),
    "machine_rebooted": Entry(
        "turn",
        "time",
        "{node} was restarted while the job ran",
        "nothing to do; it starts again",
    ),
    "run_lost": Entry(
        "turn",
        "time",
        "the run on {cluster} was lost: {message}",
        "nothing to do; it starts again",
    ),
    "declared_lost": Entry(
        "turn",
        "time",
        "{actor} gave the run on {cluster} up as lost",
        "nothing to do; it starts again",
    ),
}

OF_PLACES = {
    "out_of_reach": Entry(
        "unknown",
        "cluster owner",
        "{cluster} has been out of reach for {for_ms}[: {note}]",
        "nothing is lost: it is followed again as soon as {cluster} answers; `stw doctor` looks "
        "for the cause, `stw lost` gives up a run whose machine won't come back",
    ),
}

REFUSALS = {
    "cluster_in_use": Entry(
        "ended", "you", "{cluster} has runs that go on: {runs}", "`stw cluster drain {cluster}`"
    ),
    "moved": Entry(
        "turn",
        "time",
        "{actor} has it go on at {to}",
        "nothing to do; it resumes there from its last checkpoint",
    ),
    "not_movable": Entry(
        "ended", "you", "it can't be moved: {why}", "`stw show` tells where it is and how it is"
    ),
    "already_over": Entry(
        "ended", "you", "it is already over", "`stw show` tells how; `stw rerun` starts it again"
    ),
    "not_waiting": Entry("ended", "you", "it is {phase}, not waiting", "`stw cancel` ends it"),
    "already_held": Entry("ended", "you", "it is held already", "`stw release` lets it start"),
    "not_held": Entry("ended", "you", "it is {phase}, not held", "nothing to do"),
    "no_run": Entry(
        "ended", "you", "it is {phase} and has no run that could be lost", "nothing to do"
    ),
    "reachable": Entry(
        "ended", "you", "its run can be reached, so it isn't lost", "`stw cancel` ends it"
    ),
    "stale": Entry(
        "turn", "time", "the world had changed by then", "nothing to do; it is planned again"
    ),
}

CATALOGUE: dict[str, Entry] = {
    **WAITING,
    **GOING_BACK,
    **ENDED,
    **OF_NODES,
    **OF_PLACES,
    **REFUSALS,
    **OF_GATES,
    **OF_PEOPLE,
    **OF_GPUS,
    **OF_DATA,
    **OF_STANDING,
    **OF_MOVES,
    **OF_QUEUES,
}

WHY_STOPPED = {
    "cancel": "it was cancelled",
    "preempt": "its room went to other work",
    "window": "the cluster's window closed",
    "time_limit": "its time limit was over",
    "abort": "one of its abort rules held",
    "drain": "its machine was drained",
    "console": "somebody sat down at its machine",
}

NAMED = ("file", "library", "command")
"""Parameters that may be long paths."""

LONGEST_PATH = 60

UNCOUNTED = ("memory", "disk", "GPU memory")
"""Resources of which there is so much, not so many."""

_OPTIONAL = re.compile(r"\[([^\[\]]*)\]")
_FIELD = re.compile(r"\{(\w+)\}")


class _Params(dict[str, object]):
    """Keeps a sentence readable when an older record lacks a parameter."""

    def __missing__(self, key: str) -> str:
        return f"({key} not recorded)"


def _shown(reason: Reason) -> _Params:
    """The parameters as people read them; a failure is told in its own sentence."""
    shown = _Params()
    for key, value in reason.params.items():
        if isinstance(value, int) and key.endswith("_bytes"):
            shown[key] = show_bytes(value)
        elif isinstance(value, int) and key.endswith("_ms"):
            shown[key] = show_duration(value)
        elif key == "why":
            shown[key] = WHY_STOPPED.get(str(value), value)
        elif key == "resource":
            shown[key] = f"of {value}" if value in UNCOUNTED else value
        elif key in NAMED:
            shown[key] = without_middle(str(value))
        else:
            shown[key] = value
    failure = CATALOGUE.get(str(reason.params.get("failure", "")))
    if failure is not None:
        shown["failure"] = _filled(failure.sentence, shown)
    return shown


def without_middle(path: str, longest: int = LONGEST_PATH) -> str:
    """A long path with its beginning and its end; the parameters of a reason have it whole."""
    if len(path) <= longest:
        return path
    end = path[-(longest * 3 // 5) :]
    end = end[max(0, end.find("/")) :]
    begin = path[: longest - len(end) - len("...")]
    return f"{begin[: begin.rfind('/') + 1] or begin}...{end}"


def _filled(template: str, shown: _Params) -> str:
    def optional(match: re.Match[str]) -> str:
        part = match[1]
        return part if all(name in shown for name in _FIELD.findall(part)) else ""

    return _OPTIONAL.sub(optional, template).format_map(shown)


def render(reason: Reason) -> RenderedReason:
    """Fills the catalogue's texts with the reason's parameters."""
    entry = CATALOGUE.get(reason.code) or Entry(
        "unknown",
        "stellwerk",
        f"{reason.code} (a reason this version does not know)",
        "upgrade Stellwerk to read it",
    )
    shown = _shown(reason)
    return RenderedReason(
        code=reason.code,
        tier=entry.tier,
        who=entry.who,
        sentence=_filled(entry.sentence, shown),
        remedy=_filled(entry.remedy, shown),
        params=dict(reason.params),
    )


def tier_of(reason: Reason) -> Tier:
    """Gives the tier of a reason; an unknown code is of tier ``unknown``."""
    entry = CATALOGUE.get(reason.code)
    return entry.tier if entry else "unknown"


def worst_first(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Orders reasons by tier, keeping the order inside a tier."""
    return tuple(sorted(reasons, key=lambda reason: TIERS.index(tier_of(reason))))
