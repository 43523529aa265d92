"""Keeps clusters and nodes of any driver free of new work, and takes them back into use."""

from collections.abc import Sequence

from stellwerk.core.inventory.gpu_faults import sick_devices
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.commands import DrainCluster, ResumeCluster
from stellwerk.core.model.draining import WHOLE
from stellwerk.core.model.errors import Problem, StellwerkError
from stellwerk.core.view import ClusterView
from stellwerk.server.fleet_models import Resumed
from stellwerk.server.handlers.workloads import EFFECT_S
from stellwerk.server.machine_models import Drained, DrainWish, NodeNow, ResumedCluster
from stellwerk.server.services import Services


async def drain(services: Services, name: str, wish: DrainWish, actor: str, key: str) -> Drained:
    """Lets nothing new start there. Raises StellwerkError for what isn't there, or a past time."""
    _check(services, name, wish.nodes)
    if 0 < wish.until_ms <= services.clock.now_ms():
        message = "that time is over already"
        raise StellwerkError([Problem("spec/drain-until", message, "name one that is to come")])
    nodes = tuple(dict.fromkeys(wish.nodes))
    command = DrainCluster(name, nodes, wish.until_ms, wish.now)
    await services.order(command, actor, key)
    await services.settled(EFFECT_S)
    found = _view(services, name)
    meant = [one for one in found.cluster.nodes if not nodes or one.name in nodes]
    names = {one.name for one in meant}
    runs = [
        str(run)
        for run, held in found.allocations
        if any(part.node in names for part in held.nodes)
    ]
    told = [NodeNow(one.name, one.state, one.note) for one in meant]
    return Drained(name, told, runs, wish.until_ms)


async def resume(
    services: Services, name: str, nodes: Sequence[str], actor: str, key: str
) -> ResumedCluster:
    """Takes nodes back, drained and quarantined ones alike; without nodes all of the cluster."""
    _check(services, name, nodes)
    before = _view(services, name)
    if nodes and WHOLE in before.drains:
        message = f"{name} is drained as a whole, not {', '.join(nodes)} alone"
        remedy = f"`stw cluster resume {name}`, then drain those that are to stay free"
        raise StellwerkError.of("phase/drained-whole", message, remedy)
    meant = [one for one in before.cluster.nodes if not nodes or one.name in nodes]
    quarantined = {one.name for one in meant if one.state == "quarantined" or sick_devices(one)}
    kept = [
        one.name
        for one in meant
        if one.name in quarantined or one.name in before.drains or WHOLE in before.drains
    ]
    if kept or (not nodes and before.drains):
        await services.order(ResumeCluster(name, tuple(dict.fromkeys(nodes))), actor, key)
        await services.settled(EFFECT_S)
    states = {one.name: one.state for one in _view(services, name).cluster.nodes}
    return ResumedCluster(name, [Resumed(name, one, states.get(one, "")) for one in kept])


def _view(services: Services, name: str) -> ClusterView:
    found = {one.cluster.name: one for one in services.engine.view().clusters}
    if name not in found:
        raise _unknown(name, sorted(found))
    return found[name]


def _unknown(name: str, known: Sequence[str]) -> StellwerkError:
    there = ", ".join(known) or "none yet"
    return StellwerkError.of(
        "find/cluster", f"there is no cluster `{name[:80]}`", f"there is: {there}"
    )


def _check(services: Services, name: str, nodes: Sequence[str]) -> None:
    cluster: Cluster = _view(services, name).cluster
    known = [node.name for node in cluster.nodes]
    missing = [node for node in nodes if node not in known]
    if missing:
        raise StellwerkError(
            [
                Problem("find/node", f"{name} has no node `{one[:80]}`", f"it has: {listed}")
                for one in missing
                for listed in (", ".join(known) or "none",)
            ]
        )
