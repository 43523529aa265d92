"""Opens the database: one connection that writes, a few that read, each set up for durability.

SQLite writes ahead into a log and flushes it at every commit (``synchronous=FULL``); readers see
the last commit and never wait for the writer.
"""

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event, pool

from stellwerk.store.errors import StoreError, damaged, refusal

BUSY_TIMEOUT_MS = 5_000
"""How long another program may hold the database before we say so."""

CHECK_BELOW_BYTES = 64 << 20
"""A database that wasn't closed is checked before use if it is smaller than this; it takes time."""

CHECKPOINT_PAGES = 4_000
"""The log is carried over into the database at this length at the latest (16 MB)."""

READERS = 4


def write_engine(path: str) -> sa.Engine:
    """An engine of one connection, whose transactions lock the database from their beginning."""
    return _engine(path, pool.StaticPool, {}, _set_up_writer, "BEGIN IMMEDIATE")


def read_engine(path: str) -> sa.Engine:
    """An engine of a few connections that can't write. Each statement sees the newest commit."""
    options = {
        "pool_size": READERS,
        "max_overflow": 2 * READERS,
        "pool_reset_on_return": None,
    }
    return _engine(path, pool.QueuePool, options, _set_up_reader, "")


def _engine(
    path: str,
    pool_class: type[pool.Pool],
    options: dict[str, Any],
    set_up: Callable[[Any], None],
    begin: str,
) -> sa.Engine:
    engine = sa.create_engine(
        sa.URL.create("sqlite", database=path),
        poolclass=pool_class,
        connect_args={
            "timeout": BUSY_TIMEOUT_MS / 1000,
            "check_same_thread": False,
            "isolation_level": None,  # transactions begin where this module says, not by guess
        },
        hide_parameters=True,  # rows hold people's commands; they don't belong into messages
        **options,
    )

    @event.listens_for(engine, "connect")
    def _on_connect(connection: Any, _record: Any) -> None:
        set_up(connection)

    if begin:

        @event.listens_for(engine, "begin")
        def _on_begin(conn: sa.Connection) -> None:
            conn.exec_driver_sql(begin)

    return engine


def _set_up_writer(connection: Any) -> None:
    mode = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
    if mode != "wal":
        raise refusal(
            "store/no-wal",
            f"the file system can't carry a write-ahead log (the database stays in mode {mode})",
            "choose a folder on a local disk: export STELLWERK_HOME=/var/tmp/stellwerk-$USER",
        )
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}")
    connection.execute("PRAGMA cache_size=-16384")


def _set_up_reader(connection: Any) -> None:
    connection.execute("PRAGMA query_only=ON")
    connection.execute("PRAGMA cache_size=-4096")


def needs_check(path: str) -> bool:
    """Whether the last user of the database didn't close it, and a check is quick enough."""
    try:
        unclosed = os.stat(path + "-wal").st_size > 0
        return unclosed and os.stat(path).st_size < CHECK_BELOW_BYTES
    except OSError:
        return False


def check(conn: sa.Connection, path: str) -> StoreError | None:
    """Reads through the whole database and says what is broken, if anything is."""
    answers = [str(row[0]) for row in conn.exec_driver_sql("PRAGMA quick_check(3)")]
    if answers == ["ok"]:
        return None
    return damaged(path, "; ".join(answers))


@contextmanager
def one_commit(conn: sa.Connection) -> Iterator[None]:
    """Lets several statements of a reading connection see the same commit."""
    cursor = conn.connection.cursor()
    cursor.execute("BEGIN")
    try:
        yield
    finally:
        cursor.execute("ROLLBACK")


def carry_over(conn: sa.Connection, *, whole: bool) -> None:
    """Brings the log's contents into the database; ``whole`` waits for readers and empties it.

    What can't be brought over now (a reader needs it, there is no room) stays safe in the log.
    """
    how = "TRUNCATE" if whole else "PASSIVE"
    with suppress(sqlite3.Error):
        conn.connection.cursor().execute(f"PRAGMA wal_checkpoint({how})")
