"""Small values that the tests of the store put in and expect to get out again."""

from collections.abc import Sequence
from pathlib import Path

from stellwerk.core.model import events as ev
from stellwerk.core.model.calendars import Calendar, Source
from stellwerk.core.model.commands import Cancel, Command, Submit
from stellwerk.core.model.holding import Claim, Holding
from stellwerk.core.model.ids import BlobHash, DecisionId, RunId, ShapeId, WorkloadId, digest
from stellwerk.core.model.own import OwnDecided, OwnOption
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.model.queueing import Cohort
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.reservations import Holder, Reservation, Span, Wanted
from stellwerk.core.model.standing import Decided
from stellwerk.core.model.workload import RunEnd
from stellwerk.store import Batch, NewCommand, Store
from stellwerk.testing.builders import a_cluster, a_shape, an_allocation

SHAPE = a_shape()
SHAPE_ID = ShapeId(digest(SHAPE))
TASK = BlobHash("0" * 64)
WHY = Reason("no_room", {"wanted": 4, "largest": 2.5, "kind": "A100"})
W1 = WorkloadId("w-1")
RUN = RunId("w-1-1")
DECISION = DecisionId("d-1")
EXAM = Reservation("exam", "ada", Holder("queue", "exam"), Wanted(1), "lab", (), (Span(5, 9),))


def opened(home: Path) -> Store:
    """A store that takes work whatever the room on the disk of the tests is."""
    store = Store.open(home)
    store.reserve_bytes = store.blobs.reserve_bytes = 0
    return store


def a_submit(id: str = "w-1", name: str = "digits", project: str = "default") -> Submit:
    """A submission under a base name."""
    return Submit(WorkloadId(id), name, project, SHAPE, TASK)


def new(command: Command, key: str = "", actor: str = "ada") -> NewCommand:
    """A command on its way into the inbox."""
    return NewCommand(actor, "default", key, command)


def a_cancel(id: str = "w-1") -> Cancel:
    """A command that has no name."""
    return Cancel(WorkloadId(id))


EVENTS: tuple[ev.Event, ...] = (
    ev.LeaderChanged(2, "0.1.0"),
    ev.ClusterObserved(a_cluster()),
    ev.Submitted("ada", a_submit()),
    ev.ShapeWaits(SHAPE_ID, DECISION, (WHY,)),
    ev.Held(W1, WHY),
    ev.Released(W1),
    ev.GateChanged(W1, "array"),
    ev.PriorityChanged(W1, -3),
    ev.RunPlanned(W1, RUN, 1, an_allocation(), DECISION),
    ev.RunProgressed(RUN, "Running"),
    ev.NoticeGiven(RUN, "preempt", 30_000),
    ev.NoticeGiven(RUN, "drain", 30_000, WHY, 12_000),
    ev.CopyTimeLearned(RUN, 1 << 30, 12_000),
    ev.NoticeWithdrawn(RUN),
    ev.ReachabilityChanged(RUN, reachable=False),
    ev.RunEnded(RUN, RunEnd("exited", code=1, last_lines=("naïve\n", "\x00")), WHY),
    ev.Requeued(W1, WHY, 5, charged=True, shape=a_shape(), then=a_shape()),
    ev.NodeQuarantined("lab", "n1", WHY),
    ev.NodeResumed("lab", "n1"),
    ev.ClusterDrained("lab", ("n1",), 5_000),
    ev.ClusterResumed("lab", ("n1",)),
    ev.ClusterRemoved("lab"),
    ev.RoomClaimed(W1, Claim(an_allocation(), Holding("default/q"), (RUN,), 5)),
    ev.WorkloadEnded(W1, "Failed", WHY),
    ev.CancelRequested(W1),
    ev.CommandRefused("cancel", W1, WHY),
    ev.ActionDropped("start-run", W1, WHY),
    ev.FleetDeclared("lab.yaml", TASK, TASK, 2),
    ev.PlacementApplied(Placement("lab", "gpus", count=2)),
    ev.PlacementDecided("lab/gpus", Decided("pd-1", ("lab",), (100,))),
    ev.PlacementDeleted("lab/gpus"),
    ev.OwnPlacementDecided(ShapeId("s"), OwnDecided((OwnOption("lab"),))),
    ev.QueueObjectApplied(QueueObject("Cohort", "lab", manifest="{}", cohort=Cohort("lab"))),
    ev.QueueObjectDeleted("Cohort", "lab"),
    ev.CalendarSet(Calendar("lab", ((1, 2), (5, 9)), 9, (Source("weekly", "mon"),))),
    ev.CalendarRemoved("lab"),
    ev.WindowMoved(RUN, 1_000),
    ev.CheckSet(W1, "budget", "Ready", "paid"),
    ev.CheckpointNoted(RUN, 5),
    ev.RunWarned(RUN, WHY),
    ev.ReservationMade(EXAM),
    ev.ReservationMoved("exam", (), "lab/n1 is gone"),
    ev.ReservationOver("exam", "expired", 5),
)
"""One of each kind."""


def records_of(
    events: Sequence[ev.Event], *, after: int = 0, epoch: int = 1, at_ms: int = 1_000
) -> tuple[ev.Record, ...]:
    """Events as the records that follow number ``after``."""
    return tuple(
        ev.Record(after + index, at_ms + after + index, epoch, "engine", "default", event)
        for index, event in enumerate(events, 1)
    )


def grow(store: Store, count: int, epoch: int) -> None:
    """Appends so many records."""
    events = [ev.Released(WorkloadId(f"w-{number}")) for number in range(count)]
    store.append(Batch(epoch, records_of(events, after=store.seq(), epoch=epoch))).result()
