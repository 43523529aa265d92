"""The one door to what is durable: inbox, journal, images, read models, blobs and secrets.

Writing methods give a future (or wait for it, where they say so) that is done once the data is on
the disk; any thread may call them, and their order is kept. Reading methods answer at once from the
last commit. Everything that goes wrong is a `StoreError` with a code.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import nullcontext
from pathlib import Path
from typing import Self, TypeVar

import msgspec
import sqlalchemy as sa

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.commands import Envelope, Submit
from stellwerk.core.model.decisions import Decision
from stellwerk.core.model.errors import Problem
from stellwerk.core.model.events import Record
from stellwerk.core.model.ids import DecisionId, ShapeId, WorkloadId
from stellwerk.core.model.resources import Shape
from stellwerk.core.model.standing import Declared, Standing
from stellwerk.store import connect, facts, images, inbox, journal, mark, placements, views
from stellwerk.store.blobs import BlobStore
from stellwerk.store.disk import make_home
from stellwerk.store.errors import StoreError, free_bytes, from_database, full
from stellwerk.store.inbox import Ack, Agrees, NewCommand
from stellwerk.store.journal import Batch
from stellwerk.store.migrations import is_empty, migrate
from stellwerk.store.placements import Placed
from stellwerk.store.places import check_place
from stellwerk.store.retention import Retention
from stellwerk.store.secrets import SecretStore
from stellwerk.store.verify import verify
from stellwerk.store.views import ArrayRow, Picked, Position, Wait, WorkloadFilter, WorkloadRow
from stellwerk.store.writer import Writer

T = TypeVar("T")

RESERVE_BYTES = 16 << 20
"""With less room than this no new work is taken on, so that what happens can still be recorded."""


class Store:
    """What is durable of one Stellwerk. Made by `open`; `close` it, or use it as a context."""

    def __init__(self, home: Path, writing: sa.Engine, reading: sa.Engine) -> None:
        self.home = home
        self.path = database_path(home)
        self.reserve_bytes = RESERVE_BYTES
        self._identity = mark.identity_of(self.path)
        self._writing = writing
        self._reading = reading
        self._writer = Writer(writing, self.path)
        self.blobs = BlobStore(home / "blobs", RESERVE_BYTES)
        self.secrets = SecretStore(home / "secrets.key", self._writer.submit, self._read)
        self.retention = Retention(self._writer.submit, self._read)

    @classmethod
    def open(cls, home: Path) -> "Store":
        """Opens the state in folder ``home``, and makes it if there is none.

        Raises StoreError if it lies on a network file system, is damaged or gone, locked, newer
        than this code, or not ours to write.
        """
        check_place(str(home))
        make_home(home)
        path = database_path(home)
        used = mark.is_there(home)
        if used and mark.size_of(path) == 0:
            raise mark.gone(home, path)
        unchecked = connect.needs_check(path)
        writing = connect.write_engine(path)
        try:
            with writing.begin() as conn:
                problem = connect.check(conn, path) if unchecked else None
                if problem is not None:
                    raise problem
                if used and is_empty(conn):
                    raise mark.gone(home, path)
                migrate(conn, path)
            mark.put(home)
        except Exception as error:
            writing.dispose()
            raise from_database(error, path) from error
        return cls(home, writing, connect.read_engine(path))

    def close(self) -> None:
        """Finishes what is queued and lets go of the files. May be called again."""
        self._writer.close()
        self._reading.dispose()
        self._writing.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    # Inbox

    def put_commands(
        self, items: Sequence[NewCommand], at_ms: int, agrees: Agrees = inbox.alike
    ) -> "Future[list[Ack]]":
        """Stores commands durably, all or none, in their order.

        A submit's name is a base that is made unique in its project (``digits``, ``digits-2``);
        the stored command carries the final name. A repeated (actor, key) gets its first Ack if
        both commands agree; else all are refused.
        Where there is little room, or the database was removed, no new work is taken on, but what
        runs can still be ended.
        """
        is_work = any(isinstance(item.command, Submit) for item in items)
        refusal = self._refusal_of_work() if is_work else None
        if refusal is not None:
            refused: Future[list[Ack]] = Future()
            refused.set_exception(refusal)
            return refused
        return self._writer.submit(lambda conn: inbox.put(conn, items, at_ms, agrees))

    def _refusal_of_work(self) -> StoreError | None:
        if free_bytes(str(self.home)) < self.reserve_bytes:
            return full(str(self.home))
        if mark.identity_of(self.path) != self._identity:
            return mark.gone(self.home, self.path)
        return None

    def acknowledged(self, actor: str, key: str) -> Ack | None:
        """The Ack of the command that was stored under this key, if one was."""
        return self._read(lambda conn: inbox.acknowledged(conn, actor, key))

    def commands_under(self, actor: str, beginning: str) -> list[tuple[str, WorkloadId]]:
        """The keys that begin so, with the workloads of their commands, in their order."""
        return self._read(lambda conn: inbox.under(conn, actor, beginning))

    def take(self, after_seq: int, limit: int = 1_000) -> list[Envelope]:
        """Commands that aren't events yet and come after a position, in their order."""
        return self._read(lambda conn: inbox.take(conn, after_seq, limit))

    def inbox_upto(self) -> int:
        """The position up to which commands have become events."""
        return self._read(lambda conn: facts.number(conn, facts.INBOX_UPTO))

    def inbox_newest(self) -> int:
        """The position of the newest command that was acknowledged."""
        return self._read(inbox.newest)

    # Journal

    def raise_epoch(self, version: str, at_least: int = 0) -> int:
        """Makes the caller the one engine that may write; waits until that is durable.

        With a number that grows over time as ``at_least``, an epoch stays higher than all that
        were ever seen elsewhere, also after an older copy of the database was put in its place.
        """

        def job(conn: sa.Connection) -> int:
            epoch = max(facts.number(conn, facts.EPOCH) + 1, at_least)
            facts.write(conn, facts.EPOCH, epoch)
            facts.write(conn, facts.LEADER_VERSION, version)
            return epoch

        return self._writer.submit(job).result()

    def epoch(self) -> int:
        """The epoch that leads; 0 before the first."""
        return self._read(lambda conn: facts.number(conn, facts.EPOCH))

    def append(self, batch: Batch) -> "Future[None]":
        """Writes one step of the engine in one transaction.

        Fails with ``store/fenced`` if another epoch leads or the records don't continue the
        journal; then nothing of the batch is stored. The batch that was appended last may be
        sent again, which changes nothing.
        """
        return self._writer.submit(lambda conn: journal.append(conn, batch))

    def seq(self) -> int:
        """The number of the newest record; 0 for an empty journal."""
        return self._read(journal.last)[0]

    def records(self, after_seq: int = 0, limit: int | None = None) -> Iterator[Record]:
        """All records after a number, in order, read page by page."""
        return journal.pages(self.records_page, after_seq, limit)

    def records_page(
        self, after_seq: int, limit: int, workload: WorkloadId | None = None
    ) -> list[Record]:
        """Up to ``limit`` records after a number, of all or of one workload."""
        return self._read(lambda conn: journal.page(conn, after_seq, limit, workload))

    def story(self, workload: WorkloadId) -> list[Record]:
        """Everything that happened to one workload."""
        return list(
            journal.pages(lambda after, count: self.records_page(after, count, workload), 0, None)
        )

    def journal_lines(self, after_seq: int = 0) -> Iterator[bytes]:
        """The journal as JSON, a line (with its end) for each record."""
        encode = msgspec.json.Encoder().encode
        return (encode(record) + b"\n" for record in self.records(after_seq))

    # Images

    def save_image(self, seq: int, schema_hash: str, data: bytes) -> None:
        """Stores the state at ``seq`` and waits until it is durable. Two images are kept.

        It is compressed in the calling thread, so that others' writes don't wait for that.
        """
        packed = images.pack(data)
        self._writer.submit(lambda conn: images.save(conn, seq, schema_hash, packed)).result()

    def load_image(self, schema_hash: str) -> tuple[int, bytes] | None:
        """The newest intact image (seq, data) made under this schema."""
        return self._read(lambda conn: images.load(conn, schema_hash))

    # Read models

    def workload(self, ref: str, project: str) -> WorkloadRow | None:
        """Finds a workload by its name in ``project``, its id, or a unique beginning of its id.

        Raises ``store/ambiguous``, which lists them, if several ids begin like that.
        """
        return self._read(lambda conn: views.workload(conn, ref, project))

    def workloads(self, wanted: WorkloadFilter) -> list[WorkloadRow]:
        """Lists workloads, by the order of their submission."""
        return self._read(lambda conn: views.workloads(conn, wanted))

    def count(self, wanted: WorkloadFilter) -> int:
        """How many workloads a filter asks for, all pages together."""
        return self._read(lambda conn: views.count(conn, wanted))

    def arrays(self, label: str, project: str, name: str = "") -> list[ArrayRow]:
        """All arrays, the newest first, or the one of a name."""
        return self._read(lambda conn: views.arrays(conn, label, project, name), snapshot=True)

    def picked(self, wanted: WorkloadFilter) -> list[Picked]:
        """Like `workloads`, for many: only what they are called and the phase they are in."""
        return self._read(lambda conn: views.picked(conn, wanted))

    def picked_by_id(self, ids: Sequence[WorkloadId]) -> list[Picked]:
        """Those of these ids, in no particular order."""
        return self._read(lambda conn: views.picked_by_id(conn, ids))

    def queue(self, name: str, limit: int = 100) -> list[WorkloadRow]:
        """The first pending workloads of a queue, in the order they are served."""
        return self._read(lambda conn: views.queue(conn, name, limit))

    def position(self, id: WorkloadId) -> Position | None:
        """Where a pending workload stands in its queue; None for one that isn't pending."""
        return self._read(lambda conn: views.position(conn, id))

    def counts(self) -> dict[str, int]:
        """How many workloads are in each phase; phases without any are left out."""
        return self._read(views.counts)

    def decision(self, id: DecisionId) -> tuple[Decision, int] | None:
        """A decision and when it was made."""
        return self._read(lambda conn: views.decision(conn, id))

    def shape(self, id: ShapeId) -> Shape | None:
        """What workloads of a shape ask for."""
        return self._read(lambda conn: views.shape(conn, id))

    def waits(self, shape: ShapeId) -> Wait | None:
        """Why the waiting workloads of a shape wait, if that was ever said."""
        return self._read(lambda conn: views.waits(conn, shape))

    def clusters(self) -> list[tuple[Cluster, int]]:
        """All clusters by name, each with the time it was last observed."""
        return self._read(views.clusters)

    # What stands

    def declared(self) -> list[Declared]:
        """What fleet files say, by name."""
        return self._read(placements.declared)

    def placements(self) -> list[Standing]:
        """All placements by key."""
        return self._read(placements.placements)

    def placement_keys(self) -> list[str]:
        """The keys of all placements."""
        return self._read(placements.keys)

    def placement(self, key: str) -> Standing | None:
        """The placement of a key (``namespace/name``)."""
        return self._read(lambda conn: placements.placement(conn, key))

    def placed(self, id: str) -> Placed | None:
        """A decision about a placement; the newest, if several have this id."""
        return self._read(lambda conn: placements.placed(conn, id))

    def placement_history(self, key: str, limit: int) -> list[Placed]:
        """The decisions about a placement, newest first."""
        return self._read(lambda conn: placements.history(conn, key, limit))

    def placed_before(self, seq: int) -> list[Placed]:
        """What was decided for each placement last, before a record of the journal."""
        return self._read(lambda conn: placements.placed_before(conn, seq))

    def parts(self, ids: Iterable[str]) -> dict[str, bytes]:
        """Parts of decisions by the hash of their content."""
        return self._read(lambda conn: placements.parts(conn, ids))

    def drop_old_placed(self, before_ms: int) -> int:
        """Removes decisions about placements from before an instant, but for the last one of each;
        gives how many.
        """
        return int(self._writer.submit(lambda c: placements.drop_old(c, before_ms)).result())

    def placed_data(self) -> Iterator[bytes]:
        """All stored decisions about placements, page by page."""
        after = 0
        while rows := self._read(lambda conn: placements.placed_page(conn, after)):  # noqa: B023
            yield from (data for _, data in rows if data)
            after = rows[-1][0]

    def part_ids(self) -> list[str]:
        """The ids of all parts of decisions."""
        return self._read(placements.part_ids)

    def drop_parts(self, ids: Sequence[str]) -> int:
        """Removes parts that no decision needs; gives how many."""
        return int(self._writer.submit(lambda conn: placements.drop_parts(conn, ids)).result())

    def verify(self) -> list[Problem]:
        """Reads everything and says what doesn't agree: database, journal, read models, images."""
        return self._read(lambda conn: verify(conn, self.path), snapshot=True)

    def _read(self, question: Callable[[sa.Connection], T], *, snapshot: bool = False) -> T:
        """Asks a question; with ``snapshot``, all its statements see the same commit."""
        try:
            with (
                self._reading.connect() as conn,
                connect.one_commit(conn) if snapshot else nullcontext(),
            ):
                return question(conn)
        except StoreError:
            raise
        except Exception as error:
            raise from_database(error, self.path) from error


def database_path(home: Path) -> str:
    """Where the database of a state folder is."""
    return str(home / "store.db")
