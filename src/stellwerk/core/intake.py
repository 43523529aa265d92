"""Turns commands, reports and accepted plans into events: what fold applies is decided here.

Every function reads the state and returns events; the caller folds them before it asks again.
"""

from typing import Literal, assert_never

from msgspec.structs import replace

from stellwerk.core.checks import instead, on_set_check
from stellwerk.core.gates import on_submit
from stellwerk.core.model import actions as act
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model import reports as rep
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId, WorkloadId, run_id, workload_of
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.workload import Run, RunEnd, Workload
from stellwerk.core.moving import asks_then, on_move
from stellwerk.core.of_no_workload import on_command_of_none
from stellwerk.core.place.candidates import serves
from stellwerk.core.recover.blame import blame, quarantine
from stellwerk.core.recover.outcome import node_of, outcome
from stellwerk.core.state import State

PROGRESS = {"Starting": 0, "SettingUp": 1, "Running": 2, "Stopping": 3, "Ended": 4}

NOTED_MS = 5 * 60_000
MATERIAL_COPY_MS = 1_000
"""What a copy takes is a new fact where it has changed by so much."""


def on_command(state: State, command: cmd.Command, actor: str, now_ms: int = 0) -> list[ev.Event]:
    """Turns a command into what follows from it now; one that can't act is refused in words.

    ``now_ms`` is when it is given, which may be long after the last fact.
    """
    now_ms = max(now_ms, state.at_ms)
    if isinstance(command, cmd.Submit):
        if command.id in state.workloads:
            return []
        return [on_submit(state, command, actor)]
    if isinstance(command, cmd.OfNoWorkload):
        return on_command_of_none(state, command, actor, now_ms)
    if isinstance(command, cmd.SetCheck):
        return on_set_check(state, command, now_ms)
    workload = state.workloads.get(command.id)
    name = type(command).__struct_config__.tag
    if workload is None:
        return [ev.CommandRefused(str(name), command.id, Reason("already_over"))]
    match command:
        case cmd.Cancel():
            return _cancel(workload, command, actor)
        case cmd.Hold():
            if workload.phase == "Pending":
                return [ev.Held(command.id, Reason("held", {"actor": actor}))]
            if workload.phase == "Held":
                return [_refused("hold", workload, "already_held")]
        case cmd.Release():
            if workload.phase == "Held":
                return [ev.Released(command.id)]
            return [_refused("release", workload, "not_held")]
        case cmd.SetPriority():
            if workload.phase in {"Pending", "Held"}:
                return [ev.PriorityChanged(command.id, command.priority)]
        case cmd.Move():
            return on_move(state, command, actor)
        case cmd.DeclareLost():
            return _declare_lost(state, workload, actor, now_ms)
        case _:
            assert_never(command)
    return [_refused(str(name), workload, "not_waiting")]


def _refused(name: str, workload: Workload, code: str) -> ev.CommandRefused:
    return ev.CommandRefused(name, workload.id, Reason(code, {"phase": workload.phase}))


def _cancel(workload: Workload, command: cmd.Cancel, actor: str) -> list[ev.Event]:
    if workload.cancelling and (workload.cancel_now or not command.now):
        return []
    asked = ev.CancelRequested(workload.id, now=command.now)
    if workload.live_run is not None:
        return [asked]
    return [
        asked,
        ev.WorkloadEnded(workload.id, "Cancelled", Reason("cancelled", {"actor": actor})),
    ]


def _declare_lost(state: State, workload: Workload, actor: str, now_ms: int) -> list[ev.Event]:
    run = workload.live_run
    if run is None:
        return [_refused("declare-lost", workload, "no_run")]
    if run.reachable:
        return [_refused("declare-lost", workload, "reachable")]
    end = RunEnd(how="declared_lost", message=actor)
    return _ended(state, workload, run, end, now_ms)


