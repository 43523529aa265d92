"""Says in sentences with numbers what an estimate rests on: held, moved, waited, paid, rejected.

Every sentence also carries its numbers (seconds, bytes, USD), from which the estimate can be
computed again.
"""

from collections.abc import Callable, Iterator

from stellwerk.core.data.catalogue import Catalogue
from stellwerk.core.data.regions import region_of
from stellwerk.core.data.sources import Grounds, broken_rule
from stellwerk.core.data.units import (
    show_data,
    show_energy,
    show_share,
    show_span,
    show_usd,
)
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.estimates import (
    ClusterEstimate,
    Fact,
    HeldPart,
    JobProfile,
    Move,
    SourceVerdict,
)
from stellwerk.core.model.fleet import Fleet

NO_RUNTIME = "nobody said how long it runs, so its end isn't known"
SAY_RUNTIME = "say so with the label `stellwerk/expected-runtime: 9h`"


def facts(job: JobProfile, one: ClusterEstimate, now_ms: int) -> tuple[Fact, ...]:
    """Everything an explanation says of one cluster, rejections first."""
    return (
        *(_rejection(one, number) for number in range(len(one.rejections))),
        *(fact for part in one.held for fact in _held(one.cluster, part, now_ms)),
        *(_moved(job, one, move) for move in one.moves),
        *_way(one),
        *_room(one),
        *_times(job, one),
        *_money(job, one),
        *(fact for verdict in one.sources for fact in _source(one, verdict)),
    )


def alerts(fleet: Fleet | Grounds) -> tuple[Fact, ...]:
    """Replicas that lie where they may not, in the order of the catalogue."""
    grounds = fleet if isinstance(fleet, Grounds) else Grounds(fleet)
    found = []
    for data in grounds.fleet.data:
        need = grounds.need(data)
        for replica in grounds.catalogue.replicas(data, grounds.fleet.clusters):
            cluster = grounds.clusters[replica.cluster]
            broken = broken_rule(cluster, need)
            if broken is not None:
                allowed = broken.params["allowed"]
                region = region_of(cluster) or "unknown"
                found.append(
                    Fact(
                        "residency_broken",
                        cluster.name,
                        f"replica of {data.name} on {cluster.name} ({region}) breaks residency "
                        f"{allowed}",
                        {"data": data.name, "region": region, "allowed": allowed},
                    )
                )
    return tuple(found)


def disagreements(catalogue: Catalogue, fleet: Fleet) -> tuple[Fact, ...]:
    """What the catalogue and the clusters say differently of one data set."""
    return tuple(
        Fact(
            "data_contradiction",
            one.cluster,
            f"{one.fact}{f' on {one.cluster}' if one.cluster else ''}: "
            + ", ".join(f"{source} says {value}" for source, value in one.said)
            + f"; {one.used} is believed",
            dict(one.said),
        )
        for one in catalogue.contradictions(fleet.clusters)
    )


def margin(job: JobProfile, best: ClusterEstimate, next_best: ClusterEstimate) -> Fact:
    """By how much the best beats another, in what the ranking compares and in what it doesn't."""
    parts, numbers = [], {}
    for name, better, other in (
        ("finish", best.finish, next_best.finish),
        ("start", best.start, next_best.start),
        ("cost", best.cost, next_best.cost),
    ):
        if better.value is None or other.value is None:
            continue
        gain = other.value - better.value
        numbers[f"{name}_{better.unit}"] = gain
        parts.append(_gain(name, gain))
    return Fact(
        "margin",
        best.cluster,
        f"{best.cluster} before {next_best.cluster}: " + (", ".join(parts) or "nothing is known"),
        {"other": next_best.cluster, "objective": job.objective, **numbers},
    )


def _gain(name: str, gain: float) -> str:
    if name == "cost":
        how = f"{show_usd(abs(gain))} {'dearer' if gain < 0 else 'cheaper'}"
    else:
        end = "over" if name == "finish" else "started"
        how = f"{end} {show_span(abs(gain))} {'later' if gain < 0 else 'sooner'}"
    return how if gain else f"same {name}"


def _rejection(one: ClusterEstimate, number: int) -> Fact:
    reason = one.rejections[number]
    told = render(reason)
    return Fact(
        reason.code,
        one.cluster,
        f"{one.cluster} is out: {told.sentence} ({told.who}: {told.remedy})",
        dict(reason.params),
    )


def _held(cluster: str, part: HeldPart, now_ms: int) -> Iterator[Fact]:
    size = part.size_bytes
    if part.found_bytes is None:
        sentence = f"{cluster} has some of {part.data}, nobody knows how much, so none counts"
    elif part.through:
        share = show_share(part.found_bytes, size)
        sentence = (
            f"{cluster} holds {share} of {part.data}, which revision {part.through} shares with "
            f"{part.revision}"
        )
    else:
        sentence = f"{cluster} holds {show_share(part.found_bytes, size)} of {part.data}"
    if part.lost_probability and part.found_bytes:
        chance = f"{part.lost_probability * 100:.3g} %"
        counted = show_data(part.counted_bytes)
        sentence += f"; it is lost with a probability of {chance}, so {counted} count"
    if part.partial_bytes:
        sentence += f"; {show_data(part.partial_bytes)} in partial files don't count"
    if part.source or part.observed_ms:
        age = (now_ms - part.observed_ms) / 1000
        seen = f"{show_span(max(0.0, age))} ago" if part.observed_ms else "nobody knows when"
        sentence += f" ({part.source or 'told'}, {seen})"
    yield Fact(
        "held",
        cluster,
        sentence,
        {
            "data": part.data,
            "counted_bytes": part.counted_bytes,
            "size_bytes": size,
            "lost_probability": part.lost_probability,
        },
    )


