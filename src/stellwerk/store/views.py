"""Answers questions about workloads, shapes, decisions and clusters from the read models."""

import re
from collections.abc import Sequence
from typing import Literal, NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.ids import DecisionId, ShapeId, WorkloadId
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.workload import ENDED, Phase, Workload
from stellwerk.store import schema
from stellwerk.store.errors import refusal
from stellwerk.store.statements import Prepared, Row, param

SHORTEST_PREFIX = 3
"""An id may be shortened to this many characters, as long as only one begins like that."""

SHOWN_OF_AMBIGUOUS = 5
CHUNK = 500
"""So many ids are asked for at once."""

LONGEST_LIKENESS = 1_000
"""A pattern with more characters besides its `*` is like no name there is."""

ENDED_ONLY = frozenset[str](ENDED)


class WorkloadRow(Struct, frozen=True):
    """A workload as it was at journal number ``seq``, the last time it changed."""

    workload: Workload
    seq: int


class WorkloadFilter(Struct, frozen=True):
    """Which workloads to list. Empty fields ask for nothing; all others must hold together.

    ``name`` may have ``*`` and ``?``. Those with the label ``without_label`` are left out.
    ``after`` is the ``order`` of the last one already seen, and ``after_priority`` its priority
    where ``sort`` is ``line``: as they are served.
    """

    live: bool = True
    phases: tuple[Phase, ...] = ()
    labels: dict[str, str] = {}
    name: str = ""
    owner: str = ""
    project: str = ""
    queue: str = ""
    kind: str = ""
    without_label: str = ""
    sort: Literal["newest", "oldest", "line"] = "oldest"
    after: int = 0
    after_priority: int = 0
    limit: int = 0


class Picked(NamedTuple):
    """As much of a workload as it takes to change its course."""

    id: WorkloadId
    name: str
    phase: Phase
    order: int


class Position(NamedTuple):
    """A place in the queue, from 1, and how many are before it."""

    position: int
    ahead: int


class Wait(Struct, frozen=True):
    """Why the waiting workloads of a shape wait, by which decision, and since when."""

    decision: DecisionId
    reasons: tuple[Reason, ...]
    at_ms: int


_w = schema.workloads.c
_ROW = (_w.doc, _w.seq)
_PICKED = (_w.id, _w.name, _w.phase, _w.order)
_BY_ID = Prepared(sa.select(*_ROW).where(_w.id == param("id")))
_BY_NAME = Prepared(
    sa.select(*_ROW).where(_w.project == param("project"), _w.name == param("name"))
)
_BY_PREFIX = Prepared(
    sa.select(*_ROW)
    .where(_w.id >= param("low"), _w.id < param("high"))
    .order_by(_w.id)
    .limit(SHOWN_OF_AMBIGUOUS + 1)
)
_AHEAD = Prepared(
    sa.select(sa.func.count()).where(
        schema.IS_PENDING,
        _w.queue == param("queue"),
        sa.or_(
            _w.priority > param("higher"),
            sa.and_(_w.priority == param("same"), _w.order < param("earlier")),
        ),
    )
)
_QUEUE = Prepared(
    sa.select(*_ROW)
    .where(schema.IS_PENDING, _w.queue == param("queue"))
    .order_by(_w.priority.desc(), _w.order)
    .limit(param("limit"))
)
_COUNTS = Prepared(
    sa.union_all(
        *(
            sa.select(_w.phase, sa.func.count()).where(condition).group_by(_w.phase)
            for condition in (schema.IS_LIVE, schema.IS_ENDED)
        )
    )
)
_DECISION = Prepared(
    sa.select(schema.decisions.c.doc, schema.decisions.c.at_ms).where(
        schema.decisions.c.id == param("id")
    )
)
_SHAPE = Prepared(sa.select(schema.shapes.c.shape).where(schema.shapes.c.id == param("id")))
_WAIT = Prepared(
    sa.select(schema.shapes.c.decision, schema.shapes.c.reasons, schema.shapes.c.at_ms).where(
        schema.shapes.c.id == param("id")
    )
)
_CLUSTERS = Prepared(
    sa.select(schema.clusters.c.doc, schema.clusters.c.at_ms).order_by(schema.clusters.c.name)
)

