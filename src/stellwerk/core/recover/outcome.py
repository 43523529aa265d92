"""What follows from the end of a run: the workload succeeded, failed, or goes back to its queue."""

from collections.abc import Callable, Sequence
from typing import Literal

from msgspec.structs import replace

from stellwerk.core.inventory.gpu_faults import fault_under
from stellwerk.core.model import events as ev
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.endings import IDLE
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Run, RunEnd, Workload, took_ms
from stellwerk.core.recover.again import on_another_node, with_more_memory
from stellwerk.core.recover.blame import is_of_node
from stellwerk.core.recover.diagnose import OUT_OF_MEMORY, diagnose

LOST = {
    "reboot": "its machine was restarted",
    "wrapper_died": "what watched over it died",
    "never_started": "it never started",
    "machine_lost": "its machine has no record of it",
}
LOST_IN_A_ROW = 3
REFUSED_IN_A_ROW = 3
NO_PROGRESS_IN_A_ROW = 3
AWAY_IN_A_ROW = 8
CHECKPOINT_AWAY = "checkpoint/away"
"""A start that was refused because the job's newest checkpoint can't be had."""

QUICK_MS = 60_000
"""A run shorter than this got nowhere: a job that asks so again and again is slowed down."""

QUICKLY_LOST_MS = 10 * 60_000
"""The same for a lost run, whose end is seen only when its machine is up again."""

BACKOFF_FIRST_MS = 5_000
BACKOFF_MOST_MS = 5 * 60_000
SAID_OF_GPUS_TOO = ("exit_code", "signal", "uncaught_error", "communication", "gpu_not_usable")
"""What a program says that lost its GPU, among much else: a card that is sick explains it."""

NEVER_RETRIED = ("time_limit", "log_limit", "killed")
"""Ends that another try would only meet again, or that somebody wanted."""

Outcome = ev.WorkloadEnded | ev.Requeued | ev.Held


def outcome(
    workload: Workload,
    run: Run,
    end: RunEnd,
    shape: Shape,
    now_ms: int,
    clusters: Sequence[Cluster] = (),
) -> tuple[Reason, Outcome]:
    """Gives the reason to record with the run's end, and the fact that follows for the workload.

    ``clusters`` are those where it could be tried again. What has run as long as it may in all
    isn't.
    """
    reason, follows = _outcome(workload, run, end, shape, now_ms, clusters)
    executed_ms = workload.executed_ms + took_ms(run, end, now_ms)
    if isinstance(follows, ev.Requeued) and 0 < workload.policies.max_exec_ms <= executed_ms:
        return reason, ev.WorkloadEnded(workload.id, "Failed", max_exec(workload))
    return reason, follows


def _outcome(
    workload: Workload,
    run: Run,
    end: RunEnd,
    shape: Shape,
    now_ms: int,
    clusters: Sequence[Cluster],
) -> tuple[Reason, Outcome]:
    """The same, whatever time it has had."""
    cluster = run.allocation.cluster
    was_aborted = run.notice == "abort" and not workload.cancelling
    if workload.cancelling or (end.how == "cancelled" and not was_aborted):
        reason = Reason("cancelled", {"actor": workload.cancelled_by or "somebody"})
        return reason, ev.WorkloadEnded(workload.id, "Cancelled", reason)
    if end.how == "declared_lost":
        reason = Reason("declared_lost", {"actor": end.message, "cluster": cluster})
        return reason, ev.Requeued(workload.id, reason)
    if end.how in LOST:
        return _lost(workload, run, end, now_ms)
    if end.how == "exited" and end.code == 0 and not end.put_back:
        reason = Reason("succeeded")
        return reason, ev.WorkloadEnded(workload.id, "Succeeded", reason)
    if was_aborted:
        reason = run.notice_reason or Reason("aborted")
        phase: Literal["Cancelled", "Failed"] = "Cancelled" if reason.code == IDLE else "Failed"
        return reason, ev.WorkloadEnded(workload.id, phase, reason)
    if end.put_back:
        return _put_back(workload, run, end, now_ms)
    reason = _failure(workload, run, end, shape)
    if reason.code in SAID_OF_GPUS_TOO:
        place = next((one for one in clusters if one.name == cluster), None)
        node, fault = fault_under(place, run.allocation.nodes)
        reason = Reason("gpu_broken", {"node": node, "line": fault}) if fault else reason
    return reason, _after_failure(workload, run, end, reason, shape, now_ms, clusters)


