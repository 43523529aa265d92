"""Clusters over SSH: adding them, looking at them, removing them; draining clusters of any kind."""

from litestar import delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody

from stellwerk.server import draining
from stellwerk.server.handlers.workloads import actor_of
from stellwerk.server.machine_models import (
    AddCluster,
    Drained,
    DrainWish,
    Looked,
    RemovedCluster,
    ResumedCluster,
    ResumeWish,
    SshClusters,
)
from stellwerk.server.machines import GivenMachines
from stellwerk.server.owning import add_as
from stellwerk.server.seeing import AnyRequest, seeing
from stellwerk.server.services import Given


@get("/ssh-clusters", tags=["fleet"], summary="Clusters over SSH")
async def list_ssh_clusters(machines: GivenMachines) -> SshClusters:
    """Those that were added, with their hosts."""
    return SshClusters(machines.all())


@post("/ssh-clusters", tags=["fleet"], summary="Add a cluster over SSH", status_code=200)
async def add_ssh_cluster(
    request: AnyRequest, services: Given, machines: GivenMachines, data: JSONBody[AddCluster]
) -> Looked:
    """Connects to every host. The cluster is kept if one answers and the others are merely off;
    else `added` is false, and each host says what is wrong.
    """
    return await add_as(seeing(request), services, data, machines.add)


@post(
    "/ssh-clusters/{name:str}/probe", tags=["fleet"], summary="Look at its hosts", status_code=200
)
async def probe_ssh_cluster(name: FromPath[str], machines: GivenMachines) -> Looked:
    """Connects to the hosts that aren't connected, and looks at all of them."""
    return await machines.look(name)


@delete(
    "/ssh-clusters/{name:str}",
    tags=["fleet"],
    summary="Remove a cluster over SSH",
    status_code=200,
)
async def remove_ssh_cluster(
    name: FromPath[str],
    request: AnyRequest,
    services: Given,
    machines: GivenMachines,
    purge: FromQuery[bool] = False,
) -> RemovedCluster:
    """Forgets the cluster, and ends the agents there; refused while runs go on there. What lies on
    its machines stays, unless `purge` asks for its end.
    """
    hosts = await machines.remove(name, services, actor_of(request), purge=purge)
    services.belongings.remove(name)
    return RemovedCluster(name, hosts)


@post("/clusters/{name:str}/drain", tags=["fleet"], summary="Drain a cluster", status_code=200)
async def drain_cluster(
    name: FromPath[str], request: AnyRequest, services: Given, data: JSONBody[DrainWish]
) -> Drained:
    """Lets nothing new start on a cluster, or on some of its nodes. What runs there goes on, or,
    with `now`, gets notice and goes elsewhere.
    """
    key = request.headers.get("idempotency-key", "")
    return await draining.drain(services, name, data, actor_of(request), key)


@post("/clusters/{name:str}/resume", tags=["fleet"], summary="Resume a cluster", status_code=200)
async def resume_cluster(
    name: FromPath[str], request: AnyRequest, services: Given, data: JSONBody[ResumeWish]
) -> ResumedCluster:
    """Takes drained and quarantined nodes of a cluster back into use, all or some."""
    key = request.headers.get("idempotency-key", "")
    return await draining.resume(services, name, data.nodes, actor_of(request), key)


HANDLERS = [
    list_ssh_clusters,
    add_ssh_cluster,
    probe_ssh_cluster,
    remove_ssh_cluster,
    drain_cluster,
    resume_cluster,
]
