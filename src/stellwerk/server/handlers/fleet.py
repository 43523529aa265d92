"""What there is to run on, what runs there, and taking a node back into use."""

import asyncio
from typing import Annotated

import msgspec
from litestar import get, post
from litestar.params import FromPath, QueryParameter

from stellwerk.core.model.cluster import Node
from stellwerk.core.model.commands import ResumeNode
from stellwerk.core.model.errors import StellwerkError
from stellwerk.server.cluster_facts import facts_of, with_declared
from stellwerk.server.fleet_models import ClusterPage, Clusters, Resumed
from stellwerk.server.gpu_views import GpuHistoryView, history_view, on_gpus, with_users
from stellwerk.server.handlers.fair import SinceOf
from stellwerk.server.handlers.workloads import EFFECT_S, actor_of
from stellwerk.server.seeing import AnyRequest, idempotency_key, seeing
from stellwerk.server.services import Given, Services

OfCluster = Annotated[str, QueryParameter(description="Only those of this cluster.")]


@get("/clusters", tags=["fleet"], summary="All clusters")
async def list_clusters(request: AnyRequest, services: Given) -> Clusters:
    """Each cluster with its nodes and devices, what our runs hold of them, and how old that is."""
    seen_ms = dict(services.engine.status().facts_ms)
    runs = on_gpus(services, seeing(request))

    def ask() -> Clusters:
        found = services.pages.clusters(seen_ms, services.clock.now_ms())
        items = [with_users(one, runs) for one in found.items]
        found = msgspec.structs.replace(found, items=items)
        return with_declared(found, services.engine.placements)

    return await asyncio.to_thread(ask)


@get("/gpus/history", tags=["fleet"], summary="How full and busy GPUs were")
async def gpu_history(
    services: Given,
    cluster: OfCluster = "",
    since_ms: SinceOf = 0,
) -> GpuHistoryView:
    """A point of each GPU in five minutes, for three days, while runs were on its machine."""
    return history_view(services.engine.measures.gpu_history, cluster, since_ms)


@get("/clusters/{name:str}", tags=["fleet"], summary="One cluster")
async def show_cluster(name: FromPath[str], services: Given) -> ClusterPage:
    """All that is known of a cluster: each fact with who said it and how old that is, and where
    they contradict each other.
    """
    seen_ms = dict(services.engine.status().facts_ms)

    def ask() -> ClusterPage:
        now_ms = services.clock.now_ms()
        page = facts_of(services.store, services.engine.placements, name, now_ms)
        own = {one.name: one for one in services.pages.clusters(seen_ms, now_ms).items}
        if name not in own:
            return page
        return msgspec.structs.replace(page, cluster=own[name])

    return await asyncio.to_thread(ask)


@post(
    "/clusters/{name:str}/nodes/{node:str}/resume",
    tags=["fleet"],
    summary="Resume a node",
    status_code=200,
)
async def resume_node(
    name: FromPath[str], node: FromPath[str], request: AnyRequest, services: Given
) -> Resumed:
    """Takes a quarantined node back into use: somebody has seen to what was wrong with it."""
    found = _node(services, name, node)
    if found.state != "quarantined":
        raise StellwerkError.of(
            "phase/not-quarantined", f"{name}/{node} is {found.state}, not quarantined", ""
        )
    key = idempotency_key(request)
    await services.order(ResumeNode(name, node), actor_of(request), key)
    await services.settled(EFFECT_S)
    return Resumed(name, node, _node(services, name, node).state)


def _node(services: Services, name: str, node: str) -> Node:
    clusters = {cluster.name: cluster for cluster, _ in services.store.clusters()}
    if name not in clusters:
        known = ", ".join(sorted(clusters)) or "none yet"
        raise StellwerkError.of(
            "find/cluster", f"there is no cluster `{name[:80]}`", f"there is: {known}"
        )
    nodes = {one.name: one for one in clusters[name].nodes}
    if node not in nodes:
        known = ", ".join(sorted(nodes)) or "none"
        raise StellwerkError.of(
            "find/node", f"{name} has no node `{node[:80]}`", f"it has: {known}"
        )
    return nodes[node]


HANDLERS = [list_clusters, show_cluster, gpu_history, resume_node]