_workload = msgspec.json.Decoder(Workload).decode
_decision = msgspec.json.Decoder(Decision).decode
_shape = msgspec.json.Decoder(Shape).decode
_reasons = msgspec.json.Decoder(tuple[Reason, ...]).decode
_cluster = msgspec.json.Decoder(Cluster).decode


def workload(conn: sa.Connection, ref: str, project: str) -> WorkloadRow | None:
    """Finds a workload by its name in a project, its id, or the beginning of its id."""
    row = _BY_NAME.first(conn, project, ref) or _BY_ID.first(conn, ref)
    if row is not None:
        return _row(row)
    if len(ref) < SHORTEST_PREFIX:
        return None
    found = [_row(row) for row in _BY_PREFIX.all(conn, ref, ref + "\U0010ffff")]
    if len(found) > 1:
        raise _ambiguous(ref, found)
    return found[0] if found else None


def _ambiguous(ref: str, found: list[WorkloadRow]) -> Exception:
    shown = [f"{row.workload.id} ({row.workload.name})" for row in found[:SHOWN_OF_AMBIGUOUS]]
    more = ", …" if len(found) > SHOWN_OF_AMBIGUOUS else ""
    return refusal(
        "store/ambiguous",
        f"several workloads begin with `{ref}`: {', '.join(shown)}{more}",
        "write more of the id, or the name",
    )


def workloads(conn: sa.Connection, wanted: WorkloadFilter) -> list[WorkloadRow]:
    """Lists the workloads that a filter asks for."""
    query = sa.select(*_ROW).where(*_conditions(wanted)).order_by(*_order_of(wanted))
    if wanted.limit:
        query = query.limit(wanted.limit)
    return [_row(tuple(row)) for row in conn.execute(query)]


def count(conn: sa.Connection, wanted: WorkloadFilter) -> int:
    """How many a filter asks for, all pages together."""
    everything = msgspec.structs.replace(wanted, after=0, limit=0)
    query = sa.select(sa.func.count()).select_from(schema.workloads)
    return int(conn.execute(query.where(*_conditions(everything))).scalar_one())


def _order_of(wanted: WorkloadFilter) -> list[sa.ColumnElement[int]]:
    if wanted.sort == "line":
        return [_w.priority.desc(), _w.order]
    return [_w.order.desc() if wanted.sort == "newest" else _w.order]


def picked(conn: sa.Connection, wanted: WorkloadFilter) -> list[Picked]:
    """Lists what a filter asks for, by columns alone."""
    query = sa.select(*_PICKED).where(*_conditions(wanted)).order_by(*_order_of(wanted))
    return [Picked(*row) for row in conn.execute(query)]


def picked_by_id(conn: sa.Connection, ids: Sequence[WorkloadId]) -> list[Picked]:
    """Those of these ids that there are."""
    found: list[Picked] = []
    for start in range(0, len(ids), CHUNK):
        query = sa.select(*_PICKED).where(_w.id.in_(ids[start : start + CHUNK]))
        found += [Picked(*row) for row in conn.execute(query)]
    return found


def _conditions(wanted: WorkloadFilter) -> list[sa.ColumnElement[bool] | sa.TextClause]:
    conditions: list[sa.ColumnElement[bool] | sa.TextClause] = []
    if wanted.live:
        conditions.append(schema.IS_LIVE)
    if wanted.phases:
        conditions.append(_w.phase.in_(wanted.phases))
        if ENDED_ONLY.issuperset(wanted.phases):
            conditions.append(schema.IS_ENDED)
    for column, value in (
        (_w.owner, wanted.owner),
        (_w.project, wanted.project),
        (_w.queue, wanted.queue),
        (_w.kind, wanted.kind),
    ):
        if value:
            conditions.append(column == value)
    if wanted.name:
        conditions.append(_named(wanted.name))
    for key, value in wanted.labels.items():
        conditions.append(_labelled(key, value))
    if wanted.without_label:
        rows = schema.labels.c
        labelled = sa.select(rows.workload).where(rows.key == wanted.without_label)
        conditions.append(_w.id.not_in(labelled))
    if wanted.after:
        conditions.append(_after(wanted))
    return conditions


