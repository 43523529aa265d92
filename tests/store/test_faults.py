"""A disk, a file or another program that misbehaves: said in words, with nothing lost."""

import errno
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import sqlalchemy as sa

from stellwerk.store import Batch, BlobStore, Store, StoreError, WorkloadFilter, connect, places
from stellwerk.store.errors import from_database, from_os
from stellwerk.testing.builders import a_workload
from tests.store.samples import a_cancel, a_submit, grow, new, opened


def filled(home: Path, count: int = 2_000) -> Path:
    """A closed store whose tables have many pages; gives its file."""
    with opened(home) as store:
        grow(store, count, store.raise_epoch("1"))
    return Path(store.path)


def overwrite(path: Path, start: int, length: int = 1 << 20) -> None:
    """Puts noise into the pages of a closed database."""
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(start)
        file.write(b"\xa5" * min(length, size - start))


def code_of(ask: Callable[[], object]) -> str:
    with pytest.raises(StoreError) as caught:
        ask()
    assert caught.value.message
    assert caught.value.help
    return caught.value.code


def test_a_damaged_database_is_noticed_after_an_unclean_end(tmp_path: Path) -> None:
    """If the last user didn't close it, it is checked before use; the error says what to do."""
    path = filled(tmp_path)
    overwrite(path, 100_000)
    (tmp_path / "store.db-wal").write_bytes(b"left over")
    with pytest.raises(StoreError) as caught:
        Store.open(tmp_path)
    assert caught.value.code == "store/damaged"
    assert str(path) in caught.value.message
    assert ".recover" in caught.value.help


def test_a_damaged_database_is_noticed_when_read(tmp_path: Path) -> None:
    """Damage that shows only later is the same error, for reading and for verifying."""
    overwrite(filled(tmp_path), 240_000)
    with opened(tmp_path) as store:
        assert code_of(lambda: list(store.records())) == "store/damaged"
        assert [problem.code for problem in store.verify()] == ["store/damaged"]


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"x" * 999]
)
def test_a_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    """Something else under the database's name is refused and left as it is."""
    path = tmp_path / "store.db"
    path.write_bytes(content)
    assert code_of(lambda: Store.open(tmp_path)) == "store/damaged"
    assert path.read_bytes() == content


def _remove(home: Path) -> None:
    for path in home.glob("store.db*"):
        path.unlink()


def _empty(home: Path) -> None:
    os.truncate(home / "store.db", 0)


def _lose_the_log(home: Path) -> None:
    """As after a kill before anything was carried over: all is in the log, which is removed."""
    _remove(home)
    with sqlite3.connect(home / "store.db") as made:
        made.execute("PRAGMA journal_mode=WAL")
    made.close()


@pytest.mark.parametrize("lose", [_remove, _empty, _lose_the_log])
def test_a_database_that_is_gone_is_not_made_anew(
    tmp_path: Path, lose: Callable[[Path], None]
) -> None:
    """What was acknowledged would be lost without a word; a copy put back is opened as ever."""
    copy = filled(tmp_path, 20).read_bytes()
    lose(tmp_path)
    left = {path.name: path.read_bytes() for path in tmp_path.glob("store.db*")}
    for _ in range(2):
        assert code_of(lambda: Store.open(tmp_path)) == "store/gone"
        assert {path.name: path.read_bytes() for path in tmp_path.glob("store.db*")} == left
    (tmp_path / "store.db").write_bytes(copy)
    with opened(tmp_path) as store:
        assert store.seq() == 20


@pytest.mark.parametrize("replaced", [True, False])
def test_a_database_that_is_removed_while_in_use(tmp_path: Path, *, replaced: bool) -> None:
    """What is written to it is lost at the end: no work is taken on, but jobs can be ended."""
    with opened(tmp_path) as store:
        store.put_commands([new(a_submit())], 1).result()
        _remove(tmp_path)
        if replaced:
            (tmp_path / "store.db").write_bytes(b"")
        assert code_of(store.put_commands([new(a_submit("w-2"))], 1).result) == "store/gone"
        assert store.put_commands([new(a_cancel())], 1).result()[0].seq == 2


def test_a_log_without_its_database_is_kept(tmp_path: Path) -> None:
    """SQLite would delete it, and with it everything that wasn't carried over yet."""
    filled(tmp_path, 5)
    _remove(tmp_path)
    (tmp_path / "store.db-wal").write_bytes(b"all that there is")
    assert code_of(lambda: Store.open(tmp_path)) == "store/gone"
    assert (tmp_path / "store.db-wal").read_bytes() == b"all that there is"


