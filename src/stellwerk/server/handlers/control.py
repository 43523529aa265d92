"""The server itself: what it is, and how to end it."""

from litestar import get, post

from stellwerk.server.models import Empty, ServerInfo
from stellwerk.server.services import Given


@get("/server", tags=["server"], summary="The server")
async def server_info(services: Given) -> ServerInfo:
    """Who answers here, since when, and how much it looks after."""
    identity, status = services.identity, services.engine.status()
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
    )


@post("/server/stop", tags=["server"], summary="End the server", status_code=202)
async def server_stop(services: Given) -> Empty:
    """Ends the server once this is answered. Jobs go on; the next server adopts them."""
    services.stop()
    return Empty()


HANDLERS = [server_info, server_stop]
