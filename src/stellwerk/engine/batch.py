"""Puts together what one cycle makes durable: facts, decisions, and the rows that people read."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from stellwerk.core.model import events as ev
from stellwerk.core.model.calendars import Calendar
from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.ids import ShapeId, digest, workload_of
from stellwerk.core.model.resources import Shape
from stellwerk.core.state import State
from stellwerk.engine.standing_batch import standing_batch
from stellwerk.store import Batch

if TYPE_CHECKING:
    from stellwerk.engine.deciding import Made


def batch_of(
    state: State,
    records: Sequence[ev.Record],
    decisions: Sequence[tuple[Decision, int]],
    made: "dict[str, Made]",
    inbox_upto: int,
) -> Batch:
    """The batch of a cycle that has been folded into the state."""
    shapes: dict[ShapeId, Shape] = {}
    waits = []
    clusters = []
    removed: dict[str, None] = {}
    for record in records:
        match record.event:
            case ev.Submitted(submit=submit):
                shapes[ShapeId(digest(submit.shape))] = submit.shape
            case ev.ShapeWaits(shape=shape, decision=decision, reasons=reasons):
                waits.append((shape, decision, reasons, record.at_ms))
            case ev.Requeued(shape=shape) if shape is not None:
                shapes[ShapeId(digest(shape))] = shape
            case ev.ClusterObserved(cluster=cluster):
                clusters.append((cluster.name, record.at_ms))
            case (
                ev.NodeQuarantined(cluster=name)
                | ev.NodeResumed(cluster=name)
                | ev.ClusterDrained(cluster=name)
                | ev.ClusterResumed(cluster=name)
                | ev.CalendarSet(calendar=Calendar(cluster=name))
                | ev.CalendarRemoved(cluster=name)
            ):
                clusters.append((name, record.at_ms))
            case ev.ClusterRemoved(cluster=name):
                removed[name] = None
            case _:
                continue
    return Batch(
        epoch=state.epoch,
        records=tuple(records),
        inbox_upto=inbox_upto,
        workloads=state.drain_touched(),
        shapes=shapes,
        waits=tuple(waits),
        decisions=tuple(decisions),
        clusters=tuple(
            (state.clusters[name], at_ms) for name, at_ms in clusters if name in state.clusters
        ),
        removed_clusters=tuple(name for name in removed if name not in state.clusters),
        standing=standing_batch(state, records, made),
    )


def project_of(state: State, event: ev.Event) -> str:
    """Names the project a fact belongs to; facts about clusters belong to none.

    It is the one that the work is charged to, or else the one whose names it shares.
    """
    if isinstance(event, ev.Submitted):
        return event.submit.shape.project or event.submit.project
    key = getattr(event, "id", None) or getattr(event, "workload", None)
    if key is None and (run := getattr(event, "run", None)) is not None:
        key = workload_of(run)
    workload = state.workloads.get(key) if key is not None else None
    if workload is None:
        return ""
    queue = state.shapes.get(workload.shape)
    return (queue.shape.project if queue is not None else "") or workload.project
