"""Clusters over SSH: adding them, looking at them, removing them; draining clusters of any kind."""

from litestar import delete, get, post
from litestar.params import FromPath, FromQuery, JSONBody

from stellwerk.core.model.errors import StellwerkError
from stellwerk.server import draining
from stellwerk.server.handlers.workloads import actor_of
from stellwerk.server.machine_models import (
    AddCluster,
    Drained,
    DrainWish,
    JoinToken,
    JoinTokenList,
    Looked,
    MemberRow,
    RemovedCluster,
    ResumedCluster,
    ResumeWish,
    Revoked,
    SshClusters,
    TokenRow,
    TokenWish,
)
from stellwerk.server.machines import GivenMachines
from stellwerk.server.owning import add_as, claim, give_back
from stellwerk.server.seeing import AnyRequest, idempotency_key, seeing
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


@post(
    "/clusters/{name:str}/tokens",
    tags=["fleet"],
    summary="Make a token with which machines join",
    status_code=200,
)
async def make_token(
    name: FromPath[str],
    request: AnyRequest,
    services: Given,
    machines: GivenMachines,
    data: JSONBody[TokenWish],
) -> JoinToken:
    """Machines that have it dial in and join the cluster, which is made if there is none. It is
    told this once.
    """
    is_new = claim(seeing(request), services, name)
    try:
        made, secret = await machines.token(name, data.ttl_ms, services, actor_of(request))
    except StellwerkError:
        give_back(services, name, is_new=is_new)
        raise
    return JoinToken(made.id, name, secret, made.until_ms, machines.join_url)


@get("/clusters/{name:str}/tokens", tags=["fleet"], summary="Tokens and machines of a cluster")
async def list_tokens(
    name: FromPath[str], services: Given, machines: GivenMachines
) -> JoinTokenList:
    """Tokens that still hold, and machines that have joined; never the secrets themselves."""
    tokens = machines.tokens.tokens(name, services.clock.now_ms())
    members = machines.tokens.members(name)
    return JoinTokenList(
        [TokenRow(one.id, one.until_ms, one.made_ms, one.actor) for one in tokens],
        [MemberRow(one.node, one.machine_id, one.joined_ms) for one in members],
    )


@delete(
    "/clusters/{name:str}/tokens/{which:str}",
    tags=["fleet"],
    summary="Take back a token, or a machine's secret",
    status_code=200,
)
async def revoke_token(
    name: FromPath[str], which: FromPath[str], services: Given, machines: GivenMachines
) -> Revoked:
    """By the id of a token, or a machine's name as a node; `all` takes back everything."""
    return Revoked(await machines.revoke(name, "" if which == "all" else which, services))


@post("/clusters/{name:str}/drain", tags=["fleet"], summary="Drain a cluster", status_code=200)
async def drain_cluster(
    name: FromPath[str], request: AnyRequest, services: Given, data: JSONBody[DrainWish]
) -> Drained:
    """Lets nothing new start on a cluster, or on some of its nodes. What runs there goes on, or,
    with `now`, gets notice and goes elsewhere.
    """
    key = idempotency_key(request)
    return await draining.drain(services, name, data, actor_of(request), key)


@post("/clusters/{name:str}/resume", tags=["fleet"], summary="Resume a cluster", status_code=200)
async def resume_cluster(
    name: FromPath[str], request: AnyRequest, services: Given, data: JSONBody[ResumeWish]
) -> ResumedCluster:
    """Takes drained and quarantined nodes of a cluster back into use, all or some."""
    key = idempotency_key(request)
    return await draining.resume(services, name, data.nodes, actor_of(request), key)


HANDLERS = [
    list_ssh_clusters,
    add_ssh_cluster,
    probe_ssh_cluster,
    remove_ssh_cluster,
    make_token,
    list_tokens,
    revoke_token,
    drain_cluster,
    resume_cluster,
]
