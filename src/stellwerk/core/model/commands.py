"""What people and programs ask for. A command isn't an event: it may find nothing to do.

The API writes a command durably to the inbox and acknowledges it; the engine turns it into events.
"""

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.admission import CheckWord
from stellwerk.core.model.calendars import Calendar
from stellwerk.core.model.gates import ARRAY_LABEL, After, ArrayPart
from stellwerk.core.model.ids import BlobHash, WorkloadId
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.queue_object import ObjectKey, QueueObject
from stellwerk.core.model.reservations import Holder, Span, Wanted
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Policies


class Submit(Struct, frozen=True, tag="submit", omit_defaults=True):
    """A new workload under a name that the store has already made unique.

    ``resumes`` names the workload from whose checkpoints it goes on ("" = it begins anew),
    ``after`` those whose end it waits for, ``array`` what it is an element of.
    """

    id: WorkloadId
    name: str
    project: str
    shape: Shape
    task: BlobHash
    snapshot: str = ""
    priority: int = 0
    queue: str = "default"
    kind: str = "job"
    labels: dict[str, str] = {}
    policies: Policies = Policies()
    held: bool = False
    resumes: WorkloadId = WorkloadId("")
    after: tuple[After, ...] = ()
    array: ArrayPart | None = None


def anonymous(submit: Submit) -> Submit:
    """Without what each submission makes up itself: equal for two that ask for the same."""
    part = submit.array
    if part is not None:
        part = replace(part, id=WorkloadId(""), name="")
    labels = {key: value for key, value in submit.labels.items() if key != ARRAY_LABEL}
    return replace(submit, id=WorkloadId(""), name="", array=part, labels=labels)


class Cancel(Struct, frozen=True, tag="cancel"):
    """End a workload: a waiting one at once, a running one by notice and grace."""

    id: WorkloadId
    now: bool = False


class Hold(Struct, frozen=True, tag="hold"):
    """Keep a waiting workload from starting."""

    id: WorkloadId


class Release(Struct, frozen=True, tag="release"):
    """Let a held workload start again."""

    id: WorkloadId


class SetPriority(Struct, frozen=True, tag="set-priority"):
    """Change the priority of a waiting workload."""

    id: WorkloadId
    priority: int


class SetCheck(Struct, frozen=True, tag="set-check", omit_defaults=True):
    """Say for an admission check whether a workload may start. ``retry_after_ms`` 0 = the usual."""

    id: WorkloadId
    check: str
    state: CheckWord
    message: str = ""
    retry_after_ms: int = 0


class DeclareLost(Struct, frozen=True, tag="declare-lost"):
    """A person says that a run which can't be reached is over (law: only known ends are ends)."""

    id: WorkloadId


class Move(Struct, frozen=True, tag="move", omit_defaults=True):
    """Have a run save and go on at another place: a cluster, or one node of it."""

    id: WorkloadId
    cluster: str
    node: str = ""


class ResumeNode(Struct, frozen=True, tag="resume-node"):
    """A person says that a quarantined node works again."""

    cluster: str
    node: str


class DrainCluster(Struct, frozen=True, tag="drain-cluster", omit_defaults=True):
    """Nothing new starts on a cluster, or on some nodes of it, until a time (0 = for ever).

    ``now``: what runs there is given notice.
    """

    cluster: str
    nodes: tuple[str, ...] = ()
    until_ms: int = 0
    now: bool = False


class ResumeCluster(Struct, frozen=True, tag="resume-cluster", omit_defaults=True):
    """A cluster, or some nodes of it, may be used again: neither drained nor quarantined."""

    cluster: str
    nodes: tuple[str, ...] = ()


class RemoveCluster(Struct, frozen=True, tag="remove-cluster"):
    """Nobody serves a cluster any more: forget it."""

    cluster: str


class ApplyFleet(Struct, frozen=True, tag="apply-fleet", omit_defaults=True):
    """Take over what a fleet file says: its facts in the place of those it said before, and its
    placements. ``facts`` is what was read of ``text``.
    """

    name: str
    text: BlobHash
    facts: BlobHash
    clusters: int = 0
    placements: tuple[Placement, ...] = ()


class DeletePlacement(Struct, frozen=True, tag="delete-placement"):
    """Forget a placement (``namespace/name``)."""

    key: str


class ApplyQueues(Struct, frozen=True, tag="apply-queues"):
    """Take over objects of queueing, each in the place of the one of its name; all or none."""

    objects: tuple[QueueObject, ...]


class DeleteQueueObjects(Struct, frozen=True, tag="delete-queue-objects", omit_defaults=True):
    """Forget objects of queueing, all or none. One that is in use stays, unless by ``force``."""

    keys: tuple[ObjectKey, ...]
    force: bool = False


class MakeReservation(Struct, frozen=True, tag="make-reservation", omit_defaults=True):
    """Promise somebody room for times to come."""

    name: str
    holder: Holder
    wanted: Wanted
    spans: tuple[Span, ...]
    release_ms: int = 0


class SetCalendar(Struct, frozen=True, tag="set-calendar"):
    """A cluster may be used in these windows alone; what they follow from is expanded already."""

    calendar: Calendar


class RemoveCalendar(Struct, frozen=True, tag="remove-calendar"):
    """A cluster may be used at any time again."""

    cluster: str


class CancelReservation(Struct, frozen=True, tag="cancel-reservation"):
    """Give up a reservation; what runs in it goes on."""

    name: str


Command = (
    Submit
    | Cancel
    | Hold
    | Release
    | SetPriority
    | DeclareLost
    | Move
    | SetCheck
    | ResumeNode
    | DrainCluster
    | ResumeCluster
    | RemoveCluster
    | ApplyFleet
    | DeletePlacement
    | ApplyQueues
    | DeleteQueueObjects
    | MakeReservation
    | CancelReservation
    | SetCalendar
    | RemoveCalendar
)

OfCluster = ResumeNode | DrainCluster | ResumeCluster | RemoveCluster | SetCalendar | RemoveCalendar
OfReservation = MakeReservation | CancelReservation
OfStanding = ApplyFleet | DeletePlacement | ApplyQueues | DeleteQueueObjects
OfNoWorkload = OfCluster | OfStanding | OfReservation


def subject(command: Command) -> WorkloadId:
    """The workload that a command is about; "" for one about something else."""
    return WorkloadId("") if isinstance(command, OfNoWorkload) else command.id


class Envelope(Struct, frozen=True):
    """A command as the inbox holds it. ``key`` makes a repeated request the same request."""

    seq: int
    at_ms: int
    actor: str
    key: str
    command: Command
