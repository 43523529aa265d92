"""The decision for one shape: candidates ranked, one chosen or none, and what would change it."""

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.catalogue import worst_first
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.decisions import Candidate, Decision, Inputs, QuotaSaid, Shortfall
from stellwerk.core.model.ids import DecisionId, ShapeId, digest
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.place.amounts import amount, apart
from stellwerk.core.place.candidates import avoided, candidates, cannot, serves
from stellwerk.core.place.found import Found
from stellwerk.core.place.lacks import Far, distance, smallest_change
from stellwerk.core.place.room import capacity
from stellwerk.core.place.rooms import ClusterRoom, Whole

REASONS_SHOWN = 8
"""Reasons told one by one; beyond it, those of the same kind are told for the nearest cluster."""

CHANGES_SHOWN = 8


class Decided(Struct, frozen=True):
    """A decision, with what the chosen candidate would hold."""

    decision: Decision
    allocation: Allocation | None


def decide(shape: Shape, rooms: list[ClusterRoom], inputs: Inputs) -> Decided:
    """Judges and ranks all candidates, and says what follows."""
    found = candidates(shape, inputs.shape, rooms)
    ranked = rank(found)
    if ranked:
        best = chosen(found, ranked, inputs)
        return Decided(best.decision, best.allocation)
    return Decided(waiting(shape, found, rooms, reasons_of(found), inputs), None)


def rank(found: list[Found]) -> list[int]:
    """Orders those that fit: highest total, then the earlier alternative, then the name."""
    fitting = [
        (-one.candidate.total, one.candidate.alternative, one.candidate.cluster, index)
        for index, one in enumerate(found)
        if one.candidate.verdict == "fits"
    ]
    return [index for _, _, _, index in sorted(fitting)]


class Chosen(Struct, frozen=True):
    """The decision for a place, with what is held there."""

    decision: Decision
    allocation: Allocation


def chosen(
    found: list[Found], ranked: list[int], inputs: Inputs, quota: QuotaSaid | None = None
) -> Chosen:
    """Takes the best of those that fit."""
    best = ranked[0]
    runner_up = ranked[1] if len(ranked) > 1 else -1
    listed = [one.candidate for one in found]
    listed[best] = replace(listed[best], verdict="chosen")
    decision = Decision(
        id=DecisionId(""),
        inputs=inputs,
        candidates=tuple(listed),
        chosen=best,
        runner_up=runner_up,
        change=_would_move(listed, best, runner_up),
        quota=quota,
    )
    taken = found[best]
    allocation = Allocation(taken.candidate.cluster, taken.nodes, taken.candidate.alternative)
    return Chosen(_with_id(decision), allocation)


def waiting(
    shape: Shape,
    found: list[Found],
    rooms: list[ClusterRoom],
    reasons: tuple[Reason, ...],
    inputs: Inputs,
    quota: QuotaSaid | None = None,
) -> Decision:
    """Says that nothing fits now, why, and what would have fitted."""
    decision = Decision(
        id=DecisionId(""),
        inputs=inputs,
        candidates=tuple(one.candidate for one in found),
        reasons=reasons,
        change=(*_would_suit(found), *_would_start(shape, found, rooms))[:CHANGES_SHOWN],
        quota=quota,
    )
    return _with_id(decision)


def _with_id(decision: Decision) -> Decision:
    return replace(decision, id=DecisionId(f"d-{digest(decision)}"))


def reasons_of(found: list[Found]) -> tuple[Reason, ...]:
    """Gathers why nothing fits, worst first; of many alike the one that comes nearest is told."""
    shown = [one for one in found if one.candidate.verdict != "never"] or found
    unique: dict[tuple[object, ...], Reason] = {}
    for one in shown:
        for reason in one.candidate.reasons:
            unique[reason.code, *reason.params.items()] = reason
        if len(unique) > REASONS_SHOWN:
            return _of_each_kind(shown)
    return worst_first(tuple(unique.values()))


def _of_each_kind(found: list[Found]) -> tuple[Reason, ...]:
    nearest: dict[tuple[str, str], tuple[Far, str, Reason]] = {}
    clusters: dict[tuple[str, str], set[str]] = {}
    for one in found:
        name = one.candidate.cluster
        for reason in one.candidate.reasons:
            kind = (reason.code, str(reason.params.get("resource", "")))
            if kind not in nearest:
                nearest[kind] = (one.far, name, reason)
                clusters[kind] = {name}
                continue
            clusters[kind].add(name)
            if (one.far, name) < nearest[kind][:2]:
                nearest[kind] = (one.far, name, reason)
    told = []
    for kind, (_, _, reason) in nearest.items():
        others = len(clusters[kind]) - 1
        params = {**reason.params, "others": others} if others else reason.params
        told.append(Reason(reason.code, params))
    return worst_first(tuple(told))


def _would_suit(found: list[Found]) -> tuple[str, ...]:
    """What lets a cluster meet what a task wishes, where that is known; the least of it first."""
    changes = []
    for one in (one.candidate for one in found):
        texts = [str(reason.params.get("change", "")) for reason in one.reasons]
        if texts and all(texts) and all(each.code == "wish_unmet" for each in one.reasons):
            text = f"{one.cluster} meets what it wishes with: {' and '.join(texts)}"
            changes.append((len(texts), text))
    return tuple(dict.fromkeys(text for _, text in sorted(changes)))


def _would_start(shape: Shape, found: list[Found], rooms: list[ClusterRoom]) -> tuple[str, ...]:
    """The smallest change for each candidate that lets it start now; the smallest of all first."""
    avoid = avoided(shape, rooms)
    by_name = {room.cluster.name: room.without(avoid) for room in rooms}
    changes = []
    for candidate in (one.candidate for one in found):
        room = by_name.get(candidate.cluster)
        alternative = shape.alternatives[candidate.alternative]
        if room is None or cannot(room.cluster, alternative):
            continue
        if not serves(room.cluster, shape.person):
            continue
        change = smallest_change(room.open, room.whole.room, alternative.request, shape.num_nodes)
        shorts = tuple(short for short in change if short.wanted > short.free)
        if shorts:
            parts = ", ".join(map(_lower, shorts))
            changes.append((distance(shorts), f"starts now on {candidate.cluster} with {parts}"))
    return tuple(dict.fromkeys(text for _, text in sorted(changes)))[:CHANGES_SHOWN]


def _lower(short: Shortfall) -> str:
    wanted = apart(short.wanted, short.free, short.unit)
    return f"{short.resource}: {wanted} -> {amount(short.free, short.unit, down=True)}"


def _would_move(found: list[Candidate], best: int, runner_up: int) -> tuple[str, ...]:
    if runner_up < 0:
        return ()
    gap = found[best].total - found[runner_up].total
    return (f"{found[runner_up].cluster} wins if it scores {gap + 1} more",)


def never_fits(shape: Shape, clusters: list[Cluster]) -> tuple[Reason, ...]:
    """Gives the reasons why no cluster could ever hold this shape; empty if one could.

    It asks what the clusters are, not what they hold or whether they are ready now. Where nothing
    is known yet, nothing is refused.
    """
    if not clusters:
        return ()
    rooms = [ClusterRoom(whole.room, whole) for whole in map(Whole, map(capacity, clusters))]
    if 0 < shape.min_nodes < shape.num_nodes:
        shape = replace(shape, num_nodes=shape.min_nodes)
    found = candidates(shape, ShapeId(""), rooms)
    if any(one.candidate.verdict != "never" for one in found):
        return ()
    return reasons_of(found)
