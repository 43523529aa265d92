"""The catalogue of reasons: for each code its tier, who can act, a sentence and a remedy.

The texts are format strings over a reason's parameters; parameters that end in ``_bytes`` and
``_ms`` are shown as sizes and durations. Codes are interface: they are added, never reused.
"""

from msgspec import Struct

from stellwerk.core.model.reasons import TIERS, Reason, RenderedReason, Tier, Who


class Entry(Struct, frozen=True):
    """What is known of a code."""

    tier: Tier
    who: Who
    sentence: str
    remedy: str


WAITING = {
    "never_fits": Entry(
        "blocked", "you", "{wanted} {resource} asked, {cluster} can give at most {largest}",
        "ask for at most {largest}, or add a cluster that has more"),
    "no_such_infra": Entry(
        "blocked", "you", "no cluster answers to infra `{infra}`",
        "leave infra out, or name one that `stw clusters` lists"),
    "no_cluster": Entry(
        "unknown", "stellwerk", "no cluster has been looked at yet",
        "wait some seconds; `stw clusters` shows what answers"),
    "not_ready": Entry(
        "unknown", "cluster owner", "{cluster} is {state}: {note}",
        "`stw clusters` shows since when; it is used again once it is ready"),
    "no_room": Entry(
        "capacity", "time", "{wanted} {resource} asked, {free} free on {cluster}",
        "wait until running work ends, or ask for at most {free}"),
    "behind": Entry(
        "turn", "time", "{ahead} before it in queue {queue}",
        "wait; `stw queue` shows who is before you, `stw prio` changes the order"),
    "room_kept": Entry(
        "turn", "time", "the room on {cluster} is kept for {name}, which was overtaken long enough",
        "wait until {name} has started"),
    "not_planned": Entry(
        "unknown", "stellwerk", "it has not been looked at yet", "wait a moment"),
    "held": Entry("held", "you", "held by {actor}", "`stw release` lets it start"),
    "held_no_progress": Entry(
        "held", "you", "stopped {times} times in a row without a new checkpoint",
        "write checkpoints to $STELLWERK_CHECKPOINT_DIR (or lengthen --checkpoint-grace), "
        "then `stw release`"),
    "backing_off": Entry(
        "held", "time", "waits {delay_ms} before the next try",
        "nothing to do; `stw show` tells what failed"),
}

GOING_BACK = {
    "checkpointed": Entry(
        "turn", "time", "the job wrote a checkpoint and asked to be put back (exit {exit_code})",
        "nothing to do; it resumes from its checkpoint"),
    "preempted": Entry(
        "turn", "time", "stopped by notice ({why}); it goes on from its last checkpoint",
        "nothing to do"),
    "retrying": Entry(
        "turn", "time", "try {attempt} of {limit} failed: {failure}",
        "nothing to do; `stw logs` shows the output"),
    "machine_rebooted": Entry(
        "turn", "time", "{node} was restarted while the job ran", "nothing to do; it starts again"),
    "run_lost": Entry(
        "turn", "time", "the run on {cluster} was lost: {message}",
        "nothing to do; it starts again"),
}

