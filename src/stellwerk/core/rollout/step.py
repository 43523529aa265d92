"""Decides which clusters may get a change now, as Open Cluster Management's rollouts do.

Groups that are mandatory go first, one after the other, and none of them may fail. Then the others:
so many at a time in the order of their names, those that have been heard of before (in the order
of their names too), or group by group. A cluster that fails or is under way keeps its place until
its deadline; one that has succeeded keeps it until it has soaked.
"""

from collections.abc import Iterator, Sequence

from msgspec import Struct

from stellwerk.core.model.rollout import (
    ClusterProgress,
    MandatoryGroup,
    Place,
    Portion,
    RolloutGroup,
    RolloutStep,
    RolloutStrategy,
)

NONE_MAY_FAIL = Portion()
Indexed = tuple[int, RolloutGroup]


def next_step(
    strategy: RolloutStrategy,
    groups: Sequence[RolloutGroup],
    progress: Sequence[ClusterProgress],
    now_ms: int,
) -> RolloutStep:
    """What may be done now; ``groups`` are in the order of their index."""
    chosen = {cluster for group in groups for cluster in group.clusters}
    known = [one for one in progress if one.cluster in chosen]
    removed = tuple(one.cluster for one in progress if one.cluster not in chosen)
    step = _step(strategy, list(enumerate(groups)), known, len(chosen), now_ms)
    soonest = min(
        (one.until_ms for one in step.places if one.until_ms is not None and one.until_ms > now_ms),
        default=None,
    )
    return RolloutStep(tuple(step.places), tuple(step.timed_out), removed, step.breach, soonest)


class _Step(Struct):
    places: list[Place]
    timed_out: list[str]
    breach: bool = False


class _Clock(Struct, frozen=True):
    """What time says of a cluster, under one strategy."""

    now_ms: int
    soak_ms: int
    deadline_ms: int | None

    def of(self, one: ClusterProgress) -> tuple[Place | None, bool]:
        """The place that a cluster takes, if any, and whether its time is over."""
        since_ms = self.now_ms if one.since_ms is None else one.since_ms
        if one.status == "ToApply":
            return Place(one.cluster, "ToApply"), False
        if one.status == "Succeeded":
            until_ms = since_ms + self.soak_ms
            soaking = self.now_ms < until_ms
            return (Place(one.cluster, "Succeeded", until_ms) if soaking else None), False
        if one.status in ("TimeOut", "Skip"):
            return None, False
        if self.deadline_ms is None:
            return Place(one.cluster, one.status), False
        until_ms = since_ms + self.deadline_ms
        if self.now_ms < until_ms:
            return Place(one.cluster, one.status, until_ms), False
        return None, True


def _step(
    strategy: RolloutStrategy,
    groups: list[Indexed],
    known: list[ClusterProgress],
    total: int,
    now_ms: int,
) -> _Step:
    if strategy.type == "All":
        clock = _Clock(now_ms, 0, strategy.deadline_ms)
        return _by_cluster(groups, known, total, total, clock)
    clock = _Clock(now_ms, strategy.soak_ms, strategy.deadline_ms)
    first, rest = _apart(groups, strategy.mandatory)
    if first:
        step = _by_group(first, known, NONE_MAY_FAIL, clock)
        if step.places or step.timed_out:
            return step
    if strategy.type == "ProgressivePerGroup":
        return _by_group(rest, known, strategy.max_failures, clock)
    left = len({cluster for _, group in rest for cluster in group.clusters})
    at_once = (strategy.max_concurrency or Portion()).of(left) or left
    return _by_cluster(rest, known, at_once, strategy.max_failures.of(total), clock)


def _apart(
    groups: list[Indexed], mandatory: Sequence[MandatoryGroup]
) -> tuple[list[Indexed], list[Indexed]]:
    """The mandatory groups, and the others; a name means all groups of that name."""
    first = [
        (index, group)
        for index, group in groups
        if any(one.name == group.name if one.name else one.index == index for one in mandatory)
    ]
    return first, [one for one in groups if one not in first]


def _by_cluster(
    groups: list[Indexed],
    known: list[ClusterProgress],
    at_once: int,
    may_fail: int,
    clock: _Clock,
) -> _Step:
    """So many clusters at a time: those that were heard of first, then the untouched ones."""
    step = _Step([], [])
    failed = 0
    for one in sorted(known, key=lambda one: one.cluster):
        place, late = clock.of(one)
        # After too many have failed no cluster is begun, not even one that was to be.
        if place is not None and not (step.breach and one.status == "ToApply"):
            step.places.append(place)
        if late:
            step.timed_out.append(one.cluster)
        if late or one.status in ("TimeOut", "Failed"):
            failed += 1
            step.breach = failed > may_fail
        if len(step.places) >= at_once:
            return step
    if not step.breach:
        heard_of = {one.cluster for one in known}
        untouched = [one for one in _names(groups) if one not in heard_of]
        step.places += [Place(one, "ToApply") for one in untouched[: at_once - len(step.places)]]
    return step


def _by_group(
    groups: list[Indexed], known: list[ClusterProgress], may_fail: Portion, clock: _Clock
) -> _Step:
    """Group after group: the next is begun when nothing of those before is under way."""
    step = _Step([], [])
    failed: dict[str, bool] = {}
    for one in known:
        if one.status != "ToApply":
            place, late = clock.of(one)
            if place is not None:
                step.places.append(place)
            if late:
                step.timed_out.append(one.cluster)
            failed[one.cluster] = late or one.status in ("TimeOut", "Failed")
    all_failed = 0
    for _, group in groups:
        names = sorted(set(group.clusters))
        here = sum(failed.get(name, False) for name in names)
        step.places += [Place(name, "ToApply") for name in names if name not in failed]
        step.breach = here > may_fail.of(len(names))
        all_failed += here
        # Failed clusters may keep their places without keeping the next group from its turn.
        if step.breach or len(step.places) > all_failed:
            break
    return step


def _names(groups: list[Indexed]) -> Iterator[str]:
    yield from sorted({cluster for _, group in groups for cluster in group.clusters})
