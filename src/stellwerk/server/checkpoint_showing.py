"""Adds to what is shown of a workload where its checkpoints are kept."""

import asyncio

from msgspec.structs import replace

from stellwerk.drivers.agents.checkpoint_home import CheckpointHome
from stellwerk.server.checkpoint_models import checkpoint_view
from stellwerk.server.models import Show


async def with_checkpoint(page: Show, home: CheckpointHome | None) -> Show:
    """The page with what is at home; as it was where there is no home."""
    if home is None:
        return page
    told = await asyncio.to_thread(home.told, page.id)
    return replace(page, checkpoint=checkpoint_view(told))