ENDED = {
    "succeeded": Entry("ended", "you", "it ended with exit code 0", "`stw logs` shows its output"),
    "cancelled": Entry("ended", "you", "cancelled by {actor}", "`stw rerun` starts it again"),
    "exit_code": Entry(
        "ended", "you", "the command ended with exit code {exit_code}",
        "`stw logs` shows what it printed last"),
    "signal": Entry(
        "ended", "you", "the command was ended by signal {signal} ({signal_name})",
        "find out who sent it; `stw logs` shows what it printed last"),
    "setup_failed": Entry(
        "ended", "you", "setup ended with exit code {exit_code}",
        "`stw logs --setup` shows why; nothing of `run` was started"),
    "time_limit": Entry(
        "ended", "you", "it ran longer than its time limit of {limit_ms}",
        "raise --time-limit, or write checkpoints and submit it again"),
    "out_of_memory": Entry(
        "ended", "you", "it ran out of memory (peak {peak_bytes}, asked {asked_bytes})",
        "ask for more with `memory:`, or use less (smaller batches, fewer workers)"),
    "gpu_out_of_memory": Entry(
        "ended", "you", "it ran out of GPU memory: {line}",
        "ask for a larger card or a smaller batch"),
    "missing_module": Entry(
        "ended", "you", "Python did not find the module `{module}`",
        "install it in `setup:`, or run with the Python that has it"),
    "missing_command": Entry(
        "ended", "you", "the shell did not find the command `{command}`",
        "install it in `setup:`, or correct its name or PATH"),
    "missing_file": Entry(
        "ended", "you", "a file was not found: {line}",
        "check that it is in the workdir and not ignored by .gitignore or .skyignore"),
    "no_permission": Entry(
        "ended", "you", "permission was denied: {line}", "check the file's owner and mode"),
    "disk_full": Entry(
        "ended", "cluster owner", "the disk of {node} is full: {line}",
        "free some room there (`stw gc` removes old runs), then `stw rerun`"),
    "syntax_error": Entry(
        "ended", "you", "the program has a syntax error: {line}", "correct it and submit again"),
    "communication": Entry(
        "ended", "cluster owner", "processes could not talk to each other: {line}",
        "check the network between the nodes; NCCL_DEBUG=INFO tells more"),
    "spawn_failed": Entry(
        "ended", "you", "the command could not be started: {message}",
        "check the work directory and the interpreter"),
    "start_refused": Entry(
        "ended", "cluster owner", "{cluster} refused to start it: {message}",
        "see `stw doctor`; then `stw rerun`"),
    "log_limit": Entry(
        "ended", "you", "it printed more than {limit_bytes} of output",
        "print less, or log to files"),
    "declared_lost": Entry(
        "ended", "you", "{actor} declared the run lost", "`stw rerun` starts it again"),
    "lost_too_often": Entry(
        "ended", "cluster owner", "its run was lost {times} times in a row: {message}",
        "see `stw doctor`; then `stw rerun`"),
}

REFUSALS = {
    "already_over": Entry("ended", "you", "it is already over ({phase})", "nothing to do"),
    "not_waiting": Entry("ended", "you", "it is {phase}, not waiting", "`stw cancel` ends it"),
    "not_held": Entry("ended", "you", "it is {phase}, not held", "nothing to do"),
    "unknown_workload": Entry("ended", "you", "there is no such workload", "`stw ps -A` lists all"),
    "reachable": Entry(
        "ended", "you", "its run can be reached, so it isn't lost", "`stw cancel` ends it"),
    "stale": Entry(
        "turn", "time", "the world had changed by then", "nothing to do; it is planned again"),
}

CATALOGUE: dict[str, Entry] = {**WAITING, **GOING_BACK, **ENDED, **REFUSALS}


class _Params(dict[str, object]):
    """Keeps a sentence readable when an older record lacks a parameter."""

    def __missing__(self, key: str) -> str:
        return f"({key} not recorded)"


def _size(count: int) -> str:
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.4g} {unit}"
        value /= 1024
    return f"{value:.4g} TiB"


def _duration(ms: int) -> str:
    if ms < 1000:
        return f"{ms} ms"
    seconds = ms // 1000
    parts = [(seconds // 86_400, "d"), (seconds // 3600 % 24, "h"), (seconds // 60 % 60, "min"),
             (seconds % 60, "s")]
    return " ".join(f"{n} {unit}" for n, unit in parts if n)


def _shown(key: str, value: object) -> object:
    if isinstance(value, int) and key.endswith("_bytes"):
        return _size(value)
    if isinstance(value, int) and key.endswith("_ms"):
        return _duration(value)
    return value


def render(reason: Reason) -> RenderedReason:
    """Fills the catalogue's texts with the reason's parameters."""
    entry = CATALOGUE.get(reason.code) or Entry(
        "unknown", "stellwerk", f"{reason.code} (a reason this version does not know)",
        "upgrade Stellwerk to read it")
    shown = _Params({key: _shown(key, value) for key, value in reason.params.items()})
    return RenderedReason(
        code=reason.code, tier=entry.tier, who=entry.who,
        sentence=entry.sentence.format_map(shown), remedy=entry.remedy.format_map(shown),
        params=dict(reason.params))


def tier_of(reason: Reason) -> Tier:
    """Gives the tier of a reason; an unknown code is of tier ``unknown``."""
    entry = CATALOGUE.get(reason.code)
    return entry.tier if entry else "unknown"


def worst_first(reasons: tuple[Reason, ...]) -> tuple[Reason, ...]:
    """Orders reasons by tier, keeping the order inside a tier."""
    return tuple(sorted(reasons, key=lambda reason: TIERS.index(tier_of(reason))))