def on_report(state: State, report: rep.Report, now_ms: int) -> list[ev.Event]:
    """Turns what a driver saw into facts; late, doubled and foreign reports give nothing."""
    match report:
        case rep.RunReport():
            return _on_run(state, report, now_ms)
        case rep.ClusterReport():
            return _on_cluster(state, report.cluster)
        case rep.StartRefused():
            run = _live(state, report.run, report.generation)
            if run is None or run.started_ms:
                return []
            end = RunEnd(
                how="start_refused", message=f"{report.code}: {report.message}", ended_at_ms=now_ms
            )
            return _ended(state, state.workloads[workload_of(report.run)], run, end, now_ms)
        case rep.MachineCutOff():
            return _on_told(state, report, "preempt")
        case rep.RuleHeld():
            return _on_told(state, report, "abort")
        case rep.RunWarned():
            run = _live(state, report.run, report.generation)
            return [] if run is None or run.notice else [ev.RunWarned(run.id, report.reason)]
        case rep.CopyTimed():
            return _on_copy_timed(state, report, now_ms)
        case rep.Inventory() | rep.RunSample():
            return []
        case rep.Reachability():
            return _on_reachability(state, report)
        case _:
            assert_never(report)


def _on_cluster(state: State, cluster: Cluster) -> list[ev.Event]:
    """Notes what a cluster is, and that those runs can't be reached whose user has no runtime."""
    silent = [
        ev.ReachabilityChanged(run.id, reachable=False)
        for run in (() if cluster.owner else live_runs(state, cluster.name))
        if run.reachable and not serves(cluster, run.allocation.person)
    ]
    if state.observed.get(cluster.name) == cluster:
        return [*silent]
    return [*silent, ev.ClusterObserved(cluster)]


def _on_reachability(state: State, report: rep.Reachability) -> list[ev.Event]:
    """Notes it with each run, which goes on; what can't be reached gets no new ones.

    Nodes are ready again when the next ClusterReport says so, which comes with the connection. One
    that is out of reach already has the newest cause, where that is told of it and no other.
    """
    reachable = report.state == "reachable"
    events: list[ev.Event] = [
        ev.ReachabilityChanged(run.id, reachable)
        for run in live_runs(state, report.cluster)
        if run.reachable != reachable and _is_about(run, report)
    ]
    cluster = state.observed.get(report.cluster)
    if cluster is None or reachable or report.people:
        return events
    of_one = len(report.nodes or cluster.nodes) == 1
    nodes = tuple(
        replace(node, state="unreachable", note=report.message)
        if (not report.nodes or node.name in report.nodes)
        and (node.state == "ready" or (node.state == "unreachable" and of_one))
        else node
        for node in cluster.nodes
    )
    if nodes != cluster.nodes:
        events.append(ev.ClusterObserved(replace(cluster, nodes=nodes)))
    return events


def _is_about(run: Run, report: rep.Reachability | rep.Inventory) -> bool:
    """Whether what is told of some nodes, or of some people's runs, tells of a run.

    All of it must be on those nodes; but what can't be reached on one of them can't as a whole.
    """
    if report.people and run.allocation.person not in report.people:
        return False
    nodes = [part.node for part in run.allocation.nodes]
    if isinstance(report, rep.Inventory):
        if report.spread and len(dict.fromkeys(nodes)) == 1:
            return False
    elif report.state == "unreachable":
        return not report.nodes or any(node in report.nodes for node in nodes)
    return not report.nodes or all(node in report.nodes for node in nodes)


def _on_told(
    state: State, report: rep.RuleHeld | rep.MachineCutOff, why: Literal["abort", "preempt"]
) -> list[ev.Event]:
    """Gives notice to a run that shouldn't go on for a reason, unless it must stop already."""
    run = _live(state, report.run, report.generation)
    if run is None or run.notice:
        return []
    workload = state.workloads[workload_of(run.id)]
    if workload.cancelling:
        return []
    grace_ms = workload.policies.grace_ms
    return [ev.NoticeGiven(run.id, why, grace_ms, report.reason, run.copy_ms)]


