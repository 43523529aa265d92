"""What travels about things to come: plans of what isn't submitted, and forecasts of starts."""

from typing import Any

from msgspec import Struct

from stellwerk.client.queueing import OverQuota
from stellwerk.client.wire import CandidateView, Told
from stellwerk.core.model.reasons import RenderedReason


class Forecast(Struct):
    """When something that waits could start, seen from `at_ms`; `None` is not known."""

    at_ms: int
    seq: int = 0
    earliest_ms: int | None = None
    likely_ms: int | None = None
    latest_ms: int | None = None
    confidence: str = "none"
    unknown: int = 0
    assumes: list[str] = []
    p90_ms: int | None = None
    futures: int = 1


class Expected(Struct):
    """A waiting workload, and when it could start if anything can be said of that."""

    id: str
    name: str
    forecast: Forecast | None = None


class Calibrated(Struct):
    """Of so many ends that were predicted, how many came within the median and within the p90."""

    ends: int = 0
    within_p50: int = 0
    within_p90: int = 0


class Foretold(Struct):
    """How starts came that had been forecast, since the server began."""

    starts: int = 0
    within_p50: int = 0
    within_p90: int = 0
    unknown: int = 0
    early_ms: int = 0
    late_ms: int = 0
    ahead_ms: int = 0


class Forecasts(Struct):
    """Those asked for that wait, or the first in line; how right past lengths were, by basis, and
    how right forecasts of starts.
    """

    items: list[Expected] = []
    seq: int = 0
    calibration: dict[str, Calibrated] = {}
    starts: Foretold | None = None


class Planned(Struct):
    """What would become of a task if it were submitted now; `id` holds until facts change."""

    id: str
    name: str
    wants: str = ""
    starts_now: bool = False
    chosen: str | None = None
    runner_up: str | None = None
    candidates: list[CandidateView] = []
    reasons: list[RenderedReason] = []
    change: list[str] = []
    ahead: int = 0
    priority: int = 0
    queue: str = ""
    policies: dict[str, Any] = {}
    notices: list[Told] = []
    at_ms: int = 0
    seq: int = 0
    forecast: Forecast | None = None


class Fate(Struct):
    """What becomes of a workload: in the next cycle, why, and when it could start."""

    what: str = ""
    why: str = ""
    code: str = ""
    forecast: Forecast | None = None


class WhatIfRow(Struct):
    """A workload for which a change matters, without it and with it."""

    id: str
    name: str
    before: Fate
    after: Fate
    owner: str = ""
    queue: str = ""
    change: str = ""
    earlier: int = 0
    later: int = 0
    futures: int = 0


class WhatIf(Struct):
    """What changes would make of all live work; `unchanged` waits as before."""

    items: list[WhatIfRow] = []
    changes: list[str] = []
    unchanged: int = 0
    unseen: int = 0
    beyond: int = 0
    over: list[OverQuota] = []
    notices: list[Told] = []
    assumes: list[str] = []
    at_ms: int = 0
    seq: int = 0
