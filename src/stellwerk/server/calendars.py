"""Sets, shows and keeps up calendars of clusters; one that can't be read again stays as it was."""

import asyncio
import logging
import time

from msgspec.structs import replace

from stellwerk.core.data.node_windows import NODES_HELP, matches
from stellwerk.core.data.weekly import horizon_ms
from stellwerk.core.data.windows import join
from stellwerk.core.model.calendars import (
    MOST_OVERRIDES,
    MOST_SOURCES,
    Calendar,
    CalendarNow,
    Override,
    OverrideWish,
    Source,
    SourceWish,
    next_closure,
)
from stellwerk.core.model.commands import RemoveCalendar, SetCalendar
from stellwerk.core.model.errors import StellwerkError
from stellwerk.core.model.ids import BlobHash
from stellwerk.core.model.quantity import show_duration
from stellwerk.engine.calendar_windows import expanded, spans_of
from stellwerk.server.calendar_fetch import fetch
from stellwerk.server.handlers.workloads import EFFECT_S
from stellwerk.server.services import Services

log = logging.getLogger("stellwerk.server")

LOOK_AGAIN_S = 900.0
FIRST_S = 5.0
"""So long after the start, and so often then, addresses are read again."""


def now_of(calendar: Calendar, now_ms: int) -> CalendarNow:
    """How a calendar stands at a moment."""
    closed = next_closure(join(calendar.windows) or ((0, 0),), now_ms)
    stale = [
        f"{one.name}: {one.note}; as it was {show_duration(now_ms - one.read_ms)} ago"
        for one in calendar.sources
        if one.note
    ]
    if closed is None:
        return CalendarNow(calendar, open=True, stale=stale)
    is_open = closed[0] > now_ms
    return CalendarNow(calendar, is_open, closed[0] if is_open else 0, closed[1], stale)


def all_of(services: Services) -> list[CalendarNow]:
    """Every calendar."""
    now_ms, kept = services.clock.now_ms(), services.engine.state.calendars
    return [now_of(kept[name], now_ms) for name in sorted(kept)]


def one_of(services: Services, cluster: str) -> CalendarNow:
    """That of a cluster; raises StellwerkError where there is none."""
    found = {one.calendar.cluster: one for one in all_of(services)}
    if cluster not in found:
        _there(services, cluster)
        raise StellwerkError.of(
            "find/calendar",
            f"{cluster} has no calendar, so it is always open",
            f"stw calendar import FILE --on {cluster}",
        )
    return found[cluster]


def _there(services: Services, cluster: str) -> None:
    clusters = services.engine.state.observed
    if cluster not in clusters:
        there = ", ".join(sorted(clusters)) or "none"
        raise StellwerkError.of(
            "find/cluster", f"there is no cluster `{cluster[:80]}`", f"there is: {there}"
        )


def _has_nodes(services: Services, cluster: str, nodes: str) -> None:
    """Refuses what no node of a cluster is meant by: nobody would notice that it does nothing."""
    there = services.engine.state.observed[cluster].nodes
    unknown = [
        word.strip()
        for word in nodes.split(",")
        if nodes and not any(matches(word.strip(), one) for one in there)
    ]
    if unknown:
        said = ", ".join(f"`{one[:40]}`" for one in unknown)
        raise StellwerkError.of("calendar/nodes", f"{cluster} has no node {said}", NODES_HELP)


async def add(
    services: Services, cluster: str, wish: SourceWish, actor: str, key: str
) -> CalendarNow:
    """Lets a cluster's windows follow from one more source. Raises with all that is wrong."""
    _there(services, cluster)
    _has_nodes(services, cluster, wish.nodes)
    source, text = await asyncio.to_thread(_read, services, wish)
    known = services.engine.state.calendars.get(cluster, Calendar(cluster))
    others = (
        ()
        if wish.only
        else tuple(
            one for one in known.sources if (one.name, one.nodes) != (source.name, source.nodes)
        )
    )
    if len(others) >= MOST_SOURCES:
        message = f"{cluster} has {MOST_SOURCES} sources already"
        raise StellwerkError.of("calendar/too-many", message, "stw calendar rm, then import anew")
    calendar = replace(known, sources=(*others, source))
    return await _set(services, calendar, {source.text: text}, actor, key)


