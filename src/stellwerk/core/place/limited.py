"""Keeps people and projects within their limits: what one more run would make too much waits."""

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from stellwerk.core.model.decisions import Candidate
from stellwerk.core.model.limits import (
    NO_LIMITS,
    Holder,
    Limit,
    Limits,
    Tally,
    holders_of,
    tallies,
)
from stellwerk.core.model.reasons import Param, Reason
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.place.found import Found


class Limited:
    """What everybody holds in a cycle, against what they may hold."""

    def __init__(self, limits: Limits = NO_LIMITS, held: Iterable[Allocation] = ()) -> None:
        self._limits = limits
        self.bind = limits.bind
        self._tallies = tallies(held) if self.bind else {}

    def take(self, allocation: Allocation) -> None:
        """Counts a run that is started."""
        if self.bind:
            for holder in holders_of(allocation.person, allocation.project):
                self._tallies.setdefault(holder, Tally()).add(allocation)

    def full(self, shape: Shape) -> tuple[Reason, ...]:
        """Why nothing more of this shape's person or project may start, whatever it holds."""
        if not self.bind:
            return ()
        reasons = []
        for holder, limit in self._of(shape):
            tally = self._tallies.get(holder, Tally())
            if limit.running and tally.running >= limit.running:
                params = self._who(holder, limit.running)
                reasons.append(Reason("limit_running", {**params, "running": tally.running}))
        return tuple(reasons)

    def within(self, shape: Shape, found: Sequence[Found]) -> list[Found]:
        """Those of what fits that would make nobody hold too many devices."""
        if not self.bind:
            return list(found)
        if self.full(shape):
            return []
        return [one for one in found if not self._too_many(shape, one.candidate.alternative)]

    def judged(self, shape: Shape, found: Sequence[Found]) -> list[Found]:
        """The same candidates, where those that would be too much wait for that reason."""
        if not self.bind:
            return list(found)
        full = self.full(shape)
        return [self._judged(shape, one, full) for one in found]

    def _judged(self, shape: Shape, one: Found, full: tuple[Reason, ...]) -> Found:
        if one.candidate.verdict == "never":
            return one
        reasons = full or self._too_many(shape, one.candidate.alternative)
        if not reasons:
            return one
        was = one.candidate
        return Found(Candidate(was.cluster, was.alternative, "later", reasons), far=one.far)

    def _too_many(self, shape: Shape, alternative: int) -> tuple[Reason, ...]:
        if not 0 <= alternative < len(shape.alternatives):
            return ()
        gpu = shape.alternatives[alternative].request.gpu
        wanted = gpu.count * shape.num_nodes if gpu is not None else 0
        reasons = []
        for holder, limit in self._of(shape):
            held = self._tallies.get(holder, Tally()).gpus
            if wanted and limit.gpus and held + wanted > limit.gpus:
                params = {**self._who(holder, limit.gpus), "held": held, "wanted": wanted}
                code = "limit_gpus" if wanted <= limit.gpus else "limit_never"
                reasons.append(Reason(code, params))
        return tuple(reasons)

    def _of(self, shape: Shape) -> tuple[tuple[Holder, Limit], ...]:
        person, project = holders_of(shape.person, shape.project)
        return (
            (person, self._limits.of_person(shape.person)),
            (project, self._limits.of_project(shape.project)),
        )

    @staticmethod
    def _who(holder: Holder, limit: int) -> dict[str, Param]:
        kind, name = holder
        default = "the server's own user" if kind == "person" else "default"
        told = name or default
        return {"who": told if kind == "person" else f"project {told}", "limit": limit}


def charged(allocation: Allocation, shape: Shape) -> Allocation:
    """What a run holds, with whom it is charged to."""
    if not (shape.person or shape.project):
        return allocation
    return replace(allocation, person=shape.person, project=shape.project)
