"""The live state and ``fold``, the only way it changes: facts in, no decisions.

Only what is alive is here. An ended workload leaves with its last value in ``touched``, from where
the engine hands it to the read models. The persisted form is the *state image*.
"""

from bisect import bisect_left, insort
from typing import Literal, assert_never

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import DecisionId, RunId, ShapeId, WorkloadId, digest, workload_of
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.workload import Phase, Run, Workload

QueueKey = tuple[int, int, WorkloadId]
"""Sorts the waiting: highest priority first, then the order of submission."""

RUNS_KEPT = 20
"""Runs remembered with a live workload; older ones stay in the journal."""


class Waits(Struct, frozen=True):
    """Why the waiting workloads of a shape wait, as last journaled."""

    decision: DecisionId
    reasons: tuple[Reason, ...]
    at_ms: int


class ShapeQueue:
    """The waiting workloads of one shape, in order."""

    __slots__ = ("entries", "shape", "users", "version", "waits")

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self.entries: list[QueueKey] = []
        self.users = 0
        self.version = 0
        self.waits: Waits | None = None


class StateImage(Struct, frozen=True):
    """All that a restart needs besides the journal's tail."""

    seq: int
    at_ms: int
    epoch: int
    clusters: list[Cluster]
    workloads: list[Workload]
    shapes: dict[ShapeId, Shape]
    waits: dict[ShapeId, Waits]


IMAGE_SCHEMA = digest(msgspec.json.schema(StateImage))
"""Changes whenever a stored struct does: an image of another schema is rebuilt from the journal."""


def queue_key(workload: Workload) -> QueueKey:
    """Gives a workload its place among those that wait."""
    return (-workload.priority, workload.order, workload.id)


class State:
    """What is alive now. Read it freely; its changing methods are for ``fold`` alone."""

    def __init__(self) -> None:
        self.seq = 0
        self.at_ms = 0
        self.epoch = 0
        self.clusters: dict[str, Cluster] = {}
        self.cluster_versions: dict[str, int] = {}
        self.allocations: dict[str, dict[RunId, Allocation]] = {}
        self.workloads: dict[WorkloadId, Workload] = {}
        self.shapes: dict[ShapeId, ShapeQueue] = {}
        self.delayed: dict[WorkloadId, int] = {}
        self.running: dict[WorkloadId, RunId] = {}
        self.to_stop: dict[WorkloadId, RunId] = {}
        self.touched: dict[WorkloadId, Workload] = {}

    def image(self) -> StateImage:
        """Takes the state as a value to be stored."""
        return StateImage(
            seq=self.seq, at_ms=self.at_ms, epoch=self.epoch,
            clusters=list(self.clusters.values()), workloads=list(self.workloads.values()),
            shapes={key: queue.shape for key, queue in self.shapes.items()},
            waits={key: queue.waits for key, queue in self.shapes.items() if queue.waits})

    @classmethod
    def from_image(cls, image: StateImage) -> "State":
        """Rebuilds the live state, with all that is derived, from an image."""
        state = cls()
        state.seq, state.at_ms, state.epoch = image.seq, image.at_ms, image.epoch
        for cluster in image.clusters:
            state.put_cluster(cluster)
        for key, shape in image.shapes.items():
            state.shapes[key] = ShapeQueue(shape)
        for workload in image.workloads:
            state.enter(workload)
        for key, waits in image.waits.items():
            if key in state.shapes:
                state.shapes[key].waits = waits
        for queue in state.shapes.values():
            queue.entries.sort()
        state.touched.clear()
        return state

    def drain_touched(self) -> tuple[Workload, ...]:
        """Gives the last value of every workload changed since the last call, and forgets them."""
        touched = tuple(self.touched.values())
        self.touched.clear()
        return touched

    def put_cluster(self, cluster: Cluster) -> None:
        """Takes over a cluster's facts."""
        self.clusters[cluster.name] = cluster
        self.allocations.setdefault(cluster.name, {})
        self.cluster_changed(cluster.name)

    def cluster_changed(self, name: str) -> None:
        """Makes plans that relied on a cluster's room or facts stale."""
        self.cluster_versions[name] = self.cluster_versions.get(name, 0) + 1

    def enter(self, workload: Workload) -> None:
        """Takes in a workload with all that is derived from it."""
        self.workloads[workload.id] = workload
        self.shapes[workload.shape].users += 1
        if workload.phase == "Pending":
            self.enqueue(workload)
        run = workload.live_run
        if run is not None:
            self.running[workload.id] = run.id
            self.allocations.setdefault(run.allocation.cluster, {})[run.id] = run.allocation
            self.cluster_changed(run.allocation.cluster)
            if workload.cancelling and run.notice != "cancel":
                self.to_stop[workload.id] = run.id

    def enqueue(self, workload: Workload) -> None:
        """Gives a pending workload its place in the queue, or among those that wait for a time."""
        if workload.not_before_ms:
            self.delayed[workload.id] = workload.not_before_ms
            return
        queue = self.shapes[workload.shape]
        queue.version += 1
        key = queue_key(workload)
        if not queue.entries or queue.entries[-1] < key:
            queue.entries.append(key)
        else:
            insort(queue.entries, key)

    def dequeue(self, workload: Workload) -> None:
        """Takes a pending workload out of where ``enqueue`` put it."""
        if self.delayed.pop(workload.id, None) is not None:
            return
        queue = self.shapes[workload.shape]
        key = queue_key(workload)
        place = bisect_left(queue.entries, key)
        assert queue.entries[place] == key, "a pending workload is in its queue"
        del queue.entries[place]
        queue.version += 1
        if not queue.entries:
            queue.waits = None

    def change(self, workload: Workload, **changes: object) -> Workload:
        """Replaces a workload by its next version."""
        changed = replace(workload, version=workload.version + 1, **changes)
        self.workloads[workload.id] = changed
        self.touched[workload.id] = changed
        return changed

    def change_run(self, run_id: RunId, then: Phase | None = None, **changes: object) -> Workload:
        """Changes the newest run of a workload, and its phase to ``then``."""
        workload = self.workloads[workload_of(run_id)]
        run = replace(workload.runs[-1], **changes)
        assert run.id == run_id, "only the newest run of a workload changes"
        return self.change(
            workload, runs=(*workload.runs[:-1], run), phase=then or workload.phase)

    def leave(self, workload: Workload) -> None:
        """Forgets a workload that is over."""
        del self.workloads[workload.id]
        self.delayed.pop(workload.id, None)
        queue = self.shapes[workload.shape]
        queue.users -= 1
        if queue.users == 0:
            del self.shapes[workload.shape]


