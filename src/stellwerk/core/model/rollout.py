"""The nouns of a rollout: how a change goes over clusters, and how far it is on each of them."""

from typing import Literal

from msgspec import Struct

RolloutType = Literal["All", "Progressive", "ProgressivePerGroup"]
ClusterStatus = Literal["ToApply", "Progressing", "Succeeded", "Failed", "TimeOut", "Skip"]


class Portion(Struct, frozen=True):
    """So many clusters, or so many of a hundred of them; a portion is rounded up."""

    count: int = 0
    percent: float | None = None

    def of(self, total: int) -> int:
        """How many of ``total`` clusters it is: never more; 0 where it is nothing or too many."""
        wanted = self.count if self.percent is None else -int(-self.percent * total // 100)
        return wanted if 0 < wanted <= total else 0


class MandatoryGroup(Struct, frozen=True):
    """A decision group that goes first: by its name, and without one by its index."""

    name: str = ""
    index: int = 0


class RolloutStrategy(Struct, frozen=True):
    """How a change goes over clusters.

    ``max_concurrency``: how many at a time (None: all). ``max_failures``: how many may fail before
    no further cluster is begun. ``soak_ms``: how long a cluster holds its place after it has
    succeeded. ``deadline_ms``: how long one may take (None: for ever).
    """

    type: RolloutType = "All"
    mandatory: tuple[MandatoryGroup, ...] = ()
    max_concurrency: Portion | None = None
    max_failures: Portion = Portion()
    soak_ms: int = 0
    deadline_ms: int | None = None


class RolloutGroup(Struct, frozen=True):
    """A decision group: its place among the groups is its index."""

    name: str
    clusters: tuple[str, ...]


class ClusterProgress(Struct, frozen=True):
    """How far a change is on one cluster; ``since_ms`` is when that came to be, None: unknown."""

    cluster: str
    status: ClusterStatus
    since_ms: int | None = None


class Place(Struct, frozen=True):
    """A cluster that takes a place in the current step; ``until_ms``: when that can change."""

    cluster: str
    status: ClusterStatus
    until_ms: int | None = None


class RolloutStep(Struct, frozen=True):
    """What may be done now: those ``ToApply`` among the ``places`` get the change, and no others.

    ``timed_out`` took longer than their deadline; ``removed`` are no longer chosen; ``breach``:
    more have failed than may. ``recheck_at_ms``: when it can look otherwise by time alone.
    """

    places: tuple[Place, ...]
    timed_out: tuple[str, ...]
    removed: tuple[str, ...]
    breach: bool
    recheck_at_ms: int | None
