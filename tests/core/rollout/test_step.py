"""How a change goes over clusters, whatever its strategy: rules over chance fleets."""

from typing import get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from stellwerk.core.model.rollout import (
    ClusterProgress,
    ClusterStatus,
    MandatoryGroup,
    Portion,
    RolloutGroup,
    RolloutStrategy,
)
from stellwerk.core.rollout.step import next_step
from stellwerk.core.rollout.waves import waves

NOW_MS = 1_000_000
NAMES = [f"c{number}" for number in range(9)]
PORTIONS = st.builds(Portion, st.integers(0, 10)) | st.builds(
    Portion, st.just(0), st.integers(0, 120).map(float)
)
STRATEGIES = st.builds(
    RolloutStrategy,
    st.sampled_from(["All", "Progressive", "ProgressivePerGroup"]),
    st.lists(st.builds(MandatoryGroup, st.sampled_from(["", "first"]), st.integers(0, 2))).map(
        lambda found: tuple(found[:2])
    ),
    st.none() | PORTIONS,
    PORTIONS,
    st.sampled_from([0, 60_000]),
    st.sampled_from([None, 90_000]),
)
STATUSES = st.sampled_from(get_args(ClusterStatus))


@st.composite
def rollouts(
    draw: st.DrawFn,
) -> tuple[RolloutStrategy, list[RolloutGroup], list[ClusterProgress]]:
    """A strategy, groups that share no cluster, and what is known of some clusters."""
    members: list[list[str]] = [[], [], []]
    for name in NAMES:
        members[draw(st.integers(0, 2))].append(name)
    groups = [
        RolloutGroup("first" if index == 0 else "", tuple(names))
        for index, names in enumerate(members)
        if names
    ]
    known = draw(st.lists(st.sampled_from(NAMES), unique=True))
    progress = [
        ClusterProgress(name, draw(STATUSES), NOW_MS - draw(st.integers(0, 120_000)))
        for name in known
    ]
    return draw(STRATEGIES), groups, progress


@given(rollouts())
def test_places_are_taken_once_and_never_by_what_is_settled(
    rollout: tuple[RolloutStrategy, list[RolloutGroup], list[ClusterProgress]],
) -> None:
    """A cluster has one place at most; skipped and timed out ones have none."""
    step = next_step(*rollout, NOW_MS)
    names = [one.cluster for one in step.places]
    assert len(names) == len(set(names))
    settled = {one.cluster for one in rollout[2] if one.status in ("TimeOut", "Skip")}
    assert not settled & set(names)
    assert step.recheck_at_ms is None or step.recheck_at_ms > NOW_MS


@given(rollouts())
def test_no_more_at_once_than_asked(
    rollout: tuple[RolloutStrategy, list[RolloutGroup], list[ClusterProgress]],
) -> None:
    """No cluster is begun while so many hold places already."""
    strategy, groups, progress = rollout
    if strategy.type != "Progressive" or strategy.mandatory:
        return
    step = next_step(strategy, groups, progress, NOW_MS)
    at_once = (strategy.max_concurrency or Portion()).of(len(NAMES)) or len(NAMES)
    assert len(step.places) <= at_once


@settings(max_examples=40)
@given(rollouts(), st.integers(0, 4))
def test_it_ends_when_all_succeed(
    rollout: tuple[RolloutStrategy, list[RolloutGroup], list[ClusterProgress]], failing: int
) -> None:
    """Where each begun cluster succeeds, all are done after as many steps; a breach ends it too."""
    strategy, groups, _ = rollout
    progress: dict[str, ClusterProgress] = {}
    at_ms = NOW_MS
    for _ in range(3 * len(NAMES)):
        at_ms += 200_000
        step = next_step(strategy, groups, list(progress.values()), at_ms)
        begun = [one.cluster for one in step.places if one.status == "ToApply"]
        if not begun:
            break
        for name in begun:
            bad = NAMES.index(name) < failing
            progress[name] = ClusterProgress(name, "TimeOut" if bad else "Succeeded", at_ms)
    assert (
        step.breach
        or len(progress) == len(NAMES)
        or any(one.status == "TimeOut" for one in progress.values())
    )
    if not failing:
        assert len(progress) == len(NAMES)


@given(rollouts())
def test_waves_take_every_cluster_once(
    rollout: tuple[RolloutStrategy, list[RolloutGroup], list[ClusterProgress]],
) -> None:
    """Each cluster is in one wave, and waves come one after the other."""
    strategy, groups, _ = rollout
    found = waves(strategy, groups)
    assert sorted(name for one in found for name in one.clusters) == NAMES
    assert [one.after_ms for one in found] == sorted(one.after_ms for one in found)


def test_waves_of_a_careful_change() -> None:
    """The first group by itself, then two at a time, each after the soak of the one before."""
    groups = [RolloutGroup("canary", ("k",)), RolloutGroup("", ("a", "b", "c"))]
    strategy = RolloutStrategy(
        "Progressive",
        (MandatoryGroup("canary"),),
        max_concurrency=Portion(2),
        soak_ms=60_000,
    )
    found = [(one.clusters, one.after_ms) for one in waves(strategy, groups)]
    assert found == [(("k",), 0), (("a", "b"), 60_000), (("c",), 120_000)]
