"""What a cycle came to, as values: who starts, who is evicted, and why each other head waits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from stellwerk.core.model.queueing import PodSetAssignment
from stellwerk.core.queue.entries import Tried, Verdict

NO_MATCHING = "NoMatchingFlavor"
EXCEEDS = "ExceedsMaxQuota"
QUOTA = "WaitingForQuota"
TOPOLOGY = "TopologyPlacementFailed"
VICTIMS = "WaitingForPreemptedWorkloads"
MISCONFIGURED = "Misconfigured"
SUSPENDED = "Suspended"
NOT_YET = "PendingEvaluation"
LOST_RACE = "lost_race"
WORST_FIRST = (NO_MATCHING, EXCEEDS, QUOTA, TOPOLOGY)
_OF_CODE = {
    "exceeds": EXCEEDS,
    "short": QUOTA,
    "fits": TOPOLOGY,
    "borrows": TOPOLOGY,
    "topology": TOPOLOGY,
}


class Admitted(NamedTuple):
    """A workload that gets quota; ``checks`` must still pass before it starts."""

    key: str
    queue: str
    pod_sets: tuple[PodSetAssignment, ...]
    level: int
    checks: tuple[str, ...]


class Evicted(NamedTuple):
    """A workload that must go, by which right, and for whom (``by`` "" = the queue is stopped)."""

    key: str
    queue: str
    reason: str
    by: str


class Waits(NamedTuple):
    """Why a head waits: the reference's name for it, and what each flavor said.

    ``parks`` = it leaves the heap until something changes; ``tried`` is where the search for a
    flavor goes on.
    """

    key: str
    queue: str
    why: str
    parks: bool
    tried: Tried
    verdicts: tuple[Verdict, ...]
    victims: tuple[str, ...]
    note: str = ""


class Outcome:
    """Everything that one cycle decided."""

    def __init__(self) -> None:
        self.admitted: list[Admitted] = []
        self.evicted: list[Evicted] = []
        self.waits: list[Waits] = []

    @property
    def empty(self) -> bool:
        """Whether carrying it out would change nothing but who is parked."""
        return not self.admitted and not self.evicted


def worst_of(verdicts: Iterable[Verdict]) -> str:
    """The reference's name for why an assignment doesn't fit, by what each flavor said.

    For a pod set and resource the mildest flavor counts, over all of them the worst.
    """
    by_flavor: dict[tuple[str, str], str] = {}
    for one in verdicts:
        key = (one.pod_set, one.flavor)
        name = _OF_CODE.get(one.code, NO_MATCHING)
        known = by_flavor.get(key)
        if known is None or known == TOPOLOGY or WORST_FIRST.index(name) < WORST_FIRST.index(known):
            by_flavor[key] = name
    by_pod_set: dict[str, str] = {}
    for (pod_set, _), name in by_flavor.items():
        known = by_pod_set.get(pod_set)
        if known is None or WORST_FIRST.index(name) > WORST_FIRST.index(known):
            by_pod_set[pod_set] = name
    return min(by_pod_set.values(), key=WORST_FIRST.index, default=QUOTA)
