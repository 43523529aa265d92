"""What there is to run on, and what runs there."""

import asyncio

from litestar import get

from stellwerk.server.models import Clusters
from stellwerk.server.services import Given


@get("/clusters", tags=["fleet"], summary="All clusters", opt={"open_to_group": True})
async def list_clusters(services: Given) -> Clusters:
    """Each cluster with its nodes and devices, what our runs hold of them, and how old that is."""
    seen_ms = dict(services.engine.status().facts_ms)
    return await asyncio.to_thread(services.pages.clusters, seen_ms, services.clock.now_ms())


HANDLERS = [list_clusters]
