"""State images: the engine's memory at one point of the journal, so that a start is quick.

Two are kept. Each carries a checksum over what is stored; one that is damaged, or made under
another schema, is passed over, since an image can always be made again from the journal.
"""

import hashlib
import zlib

import sqlalchemy as sa

from stellwerk.store import schema
from stellwerk.store.statements import Prepared, param, upsert

KEPT = 2
_CHECKSUM_BYTES = 32

_columns = schema.images.c
_SAVE = upsert(schema.images)
_TIME = Prepared(sa.select(schema.journal.c.at_ms).where(schema.journal.c.seq == param("seq")))
_OLDEST_KEPT = Prepared(
    sa.select(_columns.seq).order_by(_columns.seq.desc()).limit(1).offset(KEPT - 1)
)
_DROP_OLDER = Prepared(sa.delete(schema.images).where(_columns.seq < param("oldest_kept")))
_NUMBERS = Prepared(
    sa.select(_columns.seq)
    .where(_columns.schema_hash == param("schema_hash"))
    .order_by(_columns.seq.desc())
)
_DATA = Prepared(
    sa.select(_columns.data).where(
        _columns.seq == param("seq"), _columns.schema_hash == param("schema_hash")
    )
)


def pack(data: bytes) -> bytes:
    """Compresses an image and puts its checksum before it."""
    packed = zlib.compress(data, 1)
    return hashlib.sha256(packed).digest() + packed


def unpack(stored: bytes) -> bytes | None:
    """What `pack` was given, or nothing if a bit of it has changed since."""
    checksum, packed = stored[:_CHECKSUM_BYTES], stored[_CHECKSUM_BYTES:]
    if hashlib.sha256(packed).digest() != checksum:
        return None
    return zlib.decompress(packed)


def save(conn: sa.Connection, seq: int, schema_hash: str, packed: bytes) -> None:
    """Stores a packed image and drops those that aren't kept."""
    row = _TIME.first(conn, seq)
    _SAVE.run(conn, seq, schema_hash, row[0] if row else 0, packed)
    row = _OLDEST_KEPT.first(conn)
    if row is not None:
        _DROP_OLDER.run(conn, row[0])


def load(conn: sa.Connection, schema_hash: str) -> tuple[int, bytes] | None:
    """The newest intact image of a schema, with its journal number."""
    for (seq,) in _NUMBERS.all(conn, schema_hash):
        data = _intact(conn, seq, schema_hash)
        if data is not None:
            return int(seq), data
    return None


def _intact(conn: sa.Connection, seq: int, schema_hash: str) -> bytes | None:
    try:
        row = _DATA.first(conn, seq, schema_hash)
    except Exception:  # noqa: BLE001 - an unreadable image is as good as none
        return None
    return unpack(row[0]) if row else None
