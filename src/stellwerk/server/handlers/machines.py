"""Clusters over SSH: adding them, looking at them, removing them."""

from litestar import delete, get, post
from litestar.params import FromPath, JSONBody

from stellwerk.server.machine_models import AddCluster, Looked, RemovedCluster, SshClusters
from stellwerk.server.machines import GivenMachines
from stellwerk.server.services import Given


@get("/ssh-clusters", tags=["fleet"], summary="Clusters over SSH")
async def list_ssh_clusters(machines: GivenMachines) -> SshClusters:
    """Those that were added, with their hosts."""
    return SshClusters(machines.all())


@post("/ssh-clusters", tags=["fleet"], summary="Add a cluster over SSH", status_code=200)
async def add_ssh_cluster(
    services: Given, machines: GivenMachines, data: JSONBody[AddCluster]
) -> Looked:
    """Connects to every host. The cluster is kept if one answers and the others are merely off;
    else `added` is false, and each host says what is wrong.
    """
    return await machines.add(data, services)


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
    name: FromPath[str], services: Given, machines: GivenMachines
) -> RemovedCluster:
    """Forgets the cluster; refused while runs go on there. Nothing on the machines is removed."""
    await machines.remove(name, services)
    return RemovedCluster(name)


HANDLERS = [list_ssh_clusters, add_ssh_cluster, probe_ssh_cluster, remove_ssh_cluster]
