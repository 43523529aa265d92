"""What was seen of the world: late, doubled or lost, a report must never do harm.

Drivers tell all of it but ``RuleHeld`` and ``RunWarned``, which the watch over a run's telemetry
tells.
"""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.ids import RunId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.telemetry import GpuUse
from stellwerk.core.model.workload import NoticeWhy, RunEnd, RunPhase


class RunReport(Struct, frozen=True, tag="run", omit_defaults=True):
    """A run as its driver sees it now; ``end`` is set exactly if ``phase`` is Ended.

    ``why`` says why it must stop, if its place gave it notice or passed one on.
    """

    cluster: str
    run: RunId
    generation: int
    phase: RunPhase
    end: RunEnd | None = None
    at_ms: int = 0
    why: NoticeWhy | Literal[""] = ""


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


class Inventory(Struct, frozen=True, tag="inventory", omit_defaults=True):
    """All runs that a place knows of, told after (re)connecting.

    ``at_ms`` is when it was asked for, by the control plane's clock: a run that was seen before
    that and isn't listed is lost. With 0 nothing follows from what isn't listed. ``nodes`` are
    those it speaks for; none named = all of the cluster. ``people`` likewise are those whose runs
    it speaks of ("" = the server's own user). ``spread``: it speaks of those runs alone that are on
    several nodes, all of which are named.
    """

    cluster: str
    runs: tuple[RunReport, ...]
    at_ms: int = 0
    nodes: tuple[str, ...] = ()
    people: tuple[str, ...] = ()
    spread: bool = False


class Reachability(Struct, frozen=True, tag="reachability", omit_defaults=True):
    """A cluster, or some ``nodes`` of it, can't be reached since now, or can again.

    Where ``people`` are named, it is their runtimes alone: nodes are as they were.
    """

    cluster: str
    state: Literal["reachable", "unreachable"]
    message: str = ""
    nodes: tuple[str, ...] = ()
    people: tuple[str, ...] = ()


class RunSample(Struct, frozen=True, tag="sample", omit_defaults=True):
    """What a run uses now. It is telemetry: no fact follows from it.

    ``gpus`` are all devices of the machine. ``peak_memory_bytes`` is since the run began. Guests
    are what people run inside of it, also through its ports: the processor time of all of them so
    far (None from a runtime that doesn't tell), and how much was typed and transferred.
    """

    cluster: str
    run: RunId
    at_ms: int
    memory_bytes: int
    cpu_ms: int
    processes: int
    log_bytes: int = 0
    peak_memory_bytes: int = 0
    gpus: tuple[GpuUse, ...] = ()
    guest_cpu_ms: int | None = None
    guest_typed_bytes: int = 0
    guest_carried_bytes: int = 0


class CopyTimed(Struct, frozen=True, tag="copy-timed"):
    """How long it takes, after a run's end, until what it saved last is safe elsewhere."""

    cluster: str
    run: RunId
    generation: int
    bytes: int
    copy_ms: int


class RuleHeld(Struct, frozen=True, tag="rule-held"):
    """One of a run's abort rules was found to hold."""

    cluster: str
    run: RunId
    generation: int
    reason: Reason


class MachineCutOff(Struct, frozen=True, tag="machine-cut-off"):
    """A machine of a gang has been silent for long, and none of the others reaches it."""

    cluster: str
    run: RunId
    generation: int
    reason: Reason


class RunWarned(Struct, frozen=True, tag="run-warned"):
    """A run was seen to do what may end it, if it goes on."""

    cluster: str
    run: RunId
    generation: int
    reason: Reason


Report = (
    RunReport
    | ClusterReport
    | StartRefused
    | Inventory
    | Reachability
    | RunSample
    | CopyTimed
    | RuleHeld
    | RunWarned
    | MachineCutOff
)
