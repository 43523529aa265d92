"""The journal: every event in one unbroken sequence, appended together with what follows from it.

One batch is one transaction: events, the read models they change, and how far the inbox is done.
It is refused if another engine leads by now, or if it doesn't continue the sequence. The very batch
that the journal ends with may be sent again: after an error of the disk nobody knows whether it is
there, and this answers it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.events import Event, Record, Submitted
from stellwerk.core.model.ids import DecisionId, ShapeId, WorkloadId, workload_of
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import Workload
from stellwerk.store import facts, models, placements, schema
from stellwerk.store.errors import refusal
from stellwerk.store.placements import StandingBatch
from stellwerk.store.statements import Prepared, Row, insert_row, param

PAGE = 2_000
"""Records read at once; between two pages nothing of the database is held."""


class Batch(Struct, frozen=True):
    """What one step of the engine makes durable.

    ``inbox_upto`` None leaves the inbox's position. ``waits`` says why a shape waits: (shape,
    decision, reasons, since when). ``workloads`` are whole new values of those that changed.
    """

    epoch: int
    records: Sequence[Record] = ()
    inbox_upto: int | None = None
    workloads: Sequence[Workload] = ()
    shapes: Mapping[ShapeId, Shape] = {}
    waits: Sequence[tuple[ShapeId, DecisionId, tuple[Reason, ...], int]] = ()
    decisions: Sequence[tuple[Decision, int]] = ()
    clusters: Sequence[tuple[Cluster, int]] = ()
    removed_clusters: Sequence[str] = ()
    standing: StandingBatch | None = None


_columns = schema.journal.c
_RECORD = (
    _columns.seq,
    _columns.at_ms,
    _columns.epoch,
    _columns.actor,
    _columns.project,
    _columns.version,
    _columns.data,
)
_INSERT = insert_row(schema.journal)
_LAST = Prepared(
    sa.select(_columns.seq, _columns.at_ms, _columns.epoch).order_by(_columns.seq.desc()).limit(1)
)
_NEXT = Prepared(
    sa.select(*_RECORD)
    .where(_columns.seq > param("after"))
    .order_by(_columns.seq)
    .limit(param("limit"))
)
_NEXT_OF = Prepared(
    sa.select(*_RECORD)
    .where(_columns.workload == param("workload"), _columns.seq > param("after"))
    .order_by(_columns.seq)
    .limit(param("limit"))
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


def subject(event: Event) -> WorkloadId | None:
    """The workload that an event is about, if it is about one."""
    if isinstance(event, Submitted):
        return event.submit.id
    fields = event.__struct_fields__
    if "id" in fields:
        return WorkloadId(getattr(event, "id"))  # noqa: B009 - known only for some of the union
    if "run" in fields:
        return workload_of(getattr(event, "run"))  # noqa: B009
    return None


def last(conn: sa.Connection) -> tuple[int, int, int]:
    """Sequence number, time and epoch of the newest record; zeros for an empty journal."""
    seq, at_ms, epoch = _LAST.first(conn) or (0, 0, 0)
    return seq, at_ms, epoch


def append(conn: sa.Connection, batch: Batch) -> None:
    """Writes a batch inside the caller's transaction, or raises StoreError."""
    end = last(conn)
    _check_epoch(conn, batch.epoch)
    if batch.records and batch.records[-1].seq == end[0] and _is_there(conn, batch.records):
        return
    seq = _check_order(batch, end)
    if batch.records:
        _INSERT.many(conn, [_row(record) for record in batch.records])
    models.write_workloads(conn, batch.workloads, seq)
    models.write_shapes(conn, batch.shapes)
    models.write_waits(conn, batch.waits)
    models.write_decisions(conn, batch.decisions)
    models.write_clusters(conn, batch.clusters)
    models.drop_clusters(conn, batch.removed_clusters)
    if batch.standing is not None:
        placements.write(conn, batch.standing)
    if batch.inbox_upto is not None:
        facts.write(conn, facts.INBOX_UPTO, batch.inbox_upto)


def _check_epoch(conn: sa.Connection, epoch: int) -> None:
    """Refuses an engine that leads no more."""
    leading = facts.number(conn, facts.EPOCH)
    if epoch != leading:
        raise refusal(
            "store/fenced",
            f"an engine of epoch {epoch} can't write: epoch {leading} leads",
            "this server has been replaced by another one on the same state; end it",
        )


def _check_order(batch: Batch, end: tuple[int, int, int]) -> int:
    """Refuses records that don't continue the journal; gives the number it then ends with."""
    seq, at_ms, epoch = end
    for record in batch.records:
        follows = record.seq == seq + 1 and record.at_ms >= at_ms
        if not follows or not epoch <= record.epoch <= batch.epoch:
            raise refusal(
                "store/fenced",
                f"record {record.seq} (at {record.at_ms} ms, epoch {record.epoch}) can't follow "
                f"record {seq} (at {at_ms} ms, epoch {epoch}) under epoch {batch.epoch}",
                "load the state again from the journal, and go on from there",
            )
        seq, at_ms, epoch = record.seq, record.at_ms, record.epoch
    return seq


def _is_there(conn: sa.Connection, records: Sequence[Record]) -> bool:
    """Whether the journal ends with exactly these records."""
    return page(conn, records[0].seq - 1, len(records)) == list(records)


def _row(record: Record) -> Row:
    event = record.event
    return (
        record.seq,
        record.at_ms,
        record.epoch,
        record.actor,
        record.project,
        event.__struct_config__.tag,
        record.version,
        subject(event),
        _encode(event).decode(),
    )


def page(
    conn: sa.Connection, after_seq: int, limit: int, workload: WorkloadId | None = None
) -> list[Record]:
    """Up to ``limit`` records after a number, of all or of one workload."""
    if workload is None:
        rows = _NEXT.all(conn, after_seq, limit)
    else:
        rows = _NEXT_OF.all(conn, workload, after_seq, limit)
    return [_record(row) for row in rows]


def pages(
    read: Callable[[int, int], list[Record]], after_seq: int, limit: int | None
) -> Iterator[Record]:
    """Goes through the records after a number by asking ``read(after, count)`` again and again."""
    left = limit
    while left is None or left > 0:
        count = PAGE if left is None else min(PAGE, left)
        records = read(after_seq, count)
        yield from records
        if len(records) < count:
            return
        after_seq = records[-1].seq
        left = None if left is None else left - count


def _record(row: Row) -> Record:
    seq, at_ms, epoch, actor, project, version, data = row
    return Record(seq, at_ms, epoch, actor, project, event_of(seq, data), version)


def event_of(seq: int, data: Any) -> Event:
    """Reads an event's text; one that this code doesn't know was written by a newer one."""
    try:
        return _decode(data)
    except msgspec.ValidationError as error:
        raise refusal(
            "store/newer",
            f"record {seq} of the journal holds an event this version doesn't know ({error})",
            "use the newer version that wrote it",
        ) from error
    except msgspec.DecodeError as error:
        raise refusal(
            "store/damaged",
            f"record {seq} of the journal can't be read ({error})",
            "restore a backup of the state folder; running jobs aren't touched",
        ) from error
