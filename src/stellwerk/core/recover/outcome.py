"""What follows from the end of a run: the workload succeeded, failed, or goes back to its queue."""

from stellwerk.core.model import events as ev
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Run, RunEnd, Workload
from stellwerk.core.recover.diagnose import diagnose

LOST = ("reboot", "wrapper_died", "never_started", "machine_lost")
LOST_IN_A_ROW = 3
NO_PROGRESS_IN_A_ROW = 3
BACKOFF_FIRST_MS = 5_000
BACKOFF_MOST_MS = 5 * 60_000

Outcome = ev.WorkloadEnded | ev.Requeued | ev.Held


def outcome(
    workload: Workload, run: Run, end: RunEnd, shape: Shape, now_ms: int
) -> tuple[Reason, Outcome]:
    """Gives the reason to record with the run's end, and the fact that follows for the workload."""
    cluster, node = run.allocation.cluster, run.allocation.nodes[0].node
    if workload.cancelling or end.how == "cancelled":
        reason = Reason("cancelled", {"actor": workload.cancelled_by or "somebody"})
        return reason, ev.WorkloadEnded(workload.id, "Cancelled", reason)
    if end.how == "declared_lost":
        reason = Reason("declared_lost", {"actor": end.message})
        return reason, ev.WorkloadEnded(workload.id, "Failed", reason)
    if end.how in LOST:
        return _lost(workload, run, end, node)
    if end.put_back:
        return _put_back(workload, run, end)
    if end.how == "exited" and end.code == 0:
        reason = Reason("succeeded")
        return reason, ev.WorkloadEnded(workload.id, "Succeeded", reason)
    request = shape.alternatives[run.allocation.alternative].request
    reason = diagnose(
        end, asked_memory_bytes=request.memory_bytes, node=node, cluster=cluster)
    if reason.code == "time_limit":
        reason = Reason("time_limit", {"limit_ms": workload.policies.time_limit_ms})
    if end.how != "start_refused" and workload.retries < workload.policies.max_restarts_on_errors:
        return reason, _retry(workload, reason, now_ms)
    return reason, ev.WorkloadEnded(workload.id, "Failed", reason)


def _put_back(workload: Workload, run: Run, end: RunEnd) -> tuple[Reason, Outcome]:
    if not run.notice or end.checkpointed:
        reason = Reason("checkpointed", {
            "exit_code": end.code if end.code is not None else -1})
        if not run.notice:
            return reason, ev.Requeued(workload.id, reason)
    else:
        reason = Reason("preempted", {"why": run.notice})
    without = 0 if end.checkpointed else workload.preemptions + 1
    if without >= NO_PROGRESS_IN_A_ROW:
        held = Reason("held_no_progress", {"times": without})
        return reason, ev.Held(workload.id, held)
    return reason, ev.Requeued(workload.id, reason)


def _lost(workload: Workload, run: Run, end: RunEnd, node: str) -> tuple[Reason, Outcome]:
    message = end.message or end.how
    reason = (
        Reason("machine_rebooted", {"node": node}) if end.how == "reboot"
        else Reason("run_lost", {"cluster": run.allocation.cluster, "message": message}))
    streak = 1
    for earlier in reversed(workload.runs[:-1]):
        if earlier.end is None or earlier.end.how not in LOST:
            break
        streak += 1
    if streak >= LOST_IN_A_ROW:
        last = Reason("lost_too_often", {"times": streak, "message": message})
        return reason, ev.WorkloadEnded(workload.id, "Failed", last)
    return reason, ev.Requeued(workload.id, reason)


def _retry(workload: Workload, failure: Reason, now_ms: int) -> ev.Requeued:
    delay = min(BACKOFF_FIRST_MS << workload.retries, BACKOFF_MOST_MS)
    reason = Reason("retrying", {
        "attempt": workload.retries + 1, "limit": workload.policies.max_restarts_on_errors + 1,
        "failure": failure.code})
    return ev.Requeued(workload.id, reason, not_before_ms=now_ms + delay, charged=True)
