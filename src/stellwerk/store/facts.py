"""The store's single facts, a row of ``meta`` each: schema, epoch, how far the inbox is done."""

import sqlalchemy as sa

from stellwerk.store import schema
from stellwerk.store.statements import Prepared, param, upsert

SCHEMA = "schema"
EPOCH = "epoch"
LEADER_VERSION = "leader_version"
INBOX_UPTO = "inbox_upto"

_READ = Prepared(sa.select(schema.meta.c.value).where(schema.meta.c.key == param("key")))
_WRITE = upsert(schema.meta)


def read(conn: sa.Connection, key: str) -> str:
    """A fact's text; "" if it was never written."""
    row = _READ.first(conn, key)
    return str(row[0]) if row else ""


def number(conn: sa.Connection, key: str) -> int:
    """A fact that is a number; 0 if it was never written."""
    return int(read(conn, key) or 0)


def write(conn: sa.Connection, key: str, value: str | int) -> None:
    """Sets a fact."""
    _WRITE.run(conn, key, str(value))
