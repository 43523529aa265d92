"""``fold``, the only way the live state changes: one fact at a time, without deciding anything."""

from sys import intern
from typing import Literal, assert_never

from msgspec.structs import replace

from stellwerk.core.budgets import add_run
from stellwerk.core.lengths import keys_of_workload, learn_peak, ran_ms, teaches
from stellwerk.core.model import events as ev
from stellwerk.core.model.draining import Drain
from stellwerk.core.model.ids import BlobHash, ShapeId, digest, workload_of
from stellwerk.core.model.queue_object import SETTINGS
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.workload import Run, Workload, took_ms
from stellwerk.core.state.checks import asked_of, fold_check
from stellwerk.core.state.gates import gate_after_release
from stellwerk.core.state.live import State
from stellwerk.core.state.queueing import QueueingEvent, fold_queueing
from stellwerk.core.state.reservations import fold_reservations
from stellwerk.core.state.shapes import ShapeQueue, Waits
from stellwerk.core.state.standing import fold_standing

RUNS_KEPT = 20
"""Runs remembered with a live workload; older ones stay in the journal."""


def fold(state: State, record: ev.Record) -> None:
    """Applies one fact. Raises AssertionError for a record that can't follow this state."""
    assert record.seq == state.seq + 1, f"record {record.seq} can't follow {state.seq}"
    assert record.at_ms >= state.at_ms, "time never goes backwards in the journal"
    state.seq, state.at_ms = record.seq, record.at_ms
    event = record.event
    if isinstance(event, RunEvent):
        _fold_run(state, record.at_ms, event)
        return
    match event:
        case (
            ev.Submitted()
            | ev.Requeued()
            | ev.Held()
            | ev.Released()
            | ev.GateChanged()
            | ev.PriorityChanged()
            | ev.RoomClaimed()
            | ev.CheckSet()
        ):
            _fold_queue(state, record.at_ms, record.actor, event)
        case ev.LeaderChanged():
            state.epoch = event.epoch
        case (
            ev.ClusterObserved()
            | ev.NodeQuarantined()
            | ev.NodeResumed()
            | ev.ClusterDrained()
            | ev.ClusterResumed()
            | ev.ClusterRemoved()
        ):
            _fold_cluster(state, record, event)
        case ev.ShapeWaits():
            _fold_waits(state, record.at_ms, event)
        case ev.CancelRequested():
            _fold_cancel(state, record.actor, event)
        case ev.WorkloadEnded():
            _fold_end(state, record.at_ms, event)
        case (
            ev.FleetDeclared()
            | ev.PlacementApplied()
            | ev.PlacementDeleted()
            | ev.PlacementDecided()
        ):
            fold_standing(state.standing, record.at_ms, record.actor, event)
        case ev.OwnPlacementDecided():
            if event.shape in state.shapes:
                state.standing.decide_own(event.shape, event.decided)
        case ev.QueueObjectApplied() | ev.QueueObjectDeleted():
            _fold_queueing(state, record, event)
        case ev.CalendarSet():
            state.set_calendar(event.calendar.cluster, event.calendar)
        case ev.CalendarRemoved():
            state.set_calendar(event.cluster, None)
        case ev.ReservationMade() | ev.ReservationMoved() | ev.ReservationOver():
            fold_reservations(state.reservations, record.at_ms, record.actor, event)
        case ev.CommandRefused() | ev.ActionDropped():
            pass  # told in the journal; nothing of the live state follows from them
        case _:
            assert_never(event)


def _fold_queueing(state: State, record: ev.Record, event: QueueingEvent) -> None:
    kind = event.object.kind if isinstance(event, ev.QueueObjectApplied) else event.kind
    if kind != SETTINGS:  # what all objects say together is put together when it is asked for
        fold_queueing(state.queueing, record.at_ms, record.actor, event)
        return
    before = state.queueing.objects.settings.past_use
    fold_queueing(state.queueing, record.at_ms, record.actor, event)
    after = state.queueing.objects.settings.past_use
    if after != before:
        state.past_use.change_rules(record.at_ms, before, after)


def _fold_waits(state: State, at_ms: int, event: ev.ShapeWaits) -> None:
    queue = state.shapes.get(event.shape)
    if queue is not None:
        queue.waits = Waits(event.decision, event.reasons, at_ms)


ClusterEvent = (
    ev.ClusterObserved
    | ev.NodeQuarantined
    | ev.NodeResumed
    | ev.ClusterDrained
    | ev.ClusterResumed
    | ev.ClusterRemoved
)