def _after_failure(
    workload: Workload,
    run: Run,
    end: RunEnd,
    reason: Reason,
    shape: Shape,
    now_ms: int,
    clusters: Sequence[Cluster],
) -> Outcome:
    """Another node where the machine was at fault, more memory where it was short, or the end."""
    if is_of_node(end, reason):
        node = node_of(workload, run, end)
        elsewhere = on_another_node(shape, run.allocation.cluster, node, clusters)
        if elsewhere is not None:
            return _move(workload, reason, node, elsewhere, now_ms)
    if end.how == "start_refused":
        if end.message.startswith(CHECKPOINT_AWAY):
            return _without_checkpoint(workload, end.message, now_ms)
        return _refused(workload, reason, now_ms)
    retries, most = workload.retries, workload.policies.max_restarts_on_errors
    if end.how in NEVER_RETRIED or retries >= most:
        return ev.WorkloadEnded(workload.id, "Failed", reason)
    again = _retry(workload, reason, retries, most + 1, now_ms)
    if reason.code != OUT_OF_MEMORY:
        return again
    alternative = run.allocation.alternative
    larger = with_more_memory(shape, alternative, end.peak_memory_bytes, clusters)
    if larger is None:
        return again
    memory = larger.alternatives[alternative].request.memory_bytes
    told = replace(again.reason, params={**again.reason.params, "more_bytes": memory})
    return replace(again, reason=told, shape=larger)


def _failure(workload: Workload, run: Run, end: RunEnd, shape: Shape) -> Reason:
    limit_ms = workload.policies.time_limit_ms
    if end.how == "time_limit" and workload.limit_ms != limit_ms:
        return max_exec(workload)
    if end.how == "time_limit" and limit_ms:
        return Reason("time_limit", {"limit_ms": limit_ms})
    request = shape.alternatives[run.allocation.alternative].request
    return diagnose(
        end,
        asked_memory_bytes=request.memory_bytes,
        node=node_of(workload, run, end),
        cluster=run.allocation.cluster,
    )


def max_exec(workload: Workload) -> Reason:
    """That all runs together took as long as they may."""
    return Reason("max_exec_time", {"limit_ms": workload.policies.max_exec_ms})


def node_of(workload: Workload, run: Run, end: RunEnd) -> str:
    """Names the node of the rank that decided the end; there may be several ranks on each."""
    nodes = sum(len(part.ranks) for part in run.allocation.nodes)
    ranks, full = workload.policies.ranks, workload.policies.full_nodes
    if full:
        ranks = ranks * nodes // full
    node_rank = end.rank * nodes // max(nodes, ranks)
    for part in run.allocation.nodes:
        if node_rank in part.ranks:
            return part.node
    return run.allocation.nodes[0].node


def _put_back(workload: Workload, run: Run, end: RunEnd, now_ms: int) -> tuple[Reason, Outcome]:
    code: dict[str, Param] = {} if end.code is None else {"exit_code": end.code}
    asked = Reason("checkpointed", code)
    if not run.notice:
        return asked, _resume(workload, asked, now_ms)
    preempted = run.notice_reason or Reason("preempted", {"why": run.notice})
    reason = asked if end.checkpointed else preempted
    without = 0 if end.got_further else workload.preemptions + 1
    if without >= NO_PROGRESS_IN_A_ROW:
        return reason, ev.Held(workload.id, Reason("held_no_progress", {"times": without}))
    return reason, ev.Requeued(workload.id, reason)


def _resume(workload: Workload, asked: Reason, now_ms: int) -> ev.Requeued:
    """Puts a job back that asked for it; one that does so again and again at once must wait."""
    times = _quick_in_a_row(
        workload, now_ms, QUICK_MS, lambda run, end: end.put_back and not run.notice
    )
    if times < 2:
        return ev.Requeued(workload.id, asked)
    delay_ms = _backoff_ms(times - 2)
    reason = Reason("backing_off", {"times": times, "quick_ms": QUICK_MS, "delay_ms": delay_ms})
    return ev.Requeued(workload.id, reason, not_before_ms=now_ms + delay_ms)


