"""Who held how much over time, and the numbers of now for those who watch."""

import asyncio
from typing import Annotated

from litestar import Response, get
from litestar.params import QueryParameter

from stellwerk.core.queueing_objects import queueing_now
from stellwerk.server import fair, metrics
from stellwerk.server.fair_models import Fair
from stellwerk.server.seeing import AnyRequest, seeing
from stellwerk.server.services import SETTLE_S, Given
from stellwerk.server.usage import all_workloads

SinceOf = Annotated[
    int, QueryParameter(name="since_ms", ge=0, description="Only what was held from then on.")
]


@get("/fair", tags=["queues"], summary="Fairness")
async def show_fair(request: AnyRequest, services: Given, since_ms: SinceOf = 0) -> Fair:
    """What each cohort, ClusterQueue and person held over time, how much of it was borrowed and
    lent by the quota of now, and what past use counts where a half-life is set. Where others' work
    isn't seen, of people it is one's own line.
    """
    await services.settled(SETTLE_S)
    eyes, now_ms, seq = seeing(request), services.clock.now_ms(), services.store.seq()
    now = queueing_now(services.engine.state, now_ms)
    found = await asyncio.to_thread(
        lambda: fair.fair_of(now, all_workloads(services), since_ms, now_ms, seq)
    )
    people = [one for one in found.people if eyes.how(one.who) != "nothing"]
    return Fair(found.queues, people, found.past_use, found.half_life_ms, since_ms, now_ms, seq)


@get("/metrics", tags=["server"], summary="Metrics", media_type=metrics.CONTENT_TYPE)
async def show_metrics(services: Given) -> Response[str]:
    """The numbers of now, and counters since the server began, in the text format of Prometheus."""
    now, view = queueing_now(services.engine.state), services.engine.view()
    seq = services.store.seq()
    page = await asyncio.to_thread(
        lambda: metrics.text_of(metrics.families_of(now, view, services.tally, seq))
    )
    return Response(page, media_type=metrics.CONTENT_TYPE)


HANDLERS = [show_fair]
AT_THE_TOP = [show_metrics]
"""Stands where those look who watch many servers, not below a version."""