def fold(state: State, record: ev.Record) -> None:
    """Applies one fact. Raises AssertionError for a record that can't follow this state."""
    assert record.seq == state.seq + 1, f"record {record.seq} can't follow {state.seq}"
    assert record.at_ms >= state.at_ms, "time never goes backwards in the journal"
    state.seq, state.at_ms = record.seq, record.at_ms
    event = record.event
    match event:
        case ev.Submitted() | ev.Requeued() | ev.Held() | ev.Released() | ev.PriorityChanged():
            _fold_queue(state, record.at_ms, event)
        case (ev.RunPlanned() | ev.RunProgressed() | ev.NoticeGiven() | ev.NoticeWithdrawn()
              | ev.ReachabilityChanged() | ev.RunEnded()):
            _fold_run(state, record.at_ms, event)
        case ev.LeaderChanged():
            state.epoch = event.epoch
        case ev.ClusterObserved():
            state.put_cluster(event.cluster)
        case ev.ShapeWaits():
            queue = state.shapes.get(event.shape)
            if queue is not None:
                queue.waits = Waits(event.decision, event.reasons, record.at_ms)
        case ev.CancelRequested():
            changed = state.change(
                state.workloads[event.id], cancelling=True, cancelled_by=record.actor)
            run = changed.live_run
            if run is not None and run.notice != "cancel":
                state.to_stop[changed.id] = run.id
        case ev.WorkloadEnded():
            _fold_end(state, record.at_ms, event)
        case ev.CommandRefused() | ev.ActionDropped():
            pass  # told in the journal; nothing of the live state follows from them
        case _:
            assert_never(event)


QueueEvent = ev.Submitted | ev.Requeued | ev.Held | ev.Released | ev.PriorityChanged