def _fold_cluster(state: State, record: ev.Record, event: ClusterEvent) -> None:
    match event:
        case ev.ClusterObserved():
            state.put_cluster(event.cluster)
        case ev.NodeQuarantined():
            state.quarantine(event.cluster, event.node, event.reason)
        case ev.NodeResumed():
            state.resume(event.cluster, event.node)
        case ev.ClusterDrained():
            drain = Drain(record.actor, record.at_ms, event.until_ms)
            state.drain(event.cluster, event.nodes, drain)
        case ev.ClusterResumed():
            state.end_drain(event.cluster, event.nodes)
        case ev.ClusterRemoved():
            state.drop_cluster(event.cluster)
        case _:
            assert_never(event)


def _fold_cancel(state: State, actor: str, event: ev.CancelRequested) -> None:
    workload = state.workloads[event.id]
    changed = state.change(
        workload,
        cancelling=True,
        cancelled_by=actor,
        cancel_now=workload.cancel_now or event.now,
    )
    run = changed.live_run
    if run is not None:
        state.tell_to_stop(changed, run)


QueueEvent = (
    ev.Submitted
    | ev.Requeued
    | ev.Held
    | ev.Released
    | ev.GateChanged
    | ev.PriorityChanged
    | ev.RoomClaimed
    | ev.CheckSet
)


def _fold_queue(state: State, at_ms: int, actor: str, event: QueueEvent) -> None:
    if isinstance(event, ev.Submitted):
        _fold_submitted(state, at_ms, event)
        return
    workload = state.workloads[event.id]
    if isinstance(event, ev.CheckSet):
        state.change(workload, **fold_check(workload, at_ms, actor, event))
        return
    if workload.phase == "Pending":
        state.dequeue(workload)
    match event:
        case ev.Requeued():
            shape = event.shape
            changed = state.change(
                workload,
                shape=workload.shape if shape is None else state.move_to(shape, workload),
                shape_after=event.then,
                phase="Pending",
                reasons=(event.reason,),
                queued_ms=at_ms,
                not_before_ms=event.not_before_ms,
                retries=workload.retries + (1 if event.charged else 0),
            )
        case ev.Held():
            changed = state.change(workload, phase="Held", reasons=(event.reason,), claim=None)
        case ev.Released():
            changed = state.change(
                workload,
                phase="Pending",
                reasons=(),
                not_before_ms=0,
                preemptions=0,
                check_retries=0,
                gate=gate_after_release(workload),
            )
        case ev.GateChanged():
            changed = state.change(workload, gate=event.gate, queued_ms=at_ms)
        case ev.PriorityChanged():
            changed = state.change(workload, priority=event.priority)
        case ev.RoomClaimed():
            claim = event.claim and replace(event.claim, since_ms=at_ms)
            checks = workload.checks if claim is None else asked_of(claim)
            changed = state.change(workload, claim=claim, checks=checks)
        case _:
            assert_never(event)
    state.gates.keep_up(changed)
    if changed.phase == "Pending":
        state.enqueue(changed)


def _fold_submitted(state: State, at_ms: int, event: ev.Submitted) -> None:
    submit = event.submit
    shape_id = ShapeId(intern(digest(submit.shape)))
    if shape_id not in state.shapes:
        state.shapes[shape_id] = ShapeQueue(submit.shape)
    workload = Workload(
        id=submit.id,
        name=submit.name,
        project=intern(submit.project),
        owner=intern(event.owner),
        shape=shape_id,
        task=BlobHash(intern(submit.task)),
        submitted_ms=at_ms,
        order=state.seq,
        priority=submit.priority,
        queue=intern(submit.queue),
        kind=intern(submit.kind),
        labels=submit.labels,
        snapshot=intern(submit.snapshot),
        policies=submit.policies,
        resumes=submit.resumes,
        queued_ms=at_ms,
        phase="Held" if submit.held else "Pending",
        reasons=(Reason("held", {"actor": event.owner}),) if submit.held else (),
        gate=event.gate,
        after=submit.after,
        array=submit.array,
    )
    state.enter(workload)
    state.touched[workload.id] = workload


RunEvent = (
    ev.RunPlanned
    | ev.RunProgressed
    | ev.NoticeGiven
    | ev.CopyTimeLearned
    | ev.CheckpointNoted
    | ev.NoticeWithdrawn
    | ev.RunWarned
    | ev.WindowMoved
    | ev.ReachabilityChanged
    | ev.RunEnded
)