def _lost(workload: Workload, run: Run, end: RunEnd, now_ms: int) -> tuple[Reason, Outcome]:
    message = end.message or LOST[end.how]
    reason = (
        Reason("machine_rebooted", {"node": node_of(workload, run, end)})
        if end.how == "reboot"
        else Reason("run_lost", {"cluster": run.allocation.cluster, "message": message})
    )
    times = _quick_in_a_row(workload, now_ms, QUICKLY_LOST_MS, lambda _run, end: end.how in LOST)
    if times >= LOST_IN_A_ROW:
        last = Reason("lost_too_often", {"times": times, "message": message})
        return reason, ev.WorkloadEnded(workload.id, "Failed", last)
    return reason, ev.Requeued(workload.id, reason)


def _refused(workload: Workload, reason: Reason, now_ms: int) -> Outcome:
    """Tries a start again that never happened: it costs nothing but time, and isn't charged."""
    tries = 1
    for run in reversed(workload.runs[:-1]):
        if run.end is None or run.end.how != "start_refused":
            break
        tries += 1
    if tries >= REFUSED_IN_A_ROW:
        return ev.WorkloadEnded(workload.id, "Failed", reason)
    again = _retry(workload, reason, tries - 1, REFUSED_IN_A_ROW, now_ms)
    return replace(again, charged=False)


def _without_checkpoint(workload: Workload, message: str, now_ms: int) -> Outcome:
    """Waits for the machine that has it, and after some tries for a person.

    It never begins anew by itself, and none of this counts against it.
    """
    tries = 1
    for run in reversed(workload.runs[:-1]):
        if run.end is None or not run.end.message.startswith(CHECKPOINT_AWAY):
            break
        tries += 1
    said = message.partition(": ")[2]
    if tries >= AWAY_IN_A_ROW:
        why = Reason("held_checkpoint_away", {"times": tries, "message": said})
        return ev.Held(workload.id, why)
    delay_ms = _backoff_ms(tries - 1)
    reason = Reason("checkpoint_away", {"message": said, "delay_ms": delay_ms})
    return ev.Requeued(workload.id, reason, not_before_ms=now_ms + delay_ms)


def _retry(
    workload: Workload, failure: Reason, before: int, limit: int, now_ms: int
) -> ev.Requeued:
    delay_ms = _backoff_ms(before)
    tried: dict[str, Param] = {"attempt": before + 1, "limit": limit, "failure": failure.code}
    reason = Reason("retrying", {**failure.params, **tried, "delay_ms": delay_ms})
    return ev.Requeued(workload.id, reason, not_before_ms=now_ms + delay_ms, charged=True)


def _move(workload: Workload, failure: Reason, node: str, shape: Shape, now_ms: int) -> ev.Requeued:
    """Tries it elsewhere; what a machine got wrong isn't charged to the job."""
    moved: dict[str, Param] = {"failure": failure.code, "node": node}
    reason = Reason("moving", {**failure.params, **moved, "delay_ms": BACKOFF_FIRST_MS})
    not_before_ms = now_ms + BACKOFF_FIRST_MS
    return ev.Requeued(workload.id, reason, not_before_ms=not_before_ms, shape=shape)


def _quick_in_a_row(
    workload: Workload, now_ms: int, quick_ms: int, alike: Callable[[Run, RunEnd], bool]
) -> int:
    """Counts the newest runs, the one that ends now among them, that ended alike after a moment."""
    times = 0
    for run in reversed(workload.runs):
        if run.end is not None and not alike(run, run.end):
            break
        ended_ms = now_ms if run.end is None else run.ended_ms
        if ended_ms - (run.started_ms or run.planned_ms) >= quick_ms:
            break
        times += 1
    return times


def _backoff_ms(tries: int) -> int:
    return min(BACKOFF_FIRST_MS << min(tries, 16), BACKOFF_MOST_MS)