def _after(wanted: WorkloadFilter) -> sa.ColumnElement[bool]:
    if wanted.sort == "newest":
        return _w.order < wanted.after
    later = _w.order > wanted.after
    if wanted.sort == "oldest":
        return later
    priority = wanted.after_priority
    return sa.or_(_w.priority < priority, sa.and_(_w.priority == priority, later))


def _named(pattern: str) -> sa.ColumnElement[bool]:
    if "*" not in pattern and "?" not in pattern:
        return _w.name == pattern
    if len(pattern.replace("*", "")) > LONGEST_LIKENESS or "\0" in pattern:
        return sa.false()  # the database would read it wrongly, and no name is like it
    # Unlike a regular expression this never tries one place of a name twice.
    return _w.name.op("GLOB")(re.sub(r"\*+", "*", pattern).replace("[", "[[]"))


def _labelled(key: str, value: str) -> sa.ColumnElement[bool]:
    rows = schema.labels.c
    return _w.id.in_(sa.select(rows.workload).where(rows.key == key, rows.value == value))


class ArrayRow(NamedTuple):
    """An array: an element of it, and how many of them are in each phase."""

    name: str
    first: Workload
    phases: dict[str, int]


def arrays(conn: sa.Connection, label: str, project: str, name: str = "") -> list[ArrayRow]:
    """All arrays, the newest first, or the one of a name; ``label`` is what elements have."""
    rows = schema.labels.c
    query = (
        sa.select(rows.value, _w.phase, sa.func.count(), sa.func.min(_w.order))
        .join_from(schema.labels, schema.workloads, rows.workload == _w.id)
        .where(rows.key == label, _w.project == project)
        .group_by(rows.value, _w.phase)
    )
    counted = [
        tuple(row) for row in conn.execute(query.where(rows.value == name) if name else query)
    ]
    orders: dict[str, int] = {}
    phases: dict[str, dict[str, int]] = {}
    for array, phase, count, order in counted:
        orders[array] = min(orders.get(array, order), order)
        phases.setdefault(array, {})[phase] = int(count)
    names = sorted(orders, key=lambda one: -orders[one])
    found: list[ArrayRow] = []
    for array in names:
        row = conn.execute(sa.select(*_ROW).where(_w.order == orders[array])).first()
        if row is not None:
            found.append(ArrayRow(array, _row(tuple(row)).workload, phases[array]))
    return found


def position(conn: sa.Connection, id: WorkloadId) -> Position | None:
    """Where a pending workload stands in its queue; nothing for one that isn't pending."""
    row = _BY_ID.first(conn, id)
    found = _row(row).workload if row else None
    if found is None or found.phase != "Pending":
        return None
    answer = _AHEAD.first(conn, found.queue, found.priority, found.priority, found.order)
    ahead = int(answer[0]) if answer else 0
    return Position(ahead + 1, ahead)


def queue(conn: sa.Connection, name: str, limit: int) -> list[WorkloadRow]:
    """The first pending workloads of a queue, in the order they are served."""
    return [_row(row) for row in _QUEUE.all(conn, name, limit)]


def counts(conn: sa.Connection) -> dict[str, int]:
    """How many workloads are in each phase; phases without any are left out."""
    return {str(phase): int(count) for phase, count in _COUNTS.all(conn)}


def decision(conn: sa.Connection, id: DecisionId) -> tuple[Decision, int] | None:
    """A decision and when it was made."""
    row = _DECISION.first(conn, id)
    return (_decision(row[0]), int(row[1])) if row else None


def shape(conn: sa.Connection, id: ShapeId) -> Shape | None:
    """What workloads of a shape ask for."""
    row = _SHAPE.first(conn, id)
    return _shape(row[0]) if row else None


def waits(conn: sa.Connection, id: ShapeId) -> Wait | None:
    """Why the waiting workloads of a shape wait, if that was ever said."""
    row = _WAIT.first(conn, id)
    if row is None or not row[0]:
        return None
    return Wait(DecisionId(row[0]), _reasons(row[1]), int(row[2]))


def clusters(conn: sa.Connection) -> list[tuple[Cluster, int]]:
    """All clusters by name, each with the time it was last observed."""
    return [(_cluster(doc), int(at_ms)) for doc, at_ms in _CLUSTERS.all(conn)]


def _row(row: Row) -> WorkloadRow:
    return WorkloadRow(_workload(row[0]), int(row[1]))