def _on_copy_timed(state: State, report: rep.CopyTimed, now_ms: int) -> list[ev.Event]:
    """Notes how long a copy takes where that has changed by a quarter, and by a second; and that
    there is a checkpoint that is newer by minutes than the last one that was noted.
    """
    run = _live(state, report.run, report.generation)
    if run is None:
        return []
    saved_ms = now_ms - report.copy_ms
    noted: list[ev.Event] = []
    if saved_ms >= max(run.saved_ms, run.started_ms or run.planned_ms) + NOTED_MS:
        noted.append(ev.CheckpointNoted(run.id, saved_ms))
    change_ms = abs(report.copy_ms - run.copy_ms)
    if change_ms < max(MATERIAL_COPY_MS, run.copy_ms // 4):
        return noted
    return [ev.CopyTimeLearned(run.id, report.bytes, report.copy_ms), *noted]


def live_runs(state: State, cluster: str) -> list[Run]:
    """Gives the runs of a cluster that aren't known to be over, in a fixed order."""
    runs = (
        state.workloads[workload_of(key)].live_run
        for key in sorted(state.allocations.get(cluster, {}))
    )
    return [run for run in runs if run is not None]


def missing_runs(state: State, inventory: rep.Inventory) -> tuple[list[Run], list[Run]]:
    """Gives the live runs that the driver's inventory doesn't list: (never started, lost).

    One that was never seen is started again with the same key, even if it has been given notice
    meanwhile: a start that is still on its way could otherwise outlive its workload. One that was
    seen before the inventory was asked for is lost, since the place has no memory of it.
    """
    known = {(report.run, report.generation) for report in inventory.runs}
    missing = [
        run
        for run in live_runs(state, inventory.cluster)
        if (run.id, run.generation) not in known and _is_about(run, inventory)
    ]
    return (
        [run for run in missing if not run.started_ms],
        [run for run in missing if 0 < run.started_ms < inventory.at_ms],
    )


def stray_runs(state: State, inventory: rep.Inventory) -> list[rep.RunReport]:
    """Finds what goes on at a place although it is known to be over, as after ``stw lost``.

    A run of which nothing is known here is left alone.
    """
    strays = []
    for report in inventory.runs:
        workload = state.workloads.get(workload_of(report.run))
        newest = workload.runs[-1] if workload is not None and workload.runs else None
        if newest is None or report.end is not None or report.generation > newest.generation:
            continue
        if report.generation < newest.generation or newest.phase == "Ended":
            strays.append(report)
    return strays


def _live(state: State, run: RunId, generation: int) -> Run | None:
    workload = state.workloads.get(workload_of(run))
    live = workload.live_run if workload is not None else None
    if live is None or live.id != run or live.generation != generation:
        return None
    return live


def _on_run(state: State, report: rep.RunReport, now_ms: int) -> list[ev.Event]:
    run = _live(state, report.run, report.generation)
    if run is None:
        return []
    events: list[ev.Event] = []
    if not run.reachable:
        events.append(ev.ReachabilityChanged(run.id, reachable=True))
    if report.end is not None:
        workload = state.workloads[workload_of(run.id)]
        return [*events, *_ended(state, workload, run, report.end, now_ms)]
    if report.phase == "Starting" or report.phase == "Ended":  # noqa: PLR1714 - narrows the type
        return events
    later = PROGRESS[report.phase] > PROGRESS[run.phase]
    if later or not run.started_ms:
        phase = report.phase if later else "Stopping"
        why = (run.notice or report.why) if phase == "Stopping" else ""
        events.append(ev.RunProgressed(run.id, phase, why))
    return events


def _ended(state: State, workload: Workload, run: Run, end: RunEnd, now_ms: int) -> list[ev.Event]:
    shape = state.shapes[workload.shape].shape
    clusters = [state.clusters[name] for name in sorted(state.clusters)]
    reason, follows = outcome(workload, run, end, shape, now_ms, clusters)
    if isinstance(follows, ev.Requeued):
        follows = asks_then(state, workload, run, shape, follows)
    follows = instead(state, workload, run, follows, now_ms)
    cluster = run.allocation.cluster
    found = blame(run, end, reason, node_of(workload, run, end), now_ms)
    if found is None:
        return [ev.RunEnded(run.id, end, reason), follows]
    ended = ev.RunEnded(run.id, end, reason, node=found.node, node_failed=found.failed)
    events: list[ev.Event] = [ended, follows]
    if found.failed:
        faults = state.faults.get(cluster, {}).get(found.node, ())
        bad = quarantine(state.clusters.get(cluster), found.node, workload.id, faults, reason)
        if bad is not None:
            events.append(ev.NodeQuarantined(cluster, found.node, bad))
    return events


def on_lost(state: State, run: Run, message: str, now_ms: int) -> list[ev.Event]:
    """Ends a run that its place, which answers, has no memory of."""
    end = RunEnd(how="machine_lost", message=message, ended_at_ms=now_ms)
    return _ended(state, state.workloads[workload_of(run.id)], run, end, now_ms)


def on_plan(state: State, plan: act.Plan) -> list[ev.Event]:
    """Accepts a plan: each action whose grounds still hold becomes a fact, a stale one is dropped.

    The versions are compared with those before this plan: its own actions don't make it stale.
    """
    versions = dict(state.cluster_versions)
    events: list[ev.Event] = []
    for action in plan.actions:
        match action:
            case act.StartRun():
                workload = state.workloads.get(action.workload)
                cluster = action.allocation.cluster
                if (
                    workload is None
                    or workload.version != action.workload_version
                    or versions.get(cluster) != action.cluster_version
                ):
                    events.append(_stale("start-run", action.workload))
                    continue
                if action.holding and action.queueing_version != state.queueing.version:
                    events.append(_stale("start-run", action.workload))
                    continue
                number = workload.runs[-1].number + 1 if workload.runs else 1
                events.append(
                    ev.RunPlanned(
                        workload=workload.id,
                        run=run_id(workload.id, number),
                        generation=number,
                        allocation=action.allocation,
                        decision=action.decision,
                        holding=action.holding,
                    )
                )
            case act.StopRun():
                workload = state.workloads.get(action.workload)
                if workload is None or workload.version != action.workload_version:
                    events.append(_stale("stop-run", action.workload))
                    continue
                events.append(_notice(state, action))
            case act.ClaimRoom():
                events += _claimed(state, action)
            case act.TellWaiting():
                queue = state.shapes.get(action.shape)
                if queue is not None and queue.entries:
                    events.append(ev.ShapeWaits(action.shape, action.decision, action.reasons))
            case _:
                assert_never(action)
    return events


def _claimed(state: State, action: act.ClaimRoom) -> list[ev.Event]:
    """A promise, and notice to all who are in its way; nothing of it if one of them changed."""
    claimant = state.workloads.get(action.workload)
    if (
        claimant is None
        or claimant.version != action.workload_version
        or (action.claim is not None and action.queueing_version != state.queueing.version)
    ):
        return [_stale("claim-room", action.workload)]
    for stop in action.stops:
        victim = state.workloads.get(stop.workload)
        if victim is None or victim.version != stop.workload_version:
            return [_stale("claim-room", action.workload)]
    return [
        ev.RoomClaimed(action.workload, action.claim),
        *(_notice(state, stop) for stop in action.stops),
    ]


def _notice(state: State, stop: act.StopRun) -> ev.NoticeGiven:
    run = state.workloads[stop.workload].live_run
    copy_ms = run.copy_ms if run is not None and run.id == stop.run else 0
    return ev.NoticeGiven(stop.run, stop.why, stop.grace_ms, stop.reason, copy_ms)


def _stale(action: str, workload: WorkloadId) -> ev.ActionDropped:
    return ev.ActionDropped(action, workload, Reason("stale"))