@pytest.mark.parametrize("junk", [b'{"type":"submitte\xff"}', b"{}", b"["])
def test_a_row_that_can_not_be_read(tmp_path: Path, junk: bytes) -> None:
    """A changed byte in a text is damage (or from a newer version), no mistake of the code."""
    with opened(tmp_path) as store:
        epoch = store.raise_epoch("1")
        grow(store, 20, epoch)
        store.append(Batch(epoch, (), 0, [a_workload()])).result()
    other = sqlite3.connect(tmp_path / "store.db")
    other.execute("UPDATE journal SET data = CAST(? AS TEXT) WHERE seq = 7", (junk,))
    other.execute("UPDATE workloads SET doc = CAST(? AS TEXT)", (junk,))
    other.commit()
    other.close()
    with opened(tmp_path) as store:
        assert code_of(lambda: list(store.records())) in {"store/damaged", "store/newer"}
        assert code_of(lambda: store.workloads(WorkloadFilter())) == "store/damaged"


def test_an_epoch_is_higher_than_all_that_were_seen_before_a_copy_was_put_back(
    tmp_path: Path,
) -> None:
    """Places refuse an older leader; with the time as the least, the next one is never older."""
    path = filled(tmp_path, 20)
    copy = path.read_bytes()
    with opened(tmp_path) as store:
        seen = [store.raise_epoch("1", at_least=at_s) for at_s in (1_000, 1_000, 900, 2_000)]
    assert seen == [1_000, 1_001, 1_002, 2_000]
    path.write_bytes(copy)
    with opened(tmp_path) as store:
        assert store.raise_epoch("1", at_least=2_001) > max(seen)


def test_a_sound_database_after_an_unclean_end_is_just_opened(tmp_path: Path) -> None:
    """The check passes what is whole; a large database isn't read through at the start."""
    path = filled(tmp_path)
    (tmp_path / "store.db-wal").write_bytes(b"left over")
    assert connect.needs_check(str(path))
    with opened(tmp_path) as store:
        assert store.seq() == 2_000
    assert not connect.needs_check(str(path))
    os.truncate(path, connect.CHECK_BELOW_BYTES)
    (tmp_path / "store.db-wal").write_bytes(b"left over")
    assert not connect.needs_check(str(path))


def test_commits_are_flushed(tmp_path: Path) -> None:
    """The settings without which a power cut could lose what was acknowledged."""

    def ask(conn: sa.Connection) -> list[object]:
        asked = ("journal_mode", "synchronous")
        return [conn.exec_driver_sql(f"pragma {name}").scalar_one() for name in asked]

    with opened(tmp_path) as store:
        assert store._writer.submit(ask).result() == ["wal", 2]
        assert store._read(lambda conn: ask(conn)[0]) == "wal"


def test_a_locked_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another program holds it, writing and opening say so; afterwards all is well."""
    monkeypatch.setattr(connect, "BUSY_TIMEOUT_MS", 50)
    with opened(tmp_path) as store:
        other = sqlite3.connect(store.path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        futures = [store.put_commands([new(a_submit(f"w-{n}"))], 1) for n in range(3)]
        assert {code_of(future.result) for future in futures} == {"store/locked"}
        assert code_of(lambda: Store.open(tmp_path)) == "store/locked"
        assert store.seq() == 0
        other.execute("ROLLBACK")
        assert store.put_commands([new(a_submit())], 1).result()[0].seq == 1
        other.close()


def test_a_full_database_recovers(tmp_path: Path) -> None:
    """Writes are refused in words while there is no room, and work again when there is."""

    def limit(pages: int) -> None:
        def job(conn: sa.Connection) -> None:
            conn.connection.cursor().execute(f"PRAGMA max_page_count={pages}")

        store._writer.submit(job).result()

    with opened(tmp_path) as store:
        epoch = store.raise_epoch("1")
        grow(store, 10, epoch)
        limit(1)
        many = [new(a_submit(f"w-{n}"), f"k{n}") for n in range(500)]
        assert code_of(store.put_commands(many, 1).result) == "store/full"
        assert code_of(lambda: grow(store, 500, epoch)) == "store/full"
        assert (store.seq(), store.take(0)) == (10, [])
        limit(1_000_000)
        assert len(store.put_commands(many, 1).result()) == 500
        grow(store, 500, epoch)
        assert store.verify() == []


FULL_DISK = """
import os, sys
from pathlib import Path
from stellwerk.store import StoreError
from tests.store.samples import a_submit, grow, new, opened

