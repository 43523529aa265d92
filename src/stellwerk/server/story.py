"""Tells a workload's records as a timeline: one sentence per record, in the order it happened."""

from collections.abc import Callable, Iterable
from typing import assert_never

from stellwerk.core.model import events as ev
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.draining import moment
from stellwerk.core.model.quantity import show_bytes, show_duration
from stellwerk.core.model.reasons import Reason
from stellwerk.server.story_models import Moment

PROGRESS = {
    "SettingUp": "run {n} is setting up",
    "Running": "run {n} is running",
    "Stopping": "run {n} is stopping",
}
NOTICES = {
    "cancel": "it was cancelled",
    "preempt": "its room goes to other work",
    "window": "the cluster's window closes",
    "time_limit": "its time limit is over",
    "abort": "one of its abort rules holds",
    "drain": "its machine is drained",
    "console": "somebody sat down at its machine",
}


GATES = {
    "": "nothing but room keeps it from starting now",
    "after": "it waits for others to end",
    "array": "those it waited for have ended; it waits for its place in the array",
}


def timeline(records: Iterable[ev.Record], name_of: Callable[[str], str] = str) -> list[Moment]:
    """The story so far; `name_of` gives the names of other workloads in it."""
    told = ((record.at_ms, sentence(record, name_of)) for record in records)
    return [Moment(at_ms, what) for at_ms, what in told if what]


OfNoWorkload = (
    ev.LeaderChanged
    | ev.ClusterObserved
    | ev.ShapeWaits
    | ev.NodeQuarantined
    | ev.NodeResumed
    | ev.ClusterDrained
    | ev.ClusterResumed
    | ev.ClusterRemoved
    | ev.FleetDeclared
    | ev.PlacementApplied
    | ev.PlacementDeleted
    | ev.PlacementDecided
    | ev.OwnPlacementDecided
    | ev.QueueObjectApplied
    | ev.QueueObjectDeleted
    | ev.ReservationMade
    | ev.ReservationMoved
    | ev.ReservationOver
    | ev.CalendarSet
    | ev.CalendarRemoved
)


def sentence(record: ev.Record, name_of: Callable[[str], str] = str) -> str:
    """What one record says about its workload; empty if it says nothing about one."""
    event = record.event
    if isinstance(event, OfNoWorkload):
        return ""
    match event:
        case ev.Submitted():
            held = ", held" if event.submit.held else ""
            resumes = event.submit.resumes
            saved = f", to go on from what {name_of(resumes)} saved" if resumes else ""
            after = ", ".join(one.written for one in event.submit.after)
            then = f", to start after {after}" if after else ""
            return f"submitted by {event.owner} to queue {event.submit.queue}{held}{saved}{then}"
        case ev.Held() | ev.Requeued() | ev.WorkloadEnded():
            return _queue_sentence(event)
        case ev.Released():
            return f"released by {record.actor}"
        case ev.GateChanged():
            return GATES[event.gate]
        case ev.PriorityChanged():
            return f"priority set to {event.priority} by {record.actor}"
        case ev.CancelRequested():
            return f"cancel asked by {record.actor}"
        case (
            ev.RunPlanned()
            | ev.RunProgressed()
            | ev.NoticeGiven()
            | ev.CopyTimeLearned()
            | ev.CheckpointNoted()
            | ev.NoticeWithdrawn()
            | ev.RunWarned()
            | ev.WindowMoved()
            | ev.ReachabilityChanged()
            | ev.RunEnded()
        ):
            return _run_sentence(event)
        case ev.CommandRefused():
            return f"{event.command} by {record.actor} refused: {_told(event.reason)}"
        case ev.RoomClaimed():
            return _claim_sentence(event)
        case ev.CheckSet():
            note = f" ({event.message})" if event.message else ""
            return f"check {event.check} set to {event.state} by {record.actor}{note}"
        case ev.ActionDropped():
            return f"planned {event.action} dropped: {_told(event.reason)}"
        case _:
            assert_never(event)


def _claim_sentence(event: ev.RoomClaimed) -> str:
    if event.claim is None:
        return "its claim can't be counted on any more"
    place, runs = event.claim.allocation.cluster, len(event.claim.victims)
    if not runs:
        return f"has quota and room on {place}; asks {', '.join(event.claim.checks)}"
    return f"gets room on {place} when {runs} run{'s' * (runs > 1)} in its way are over"


def _queue_sentence(event: ev.Held | ev.Requeued | ev.WorkloadEnded) -> str:
    match event:
        case ev.Held():
            return _told(event.reason)
        case ev.Requeued():
            return f"back to the queue: {_told(event.reason)}"
        case ev.WorkloadEnded():
            return f"{event.phase}: {_told(event.reason)}"
        case _:
            assert_never(event)


RunEvent = (
    ev.RunPlanned
    | ev.RunProgressed
    | ev.NoticeGiven
    | ev.CopyTimeLearned
    | ev.CheckpointNoted
    | ev.NoticeWithdrawn
    | ev.WindowMoved
    | ev.RunWarned
    | ev.ReachabilityChanged
    | ev.RunEnded
)


def _run_sentence(event: RunEvent) -> str:
    number = event.run.rsplit("-", 1)[1]
    match event:
        case ev.RunPlanned():
            nodes = dict.fromkeys(part.node for part in event.allocation.nodes)
            place = event.allocation.cluster
            where = place if list(nodes) == [place] else f"{place} ({', '.join(nodes)})"
            if event.allocation.reserved:
                where += f" in the reservation {event.allocation.reserved}"
            return f"run {number} placed on {where}, decision {event.decision}"
        case ev.RunProgressed():
            why = f": {NOTICES[event.why]}" if event.why else ""
            return PROGRESS[event.phase].format(n=number) + why
        case ev.NoticeGiven():
            why = NOTICES[event.why] if event.reason is None else _told(event.reason)
            if not event.grace_ms:
                return f"run {number} is ended at once: {why}"
            copied = f", and {_about(event.copy_ms)} to be copied" if event.copy_ms else ""
            return f"run {number} has {show_duration(event.grace_ms)} to stop{copied}: {why}"
        case ev.CopyTimeLearned():
            told = f"a checkpoint of run {number} ({show_bytes(event.bytes)})"
            return f"{told} takes {_about(event.copy_ms)} to be copied"
        case ev.CheckpointNoted():
            return f"run {number} has a checkpoint of {moment(event.saved_ms)}"
        case ev.WindowMoved():
            return f"its window closes at {moment(event.closes_ms)}"
        case ev.NoticeWithdrawn():
            return f"run {number} need not stop any more"
        case ev.RunWarned():
            return f"run {number} was warned: {_told(event.reason)}"
        case ev.ReachabilityChanged():
            again = "can be reached again" if event.reachable else "can't be reached; nothing ends"
            return f"the machine of run {number} {again}"
        case ev.RunEnded():
            return f"run {number} ended: {_told(event.reason)}"
        case _:
            assert_never(event)


def _about(copy_ms: int) -> str:
    return f"about {show_duration(max(1_000, copy_ms // 1_000 * 1_000))}"


def _told(reason: Reason) -> str:
    return render(reason).sentence
