"""What travels about what-if on the live state; like all models it only ever gains fields."""

import msgspec

from stellwerk.server.models import ForecastView, SubmitItem, Told
from stellwerk.server.queueing_models import OverQuota


class WhatIfBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes in words, applied in their order, after objects of queueing as ``text`` has them.

    ``task`` is what `submit` stands for.
    """

    changes: list[str] = []
    text: str = ""
    file: str = ""
    task: SubmitItem | None = None


class Fate(msgspec.Struct, frozen=True):
    """What becomes of a workload: in the next cycle, why, and when it could start."""

    what: str = ""
    why: str = ""
    code: str = ""
    forecast: ForecastView | None = None


class WhatIfRow(msgspec.Struct, frozen=True):
    """A workload for which a change matters, without it and with it.

    In ``earlier`` of ``futures`` it starts before, in ``later`` after what it would otherwise;
    0 futures: none were played for it. ``change``: earlier, later, mixed (both, in different
    futures), stopped, spared, gone, new, reason.
    """

    id: str
    name: str
    owner: str
    queue: str
    before: Fate
    after: Fate
    change: str
    earlier: int = 0
    later: int = 0
    futures: int = 0


class WhatIf(msgspec.Struct, frozen=True):
    """What changes would make of live work. ``unchanged`` waits as before, of ``unseen`` whoever
    asks sees nothing; ``beyond`` weren't looked at. ``over`` would use more than they may.
    """

    changes: list[str]
    items: list[WhatIfRow]
    unchanged: int
    unseen: int
    beyond: int
    over: list[OverQuota]
    notices: list[Told]
    assumes: list[str]
    at_ms: int
    seq: int