home = Path(sys.argv[1])
with opened(home) as store:
    epoch = store.raise_epoch("1")
    grow(store, 10, epoch)
    ballast = os.open(home / "ballast", os.O_CREAT | os.O_WRONLY)
    try:
        while os.write(ballast, bytes(4096)):
            pass
    except OSError:
        pass
    acked = refused = 0
    codes = set()
    for number in range(2_000):
        future = store.put_commands([new(a_submit(f"w-{number}"), f"k{number}")], 1)
        if future.exception() is None:
            acked += 1
        else:
            refused += 1
            codes.add(future.exception().code)
            if refused > 20:
                break
    try:
        store.blobs.put(bytes(100_000))
    except StoreError as error:
        codes.add(error.code)
    print(codes, store.seq(), len(store.take(0, 9_999)) == acked)
    os.truncate(home / "ballast", 0)
    grow(store, 100, epoch)
    store.blobs.put(bytes(100_000))
    again = store.put_commands([new(a_submit(f"w-{n}"), f"k{n}") for n in range(acked + 9)], 2)
    print(sum(ack.repeated for ack in again.result()) == acked, store.seq(), store.verify())
"""


def test_a_full_disk(tmp_path: Path) -> None:
    """On a disk that is really full, reads go on, refusals say so, and room brings writes back."""
    in_a_small_disk = 'mount -t tmpfs -o size=2m none "$1" && shift && exec "$@"'
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", in_a_small_disk, "sh"]
    if subprocess.run(
        [*command, str(tmp_path), "true"], check=False, capture_output=True
    ).returncode:
        pytest.skip("a file system of its own can't be mounted here")
    done = subprocess.run(
        [*command, str(tmp_path), sys.executable, "-c", FULL_DISK, str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == ["{'store/full'} 10 True", "True 110 []"], done.stderr


def test_a_network_file_system_is_refused_before_anything_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening looks at the real mount table, and leaves no trace where it refuses."""
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8")
    kind, _ = places.file_system_of(str(tmp_path.resolve()), mounts)
    monkeypatch.setattr(places, "NETWORK_TYPES", frozenset({kind}))
    assert code_of(lambda: Store.open(tmp_path / "home")) == "store/network-file-system"
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize("below", ["file", "file/folder"])
def test_a_file_where_the_folder_should_be(tmp_path: Path, below: str) -> None:
    """A path that can't be a folder is refused in words."""
    (tmp_path / "file").write_bytes(b"")
    assert code_of(lambda: Store.open(tmp_path / below)) == "store/place"


def test_a_folder_where_the_database_should_be(tmp_path: Path) -> None:
    """A database that can't be opened at all is refused in words."""
    (tmp_path / "store.db").mkdir()
    assert code_of(lambda: Store.open(tmp_path)) == "store/permission"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    """State that this user can't write is refused in words."""
    filled(tmp_path, 1)
    for path in (tmp_path / "store.db", tmp_path):
        path.chmod(0o500)
    try:
        assert code_of(lambda: Store.open(tmp_path)) == "store/permission"
        assert code_of(lambda: BlobStore(tmp_path / "blobs").put(b"x")) == "store/permission"
    finally:
        tmp_path.chmod(0o700)


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (errno.ENOSPC, "store/full"),
        (errno.EDQUOT, "store/full"),
        (errno.EACCES, "store/permission"),
        (errno.EROFS, "store/permission"),
        (errno.ENOTDIR, "store/place"),
        (errno.ENOENT, "store/gone"),
        (errno.EIO, "store/io"),
    ],
)
def test_errors_of_the_system(number: int, code: str) -> None:
    """Each error of the operating system has its words, which name the place."""
    error = from_os(OSError(number, os.strerror(number)), "/data/store.db")
    assert error.code == code
    assert "/data/store.db" in error.message
    assert error.help


@pytest.mark.parametrize(
    ("number", "code"),
    [
        (sqlite3.SQLITE_FULL, "store/full"),
        (sqlite3.SQLITE_BUSY_SNAPSHOT, "store/locked"),
        (sqlite3.SQLITE_CORRUPT_INDEX, "store/damaged"),
        (sqlite3.SQLITE_NOTADB, "store/damaged"),
        (sqlite3.SQLITE_READONLY_DIRECTORY, "store/permission"),
        (sqlite3.SQLITE_IOERR_FSYNC, "store/io"),
    ],
)
def test_errors_of_the_database(tmp_path: Path, number: int, code: str) -> None:
    """Extended codes count like the plain ones; SQLAlchemy's wrapping is looked through."""
    cause = sqlite3.OperationalError("as the database says")
    cause.sqlite_errorcode = number
    for error in (cause, sa.exc.OperationalError("select", None, cause)):
        told = from_database(error, str(tmp_path / "store.db"))
        assert isinstance(told, StoreError)
        assert told.code == code


def test_a_mistake_in_the_code_is_not_dressed_up() -> None:
    """An error that isn't the disk's or the database's stays what it is."""
    for error in (TypeError("x"), sqlite3.ProgrammingError("x"), sqlite3.IntegrityError("x")):
        assert from_database(error, "store.db") is error
