"""Decides in which waves a change would go over clusters if each of them took it well."""

from collections.abc import Sequence

from msgspec import Struct

from stellwerk.core.model.rollout import ClusterProgress, RolloutGroup, RolloutStrategy
from stellwerk.core.rollout.step import next_step


class Wave(Struct, frozen=True):
    """Clusters that are begun together, not before ``after_ms`` from the beginning."""

    clusters: tuple[str, ...]
    after_ms: int


def waves(strategy: RolloutStrategy, groups: Sequence[RolloutGroup]) -> list[Wave]:
    """The waves, where each cluster succeeds in no time and soaks as long as is asked."""
    found: list[Wave] = []
    progress: list[ClusterProgress] = []
    now_ms = 0
    while True:
        step = next_step(strategy, groups, progress, now_ms)
        begun = tuple(one.cluster for one in step.places if one.status == "ToApply")
        if begun:
            found.append(Wave(begun, now_ms))
            progress += [ClusterProgress(name, "Succeeded", now_ms) for name in begun]
        elif step.recheck_at_ms is not None:
            now_ms = step.recheck_at_ms
        else:
            return found
