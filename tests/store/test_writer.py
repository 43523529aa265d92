"""The writer: many jobs, one commit, and no job that harms another."""

import os
import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
import sqlalchemy as sa

from stellwerk.store import Store, StoreError, facts
from stellwerk.store.writer import GROUP_LIMIT, Job
from tests.store.samples import a_submit, new, opened


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with opened(tmp_path) as store:
        yield store


def together(store: Store, *jobs: Job[object]) -> "list[Future[object]]":
    """Queues jobs while the writer is kept busy, so that they are committed in one group."""
    go_on, busy = threading.Event(), threading.Event()

    def keep_busy(conn: sa.Connection) -> None:
        busy.set()
        assert go_on.wait(10)

    first = store._writer.submit(keep_busy)
    assert busy.wait(10)
    futures = [store._writer.submit(job) for job in jobs]
    go_on.set()
    first.result()
    return futures


def writes(key: str) -> Job[object]:
    return lambda conn: facts.write(conn, key, "there")


def fails(key: str) -> Job[object]:
    def job(conn: sa.Connection) -> object:
        facts.write(conn, key, "there")
        raise LookupError(key)

    return job


def has(store: Store, key: str) -> bool:
    return bool(store._read(lambda conn: facts.read(conn, key)))


def commits_of(store: Store) -> list[int]:
    """Counts the commits from now on, as a list that grows by each."""
    commits: list[int] = []
    sa.event.listen(store._writing, "commit", lambda _: commits.append(1))
    return commits


def test_what_waits_is_committed_together(store: Store) -> None:
    """Jobs that queue up during a commit share the next one."""
    commits = commits_of(store)
    for future in together(store, *(writes(f"k{number}") for number in range(20))):
        future.result()
    assert len(commits) == 2
    assert all(has(store, f"k{number}") for number in range(20))


def test_a_failing_job_takes_nothing_from_the_others(store: Store) -> None:
    """Its own writes are undone, its caller gets the error, the others' writes are there."""
    good, bad, later = together(store, writes("good"), fails("bad"), writes("later"))
    assert good.result() is None
    assert later.result() is None
    with pytest.raises(LookupError, match="bad"):
        bad.result()
    assert [has(store, key) for key in ("good", "bad", "later")] == [True, False, True]


def test_a_lone_failing_job_leaves_nothing(store: Store) -> None:
    """A job that fails alone is rolled back as well, and the writer goes on."""
    with pytest.raises(LookupError):
        store._writer.submit(fails("bad")).result()
    assert not has(store, "bad")
    store._writer.submit(writes("good")).result()
    assert has(store, "good")


def test_nobody_is_answered_before_the_commit(store: Store) -> None:
    """While a later job of the group still runs, an earlier one is neither answered nor seen."""
    seen: list[tuple[bool, bool]] = []
    handed_over = threading.Event()
    futures: list[Future[object]] = []

    def look(conn: sa.Connection) -> None:
        assert handed_over.wait(10)
        seen.append((futures[0].done(), has(store, "first")))

    futures += together(store, writes("first"), look)
    handed_over.set()
    for future in futures:
        future.result()
    assert seen == [(False, False)]


def test_if_the_database_drops_the_whole_group_each_job_gets_its_own_chance(store: Store) -> None:
    """A job on which the database rolls everything back fails alone; the others are repeated."""
    runs: list[str] = []

    def ruins_it(conn: sa.Connection) -> None:
        runs.append("ruin")
        driver_connection = conn.connection.driver_connection
        assert isinstance(driver_connection, sqlite3.Connection)
        driver_connection.rollback()
        raise LookupError("ruin")

    good, ruin, later = together(store, writes("good"), ruins_it, writes("later"))
    assert good.result() is None
    assert later.result() is None
    with pytest.raises(LookupError):
        ruin.result()
    assert runs == ["ruin", "ruin"]
    assert has(store, "good")
    assert has(store, "later")


def test_a_group_has_a_limit(store: Store) -> None:
    """More jobs than a group holds are all done, in more commits."""
    commits = commits_of(store)
    futures = together(store, *(writes(f"k{number}") for number in range(GROUP_LIMIT + 3)))
    for future in futures:
        future.result()
    assert len(commits) == 3


def test_a_job_that_was_cancelled_in_time_is_not_run(store: Store) -> None:
    """Cancelling a future before its turn means that nothing is written."""
    go_on = threading.Event()
    store._writer.submit(lambda conn: go_on.wait(10))
    late = store._writer.submit(writes("late"))
    while not late.cancel():
        raise AssertionError("it can't be running yet")
    go_on.set()
    store._writer.submit(writes("end")).result()
    assert not has(store, "late")


def test_closing_finishes_what_is_queued(tmp_path: Path) -> None:
    """What was queued before `close` is durable after it, and the log is carried over."""
    store = opened(tmp_path)
    futures = [store.put_commands([new(a_submit(f"w-{n}"))], 1) for n in range(50)]
    store.close()
    assert [future.result()[0].seq for future in futures] == list(range(1, 51))
    assert not (tmp_path / "store.db-wal").exists()
    store.close()
    with pytest.raises(StoreError) as caught:
        store.put_commands([new(a_submit())], 1).result()
    assert caught.value.code == "store/closed"


def test_callers_from_many_threads(store: Store) -> None:
    """Commands from many threads are all stored, each once, under names of their own."""
    names: list[str] = []

    def submit(first: int) -> None:
        for number in range(first, first + 20):
            (ack,) = store.put_commands([new(a_submit(f"w-{number}"))], 1).result()
            names.append(ack.name)

    threads = [threading.Thread(target=submit, args=(index * 100,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(names)) == 160
    assert [one.seq for one in store.take(0)] == list(range(1, 161))


def test_the_log_is_carried_over_when_there_is_nothing_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After a pause the database itself holds what the log did."""
    monkeypatch.setattr("stellwerk.store.writer.IDLE_SECONDS", 0.05)
    with opened(tmp_path) as store:
        store.put_commands([new(a_submit())], 1).result()
        before = os.stat(store.path).st_size
        pause = threading.Event()
        for _ in range(500):
            if os.stat(store.path).st_size > before:
                return
            pause.wait(0.01)
    raise AssertionError("the log was never carried over")
