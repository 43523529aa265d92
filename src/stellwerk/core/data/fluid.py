"""Decides how much of a data set a cluster holds from the status of its Fluid Dataset.

The figures are texts for people ("171.93GiB", "57.3%", "N/A", "[Calculating]"), refreshed every few
seconds at best and for some runtimes never. What can't be read is unknown, which counts as nothing;
what is above the data set's own size is cut to it; the size comes from the own catalogue.
"""

import math
import re
from collections.abc import Iterator, Mapping

from stellwerk.core.data.found import Found
from stellwerk.core.data.units import show_data
from stellwerk.core.model.cluster import Held
from stellwerk.core.model.errors import Notice
from stellwerk.core.model.fleet import Data

_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)\s*([KMGTPE]i?)?B?", re.ASCII)
_PART = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?)\s*%", re.ASCII)
_LETTERS = "KMGTPE"
DIFFERENCE = 0.01
"""Two figures for one thing may differ by this much of the data set: they are rounded texts."""


def held_in_fluid(
    data: Data, status: Mapping[str, object], *, observed_ms: int = 0, cluster: str = ""
) -> Found:
    """Reads `status` of the Dataset that stands for a data set on a cluster."""
    states = status.get("cacheStates")
    figures: Mapping[str, object] = states if isinstance(states, Mapping) else {}
    size = max(0, data.bytes)
    cached = read_size(figures.get("cached"))
    part = read_part(figures.get("cachedPercentage"))
    by_part = None if part is None else math.floor(min(part, 1.0) * size)
    total = read_size(status.get("ufsTotal"))
    known = [figure for figure in (cached, by_part) if figure is not None]
    believed = known[0] if known else None
    if len(known) == 2 and _differ(cached, part, total or size):
        believed = min(known)
    notices = tuple(_notices(cluster or "there", data, cached, part, total))
    held = Held(
        data=data.name,
        revision=data.revision,
        bytes=None if believed is None else min(believed, size),
        observed_ms=observed_ms,
        source="fluid",
    )
    return Found((held,), notices)


def read_size(written: object) -> int | None:
    """Bytes of "171.93GiB"; None for what is no size. "GB" counts in powers of 1000."""
    match = _SIZE.fullmatch(written.strip()) if isinstance(written, str) else None
    if match is None:
        return None
    unit = match[2] or ""
    base = 1024 if unit.endswith("i") else 1000
    power = _LETTERS.index(unit[0]) + 1 if unit else 0
    scale: int = base**power
    return round(float(match[1]) * scale)


def read_part(written: object) -> float | None:
    """0.573 for "57.3%"; None for what is no percentage. May be above 1: nobody clamps it."""
    match = _PART.fullmatch(written.strip()) if isinstance(written, str) else None
    return float(match[1]) / 100 if match else None


def _differ(cached: int | None, part: float | None, total: int) -> bool:
    if cached is None or part is None or not total:
        return False
    return abs(min(cached / total, 1.0) - min(part, 1.0)) > DIFFERENCE


def _notices(
    where: str, data: Data, cached: int | None, part: float | None, total: int | None
) -> Iterator[Notice]:
    name, size = data.name, max(0, data.bytes)
    if cached is None and part is None:
        yield Notice(
            "data/cache-unknown",
            f"{where}: cache state unknown for {name}, so nothing of it counts as held",
            "Fluid tells figures once its metadata are synchronised; some runtimes never do",
        )
    if part is not None and part > 1:
        yield Notice(
            "data/cache-over-full",
            f"{where}: cachedPercentage above 100 ({part * 100:.1f}%) for {name}, taken as 100",
            "several copies of one block were counted",
        )
    if cached is not None and cached > size * (1 + DIFFERENCE):
        yield Notice(
            "data/cache-over-full",
            f"{where}: {show_data(cached)} cached of {name}, which has {show_data(size)}",
            "several copies of one block were counted, or the Dataset mounts more than that",
        )
    if total is not None and abs(total - size) > size * DIFFERENCE:
        yield Notice(
            "data/size-differs",
            f"{where}: Fluid counts {show_data(total)} of {name}, the catalogue {show_data(size)}",
            "the size in the catalogue is used; correct it, or the Dataset's mounts",
        )
    if _differ(cached, part, total or size):
        yield Notice(
            "data/cache-contradiction",
            f"{where}: cached and cachedPercentage of {name} don't agree, the smaller is used",
            "look at the Dataset's runtime",
        )