def _fold_queue(state: State, at_ms: int, event: QueueEvent) -> None:
    if isinstance(event, ev.Submitted):
        _fold_submitted(state, at_ms, event)
        return
    workload = state.workloads[event.id]
    if workload.phase == "Pending":
        state.dequeue(workload)
    match event:
        case ev.Requeued():
            changed = state.change(
                workload, phase="Pending", reasons=(event.reason,), queued_ms=at_ms,
                not_before_ms=event.not_before_ms,
                retries=workload.retries + (1 if event.charged else 0))
        case ev.Held():
            changed = state.change(workload, phase="Held", reasons=(event.reason,))
        case ev.Released():
            changed = state.change(
                workload, phase="Pending", reasons=(), not_before_ms=0, preemptions=0)
        case ev.PriorityChanged():
            changed = state.change(workload, priority=event.priority)
        case _:
            assert_never(event)
    if changed.phase == "Pending":
        state.enqueue(changed)


def _fold_submitted(state: State, at_ms: int, event: ev.Submitted) -> None:
    submit = event.submit
    shape_id = ShapeId(digest(submit.shape))
    if shape_id not in state.shapes:
        state.shapes[shape_id] = ShapeQueue(submit.shape)
    workload = Workload(
        id=submit.id, name=submit.name, project=submit.project, owner=event.owner,
        shape=shape_id, task=submit.task, submitted_ms=at_ms, order=state.seq,
        priority=submit.priority, queue=submit.queue, kind=submit.kind, labels=submit.labels,
        snapshot=submit.snapshot, policies=submit.policies, queued_ms=at_ms,
        phase="Held" if submit.held else "Pending",
        reasons=(Reason("held", {"actor": event.owner}),) if submit.held else ())
    state.enter(workload)
    state.touched[workload.id] = workload


RunEvent = (
    ev.RunPlanned | ev.RunProgressed | ev.NoticeGiven | ev.NoticeWithdrawn
    | ev.ReachabilityChanged | ev.RunEnded
)


def _fold_run(state: State, at_ms: int, event: RunEvent) -> None:
    match event:
        case ev.RunPlanned():
            _fold_planned(state, at_ms, event)
        case ev.RunProgressed():
            run = state.workloads[workload_of(event.run)].runs[-1]
            running = at_ms if event.phase == "Running" else run.running_ms
            state.change_run(event.run, event.phase, phase=event.phase,
                              started_ms=run.started_ms or at_ms, running_ms=running)
        case ev.NoticeGiven():
            workload = state.change_run(event.run, "Stopping", phase="Stopping",
                                         notice=event.why, notice_ms=at_ms)
            if event.why == "cancel":
                state.to_stop.pop(workload.id, None)
        case ev.NoticeWithdrawn():
            run = state.workloads[workload_of(event.run)].runs[-1]
            back: Literal["Running", "SettingUp"] = "Running" if run.running_ms else "SettingUp"
            state.change_run(event.run, back, phase=back, notice="", notice_ms=0)
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
    run = Run(
        id=event.run, number=int(event.run.rsplit("-", 1)[1]), generation=event.generation,
        allocation=event.allocation, decision=event.decision, planned_ms=at_ms)
    state.change(workload, phase="Starting", runs=(*workload.runs[-RUNS_KEPT + 1:], run),
                  decision=event.decision, reasons=(), not_before_ms=0)
    state.running[workload.id] = run.id
    cluster = event.allocation.cluster
    state.allocations.setdefault(cluster, {})[run.id] = event.allocation
    state.cluster_changed(cluster)


def _fold_run_ended(state: State, at_ms: int, event: ev.RunEnded) -> None:
    workload = state.change_run(
        event.run, None, phase="Ended", end=event.end, ended_ms=at_ms, reason=event.reason)
    run = workload.runs[-1]
    del state.running[workload.id]
    state.to_stop.pop(workload.id, None)
    del state.allocations[run.allocation.cluster][run.id]
    state.cluster_changed(run.allocation.cluster)
    preempted = bool(run.notice) and not workload.cancelling
    streak = workload.preemptions + 1 if preempted and not event.end.checkpointed else 0
    if streak != workload.preemptions:
        state.change(workload, preemptions=streak)


def _fold_end(state: State, at_ms: int, event: ev.WorkloadEnded) -> None:
    workload = state.workloads[event.id]
    assert workload.live_run is None, "a workload ends after its run"
    if workload.phase == "Pending":
        state.dequeue(workload)
    changed = state.change(
        workload, phase=event.phase, reasons=(event.reason,), ended_ms=at_ms)
    state.leave(changed)


