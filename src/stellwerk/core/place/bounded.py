"""Bounds the candidates of work to the clusters of its placement, and ranks them as that does.

Work with wishes has a placement of its own, which says which alternative may start where. Where it
names another one too, both bound it; the order is that of its own, which is the policy of the named
one narrowed by the wishes.
"""

from collections.abc import Iterable, Mapping, Sequence

from msgspec.structs import replace

from stellwerk.core.model.decisions import Candidate, Verdict
from stellwerk.core.model.ids import ShapeId
from stellwerk.core.model.own import OwnDecided, OwnOption, OwnRefusal
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.standing import Decided
from stellwerk.core.place.candidates import PREFERENCE_STEP, answers_to, candidates, fitting, serves
from stellwerk.core.place.found import Found
from stellwerk.core.place.limited import Limited
from stellwerk.core.place.rooms import ClusterRoom

RANK_STEP = 300
"""A place in the placement's order counts more than free room and spared devices together."""

NAMED = 3
"""So many clusters are named in one reason; the rest is counted."""


class Bounded:
    """The rooms that a cycle may use for each placement."""

    def __init__(
        self,
        placements: Mapping[str, Decided],
        rooms: list[ClusterRoom],
        limited: Limited | None = None,
        own: Mapping[ShapeId, OwnDecided] | None = None,
        here: Mapping[str, object] | None = None,
    ) -> None:
        """``here`` are the clusters that drivers reach; those of the rooms, if it isn't said."""
        self.placements = placements
        self.rooms = rooms
        self.limited = limited or Limited()
        self._own = own or {}
        self._here = dict.fromkeys(room.cluster.name for room in rooms) if here is None else here
        self._allowed: dict[str, list[ClusterRoom]] = {}
        self._known_ranks: dict[ShapeId, dict[tuple[str, int], tuple[int, OwnOption]]] = {}

    def allowed(self, shape: Shape, id: ShapeId) -> list[ClusterRoom]:
        """The rooms of the clusters that are chosen for a shape; all where nothing bounds it."""
        rooms = self._chosen_by(shape.placement) if shape.placement else self.rooms
        if shape.wishes is None:
            return rooms
        names = {cluster for cluster, _ in self._ranks(id)}
        return [room for room in rooms if room.cluster.name in names]

    def on(self, rooms: list[ClusterRoom]) -> "Bounded":
        """The same bounds on other rooms."""
        return Bounded(self.placements, rooms, self.limited, self._own, self._here)

    def may(self, shape: Shape, id: ShapeId, cluster: str, alternative: int) -> bool:
        """Whether an alternative may be put onto a cluster that is allowed."""
        return shape.wishes is None or (cluster, alternative) in self._ranks(id)

    def lets(self, shape: Shape, id: ShapeId, allocation: Allocation) -> bool:
        """Whether a shape may be where it was promised to be."""
        name, alternative = allocation.cluster, allocation.alternative
        room = next((one for one in self.allowed(shape, id) if one.cluster.name == name), None)
        if room is None or not self.may(shape, id, name, alternative):
            return False
        if not serves(room.cluster, shape.person):
            return False
        return bool(self.limited.within(shape, [Found(Candidate(name, alternative, "fits"))]))

    def fitting(self, shape: Shape, id: ShapeId) -> list[Found]:
        """Where a shape fits now."""
        found = self.limited.within(shape, fitting(shape, id, self.allowed(shape, id)))
        if shape.wishes is None:
            return found
        ranks = self._ranks(id)
        return [one for one in found if _pair(one.candidate) in ranks]

    def candidates(self, shape: Shape, id: ShapeId) -> list[Found]:
        """Every (alternative, cluster) with its verdict, and what the placement says of each."""
        return self.limited.judged(shape, self._judged(shape, id))

    def _judged(self, shape: Shape, id: ShapeId) -> list[Found]:
        if shape.wishes is not None:
            return self._own_candidates(shape, id)
        if not shape.placement:
            return candidates(shape, id, self.rooms)
        missing = self._missing(shape)
        if missing is not None:
            return [missing]
        decided = self.placements[shape.placement]
        order = {name: rank for rank, name in enumerate(decided.clusters)}
        allowed = self._chosen_by(shape.placement)
        names = {room.cluster.name for room in allowed}
        found = [_ranked(one, shape, order) for one in candidates(shape, id, allowed)]
        found = [one for one in found if one.candidate.cluster in names]
        others = [room for room in self.rooms if room.cluster.name not in names]
        found += _refused(shape, decided, others, "never" if names else "later")
        absent = [name for name in decided.clusters if name not in self._here]
        found += [_absent(name, absent, shape) for name in absent]
        return found or [_nothing("nothing_chosen", shape)]

    def _missing(self, shape: Shape) -> Found | None:
        """What is told where the placement that is named isn't there, or isn't decided."""
        decided = self.placements.get(shape.placement)
        if decided is None:
            return _nothing("no_placement", shape)
        return None if decided.decision else _nothing("not_decided", shape)

    def _chosen_by(self, placement: str) -> list[ClusterRoom]:
        found = self._allowed.get(placement)
        if found is None:
            decided = self.placements.get(placement)
            names = dict.fromkeys(decided.clusters) if decided is not None else {}
            found = [room for room in self.rooms if room.cluster.name in names]
            self._allowed[placement] = found
        return found

    def _ranks(self, id: ShapeId) -> dict[tuple[str, int], tuple[int, OwnOption]]:
        """What may be put where for the wishes of a shape, each with its place in the order."""
        known = self._known_ranks.get(id)
        if known is None:
            decided = self._own.get(id)
            options = decided.ranked if decided is not None else ()
            known = {(one.cluster, one.alternative): (n, one) for n, one in enumerate(options)}
            self._known_ranks[id] = known
        return known

    def _own_candidates(self, shape: Shape, id: ShapeId) -> list[Found]:
        """As `candidates`, for work with wishes."""
        missing = self._missing(shape) if shape.placement else None
        if missing is not None:
            return [missing]
        decided = self._own.get(id)
        if decided is None:
            return [_alone("own_not_decided", "later")]
        if decided.broken:
            return [Found(Candidate("any", 0, "never", decided.broken))]
        ranks = self._ranks(id)
        refusals = {(one.cluster, one.alternative): one for one in decided.refused}
        rooms, found = self.rooms, []
        if shape.placement:
            rooms = self._chosen_by(shape.placement)
            chosen = {room.cluster.name for room in rooms}
            others = [room for room in self.rooms if room.cluster.name not in chosen]
            found = _refused(shape, self.placements[shape.placement], others, "never")
        for one in self._asked_apart(shape, id, rooms):
            pair = _pair(one.candidate)
            if pair in ranks:
                found.append(_own_ranked(one, *ranks[pair]))
            elif pair in refusals:
                found.append(_own_refused(one, refusals[pair]))
            elif one.candidate.verdict != "never":
                found.append(_undecided(one))
            else:
                found.append(one)
        absent = list(dict.fromkeys(name for name, _ in ranks if name not in self._here))
        found += [_own_absent(name, absent) for name in absent if self._may_choose(shape, name)]
        return found or [_alone("own_not_decided", "later")]

    def _asked_apart(self, shape: Shape, id: ShapeId, rooms: list[ClusterRoom]) -> list[Found]:
        """The verdicts on rooms that are allowed as `fitting` has them, and those on all others."""
        allowed = self.allowed(shape, id)
        names = {room.cluster.name for room in allowed}
        others = [room for room in rooms if room.cluster.name not in names]
        known = {room.cluster.name for room in rooms}
        found = [*candidates(shape, id, allowed), *candidates(shape, id, others)]
        asked = {one.candidate.alternative for one in found if one.candidate.cluster in known}
        nowhere = {
            one.candidate.alternative: one
            for one in found
            if one.candidate.alternative not in asked and one.candidate.verdict == "never"
        }
        return [*(one for one in found if one.candidate.cluster in known), *nowhere.values()]

    def _may_choose(self, shape: Shape, cluster: str) -> bool:
        return not shape.placement or cluster in self.placements[shape.placement].clusters