def _moved(job: JobProfile, one: ClusterEstimate, move: Move) -> Fact:
    amount, span = show_data(move.bytes), show_span(move.seconds)
    price = f", for {show_usd(move.usd)}" if move.usd else ""
    if job.mode == "stream":
        sentence = (
            f"{one.cluster} would read {amount} of {move.data} from {move.source} in the first "
            f"epoch, which takes {span}{price}"
        )
    else:
        sentence = (
            f"{one.cluster} would move {amount} of {move.data} in {span} from {move.source}{price}"
        )
    numbers = {"data": move.data, "source": move.source}
    return _of(
        one,
        "move",
        sentence,
        {**numbers, "bytes": move.bytes, "seconds": move.seconds, "usd": move.usd},
    )


def _of(
    one: ClusterEstimate, code: str, sentence: str, numbers: dict[str, str | int | float]
) -> Fact:
    return Fact(code, one.cluster, sentence, numbers)


def _way(one: ClusterEstimate) -> Iterator[Fact]:
    if one.read_bytes is not None and one.read_bytes:
        yield _of(
            one,
            "stream",
            f"{one.cluster} would read {show_data(one.read_bytes)} over all epochs",
            {"read_bytes": one.read_bytes},
        )
    if one.way:
        missing = show_data(one.missing.value or 0)
        yield _of(
            one,
            "way",
            f"{one.cluster} is fed by {one.way}: {missing} over the uplink",
            {"way": one.way, "bytes": one.missing.value or 0},
        )


def _room(one: ClusterEstimate) -> Iterator[Fact]:
    if one.evict_bytes:
        yield _of(
            one,
            "evict",
            f"{one.cluster} must first give up {show_data(one.evict_bytes)} of unused data",
            {"evict_bytes": one.evict_bytes},
        )


def _times(job: JobProfile, one: ClusterEstimate) -> Iterator[Fact]:
    if one.wait_s:
        yield _of(
            one,
            "wait",
            f"{one.cluster} has room in {show_span(one.wait_s)}",
            {"wait_s": one.wait_s},
        )
    if one.opens_in_s:
        yield _of(
            one,
            "opens",
            f"{one.cluster} opens in {show_span(one.opens_in_s)}",
            {"opens_in_s": one.opens_in_s},
        )
    start, run, finish = one.start.value, one.run.value, one.finish.value
    if start is None:
        return
    begins = f"it would start on {one.cluster} {'in ' + show_span(start) if start else 'now'}"
    if finish is None or run is None:
        why = NO_RUNTIME if job.runtime_s is None else "its length there isn't known"
        tip = f" ({SAY_RUNTIME})" if job.runtime_s is None else ""
        yield _of(one, "start", f"{begins}; {why}{tip}", {"start_s": start})
        return
    origin = f" ({job.runtime_origin})" if job.runtime_origin else ""
    yield _of(
        one,
        "finish",
        f"{begins}, run {show_span(run)}{origin} and be over in {show_span(finish)}",
        {"start_s": start, "run_s": run, "finish_s": finish},
    )


def _money(job: JobProfile, one: ClusterEstimate) -> Iterator[Fact]:
    cost, egress = one.cost, one.egress.value
    if cost.value is not None:
        part = f", of which {show_usd(egress)} for moving data" if egress else ""
        sentence = f"it would cost {show_usd(cost.value)} on {one.cluster}{part}"
        if cost.basis == "expected":
            sentence += " (a mean)"
        numbers = {"usd": cost.value, "egress_usd": egress or 0.0}
        yield _of(one, "cost", sentence, {**numbers})
    if job.objective == "weighted" and one.objective.value is not None:
        rate = show_usd(job.usd_per_hour_of_waiting)
        yield _of(
            one,
            "weighted",
            f"with an hour until the end worth {rate}, {one.cluster} counts as "
            f"{show_usd(one.objective.value)}",
            {"score_usd": one.objective.value, "usd_per_hour": job.usd_per_hour_of_waiting},
        )
    energy = one.energy
    if energy.value is not None:
        yield _of(
            one,
            "energy",
            f"it would draw {show_energy(energy.value)} on {one.cluster}",
            {"kwh": energy.value},
        )


def _source(one: ClusterEstimate, verdict: SourceVerdict) -> Iterator[Fact]:
    if verdict.chosen:
        return
    numbers: dict[str, str | int | float] = {"data": verdict.data, "source": verdict.source}
    if verdict.reason is not None:
        reason = verdict.reason
        sentence = f"not from {verdict.source}: {render(reason).sentence}"
        if reason.code == "after_deadline":
            late = reason.params["late"]
            sentence = f"{verdict.source} would finish {late} after the deadline"
        elif reason.code == "window_too_short":
            late = reason.params["late"]
            sentence = f"{verdict.source} would finish {late} after {one.cluster}'s window closes"
        yield _of(one, "source_out", sentence, {**numbers, **reason.params})
        return
    parts = list(_than(one.cost.value, verdict.cost_usd, _dearer))
    parts += _than(one.finish.value, verdict.finish_s, _later)
    numbers |= {"seconds": verdict.seconds or 0.0, "usd": verdict.usd or 0.0}
    sentence = f"{verdict.source} {' and '.join(parts) or 'would do as well'}"
    yield _of(one, "source_worse", sentence, numbers)


def _than(mine: float | None, other: float | None, say: Callable[[float], str]) -> Iterator[str]:
    if mine is not None and other is not None and abs(other - mine) > 1e-9:
        yield say(other - mine)


def _dearer(more: float) -> str:
    return f"costs {show_usd(abs(more))} {'more' if more > 0 else 'less'}"


def _later(more: float) -> str:
    return f"would finish {show_span(abs(more))} {'later' if more > 0 else 'sooner'}"
