"""Decides which replica feeds each data set of a job on one cluster: the best by its objective.

Replicas by which the work would miss its deadline or the cluster's window are left aside; where all
do, the one that is late by least shows what is missing.
"""

import math
from collections.abc import Iterator, Sequence
from itertools import product

from msgspec import Struct

from stellwerk.core.data.costing import Missing, Outcome, Site, outcome
from stellwerk.core.data.ranking import Order, objective_of, order_of
from stellwerk.core.data.sources import Offer, without_worse
from stellwerk.core.data.units import at_least_span, show_span
from stellwerk.core.data.windows import ROUNDING_S
from stellwerk.core.model.estimates import Estimate, JobProfile, SourceVerdict
from stellwerk.core.model.fleet import Link
from stellwerk.core.model.reasons import Param, Reason

COMBINATIONS = 512
"""More than this many choices for several data sets are searched one data set at a time."""

Links = tuple[Link | None, ...]


class Choice(Struct, frozen=True):
    """The chosen outcome, what is wrong with it, and a verdict for every replica."""

    outcome: Outcome
    late: tuple[Reason, ...]
    sources: tuple[SourceVerdict, ...]


def choose(job: JobProfile, site: Site, offered: Sequence[Sequence[Offer]]) -> Choice:
    """Chooses a link for each data set; `offered` is parallel to what the site misses.

    A data set with nothing missing, or without any usable offer, gets none.
    """
    options: list[list[Link | None]] = []
    for missing, offers in zip(site.missing, offered, strict=True):
        links = [one.link for one in without_worse(offers)] if missing.bytes > 0 else []
        options.append([*links] if links else [None])
    tried = list(_tried(job, site, options))
    chosen, best = tried[0]
    if len(tried) > 1:
        chosen, best = min(tried, key=lambda pair: _order(job, site, *pair))
    return Choice(
        outcome=best,
        late=lateness(job, site, best),
        sources=tuple(_verdicts(job, site, offered, chosen)),
    )


def lateness(job: JobProfile, site: Site, result: Outcome) -> tuple[Reason, ...]:
    """Why the work would be over too late there: after the window closes, after the deadline."""
    name, found = site.cluster.name, []
    if result.window is None:
        found.append(Reason("window_over", {"cluster": name}))
    elif result.window.late_s > ROUNDING_S:
        late = _late(name, result.window.late_s)
        if _saved_s(job, site, result) >= result.window.late_s:
            late["moved"] = "its data"
        found.append(Reason("window_too_short", late))
    late_s = _after_deadline_s(job, site, result)
    if late_s > ROUNDING_S:
        found.append(Reason("after_deadline", _late(name, late_s)))
    return tuple(found)


def _saved_s(job: JobProfile, site: Site, result: Outcome) -> float:
    """How much sooner it would be over if its data were there already; of a stream nobody knows."""
    if job.mode == "stream":
        return 0.0
    return result.transfer_s - (min(site.wait_s, result.transfer_s) if job.prewarm else 0.0)


def _late(cluster: str, late_s: float) -> dict[str, Param]:
    """How late it would be, rounded as people read it, and rounded up as enough to mend it."""
    return {
        "cluster": cluster,
        "late": show_span(late_s),
        "enough": at_least_span(late_s),
        "late_ms": math.ceil(late_s * 1000),
    }


def _after_deadline_s(job: JobProfile, site: Site, result: Outcome) -> float:
    """Seconds after the deadline; without a known length, those of the start at least."""
    if not job.deadline_ms:
        return 0.0
    end_s = result.start_s if result.finish_s is None else result.finish_s
    return end_s - (job.deadline_ms - site.now_ms) / 1000


def _late_s(job: JobProfile, site: Site, result: Outcome) -> float:
    if result.window is None:
        return math.inf
    late_s = max(result.window.late_s, _after_deadline_s(job, site, result))
    return late_s if late_s > ROUNDING_S else 0.0


def _order(
    job: JobProfile, site: Site, links: Links, result: Outcome
) -> tuple[float, Order, tuple[str, ...]]:
    start = Estimate(result.start_s, "s")
    finish = Estimate(result.finish_s, "s")
    cost = Estimate(result.cost_usd, "usd")
    egress = Estimate(result.egress_usd, "usd")
    weighted = objective_of("weighted", job.usd_per_hour_of_waiting, start, finish, cost)
    order = order_of(job.objective, start, finish, cost, egress, weighted)
    return _late_s(job, site, result), order, tuple(link.source if link else "" for link in links)


def _tried(
    job: JobProfile, site: Site, options: Sequence[Sequence[Link | None]]
) -> Iterator[tuple[Links, Outcome]]:
    if math.prod(map(len, options)) <= COMBINATIONS:
        for links in product(*options):
            yield links, outcome(job, site, links)
        return
    links = tuple(choices[0] for choices in options)
    for place, choices in enumerate(options):
        tried = [(*links[:place], link, *links[place + 1 :]) for link in choices]
        outcomes = [(one, outcome(job, site, one)) for one in tried]
        links = min(outcomes, key=lambda pair: _order(job, site, *pair))[0]
    yield links, outcome(job, site, links)


def _verdicts(
    job: JobProfile, site: Site, offered: Sequence[Sequence[Offer]], links: Links
) -> Iterator[SourceVerdict]:
    for place, (missing, offers) in enumerate(zip(site.missing, offered, strict=True)):
        if missing.bytes > 0:
            for offer in offers:
                yield _verdict(job, site, missing, offer, links, place)


def _verdict(
    job: JobProfile, site: Site, missing: Missing, offer: Offer, links: Links, place: int
) -> SourceVerdict:
    name, link = missing.need.data.name, offer.link
    if offer.reason is not None:
        return SourceVerdict(name, link.source, reason=offer.reason)
    result = outcome(job, site, (*links[:place], link, *links[place + 1 :]))
    late = lateness(job, site, result)
    move = next(one for one in result.moves if one.data == name and one.source == link.source)
    return SourceVerdict(
        name,
        link.source,
        chosen=link is links[place],
        reason=late[0] if late else None,
        seconds=move.seconds,
        usd=move.usd,
        finish_s=result.finish_s,
        cost_usd=result.cost_usd,
    )
