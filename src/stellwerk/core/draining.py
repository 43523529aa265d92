"""Decides what follows when somebody drains, resumes or removes a cluster, and when a drain ends.

What runs on a drained place goes on, unless it is to leave now: then it gets notice with its own
grace, and goes elsewhere from its last checkpoint.
"""

from stellwerk.core.inventory.gpu_faults import sick_devices
from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.draining import WHOLE, moment
from stellwerk.core.model.ids import WorkloadId, workload_of
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.workload import safe_until_ms
from stellwerk.core.state import State

TOLD_RUNS = 5
"""So many of the runs that keep a cluster from being removed are named."""


def on_drain(state: State, command: cmd.DrainCluster, now_ms: int) -> list[ev.Event]:
    """Keeps a cluster or nodes free of new work; what runs there is told if it is to leave now."""
    if command.cluster not in state.observed:
        return []
    drained = ev.ClusterDrained(command.cluster, command.nodes, command.until_ms)
    return [drained, *(_notices(state, command, now_ms) if command.now else ())]


def _notices(state: State, command: cmd.DrainCluster, now_ms: int) -> list[ev.Event]:
    told: list[ev.Event] = []
    for id in sorted(state.allocations.get(command.cluster, {})):
        workload = state.workloads[workload_of(id)]
        run = workload.live_run
        if run is None or run.notice or workload.cancelling:
            continue
        nodes = [part.node for part in run.allocation.nodes]
        if not command.nodes or any(node in command.nodes for node in nodes):
            grace_ms = workload.policies.grace_ms
            safe_ms = safe_until_ms(workload)
            broken = Reason("drain_breaks_promise", {"until": moment(safe_ms)})
            why = broken if safe_ms > now_ms else None
            told.append(ev.NoticeGiven(run.id, "drain", grace_ms, why, copy_ms=run.copy_ms))
    return told


def on_resume(state: State, command: cmd.ResumeCluster) -> list[ev.Event]:
    """Takes a cluster, or nodes of it, back into use: drained and quarantined ones alike."""
    name, nodes = command.cluster, command.nodes
    marked = [*state.quarantined.get(name, {}), *_with_sick_devices(state, name)]
    meant = sorted({one for one in marked if not nodes or one in nodes})
    found: list[ev.Event] = [ev.NodeResumed(name, one) for one in meant]
    drains = state.drains.get(name, {})
    if drains and (not nodes or any(one in drains for one in nodes)):
        found.append(ev.ClusterResumed(name, nodes))
    return found


def _with_sick_devices(state: State, name: str) -> list[str]:
    cluster = state.clusters.get(name)
    nodes = cluster.nodes if cluster is not None else ()
    return [node.name for node in nodes if any(one.health == "sick" for one in sick_devices(node))]


def on_remove(state: State, command: cmd.RemoveCluster) -> list[ev.Event]:
    """Forgets a cluster; one on which something runs stays."""
    name = command.cluster
    if name not in state.observed and name not in state.drains:
        return []
    live = sorted(state.allocations.get(name, {}))
    if live:
        why = Reason("cluster_in_use", {"cluster": name, "runs": ", ".join(live[:TOLD_RUNS])})
        return [ev.CommandRefused("remove-cluster", WorkloadId(""), why)]
    return [ev.ClusterRemoved(name)]


def lapsed(state: State, now_ms: int) -> list[ev.Event]:
    """The drains whose time is over."""
    found: list[ev.Event] = []
    for name in sorted(state.drains):
        over = [node for node, one in state.drains[name].items() if 0 < one.until_ms <= now_ms]
        if WHOLE in over and len(over) == len(state.drains[name]):
            found.append(ev.ClusterResumed(name))
        elif over:
            found.append(ev.ClusterResumed(name, tuple(sorted(over))))
    return found


def next_lapse_ms(state: State) -> int:
    """When the next drain ends by itself; 0 = none does."""
    return min(
        (one.until_ms for nodes in state.drains.values() for one in nodes.values() if one.until_ms),
        default=0,
    )
