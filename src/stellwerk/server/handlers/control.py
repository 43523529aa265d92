"""The server itself: what it is, and how to end it."""

from litestar import get, post

from stellwerk.server.models import Empty
from stellwerk.server.seeing import AnyRequest, seeing
from stellwerk.server.server_models import ServerInfo, You
from stellwerk.server.services import Given


@get("/server", tags=["server"], summary="The server")
async def server_info(request: AnyRequest, services: Given) -> ServerInfo:
    """Who answers here, since when, and how much it looks after."""
    identity, status = services.identity, services.engine.status()
    caller, people = seeing(request).caller, services.people
    there = services.hosts.people if services.hosts is not None else ("",)
    return ServerInfo(
        pid=identity.pid,
        version=identity.version,
        started_ms=identity.started_ms,
        uptime_ms=max(0, services.clock.now_ms() - identity.started_ms),
        epoch=services.engine.epoch,
        seq=services.store.seq(),
        home=identity.home,
        socket=identity.socket,
        live=status.live,
        pending=status.pending,
        running=status.running,
        clusters=[cluster.name for cluster, _ in services.store.clusters()],
        owner=people.owner,
        shared=people.shared,
        visibility=people.policy.visibility if people.shared else "all",
        you=You(
            caller.actor.name,
            is_admin=caller.actor.is_admin,
            project=caller.project,
            runtime=caller.person in there,
        ),
    )


@post("/server/stop", tags=["server"], summary="End the server", status_code=202)
async def server_stop(services: Given) -> Empty:
    """Ends the server once this is answered. Jobs go on; the next server adopts them."""
    services.stop()
    return Empty()


HANDLERS = [server_info, server_stop]
