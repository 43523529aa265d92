"""A workload's records as sentences."""

from typing import get_args

import pytest
from msgspec.structs import replace

from stellwerk.core.model import events as ev
from stellwerk.core.model.calendars import Calendar
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.commands import Submit
from stellwerk.core.model.ids import BlobHash, DecisionId, RunId, ShapeId, WorkloadId
from stellwerk.core.model.own import OwnDecided
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.queue_object import QueueObject
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.reservations import Holder, Reservation, Span, Wanted
from stellwerk.core.model.standing import NOT_YET
from stellwerk.core.model.workload import RunEnd
from stellwerk.server.story import sentence, timeline
from stellwerk.testing.builders import a_shape, an_allocation

ID, RUN = WorkloadId("w-1"), RunId("w-1-2")
SUBMIT = Submit(ID, "job", "default", a_shape(), BlobHash("0" * 64))

EXAM = Reservation("exam", "ada", Holder("queue", "exam"), Wanted(1), "lab", (), (Span(5, 9),))
SENTENCES = [
    (ev.Submitted("ada", SUBMIT), "submitted by ada to queue default"),
    (ev.Held(ID, Reason("held", {"actor": "bob"})), "held by bob"),
    (ev.Released(ID), "released by bob"),
    (ev.PriorityChanged(ID, 7), "priority set to 7 by bob"),
    (ev.CancelRequested(ID), "cancel asked by bob"),
    (
        ev.RunPlanned(ID, RUN, 2, an_allocation("lab", "n1"), DecisionId("d-9")),
        "run 2 placed on lab (n1), decision d-9",
    ),
    (
        ev.RunPlanned(ID, RUN, 2, an_allocation("pc", "pc"), DecisionId("d-9")),
        "run 2 placed on pc, decision d-9",
    ),
    (ev.RunProgressed(RUN, "Running"), "run 2 is running"),
    (ev.NoticeGiven(RUN, "cancel", 30_000), "run 2 has 30 s to stop: it was cancelled"),
    (ev.NoticeGiven(RUN, "cancel", 0), "run 2 is ended at once: it was cancelled"),
    (ev.RunProgressed(RUN, "Stopping"), "run 2 is stopping"),
    (
        ev.RunProgressed(RUN, "Stopping", "time_limit"),
        "run 2 is stopping: its time limit is over",
    ),
    (
        ev.NoticeGiven(RUN, "abort", 5_000, Reason("aborted_gpu_idle", {"idle_ms": 3_600_000})),
        "run 2 has 5 s to stop: an abort rule held: none of its GPUs was busy for 1 h",
    ),
    (ev.NoticeWithdrawn(RUN), "run 2 need not stop any more"),
    (
        ev.RunWarned(
            RUN,
            Reason("gpu_over_asked", {"gpu": "1", "used_bytes": 14 << 30, "asked_bytes": 10 << 30}),
        ),
        "run 2 was warned: it holds 14 GiB of GPU 1 and asked for 10 GiB",
    ),
    (
        ev.ReachabilityChanged(RUN, reachable=False),
        "the machine of run 2 can't be reached; nothing ends",
    ),
    (
        ev.RunEnded(RUN, RunEnd("exited", code=3), Reason("exit_code", {"exit_code": 3})),
        "run 2 ended: the command ended with exit code 3",
    ),
    (
        ev.WorkloadEnded(ID, "Cancelled", Reason("cancelled", {"actor": "bob"})),
        "Cancelled: cancelled by bob",
    ),
    (ev.GateChanged(ID), "nothing but room keeps it from starting now"),
    (ev.LeaderChanged(1, "0.1.0"), ""),
    (ev.ClusterObserved(Cluster("lab", "local", ())), ""),
    (ev.NodeQuarantined("lab", "n1", Reason("node_faulty")), ""),
    (ev.NodeResumed("lab", "n1"), ""),
    (ev.ClusterDrained("lab"), ""),
    (ev.ClusterResumed("lab"), ""),
    (ev.ClusterRemoved("lab"), ""),
    (ev.ShapeWaits(ShapeId("s"), DecisionId("d"), ()), ""),
    (ev.FleetDeclared("site", BlobHash("0" * 64), BlobHash("0" * 64)), ""),
    (ev.PlacementApplied(Placement("default", "gold")), ""),
    (ev.PlacementDeleted("default/gold"), ""),
    (ev.PlacementDecided("default/gold", NOT_YET), ""),
    (ev.OwnPlacementDecided(ShapeId("s"), OwnDecided()), ""),
    (ev.RoomClaimed(ID), "its claim can't be counted on any more"),
    (ev.QueueObjectApplied(QueueObject("Cohort", "lab")), ""),
    (ev.QueueObjectDeleted("Cohort", "lab"), ""),
    (ev.ReservationMade(EXAM), ""),
    (ev.ReservationMoved("exam"), ""),
    (
        ev.CopyTimeLearned(RUN, 2000, 61_000),
        "a checkpoint of run 2 (1.95 KiB) takes about 1 min 1 s to be copied",
    ),
    (ev.CheckpointNoted(RUN, 0), "run 2 has a checkpoint of 1970-01-01 00:00 UTC"),
    (ev.ReservationOver("exam", "expired", 5), ""),
    (ev.CheckSet(ID, "budget", "Ready", "paid"), "check budget set to Ready by bob (paid)"),
    (ev.CalendarSet(Calendar("lab")), ""),
    (ev.CalendarRemoved("lab"), ""),
    (ev.WindowMoved(RUN, 60_000), "its window closes at 1970-01-01 00:01 UTC"),
]


def record(event: ev.Event, at_ms: int = 5) -> ev.Record:
    return ev.Record(1, at_ms, 1, "bob", "default", event)


@pytest.mark.parametrize(("event", "text"), SENTENCES)
def test_each_record_has_its_sentence(event: ev.Event, text: str) -> None:
    """Plain, with the numbers that matter; records about no workload have none."""
    assert sentence(record(event)) == text


def test_who_is_gone_on_from_has_a_name() -> None:
    """Ids are for programs."""
    submit = replace(SUBMIT, resumes=WorkloadId("w-0000000000001"))
    names = {"w-0000000000001": "digits"}
    [told] = timeline([record(ev.Submitted("ada", submit))], lambda one: names.get(one, one))
    assert told.what.endswith(", to go on from what digits saved")


def test_no_record_is_left_without_words() -> None:
    """Every type of event is known, those that only say something about a workload too."""
    told = {type(event) for event, _ in SENTENCES}
    rest: list[ev.Event] = [
        ev.Requeued(ID, Reason("checkpointed", {"exit_code": 85})),
        ev.CommandRefused("hold", ID, Reason("not_waiting", {"phase": "Running"})),
        ev.ActionDropped("start-run", ID, Reason("stale")),
    ]
    assert told | {type(event) for event in rest} == set(get_args(ev.Event))
    assert all(sentence(record(event)) for event in rest)


def test_a_timeline_keeps_the_order_and_leaves_out_what_says_nothing() -> None:
    """As it happened."""
    records = [
        record(ev.Submitted("ada", SUBMIT), 1),
        record(ev.LeaderChanged(2, "x"), 2),
        record(ev.Released(ID), 3),
    ]
    assert [moment.at_ms for moment in timeline(records)] == [1, 3]
