"""Knows what is old in the database, and removes from it what nobody refers to any more.

The journal isn't touched: it is the only record of what happened, and small beside the rest.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import sqlalchemy as sa

from stellwerk.core.model.ids import WorkloadId
from stellwerk.store import facts, inbox, schema
from stellwerk.store.statements import Prepared, param

PAGE = 500
SEALED = "sealed/"
SWEPT = "swept_ms"
"""When what was too old was last removed."""

_w, _d, _s, _i = (
    schema.workloads.c,
    schema.decisions.c,
    schema.secrets.c,
    schema.inbox.c,
)
_Submit = Callable[[Callable[[sa.Connection], Any]], "Future[Any]"]
_Read = Callable[[Callable[[sa.Connection], Any]], Any]

_ENDED = Prepared(
    sa.select(_w.id)
    .where(schema.IS_ENDED, _w.ended_ms < param("before"))
    .order_by(_w.ended_ms)
    .limit(param("limit"))
)
_DECISIONS = Prepared(sa.select(_d.id, sa.func.length(_d.doc)).where(_d.at_ms < param("before")))
_SEALED = Prepared(
    sa.select(_s.name, sa.func.length(_s.sealed)).where(
        _s.name > param("low"), _s.name < param("high"), _s.created_ms < param("before")
    )
)
_COMMANDS = Prepared(
    sa.select(_i.seq, _i.command, _i.at_ms)
    .where(_i.seq > param("after"))
    .order_by(_i.seq)
    .limit(param("limit"))
)
_NEWEST = Prepared(sa.select(sa.func.max(_i.seq)))
_OLD_COMMANDS = Prepared(
    sa.select(sa.func.count(), sa.func.sum(sa.func.length(_i.command))).where(
        _i.seq <= param("upto"),
        _i.at_ms < param("before"),
        _i.seq < sa.select(sa.func.max(_i.seq)).scalar_subquery(),
    )
)
_WORKLOADS = Prepared(
    sa.select(_w.id, _w.doc).where(_w.id > param("after")).order_by(_w.id).limit(param("limit"))
)
_DECLARED = Prepared(sa.select(schema.declared.c.doc))
_OF_SHAPES = Prepared(sa.select(schema.shapes.c.decision))
_ROWS = {
    table.name: Prepared(sa.select(sa.func.count()).select_from(table))
    for table in (schema.workloads, schema.decisions, schema.inbox, schema.journal)
}
_DROP_WORKLOAD = Prepared(sa.delete(schema.workloads).where(_w.id == param("id"), schema.IS_ENDED))
_DROP_LABELS = Prepared(
    sa.delete(schema.labels).where(
        schema.labels.c.workload == param("id"), schema.labels.c.workload.not_in(sa.select(_w.id))
    )
)
_DROP_DECISION = Prepared(sa.delete(schema.decisions).where(_d.id == param("id")))
_DROP_SEALED = Prepared(sa.delete(schema.secrets).where(_s.name == param("name")))


class Retention:
    """What is old, what refers to what, and how it is removed. Removing waits for the disk."""

    def __init__(self, submit: _Submit, read: _Read) -> None:
        self._submit = submit
        self._read = read

    # what there is

    def counts(self) -> dict[str, int]:
        """How many rows the growing tables have."""

        def ask(conn: sa.Connection) -> dict[str, int]:
            return {name: int((query.first(conn) or (0,))[0]) for name, query in _ROWS.items()}

        counts: dict[str, int] = self._read(ask)
        return counts

    def texts(
        self, without: frozenset[WorkloadId] = frozenset(), commands_since_ms: int = 0
    ) -> Iterator[bytes]:
        """Every row that may refer to something, page by page, as if the given workloads and the
        done commands from before an instant weren't there.

        Commands come first: one that becomes a workload meanwhile is met at least once.
        """
        upto = self._read(lambda conn: facts.number(conn, facts.INBOX_UPTO))
        for seq, at_ms, command in self._commands(0):
            if seq > upto or at_ms >= commands_since_ms:
                yield command
        after = ""
        while rows := self._read(lambda conn: _WORKLOADS.all(conn, after, PAGE)):  # noqa: B023
            yield from (doc.encode() for id, doc in rows if id not in without)
            after = rows[-1][0]
        for (decision,) in self._read(_OF_SHAPES.all):
            yield f'"{decision}"'.encode()
        for (doc,) in self._read(_DECLARED.all):
            yield doc.encode()

    def commands_after(self, seq: int) -> Iterator[tuple[int, bytes]]:
        """All stored commands after a number, page by page."""
        return ((number, text) for number, _, text in self._commands(seq))

    def _commands(self, seq: int) -> Iterator[tuple[int, int, bytes]]:
        while rows := self._read(lambda conn: _COMMANDS.all(conn, seq, PAGE)):  # noqa: B023
            yield from ((int(number), int(at_ms), text.encode()) for number, text, at_ms in rows)
            seq = rows[-1][0]

    def newest_command(self) -> int:
        """The number of the last stored command; 0 if there is none."""
        row = self._read(_NEWEST.first)
        return int(row[0] or 0) if row else 0

    # what is old

    def ended_before(self, before_ms: int, limit: int) -> list[WorkloadId]:
        """Workloads that ended before an instant, the oldest first."""
        rows = self._read(lambda conn: _ENDED.all(conn, before_ms, limit))
        return [WorkloadId(row[0]) for row in rows]

    def decisions(self, before_ms: int) -> dict[str, int]:
        """Decisions made before an instant, with their sizes."""
        rows = self._read(lambda conn: _DECISIONS.all(conn, before_ms))
        return {str(id): int(size) for id, size in rows}

    def sealed(self, before_ms: int) -> dict[str, int]:
        """Names of values sealed for submissions before an instant, with the sizes stored.

        Secrets that somebody gave a name are not among them.
        """
        # "0" follows "/": between the two lies everything that begins with "sealed/".
        rows = self._read(lambda conn: _SEALED.all(conn, SEALED, "sealed0", before_ms))
        return {str(name): int(size) for name, size in rows}

    def old_commands(self, before_ms: int) -> tuple[int, int]:
        """How many done commands were stored before an instant, and their bytes."""

        def ask(conn: sa.Connection) -> tuple[int, int]:
            upto = facts.number(conn, facts.INBOX_UPTO)
            count, size = _OLD_COMMANDS.first(conn, upto, before_ms) or (0, 0)
            return int(count), int(size or 0)

        found: tuple[int, int] = self._read(ask)
        return found

    # removing

    def drop_workloads(self, ids: Sequence[WorkloadId]) -> int:
        """Takes ended workloads off the lists; one that lives stays. Gives how many."""

        def job(conn: sa.Connection) -> int:
            removed = sum(_DROP_WORKLOAD.run(conn, id) for id in ids)
            for id in ids:
                _DROP_LABELS.run(conn, id)
            return removed

        return int(self._submit(job).result())

    def drop_decisions(self, ids: Sequence[str]) -> int:
        """Removes decisions; gives how many."""

        def job(conn: sa.Connection) -> int:
            return sum(_DROP_DECISION.run(conn, id) for id in ids)

        return int(self._submit(job).result())

    def drop_sealed(self, names: Sequence[str]) -> int:
        """Removes sealed values and overwrites where they lay; gives how many."""

        def job(conn: sa.Connection) -> int:
            conn.exec_driver_sql("PRAGMA secure_delete=ON")
            return sum(_DROP_SEALED.run(conn, name) for name in names)

        return int(self._submit(job).result())

    def forget_commands(self, before_ms: int) -> int:
        """Deletes done commands stored before an instant; a later repetition is a new request."""
        return int(self._submit(lambda conn: inbox.forget(conn, before_ms)).result())

    # when

    def swept_ms(self) -> int:
        """When `note_sweep` was last called; 0 for never."""
        return int(self._read(lambda conn: facts.number(conn, SWEPT)))

    def note_sweep(self, at_ms: int) -> None:
        """Writes down that what was too old has been removed."""
        self._submit(lambda conn: facts.write(conn, SWEPT, at_ms)).result()
