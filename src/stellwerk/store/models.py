"""Writes the read models: rows of workloads, shapes, decisions and clusters that pages ask for."""

from collections.abc import Mapping, Sequence

import msgspec
import sqlalchemy as sa

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.ids import DecisionId, ShapeId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import ENDED, Workload
from stellwerk.store import schema
from stellwerk.store.errors import refusal
from stellwerk.store.statements import Prepared, Row, insert_new, param, upsert

_WORKLOAD = upsert(schema.workloads)
_LABELS_OF = Prepared(
    sa.select(schema.workloads.c.labels).where(schema.workloads.c.id == param("id"))
)
_DROP_LABELS = Prepared(sa.delete(schema.labels).where(schema.labels.c.workload == param("id")))
_LABEL = upsert(schema.labels)
_SHAPE = insert_new(schema.shapes)
_WAIT = Prepared(
    sa.update(schema.shapes)
    .values(decision=param("why"), reasons=param("what"), at_ms=param("since"))
    .where(schema.shapes.c.id == param("shape_id"))
)
_DECISION = insert_new(schema.decisions)
_CLUSTER = upsert(schema.clusters)
_DROP_CLUSTER = Prepared(sa.delete(schema.clusters).where(schema.clusters.c.name == param("gone")))

_encode = msgspec.json.Encoder().encode


def write_workloads(conn: sa.Connection, changed: Sequence[Workload], seq: int) -> None:
    """Writes whole workloads as they are at journal number ``seq``."""
    if not changed:
        return
    for workload in changed:
        if workload.labels or workload.version > 1:
            _write_labels(conn, workload)
    _WORKLOAD.many(conn, [_workload_row(workload, seq) for workload in changed])


def _workload_row(workload: Workload, seq: int) -> Row:
    return (
        workload.id,
        workload.name,
        workload.project,
        workload.owner,
        workload.kind,
        workload.phase,
        workload.queue,
        workload.priority,
        workload.order,
        workload.submitted_ms,
        workload.ended_ms,
        workload.shape,
        _encode(workload.labels).decode(),
        int(workload.phase not in ENDED),
        seq,
        _encode(workload).decode(),
    )


def _write_labels(conn: sa.Connection, workload: Workload) -> None:
    """Brings the rows to filter by up to date; they change far less often than the workload."""
    row = _LABELS_OF.first(conn, workload.id)
    before = row[0] if row else "{}"
    if before == _encode(workload.labels).decode():
        return
    _DROP_LABELS.run(conn, workload.id)
    _LABEL.many(conn, [(workload.id, key, value) for key, value in workload.labels.items()])


def write_shapes(conn: sa.Connection, new: Mapping[ShapeId, Shape]) -> None:
    """Stores shapes that aren't there yet; nothing is known of their waiting."""
    if new:
        rows = [(name, _encode(shape).decode(), "", "[]", 0) for name, shape in new.items()]
        _SHAPE.many(conn, rows)


def write_waits(
    conn: sa.Connection,
    waits: Sequence[tuple[ShapeId, DecisionId, tuple[Reason, ...], int]],
) -> None:
    """Stores why the waiting workloads of a shape wait, once for all of them."""
    for shape, decision, reasons, at_ms in waits:
        if _WAIT.run(conn, decision, _encode(reasons).decode(), at_ms, shape) != 1:
            raise refusal(
                "store/unknown-shape",
                f"shape {shape} waits, but was never stored",
                "send a shape in the batch of the first workload that has it",
            )


def write_decisions(conn: sa.Connection, made: Sequence[tuple[Decision, int]]) -> None:
    """Stores decisions with the time they were made."""
    if made:
        rows = [(decision.id, at_ms, _encode(decision).decode()) for decision, at_ms in made]
        _DECISION.many(conn, rows)


def write_clusters(conn: sa.Connection, observed: Sequence[tuple[Cluster, int]]) -> None:
    """Stores clusters as last observed, with the time of that."""
    if observed:
        rows = [(cluster.name, at_ms, _encode(cluster).decode()) for cluster, at_ms in observed]
        _CLUSTER.many(conn, rows)


def drop_clusters(conn: sa.Connection, names: Sequence[str]) -> None:
    """Takes clusters off the list that are there no more."""
    for name in names:
        _DROP_CLUSTER.run(conn, name)
