"""The one writer: a thread that gathers what waits to be written and commits it together.

While one commit is flushed to the disk, further jobs queue up and share the next flush; so many
callers cost little more than one. Each job has a savepoint of its own, so that one that fails takes
nothing from the others. A job is answered only after the commit it was part of.

Jobs may be run a second time, alone, if a whole group couldn't be committed: they change nothing
but the database.
"""

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

import sqlalchemy as sa

from stellwerk.store.connect import carry_over
from stellwerk.store.errors import from_database, refusal

T = TypeVar("T")
Job: TypeAlias = Callable[[sa.Connection], T]
_Waiting: TypeAlias = tuple[Job[Any], "Future[Any]"]
_Outcome: TypeAlias = tuple["Future[Any]", Any, Exception | None]

GROUP_LIMIT = 512
"""Jobs committed together at most; more of them wait for the next commit."""

IDLE_SECONDS = 1.0
"""After so long without a write, the log is carried over into the database."""


class Writer:
    """Runs jobs on the writing connection, in the order they came."""

    def __init__(self, engine: sa.Engine, place: str) -> None:
        self._engine = engine
        self._place = place
        self._jobs: queue.SimpleQueue[_Waiting | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self._thread = threading.Thread(target=self._work, name="store-writer", daemon=True)
        self._thread.start()

    def submit(self, job: Job[T]) -> "Future[T]":
        """Queues a job; its future is done once what it wrote is durable, or with a StoreError."""
        future: Future[T] = Future()
        with self._closing:
            if self._closed:
                future.set_exception(_closed(self._place))
            else:
                self._jobs.put((job, future))
        return future

    def close(self) -> None:
        """Commits what is queued, carries the log over into the database, and ends the thread."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._thread.join()

    def _work(self) -> None:
        conn = self._engine.connect()
        written = False
        open_for_more = True
        while open_for_more:
            group, open_for_more = self._gather(IDLE_SECONDS if written else None)
            if group:
                self._commit(conn, group)
                written = True
            elif written:
                carry_over(conn, whole=False)
                written = False
        carry_over(conn, whole=True)
        conn.close()

    def _gather(self, patience: float | None) -> tuple[list[_Waiting], bool]:
        """All jobs that wait now, after waiting for the first; and whether more may come."""
        group: list[_Waiting] = []
        try:
            item = self._jobs.get(timeout=patience)
            while item is not None:
                if item[1].set_running_or_notify_cancel():
                    group.append(item)
                if len(group) >= GROUP_LIMIT:
                    return group, True
                item = self._jobs.get_nowait()
        except queue.Empty:
            return group, True
        return group, False

    def _commit(self, conn: sa.Connection, group: list[_Waiting]) -> None:
        """Commits a group, or each of its jobs alone if that fails, and answers them."""
        if len(group) > 1:
            try:
                outcomes = _run_together(conn, group)
            except Exception:  # noqa: BLE001 - whatever it was, each job meets it again alone
                _roll_back(conn)
            else:
                self._answer(outcomes)
                return
        for waiting in group:
            self._answer([_run_alone(conn, waiting)])

    def _answer(self, outcomes: list[_Outcome]) -> None:
        for future, result, error in outcomes:
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(from_database(error, self._place))


def _run_together(conn: sa.Connection, group: list[_Waiting]) -> list[_Outcome]:
    outcomes: list[_Outcome] = []
    with conn.begin():
        cursor = conn.connection.cursor()
        for job, future in group:
            cursor.execute("SAVEPOINT job")
            try:
                result = job(conn)
            except Exception as error:  # noqa: BLE001 - told to the one who asked
                # Fails if the database itself has rolled everything back: then the group is lost.
                cursor.execute("ROLLBACK TO job")
                outcomes.append((future, None, error))
            else:
                outcomes.append((future, result, None))
            cursor.execute("RELEASE job")
    return outcomes


def _run_alone(conn: sa.Connection, waiting: _Waiting) -> _Outcome:
    job, future = waiting
    try:
        with conn.begin():
            return future, job(conn), None
    except Exception as error:  # noqa: BLE001 - told to the one who asked
        _roll_back(conn)
        return future, None, error


def _roll_back(conn: sa.Connection) -> None:
    """Leaves no transaction open, whatever went wrong before."""
    try:
        conn.rollback()
    except sa.exc.DBAPIError:
        conn.invalidate()  # a new connection is made at the next job


def _closed(place: str) -> Exception:
    return refusal("store/closed", f"the store at {place} is closed", "open it again")
