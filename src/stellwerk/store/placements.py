"""Keeps placements, declared fleets, and every decision about a placement with what it was made of.

What decisions have in common (explanations, specs, facts of clusters) is stored once, as *parts*
under the hash of their content. A row without data says that a placement was deleted.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from stellwerk.core.model.standing import Declared, Standing
from stellwerk.store import schema
from stellwerk.store.statements import Prepared, insert_new, insert_row, param, upsert

CHUNK = 500


class Placed(NamedTuple):
    """A decision about a placement as it is stored; ``seq`` is its record in the journal."""

    seq: int
    key: str
    id: str
    at_ms: int
    data: bytes


class StandingBatch(Struct, frozen=True):
    """What one step of the engine makes durable of what stands; None = it is gone."""

    declared: Sequence[Declared] = ()
    placements: Sequence[tuple[str, Standing | None]] = ()
    placed: Sequence[Placed] = ()
    parts: Mapping[str, bytes] = {}


_p, _d = schema.placements.c, schema.placed.c
_DECLARED = upsert(schema.declared)
_PLACEMENT = upsert(schema.placements)
_DROP = Prepared(sa.delete(schema.placements).where(_p.key == param("key")))
_PLACED = insert_row(schema.placed)
_PART = insert_new(schema.parts)
_ALL_DECLARED = Prepared(sa.select(schema.declared.c.doc).order_by(schema.declared.c.name))
_ALL = Prepared(sa.select(_p.doc).order_by(_p.key))
_KEYS = Prepared(sa.select(_p.key).order_by(_p.key))
_ONE = Prepared(sa.select(_p.doc).where(_p.key == param("key")))
_PLACED_COLUMNS = (_d.seq, _d.key, _d.id, _d.at_ms, _d.data)
_BY_ID = Prepared(
    sa.select(*_PLACED_COLUMNS).where(_d.id == param("id")).order_by(_d.seq.desc()).limit(1)
)
_HISTORY = Prepared(
    sa.select(*_PLACED_COLUMNS)
    .where(_d.key == param("key"))
    .order_by(_d.seq.desc())
    .limit(param("limit"))
)
_NEWEST = (
    sa.select(_d.key, sa.func.max(_d.seq).label("newest"))
    .where(_d.seq < param("before"))
    .group_by(_d.key)
    .subquery()
)
_BEFORE = Prepared(
    sa.select(*_PLACED_COLUMNS)
    .join(_NEWEST, sa.and_(_d.key == _NEWEST.c.key, _d.seq == _NEWEST.c.newest))
    .order_by(_d.seq)
)
_GET_PART = Prepared(sa.select(schema.parts.c.data).where(schema.parts.c.id == param("id")))

_LAST_BEFORE = sa.select(sa.func.max(_d.seq)).where(_d.at_ms < param("until")).group_by(_d.key)
_DROP_OLD = Prepared(
    sa.delete(schema.placed).where(_d.at_ms < param("before"), _d.seq.not_in(_LAST_BEFORE))
)
_PAGE_OF_PLACED = Prepared(
    sa.select(_d.seq, _d.data).where(_d.seq > param("after")).order_by(_d.seq).limit(param("limit"))
)
_PART_IDS = Prepared(sa.select(schema.parts.c.id))
_DROP_PART = Prepared(sa.delete(schema.parts).where(schema.parts.c.id == param("id")))

_encode = msgspec.json.Encoder().encode
_standing = msgspec.json.Decoder(Standing).decode
_declared = msgspec.json.Decoder(Declared).decode


def write(conn: sa.Connection, batch: StandingBatch) -> None:
    """Writes what changed inside the caller's transaction."""
    if batch.declared:
        _DECLARED.many(conn, [(one.name, _encode(one).decode()) for one in batch.declared])
    there = [(key, one) for key, one in batch.placements if one is not None]
    if there:
        _PLACEMENT.many(conn, [(key, _encode(one).decode()) for key, one in there])
    for key, one in batch.placements:
        if one is None:
            _DROP.run(conn, key)
    if batch.parts:
        _PART.many(conn, list(batch.parts.items()))
    if batch.placed:
        _PLACED.many(conn, list(batch.placed))


def declared(conn: sa.Connection) -> list[Declared]:
    """What fleet files say, by name."""
    return [_declared(doc) for (doc,) in _ALL_DECLARED.all(conn)]


def placements(conn: sa.Connection) -> list[Standing]:
    """All placements by key."""
    return [_standing(doc) for (doc,) in _ALL.all(conn)]


def keys(conn: sa.Connection) -> list[str]:
    """The keys of all placements, in order."""
    return [str(key) for (key,) in _KEYS.all(conn)]


def placement(conn: sa.Connection, key: str) -> Standing | None:
    """One placement."""
    row = _ONE.first(conn, key)
    return _standing(row[0]) if row else None


def placed(conn: sa.Connection, id: str) -> Placed | None:
    """The newest decision of an id."""
    row = _BY_ID.first(conn, id)
    return Placed(*row) if row else None


def history(conn: sa.Connection, key: str, limit: int) -> list[Placed]:
    """The decisions about a placement, newest first."""
    return [Placed(*row) for row in _HISTORY.all(conn, key, limit)]


def placed_before(conn: sa.Connection, seq: int) -> list[Placed]:
    """The newest decision of each placement from before a record, in the order they were made."""
    return [Placed(*row) for row in _BEFORE.all(conn, seq)]


def parts(conn: sa.Connection, ids: Iterable[str]) -> dict[str, bytes]:
    """The parts of these ids that there are."""
    wanted = list(dict.fromkeys(ids))
    found: dict[str, bytes] = {}
    if len(wanted) <= 2:
        for id in wanted:
            row = _GET_PART.first(conn, id)
            if row:
                found[id] = row[0]
        return found
    columns = schema.parts.c
    for start in range(0, len(wanted), CHUNK):
        query = sa.select(columns.id, columns.data).where(
            columns.id.in_(wanted[start : start + CHUNK])
        )
        found.update((str(id), data) for id, data in conn.execute(query))
    return found


def drop_old(conn: sa.Connection, before_ms: int) -> int:
    """Removes decisions from before an instant, but for the last one of each placement: those
    after it were made beside it. Gives how many.
    """
    return _DROP_OLD.run(conn, before_ms, before_ms)


def placed_page(conn: sa.Connection, after_seq: int) -> list[tuple[int, bytes]]:
    """Some decisions after a record, with its number."""
    rows = _PAGE_OF_PLACED.all(conn, after_seq, CHUNK)
    return [(int(seq), bytes(data)) for seq, data in rows]


def part_ids(conn: sa.Connection) -> list[str]:
    """The ids of all parts."""
    return [str(id) for (id,) in _PART_IDS.all(conn)]


def drop_parts(conn: sa.Connection, ids: Sequence[str]) -> int:
    """Removes parts; gives how many."""
    return sum(_DROP_PART.run(conn, id) for id in ids)
