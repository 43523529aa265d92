"""Every fact the journal may hold: one tagged union. Fold never decides: events carry outcomes.

Evolution: fields are only added, with defaults. A changed meaning is a new tag and an upcaster.
"""

from typing import Literal

from msgspec import Struct

from stellwerk.core.model import reservation_events as promised
from stellwerk.core.model.admission import CheckWord
from stellwerk.core.model.calendars import Calendar
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.commands import Submit
from stellwerk.core.model.gates import Gate
from stellwerk.core.model.holding import Claim, Holding
from stellwerk.core.model.ids import BlobHash, DecisionId, RunId, ShapeId, WorkloadId
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Allocation, Shape
from stellwerk.core.model.standing import Decided
from stellwerk.core.model.workload import NoticeWhy, RunEnd


class LeaderChanged(Struct, frozen=True, tag="leader-changed"):
    """A new engine leads; everything after this carries its epoch."""

    epoch: int
    version: str


class ClusterObserved(Struct, frozen=True, tag="cluster-observed"):
    """The material facts of a cluster changed."""

    cluster: Cluster


class Submitted(Struct, frozen=True, tag="submitted"):
    """A workload entered its queue, or waits before a gate (``submit`` says for whom)."""

    owner: str
    submit: Submit
    gate: Gate = ""


class ShapeWaits(Struct, frozen=True, tag="shape-waits"):
    """All waiting workloads of a shape wait for these reasons, as the decision says in full."""

    shape: ShapeId
    decision: DecisionId
    reasons: tuple[Reason, ...]


class Held(Struct, frozen=True, tag="held"):
    """A workload is kept from starting."""

    id: WorkloadId
    reason: Reason


class Released(Struct, frozen=True, tag="released"):
    """A held workload waits in its queue again."""

    id: WorkloadId


class GateChanged(Struct, frozen=True, tag="gate-changed"):
    """Another gate keeps a waiting workload from its turn than before, or none ("") any more."""

    id: WorkloadId
    gate: Gate = ""


class PriorityChanged(Struct, frozen=True, tag="priority-changed"):
    """A waiting workload's priority is another one now."""

    id: WorkloadId
    priority: int


class RunPlanned(Struct, frozen=True, tag="run-planned", omit_defaults=True):
    """A run was decided; it is started after this fact is durable, at most once per generation.

    ``holding`` is the quota that it has until it is over (None: no queue binds it).
    """

    workload: WorkloadId
    run: RunId
    generation: int
    allocation: Allocation
    decision: DecisionId
    holding: Holding | None = None


class RoomClaimed(Struct, frozen=True, tag="room-claimed", omit_defaults=True):
    """A waiting workload gets a place and quota when some runs, which have notice, are over.

    ``claim`` None: it isn't counted on any more, and the workload waits as before.
    """

    id: WorkloadId
    claim: Claim | None = None


class CheckSet(Struct, frozen=True, tag="check-set", omit_defaults=True):
    """An admission check has said something of a workload that holds quota."""

    id: WorkloadId
    check: str
    state: CheckWord
    message: str = ""


class RunProgressed(Struct, frozen=True, tag="run-progressed", omit_defaults=True):
    """A run was seen in a later phase than before; ``why`` says why it is stopping."""

    run: RunId
    phase: Literal["SettingUp", "Running", "Stopping"]
    why: NoticeWhy | Literal[""] = ""


class NoticeGiven(Struct, frozen=True, tag="notice-given"):
    """A run must stop: it is told so, and has its grace from then on.

    After that its machine is still needed for ``copy_ms``, until what it saved is safe elsewhere.
    """

    run: RunId
    why: NoticeWhy
    grace_ms: int
    reason: Reason | None = None
    copy_ms: int = 0


class CopyTimeLearned(Struct, frozen=True, tag="copy-time-learned"):
    """How long copying what a run saved last takes, which is so many bytes."""

    run: RunId
    bytes: int
    copy_ms: int


class CheckpointNoted(Struct, frozen=True, tag="checkpoint-noted"):
    """What a run has saved completely is as new as this, and was much older when last noted."""

    run: RunId
    saved_ms: int


class WindowMoved(Struct, frozen=True, tag="window-moved"):
    """The window of a run closes at another time than it was told; its machine is told."""

    run: RunId
    closes_ms: int


class RunWarned(Struct, frozen=True, tag="run-warned"):
    """A run does what may end it, if it goes on; nothing follows from that yet."""

    run: RunId
    reason: Reason


class NoticeWithdrawn(Struct, frozen=True, tag="notice-withdrawn"):
    """The cause of a notice is gone; the run goes on."""

    run: RunId


class ReachabilityChanged(Struct, frozen=True, tag="reachability-changed"):
    """The machine of a run can't be reached any more, or can again. This ends nothing."""

    run: RunId
    reachable: bool


class RunEnded(Struct, frozen=True, tag="run-ended"):
    """A run is known to be over; its allocation is free again.

    ``node`` is the one that the end says something about, if it does: that it is at fault
    (``node_failed``) or that it works.
    """

    run: RunId
    end: RunEnd
    reason: Reason
    node: str = ""
    node_failed: bool = False


