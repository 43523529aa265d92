"""Decides what follows when somebody wants a run to go on at another place.

It gets notice with its grace, saves, and its workload waits for that place alone. When the run that
began there is over, it asks for what it always did. Whether it fits there now is asked before.
"""

from msgspec.structs import replace

from stellwerk.core.model import commands as cmd
from stellwerk.core.model import events as ev
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Run, Workload
from stellwerk.core.place.candidates import answers_to
from stellwerk.core.state import State

MOVED = "moved"


def on_move(state: State, command: cmd.Move, actor: str) -> list[ev.Event]:
    """Gives notice to the run, unless it can't be moved there: then says why."""
    workload = state.workloads[command.id]
    run = workload.live_run
    why = why_not(workload, state.observed.get(command.cluster), command)
    if why or run is None:
        return [ev.CommandRefused("move", workload.id, Reason("not_movable", {"why": why}))]
    to = f"{command.cluster}/{command.node}" if command.node else command.cluster
    reason = Reason(MOVED, {"actor": actor or "somebody", "to": to})
    return [ev.NoticeGiven(run.id, "drain", workload.policies.grace_ms, reason, run.copy_ms)]


def why_not(workload: Workload, cluster: Cluster | None, command: cmd.Move) -> str:
    """Why a workload can't be moved to a place whatever is free there; "" if it can."""
    run = workload.live_run
    if run is None:
        return f"it is {workload.phase}, and only what runs is moved"
    if run.notice or workload.cancelling:
        return "it is stopping already"
    if not run.reachable:
        return "its machine can't be reached: `stw lost` gives that run up"
    if cluster is None:
        return f"there is no cluster {command.cluster}"
    if command.node and command.node not in {node.name for node in cluster.nodes}:
        return f"{cluster.name} has no node {command.node}"
    nodes = {part.node for part in run.allocation.nodes}
    if run.allocation.cluster == cluster.name and (not command.node or nodes == {command.node}):
        return "it is there already"
    return ""


def bound(shape: Shape, cluster: Cluster, node: str = "") -> Shape | None:
    """What a workload asks for that is to go on at a place; None where it may not run there."""
    if not any(answers_to(cluster, one.infra) for one in shape.alternatives):
        return None
    if node and shape.num_nodes > 1:
        return None
    alternatives = tuple(
        replace(one, infra=cluster.name) if answers_to(cluster, one.infra) else one
        for one in shape.alternatives
    )
    others = tuple(
        f"{cluster.name}/{one.name}" for one in cluster.nodes if node and one.name != node
    )
    return replace(shape, alternatives=alternatives, avoid=(*shape.avoid, *others))


def asks_then(
    state: State, workload: Workload, run: Run, shape: Shape, follows: ev.Requeued
) -> ev.Requeued:
    """What a workload that goes back to its queue asks for: the place that it is moved to, or,
    after a run there, what it did before."""
    usual = workload.shape_after or shape
    reason = run.notice_reason
    if reason is not None and reason.code == MOVED:
        name, _, node = str(reason.params["to"]).partition("/")
        cluster = state.observed.get(name)
        wanted = None if cluster is None else bound(usual, cluster, node)
        if wanted is not None:
            return replace(follows, shape=wanted, then=usual)
    if workload.shape_after is None:
        return follows
    return follows if follows.shape is not None else replace(follows, shape=usual)
