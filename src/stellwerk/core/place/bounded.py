"""Bounds the candidates of work to the clusters of its placement, and ranks them as that does."""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from stellwerk.core.model.decisions import Candidate, Verdict
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.standing import Decided
from stellwerk.core.place.candidates import PREFERENCE_STEP, answers_to, candidates, fitting
from stellwerk.core.place.found import Found
from stellwerk.core.place.rooms import ClusterRoom

RANK_STEP = 300
"""A place in the placement's order counts more than free room and spared devices together."""

NAMED = 3
"""So many clusters are named in one reason; the rest is counted."""


class Bounded:
    """The rooms that a cycle may use for each placement."""

    def __init__(self, placements: Mapping[str, Decided], rooms: list[ClusterRoom]) -> None:
        self.placements = placements
        self.rooms = rooms
        self._allowed: dict[str, list[ClusterRoom]] = {}

    def allowed(self, placement: str) -> list[ClusterRoom]:
        """The rooms of the clusters that a placement has chosen; all where there is none."""
        if not placement:
            return self.rooms
        found = self._allowed.get(placement)
        if found is None:
            decided = self.placements.get(placement)
            names = dict.fromkeys(decided.clusters) if decided is not None else {}
            found = [room for room in self.rooms if room.cluster.name in names]
            self._allowed[placement] = found
        return found

    def fitting(self, shape: Shape, id: ShapeId) -> list[Found]:
        """Where a shape fits now."""
        return fitting(shape, id, self.allowed(shape.placement))

    def candidates(self, shape: Shape, id: ShapeId) -> list[Found]:
        """Every (alternative, cluster) with its verdict, and what the placement says of each."""
        if not shape.placement:
            return candidates(shape, id, self.rooms)
        decided = self.placements.get(shape.placement)
        if decided is None:
            return [_nothing("no_placement", shape)]
        if not decided.decision:
            return [_nothing("not_decided", shape)]
        order = {name: rank for rank, name in enumerate(decided.clusters)}
        allowed = self.allowed(shape.placement)
        names = {room.cluster.name for room in allowed}
        found = [_ranked(one, shape, order) for one in candidates(shape, id, allowed)]
        found = [one for one in found if one.candidate.cluster in names]
        others = [room for room in self.rooms if room.cluster.name not in names]
        found += _refused(shape, decided, others, "never" if names else "later")
        absent = [name for name in decided.clusters if name not in names]
        found += [_absent(name, absent, shape) for name in absent]
        return found or [_nothing("nothing_chosen", shape)]


def _ranked(found: Found, shape: Shape, order: Mapping[str, int]) -> Found:
    """What fits, with its place in the order of the placement among its scores.

    The choice among ordered alternatives comes before the choice of a cluster.
    """
    one = found.candidate
    if one.verdict != "fits":
        return found
    scores = {**one.scores, "placement": -RANK_STEP * order.get(one.cluster, 0)}
    if shape.ordered:
        scores["preference"] = -(PREFERENCE_STEP + RANK_STEP * len(order)) * one.alternative
    total = sum(scores.values())
    return replace(found, candidate=replace(one, scores=scores, total=total))


def _refused(
    shape: Shape, decided: Decided, rooms: Iterable[ClusterRoom], verdict: Verdict
) -> list[Found]:
    """The clusters here that weren't chosen; told first where no other is here."""
    found = []
    for room in rooms:
        name = room.cluster.name
        alternatives = enumerate(shape.alternatives)
        index = next((i for i, one in alternatives if answers_to(room.cluster, one.infra)), -1)
        if index < 0:
            continue
        params: dict[str, Param] = {"cluster": name, "placement": shape.placement}
        why = decided.refused.get(name)
        if name in decided.standby:
            params["rule"] = "it is kept as standby"
        elif why is not None:
            params["rule"] = why.rule
            if why.found:
                params["found"] = why.found
        reason = Reason("not_chosen", params)
        found.append(Found(Candidate(name, index, verdict, (reason,))))
    return found


def _absent(cluster: str, absent: Sequence[str], shape: Shape) -> Found:
    """One that no driver here reaches; of all of them the reason is the same."""
    more = f" and {len(absent) - NAMED} more" if len(absent) > NAMED else ""
    told = ", ".join(absent[:NAMED]) + more
    reason = Reason("no_driver", {"cluster": told, "placement": shape.placement})
    return Found(Candidate(cluster, 0, "later", (reason,)))


def _nothing(code: str, shape: Shape) -> Found:
    verdict: Verdict = "later" if code == "not_decided" else "never"
    return Found(Candidate("any", 0, verdict, (Reason(code, {"placement": shape.placement}),)))