class Requeued(Struct, frozen=True, tag="requeued"):
    """A workload whose run ended goes back to its queue, not to start before ``not_before_ms``.

    ``shape`` is what it asks for from now on, if that is something else than before, and ``then``
    what it asks for again when its next run is over.
    """

    id: WorkloadId
    reason: Reason
    not_before_ms: int = 0
    charged: bool = False
    shape: Shape | None = None
    then: Shape | None = None


class NodeQuarantined(Struct, frozen=True, tag="node-quarantined"):
    """A node fails everything: it gets nothing new until somebody has looked at it."""

    cluster: str
    node: str
    reason: Reason


class NodeResumed(Struct, frozen=True, tag="node-resumed"):
    """Somebody says that a quarantined node works again."""

    cluster: str
    node: str


class ClusterDrained(Struct, frozen=True, tag="cluster-drained", omit_defaults=True):
    """Nothing new starts on a cluster, or on some nodes of it, until a time (0 = for ever)."""

    cluster: str
    nodes: tuple[str, ...] = ()
    until_ms: int = 0


class ClusterResumed(Struct, frozen=True, tag="cluster-resumed", omit_defaults=True):
    """A cluster isn't drained any more; with ``nodes``, those aren't that were drained by name."""

    cluster: str
    nodes: tuple[str, ...] = ()


class ClusterRemoved(Struct, frozen=True, tag="cluster-removed"):
    """A cluster is gone: nobody serves it, and nothing runs there."""

    cluster: str


class WorkloadEnded(Struct, frozen=True, tag="workload-ended"):
    """A workload is over and leaves memory for the read models."""

    id: WorkloadId
    phase: Literal["Succeeded", "Failed", "Cancelled"]
    reason: Reason


class CancelRequested(Struct, frozen=True, tag="cancel-requested"):
    """Somebody wants a running workload to end; whatever its exit status, the end is Cancelled.

    ``now``: without the grace it would have.
    """

    id: WorkloadId
    now: bool = False


class CommandRefused(Struct, frozen=True, tag="command-refused"):
    """A command found nothing it could do."""

    command: str
    id: WorkloadId
    reason: Reason


class ActionDropped(Struct, frozen=True, tag="action-dropped"):
    """A planned action relied on a state that had changed by then; it is planned again."""

    action: str
    id: WorkloadId
    reason: Reason


class FleetDeclared(Struct, frozen=True, tag="fleet-declared", omit_defaults=True):
    """A fleet file says something else than before, or something for the first time."""

    name: str
    text: BlobHash
    facts: BlobHash
    clusters: int = 0


class PlacementApplied(Struct, frozen=True, tag="placement-applied"):
    """A placement is new, or another one than before."""

    placement: Placement


class PlacementDeleted(Struct, frozen=True, tag="placement-deleted"):
    """A placement is gone."""

    key: str


class PlacementDecided(Struct, frozen=True, tag="placement-decided", omit_defaults=True):
    """A placement has other clusters, groups or conditions than before. Why is stored under the id
    of the decision.
    """

    key: str
    decided: Decided


class OwnPlacementDecided(Struct, frozen=True, tag="own-placement-decided"):
    """Work of a shape with wishes may start elsewhere, or in another order, than before."""

    shape: ShapeId
    decided: OwnDecided


class QueueObjectApplied(Struct, frozen=True, tag="queue-object-applied"):
    """An object of queueing is new, or another one than before."""

    object: QueueObject


class QueueObjectDeleted(Struct, frozen=True, tag="queue-object-deleted", omit_defaults=True):
    """An object of queueing is gone."""

    kind: str
    name: str
    namespace: str = ""


class CalendarSet(Struct, frozen=True, tag="calendar-set"):
    """A cluster has other windows than before, or they follow from something else."""

    calendar: Calendar


class CalendarRemoved(Struct, frozen=True, tag="calendar-removed"):
    """A cluster may be used at any time again."""

    cluster: str


ReservationMade = promised.ReservationMade
ReservationMoved = promised.ReservationMoved
ReservationOver = promised.ReservationOver

Event = (
    LeaderChanged
    | ClusterObserved
    | Submitted
    | ShapeWaits
    | Held
    | Released
    | GateChanged
    | PriorityChanged
    | RunPlanned
    | RoomClaimed
    | CheckSet
    | RunProgressed
    | NoticeGiven
    | CopyTimeLearned
    | CheckpointNoted
    | NoticeWithdrawn
    | RunWarned
    | ReachabilityChanged
    | RunEnded
    | Requeued
    | NodeQuarantined
    | NodeResumed
    | ClusterDrained
    | ClusterResumed
    | ClusterRemoved
    | WorkloadEnded
    | CancelRequested
    | CommandRefused
    | ActionDropped
    | FleetDeclared
    | PlacementApplied
    | PlacementDeleted
    | PlacementDecided
    | OwnPlacementDecided
    | QueueObjectApplied
    | QueueObjectDeleted
    | ReservationMade
    | ReservationMoved
    | ReservationOver
    | WindowMoved
    | CalendarSet
    | CalendarRemoved
)


class Record(Struct, frozen=True):
    """An event in the journal. ``at_ms`` never goes backwards; ``epoch`` is the leader's."""

    seq: int
    at_ms: int
    epoch: int
    actor: str
    project: str
    event: Event
    version: int = 1
