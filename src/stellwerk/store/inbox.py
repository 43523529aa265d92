"""Keeps commands until the engine has turned them into events, and knows a repeated one.

A submit's name is a base; the name itself is given in the same transaction. The inbox is done up to
a position that the engine writes together with the events (`journal`); what lies behind it stays
for a while, so that a request repeated late still gets its first answer.
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec
import sqlalchemy as sa
from msgspec import Struct

from stellwerk.core.model.commands import Command, Envelope, Submit, anonymous, subject
from stellwerk.core.model.gates import ARRAY_LABEL, ArrayPart
from stellwerk.core.model.ids import WorkloadId
from stellwerk.store import facts, schema
from stellwerk.store.errors import StoreError, refusal
from stellwerk.store.names import NameBook
from stellwerk.store.statements import Prepared, Row, insert_row, param

FEW = 16
"""So many keys are looked up one by one; more of them in chunks."""

CHUNK = 500


class NewCommand(Struct, frozen=True):
    """A command to be stored. An empty ``key`` means that a repetition is a new request."""

    actor: str
    project: str
    key: str
    command: Command


class Ack(Struct, frozen=True):
    """What a stored command is known by; ``repeated`` if it was stored before, at ``at_ms``."""

    seq: int
    id: WorkloadId
    name: str
    repeated: bool
    at_ms: int = 0


class _First(NamedTuple):
    """What a key stands for."""

    ack: Ack
    command: Command


Agrees = Callable[[Command, Command], bool]
"""Whether two commands under one key ask for the same."""


def alike(first: Command, again: Command) -> bool:
    """Whether two commands are equal but for what each submission makes up itself."""
    if isinstance(first, Submit) and isinstance(again, Submit):
        return anonymous(first) == anonymous(again)
    return first == again


_columns = schema.inbox.c
_INSERT = insert_row(schema.inbox)
_OF_KEY = (
    _columns.actor,
    _columns.key,
    _columns.seq,
    _columns.workload,
    _columns.name,
    _columns.at_ms,
    _columns.command,
)
_NEWEST = Prepared(sa.select(sa.func.max(_columns.seq)))
_BY_KEY = Prepared(
    sa.select(*_OF_KEY).where(_columns.actor == param("actor"), _columns.key == param("key"))
)
_UNDER = Prepared(
    sa.select(_columns.key, _columns.workload)
    .where(
        _columns.actor == param("actor"),
        _columns.key >= param("low"),
        _columns.key < param("high"),
    )
    .order_by(_columns.seq)
)
_TAKE = Prepared(
    sa.select(_columns.seq, _columns.at_ms, _columns.actor, _columns.key, _columns.command)
    .where(_columns.seq > param("after"))
    .order_by(_columns.seq)
    .limit(param("limit"))
)
_FORGET = Prepared(
    sa.delete(schema.inbox).where(
        _columns.seq <= param("upto"),
        _columns.at_ms < param("before"),
        _columns.seq < sa.select(sa.func.max(_columns.seq)).scalar_subquery(),
    )
)

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Command).decode


def put(conn: sa.Connection, items: Sequence[NewCommand], at_ms: int, agrees: Agrees) -> list[Ack]:
    """Stores commands in their order; each gets its Ack, a repeated one that of the first time.

    A key that stands for something else is refused, and nothing is stored.
    """
    known = _known(conn, items)
    book = NameBook(conn)
    newest = _NEWEST.first(conn)
    seq = int(newest[0] or 0) if newest else 0
    acks: list[Ack] = []
    rows: list[Row] = []
    for item in items:
        first = known.get((item.actor, item.key)) if item.key else None
        if first is not None:
            if not agrees(first.command, item.command):
                raise _taken(item, first)
            acks.append(first.ack)
            continue
        seq += 1
        command, name = _named(item.command, book)
        about = subject(command)
        row = (seq, at_ms, item.actor, item.project, item.key or None, about, name)
        rows.append((*row, _encode(command).decode()))
        acks.append(Ack(seq, about, name, repeated=False, at_ms=at_ms))
        again = Ack(seq, about, name, repeated=True, at_ms=at_ms)
        known[item.actor, item.key] = _First(again, item.command)
    if rows:
        book.save()
        _INSERT.many(conn, rows)
    return acks


def acknowledged(conn: sa.Connection, actor: str, key: str) -> Ack | None:
    """The Ack of a command that was stored under this key, if one was."""
    row = _BY_KEY.first(conn, actor, key)
    return _first(row).ack if row else None


def _first(row: Row) -> _First:
    _actor, _key, seq, workload, name, at_ms, command = row
    ack = Ack(seq, WorkloadId(workload), name, repeated=True, at_ms=at_ms)
    return _First(ack, _decode(command))


def _taken(item: NewCommand, first: _First) -> StoreError:
    """Says what a key stands for, and what else it was to stand for."""
    at = datetime.fromtimestamp(first.ack.at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    return refusal(
        "key/other-content",
        f"the key `{item.key[:80]}` was used at {at} for {_about(first.command, first.ack.name)}, "
        f"and {_about(item.command, '')} is something else",
        "take a new key for something new; the same one only repeats what it was first used for",
    )


def _about(command: Command, name: str) -> str:
    verb, about = command.__struct_config__.tag, subject(command)
    if isinstance(command, Submit):
        return f"{name} ({about})" if name else f"this `{command.name}`"
    return f"{verb} of {about}" if about else str(verb)


def under(conn: sa.Connection, actor: str, beginning: str) -> list[tuple[str, WorkloadId]]:
    """The keys of an actor that begin so, with the workloads of their commands."""
    found = _UNDER.all(conn, actor, beginning, beginning + "\U0010ffff")
    return [(str(key), WorkloadId(workload)) for key, workload in found]


def _named(command: Command, book: NameBook) -> tuple[Command, str]:
    """A submit under the name that is its own from now on; other commands as they are."""
    if not isinstance(command, Submit):
        return command, ""
    if command.array is not None and command.array.id:
        return _element(command, command.array, book)
    name = book.give(command.project, command.name)
    if name != command.name:
        command = msgspec.structs.replace(command, name=name)
    return command, name


def _element(command: Submit, part: ArrayPart, book: NameBook) -> tuple[Command, str]:
    """An element of an array, whose name and index together are its own name."""
    array = book.give_array(command.project, command.name, part.id, part.highest)
    name = f"{array}-{part.index}"
    part = msgspec.structs.replace(part, name=array)
    labels = {**command.labels, ARRAY_LABEL: array}
    return msgspec.structs.replace(command, name=name, array=part, labels=labels), name


def _known(conn: sa.Connection, items: Sequence[NewCommand]) -> dict[tuple[str, str], _First]:
    """Those commands that were stored before, by actor and key."""
    keys: dict[str, list[str]] = {}
    for item in items:
        if item.key:
            keys.setdefault(item.actor, []).append(item.key)
    rows: list[Row] = []
    for actor, asked in keys.items():
        if len(asked) <= FEW:
            for key in asked:
                rows += _BY_KEY.all(conn, actor, key)
            continue
        for start in range(0, len(asked), CHUNK):
            chunk = asked[start : start + CHUNK]
            rows += _by_keys(conn, actor, chunk)
    return {(row[0], row[1]): _first(row) for row in rows}


def _by_keys(conn: sa.Connection, actor: str, keys: list[str]) -> list[Row]:
    query = sa.select(*_OF_KEY).where(_columns.actor == actor, _columns.key.in_(keys))
    return [tuple(row) for row in conn.execute(query)]


def take(conn: sa.Connection, after_seq: int, limit: int) -> list[Envelope]:
    """Commands that aren't done and come after a position, in their order."""
    after_seq = max(after_seq, facts.number(conn, facts.INBOX_UPTO))
    return [
        Envelope(seq, at_ms, actor, key or "", _decode(command))
        for seq, at_ms, actor, key, command in _TAKE.all(conn, after_seq, limit)
    ]


def newest(conn: sa.Connection) -> int:
    """The position of the newest command; 0 if there never was one."""
    row = _NEWEST.first(conn)
    return int(row[0] or 0) if row else 0


def forget(conn: sa.Connection, before_ms: int) -> int:
    """Deletes done commands older than an instant; gives how many. The newest one stays."""
    return _FORGET.run(conn, facts.number(conn, facts.INBOX_UPTO), before_ms)