def _pair(one: Candidate) -> tuple[str, int]:
    return one.cluster, one.alternative


def _own_ranked(found: Found, rank: int, option: OwnOption) -> Found:
    """What fits, with its place in the order of its own placement: that counts for everything."""
    one = found.candidate
    figures = option.figures
    if one.verdict != "fits":
        return replace(found, candidate=replace(one, figures=figures))
    scores = {name: value for name, value in one.scores.items() if name != "preference"}
    scores["wishes"] = -RANK_STEP * rank
    told = replace(one, scores=scores, total=sum(scores.values()), figures=figures)
    return replace(found, candidate=told)


def _own_refused(found: Found, refusal: OwnRefusal) -> Found:
    """What the wishes keep from a cluster; that it could never fit there is told beside."""
    one = found.candidate
    beside = one.reasons if one.verdict == "never" else refusal.room
    verdict: Verdict = "later" if refusal.later and one.verdict != "never" else "never"
    return Found(Candidate(*_pair(one), verdict, (*refusal.reasons, *beside)))


def _undecided(found: Found) -> Found:
    """A cluster that nobody knew of when it was decided."""
    return Found(Candidate(*_pair(found.candidate), "later", (Reason("own_not_decided"),)))


def _own_absent(cluster: str, absent: Sequence[str]) -> Found:
    """One that no driver here reaches: told in front where no other would do."""
    reason = Reason("own_no_driver", {"cluster": _some(absent)})
    return Found(Candidate(cluster, 0, "never", (reason,)))


def _alone(code: str, verdict: Verdict) -> Found:
    return Found(Candidate("any", 0, verdict, (Reason(code),)))


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
    reason = Reason("no_driver", {"cluster": _some(absent), "placement": shape.placement})
    return Found(Candidate(cluster, 0, "later", (reason,)))


def _some(clusters: Sequence[str]) -> str:
    more = f" and {len(clusters) - NAMED} more" if len(clusters) > NAMED else ""
    return ", ".join(clusters[:NAMED]) + more


def _nothing(code: str, shape: Shape) -> Found:
    verdict: Verdict = "later" if code == "not_decided" else "never"
    return Found(Candidate("any", 0, verdict, (Reason(code, {"placement": shape.placement}),)))