def _fold_run(state: State, at_ms: int, event: RunEvent) -> None:
    match event:
        case ev.RunPlanned():
            _fold_planned(state, at_ms, event)
        case ev.RunProgressed():
            run = state.workloads[workload_of(event.run)].runs[-1]
            running = at_ms if event.phase == "Running" else run.running_ms
            state.change_run(
                event.run,
                event.phase,
                phase=event.phase,
                started_ms=run.started_ms or at_ms,
                running_ms=running,
            )
        case ev.NoticeGiven():
            if event.why == "preempt":
                run = state.workloads[workload_of(event.run)].runs[-1]
                state.stops.note(run.allocation.cluster, at_ms)
            workload = state.change_run(
                event.run,
                "Stopping",
                phase="Stopping",
                notice=event.why,
                notice_ms=at_ms,
                grace_ms=event.grace_ms,
                copy_ms=event.copy_ms,
                notice_reason=event.reason,
            )
            state.tell_to_stop(workload, workload.runs[-1])
        case ev.CopyTimeLearned():
            state.change_run(event.run, None, copy_ms=event.copy_ms)
        case ev.CheckpointNoted():
            state.change_run(event.run, None, saved_ms=event.saved_ms)
        case ev.NoticeWithdrawn():
            run = state.workloads[workload_of(event.run)].runs[-1]
            back: Literal["Running", "SettingUp"] = "Running" if run.running_ms else "SettingUp"
            state.change_run(
                event.run, back, phase=back, notice="", notice_ms=0, notice_reason=None
            )
        case ev.WindowMoved():
            state.change_run(event.run, None, closes_ms=event.closes_ms)
        case ev.RunWarned():
            state.change_run(event.run, None, warning=event.reason)
        case ev.ReachabilityChanged():
            state.change_run(event.run, None, reachable=event.reachable)
        case ev.RunEnded():
            _fold_run_ended(state, at_ms, event)
        case _:
            assert_never(event)


def _fold_planned(state: State, at_ms: int, event: ev.RunPlanned) -> None:
    workload = state.workloads[event.workload]
    assert workload.live_run is None, "a workload has one run at a time"
    assert workload.phase == "Pending", "only what waits is started"
    state.dequeue(workload)
    asked = workload.claim is not None and bool(workload.claim.checks)
    run = Run(
        id=event.run,
        number=int(event.run.rsplit("-", 1)[1]),
        generation=event.generation,
        allocation=event.allocation,
        decision=event.decision,
        planned_ms=at_ms,
        holding=event.holding,
    )
    state.change(
        workload,
        phase="Starting",
        runs=(*workload.runs[-RUNS_KEPT + 1 :], run),
        decision=event.decision,
        reasons=(),
        not_before_ms=0,
        claim=None,
        checks=workload.checks if asked else (),
    )
    state.running[workload.id] = run.id
    if run.holding is not None:
        rules = state.queueing.objects.settings.past_use
        state.past_use.started(state.queue_of(workload), run.holding, at_ms, rules)
    cluster = event.allocation.cluster
    state.allocations.setdefault(cluster, {})[run.id] = event.allocation
    state.cluster_changed(cluster)
    state.reservations.use(event.allocation.reserved, at_ms)


def _fold_run_ended(state: State, at_ms: int, event: ev.RunEnded) -> None:
    workload = state.change_run(
        event.run, None, phase="Ended", end=event.end, ended_ms=at_ms, reason=event.reason
    )
    run = workload.runs[-1]
    if workload.policies.max_exec_ms:
        took = workload.executed_ms + took_ms(run, event.end, at_ms)
        workload = state.change(workload, executed_ms=took)
    del state.running[workload.id]
    state.to_stop.pop(workload.id, None)
    del state.allocations[run.allocation.cluster][run.id]
    state.cluster_changed(run.allocation.cluster)
    if run.holding is not None:
        add_run(state.spent, run.holding, run.planned_ms, at_ms)
        rules = state.queueing.objects.settings.past_use
        state.past_use.ended(state.queue_of(workload), run.holding, at_ms, rules)
    if event.node_failed:
        state.add_fault(run.allocation.cluster, event.node, workload.id)
    elif event.node:
        state.clear_faults(run.allocation.cluster, event.node)
    preempted = bool(run.notice) and not workload.cancelling
    streak = workload.preemptions + 1 if preempted and not event.end.got_further else 0
    if streak != workload.preemptions:
        state.change(workload, preemptions=streak)


def _fold_end(state: State, at_ms: int, event: ev.WorkloadEnded) -> None:
    workload = state.workloads[event.id]
    assert workload.live_run is None, "a workload ends after its run"
    if workload.phase == "Pending":
        state.dequeue(workload)
    changed = state.change(workload, phase=event.phase, reasons=(event.reason,), ended_ms=at_ms)
    if teaches(changed):
        state.lengths.learn(keys_of_workload(changed), ran_ms(changed))
        learn_peak(state.lengths, changed)
    state.leave(changed)
