"""Packs what decisions about placements were made of, so that each part is stored only once."""

import hashlib
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.standing import FactRow, FactTable, StoredDecision

ID_BYTES = 8
SHARE_OF_BASE = 16
"""A table that differs from its base in more than one row of so many is stored whole."""
KNOWN_PARTS = 100_000

_encode = msgspec.msgpack.Encoder().encode


class Reads(Protocol):
    """Gives parts by their ids."""

    def parts(self, ids: Iterable[str]) -> dict[str, bytes]:
        """Those that there are."""
        ...


def packed(value: object) -> tuple[str, bytes]:
    """The id and the stored form of a part."""
    return named(_encode(value))


def named(data: bytes) -> tuple[str, bytes]:
    """The same of what is encoded already."""
    return hashlib.sha256(data).digest()[:ID_BYTES].hex(), zlib.compress(data, 1)


def unpacked(data: bytes) -> bytes:
    """What was encoded."""
    return zlib.decompress(data)


class KeptFacts:
    """The facts of a fleet as of one moment after another; only what is new becomes a part."""

    def __init__(self) -> None:
        self._ids: dict[str, bytes] = {}
        self._base = ""
        self._base_row: dict[str, int] = {}
        self._since: dict[str, None] = {}
        self._stored: dict[str, None] = {}
        self._fresh: dict[str, bytes] = {}
        self._around = ""
        self._id = ""

    def around(self, fleet: Fleet) -> None:
        """Takes what isn't a cluster."""
        self._around, data = packed(fleet)
        self._note(self._around, data)
        self._id = ""

    def rows(self, changed: Mapping[str, FactRow], gone: Iterable[str] = ()) -> None:
        """Takes clusters that are new or changed, by name, and drops those that are gone."""
        for name in gone:
            self._ids.pop(name, None)
            self._since[name] = None
        for name, row in changed.items():
            id, data = packed(row)
            self._note(id, data)
            self._ids[name] = bytes.fromhex(id)
            self._since[name] = None
        self._id = ""

    def table(self) -> str:
        """The id of the facts as they are now; what must be stored for it waits in `fresh`."""
        if self._id:
            return self._id
        if not self._base or len(self._since) * SHARE_OF_BASE > len(self._base_row):
            names = sorted(self._ids)
            self._base_row = {name: row for row, name in enumerate(names)}
            self._since = {}
            table = FactTable(self._around, b"".join(self._ids[name] for name in names))
            self._base, data = packed(table)
            self._id = self._base
        else:
            self._id, data = packed(self._differing())
        self._note(self._id, data)
        return self._id

    def _differing(self) -> FactTable:
        """What isn't as in the base."""
        rows, ids = self._base_row, self._ids
        names = sorted(self._since)
        return FactTable(
            self._around,
            base=self._base,
            changed={rows[name]: ids[name] for name in names if name in rows and name in ids},
            gone=tuple(rows[name] for name in names if name in rows and name not in ids),
            added=b"".join(ids[name] for name in names if name in ids and name not in rows),
        )

    def part(self, id: str, data: bytes) -> None:
        """Takes another part that decisions refer to."""
        self._note(id, data)

    def knows(self, id: str) -> bool:
        """Whether a part was taken already."""
        return id in self._stored

    def fresh(self) -> dict[str, bytes]:
        """The parts that aren't stored yet, once."""
        fresh, self._fresh = self._fresh, {}
        return fresh

    def _note(self, id: str, data: bytes) -> None:
        if id not in self._stored:
            if len(self._stored) >= KNOWN_PARTS:
                self._stored = {}
            self._stored[id] = None
            self._fresh[id] = data


def read_rows(store: Reads, id: str) -> tuple[list[FactRow], Fleet]:
    """The facts of a table: its rows in the order of names, and what is around them."""
    table = _table(store, id)
    rows, around = table.rows, table.around
    if table.base:
        rows = _table(store, table.base).rows
    ids = _ids(rows)
    for row, changed in table.changed.items():
        ids[row] = changed.hex()
    gone = dict.fromkeys(table.gone)
    ids = [*(id for row, id in enumerate(ids) if row not in gone), *_ids(table.added)]
    found = store.parts([around, *ids])
    decode = msgspec.msgpack.Decoder(FactRow).decode
    fleet = msgspec.msgpack.decode(unpacked(found[around]), type=Fleet)
    return sorted(_decoded(ids, found, decode), key=lambda row: row.cluster.name), fleet


def needed_parts(store: Reads, decisions: Iterable[bytes]) -> dict[str, None]:
    """The ids of all parts that decisions refer to."""
    needed: dict[str, None] = {}
    tables: dict[str, None] = {}
    for data in decisions:
        one = msgspec.msgpack.decode(data, type=StoredDecision)
        shared_id = one.choice.explanation.shared_id
        ids = (one.inputs.spec, one.inputs.own, shared_id)
        needed.update(dict.fromkeys(id for id in ids if id))
        tables[one.inputs.facts] = None
    for id in list(tables):
        base = _table(store, id).base
        if base:
            tables[base] = None
    for id in tables:
        table = _table(store, id)
        needed.update(dict.fromkeys((id, table.around)))
        needed.update(dict.fromkeys((*_ids(table.rows), *_ids(table.added))))
        needed.update((changed.hex(), None) for changed in table.changed.values())
    return needed


def _ids(rows: bytes) -> list[str]:
    return [rows[at : at + ID_BYTES].hex() for at in range(0, len(rows), ID_BYTES)]


def _decoded(ids: Sequence[str], found: dict[str, bytes], decode: "_Decode") -> list[FactRow]:
    return [decode(unpacked(found[id])) for id in ids]


class _Decode(Protocol):
    def __call__(self, buf: bytes, /) -> FactRow: ...


def _table(store: Reads, id: str) -> FactTable:
    return msgspec.msgpack.decode(unpacked(store.parts([id])[id]), type=FactTable)
