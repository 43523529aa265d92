"""When what waits could start."""

from typing import Annotated

import msgspec
from litestar import get
from litestar.params import QueryParameter

from stellwerk.core.model.lengths import Basis, Calibration
from stellwerk.core.model.workload import Workload
from stellwerk.server.handlers.workloads import LIST_SETTLE_S
from stellwerk.server.models import ForecastView
from stellwerk.server.outlook import ASKED, GivenOutlook, first_in_line, forecast_view
from stellwerk.server.seeing import AnyRequest, find_seen, seeing
from stellwerk.server.services import Given
from stellwerk.server.tally import ForecastTally

WorkloadOf = Annotated[
    list[str] | None,
    QueryParameter(name="workload", description="Only these: names or ids; may be repeated."),
]


class Expected(msgspec.Struct, frozen=True):
    """A waiting workload and when it could start; `null` if nothing can be said of it."""

    id: str
    name: str
    forecast: ForecastView | None


class Forecasts(msgspec.Struct, frozen=True):
    """Those asked for that wait, or the first in line.

    `calibration` says of past ends how many came within the predicted median and within the 90 %
    quantile, by what the prediction rested on; `starts` how starts came since the server began
    that had been forecast.
    """

    items: list[Expected]
    seq: int
    calibration: dict[Basis, Calibration]
    starts: ForecastTally


@get("/forecast", tags=["workloads"], summary="Forecast")
async def forecast_starts(
    request: AnyRequest, services: Given, outlook: GivenOutlook, workload: WorkloadOf = None
) -> Forecasts:
    """When waiting workloads could start: the same decisions, played forward with the lengths of
    earlier runs and time limits. For people; nothing decides by it. It may be some seconds old.
    """
    eyes = seeing(request)
    if workload is None:
        await services.settled(LIST_SETTLE_S)
        ids = first_in_line(services.engine.view())[:ASKED]
        rows = [services.store.workload(id, "") for id in ids]
        found: list[Workload] = [row.workload for row in rows if row is not None]
    else:
        found = [await find_seen(eyes, services, ref) for ref in workload[:ASKED]]
    seen = [one for one in found if eyes.how(one.owner) != "nothing"]
    waiting = [one for one in seen if one.phase == "Pending"]
    told = await outlook.of([one.id for one in waiting])
    items = [
        Expected(one.id, one.name, forecast_view(told[one.id]) if one.id in told else None)
        for one in waiting
    ]
    return Forecasts(
        items,
        services.feed.seq,
        dict(services.engine.lengths.calibration),
        services.tally.forecasts,
    )


HANDLERS = [forecast_starts]
