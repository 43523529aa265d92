"""Decides what follows when an admission check says something, or nothing for too long, and when
what was admitted doesn't get ready in time.

What has a claim keeps its place and quota while checks are pending, and starts when all are Ready.
Retry gives both back: it waits longer each time. Rejected holds it until somebody releases it. Said
of what runs already, both end the run with notice first.
"""

from collections.abc import Iterator

from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.admission import AdmissionCheck, CheckState, CheckWord
from stellwerk.core.model.queueing import Requeuing
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.workload import Run, Workload
from stellwerk.core.state import State

MOST_DOUBLINGS = 20
NOT_READY = "not_ready_in_time"
Follows = ev.WorkloadEnded | ev.Requeued | ev.Held


def on_set_check(state: State, command: cmd.SetCheck, now_ms: int) -> list[ev.Event]:
    """What a check says of a workload; one that says what it said before gives nothing."""
    workload = state.workloads.get(command.id)
    known = {one.name: one for one in workload.checks} if workload is not None else {}
    if workload is None or command.check not in known or not _is_asked(workload):
        params: dict[str, Param] = {"check": command.check}
        return [ev.CommandRefused("set-check", command.id, Reason("check_not_asked", params))]
    was = known[command.check]
    if (was.state, was.message) == (command.state, command.message):
        return []
    said = CheckState(command.check, command.state, command.message)
    return _said(state, workload, said, now_ms, command.retry_after_ms)


def _is_asked(workload: Workload) -> bool:
    return workload.claim is not None or workload.live_run is not None


def _said(
    state: State, workload: Workload, new: CheckState, now_ms: int, retry_after_ms: int = 0
) -> list[ev.Event]:
    check, word, message = new.name, new.state, new.message
    said = ev.CheckSet(workload.id, check, word, message)
    if word in {"Pending", "Ready"}:
        return [said]
    reason = _reason(word, check, message)
    run = workload.live_run
    if run is not None:
        if run.notice or workload.cancelling:
            return [said]
        return [said, ev.NoticeGiven(run.id, "preempt", workload.policies.grace_ms, reason)]
    given_up = ev.RoomClaimed(workload.id, None)
    rules, times = state.queueing.objects.settings.requeuing, workload.check_retries + 1
    if word == "Rejected":
        return [said, given_up, ev.Held(workload.id, reason)]
    if rules.limit is not None and times > rules.limit:
        params: dict[str, Param] = {"check": check, "times": times}
        return [said, given_up, ev.Held(workload.id, Reason("check_given_up", params))]
    at_ms = now_ms + (retry_after_ms or delay_ms(rules, times))
    return [said, given_up, ev.Requeued(workload.id, reason, not_before_ms=at_ms)]


def _reason(word: CheckWord, check: str, message: str) -> Reason:
    params: dict[str, Param] = {"check": check}
    if message:
        params["note"] = message
    return Reason("check_rejected" if word == "Rejected" else "check_retry", params)


def delay_ms(rules: Requeuing, times: int) -> int:
    """How long it waits the n-th time in a row that it is put back."""
    return min(rules.base_ms << min(times - 1, MOST_DOUBLINGS), rules.most_ms)


def instead(state: State, workload: Workload, run: Run, follows: Follows, now_ms: int) -> Follows:
    """What follows for a workload whose run is over, where checks or readiness say otherwise."""
    if not isinstance(follows, ev.Requeued | ev.Held):
        return follows
    for one in workload.checks:
        if one.state == "Rejected":
            return ev.Held(workload.id, _reason("Rejected", one.name, one.message))
    reason = run.notice_reason
    if reason is None or reason.code != NOT_READY:
        return follows
    times = 1
    for before in reversed(workload.runs[:-1]):
        if before.notice_reason is None or before.notice_reason.code != NOT_READY:
            break
        times += 1
    rules = state.queueing.objects.settings.requeuing
    if rules.limit is not None and times > rules.limit:
        return ev.Held(workload.id, Reason("never_ready", {"times": times}))
    at_ms = now_ms + delay_ms(rules, times)
    return ev.Requeued(workload.id, reason, not_before_ms=at_ms)


def unready(state: State, now_ms: int) -> list[ev.Event]:
    """Notice to the runs of queues that should run their script by now, and don't."""
    within_ms = state.queueing.objects.settings.ready_within_ms
    found: list[ev.Event] = []
    for workload, run in _getting_ready(state):
        if run.planned_ms + within_ms <= now_ms:
            reason = Reason(NOT_READY, {"within_ms": within_ms})
            found.append(ev.NoticeGiven(run.id, "preempt", workload.policies.grace_ms, reason))
    return found


def _getting_ready(state: State) -> Iterator[tuple[Workload, Run]]:
    if not state.queueing.objects.settings.ready_within_ms:
        return
    for id in sorted(state.quota.holders):
        workload = state.workloads[id]
        run = workload.live_run
        if run is not None and not (run.running_ms or run.notice or workload.cancelling):
            yield workload, run


def overdue(state: State, now_ms: int) -> list[ev.Event]:
    """What follows for claims whose checks have said nothing for too long: as if they said Retry;
    and for runs that aren't ready in time.

    ``now_ms`` is the time of the events, too.
    """
    found: list[ev.Event] = []
    for workload, one, check in _timed(state):
        if one.since_ms + check.timeout_ms <= now_ms and workload.id not in _told(found):
            message = f"{check.controller} said nothing for {check.timeout_ms // 1000} s"
            found += _said(state, workload, CheckState(one.name, "Retry", message), now_ms)
    return found + unready(state, now_ms)


def _told(events: list[ev.Event]) -> list[str]:
    return [one.id for one in events if isinstance(one, ev.CheckSet)]


def next_overdue_ms(state: State) -> int:
    """When the next check has said nothing, or the next run isn't ready, for too long; 0 = none."""
    times = [one.since_ms + check.timeout_ms for _, one, check in _timed(state)]
    within_ms = state.queueing.objects.settings.ready_within_ms
    times += [run.planned_ms + within_ms for _, run in _getting_ready(state)]
    return min(times, default=0)


def _timed(state: State) -> Iterator[tuple[Workload, CheckState, AdmissionCheck]]:
    checks = {one.name: one for one in state.queueing.objects.checks if one.timeout_ms}
    if not checks:
        return
    for id in sorted(state.quota.claims):
        workload = state.workloads[id]
        for one in workload.checks:
            if one.state == "Pending" and one.name in checks:
                yield workload, one, checks[one.name]
