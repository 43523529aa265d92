"""What drivers say they saw: late, doubled or lost, a report must never do harm."""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.workload import RunEnd, RunPhase


class RunReport(Struct, frozen=True, tag="run", omit_defaults=True):
    """A run as its driver sees it now; ``end`` is set exactly if ``phase`` is Ended."""

    cluster: str
    run: RunId
    generation: int
    phase: RunPhase
    end: RunEnd | None = None
    at_ms: int = 0


class ClusterReport(Struct, frozen=True, tag="cluster"):
    """What a probe found."""

    cluster: Cluster


class StartRefused(Struct, frozen=True, tag="start-refused"):
    """A start that surely did not happen and never will: its run is over before it began."""

    cluster: str
    run: RunId
    generation: int
    code: str
    message: str


class Inventory(Struct, frozen=True, tag="inventory"):
    """All runs that a place knows of, told after (re)connecting.

    ``at_ms`` is when it was asked for, by the control plane's clock: a run that was seen before
    that and isn't listed is lost. With 0 nothing follows from what isn't listed.
    """

    cluster: str
    runs: tuple[RunReport, ...]
    at_ms: int = 0


class Reachability(Struct, frozen=True, tag="reachability"):
    """A cluster can't be reached since now, or can again."""

    cluster: str
    state: Literal["reachable", "unreachable"]
    message: str = ""


Report = RunReport | ClusterReport | StartRefused | Inventory | Reachability