def _read(services: Services, wish: SourceWish) -> tuple[Source, str]:
    """A source as it is kept, with its text."""
    now_ms = services.clock.now_ms()
    if wish.rules:
        name = wish.name or "weekly"
        source = Source("weekly", wish.rules, wish.means, wish.zone, name, now_ms, nodes=wish.nodes)
        return source, ""
    text = wish.text
    if wish.address:
        text = fetch(wish.address, time.monotonic, private=wish.private)
    blob = services.store.blobs.put(text.encode())
    name = wish.address or wish.name or "calendar"
    source = Source(
        "ical", blob, wish.means, wish.zone, name, now_ms, private=wish.private, nodes=wish.nodes
    )
    return source, text


async def _set(
    services: Services, calendar: Calendar, texts: dict[str, str], actor: str, key: str
) -> CalendarNow:
    found = await asyncio.to_thread(_expanded, services, calendar, texts)
    await services.order(SetCalendar(found), actor, key)
    await services.settled(EFFECT_S)
    return one_of(services, calendar.cluster)


def _expanded(services: Services, calendar: Calendar, texts: dict[str, str]) -> Calendar:
    def text_of(source: Source) -> str:
        if source.text not in texts:
            return services.store.blobs.get(BlobHash(source.text)).decode("utf-8", "replace")
        return texts[source.text]

    return expanded(calendar, text_of, services.clock.now_ms())


async def override(
    services: Services, cluster: str, wish: OverrideWish, actor: str, key: str
) -> CalendarNow:
    """Opens or closes a cluster for once; of several that overlap the last one made counts."""
    _there(services, cluster)
    _has_nodes(services, cluster, wish.nodes)
    if wish.until_ms <= max(wish.from_ms, services.clock.now_ms()):
        message = "an exception must end after it begins, and later than now"
        raise StellwerkError.of("calendar/override", message, "give --from, and --until or --for")
    known = services.engine.state.calendars.get(cluster, Calendar(cluster))
    if len(known.overrides) >= MOST_OVERRIDES:
        message = f"{cluster} has {MOST_OVERRIDES} exceptions already"
        raise StellwerkError.of("calendar/too-many", message, "write them into its calendar")
    one = Override(wish.from_ms, wish.until_ms, wish.means, actor, wish.why[:200], nodes=wish.nodes)
    calendar = replace(known, overrides=(*known.overrides, one))
    return await _set(services, calendar, {}, actor, key)


async def remove(services: Services, cluster: str, actor: str, key: str) -> CalendarNow:
    """Lets a cluster be used at any time."""
    found = one_of(services, cluster)
    await services.order(RemoveCalendar(cluster), actor, key)
    await services.settled(EFFECT_S)
    return found


async def keep_up(services: Services) -> None:
    """Reads addresses again, and has windows reach as far ahead every day."""
    await asyncio.sleep(FIRST_S)
    while True:
        for cluster, known in sorted(services.engine.state.calendars.items()):
            try:
                await _look_again(services, known)
            except Exception:
                # One calendar that can't be kept up must end neither the others nor the server.
                log.exception("the calendar of %s can't be kept up", cluster)
        await asyncio.sleep(LOOK_AGAIN_S)


async def _look_again(services: Services, known: Calendar) -> None:
    now_ms = services.clock.now_ms()
    calendar, texts = await asyncio.to_thread(_read_again, services, known, now_ms)
    is_short = known.until_ms < horizon_ms(now_ms)
    if not is_short and calendar.sources == known.sources:
        return
    found = await asyncio.to_thread(_expanded, services, calendar, texts)
    await services.order(SetCalendar(found), "engine", "")


def _read_again(
    services: Services, known: Calendar, now_ms: int
) -> tuple[Calendar, dict[str, str]]:
    """The calendar with what its addresses say now; one that doesn't answer stays as it was."""
    sources: list[Source] = []
    texts: dict[str, str] = {}
    for one in known.sources:
        again = one
        if "://" in one.name:
            try:
                text = fetch(one.name, time.monotonic, private=one.private)
                spans_of(one, text, now_ms)
                blob = services.store.blobs.put(text.encode())
                if blob != one.text or one.note:
                    again = replace(one, text=blob, read_ms=now_ms, note="")
                texts[blob] = text
            except StellwerkError as error:
                note = error.problems[0].message[:200]
                again = one if one.note else replace(one, note=note, read_ms=now_ms)
        sources.append(again)
    return replace(known, sources=tuple(sources)), texts
