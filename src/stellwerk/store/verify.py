"""Looks whether what is stored agrees with itself, without folding anything.

The database's own check; a journal without gaps, whose times and epochs never go back and whose
events can be read; read models that say the same in their columns and their documents; intact
images; an inbox that isn't done beyond its end.
"""

from collections.abc import Iterator

import msgspec
import sqlalchemy as sa

from stellwerk.core.model.errors import Problem
from stellwerk.core.model.workload import ENDED, Workload
from stellwerk.store import connect, facts, images, journal, schema
from stellwerk.store.errors import StoreError

SHOWN = 20
"""Problems of one kind that are listed; the rest is counted."""


def verify(conn: sa.Connection, path: str) -> list[Problem]:
    """Everything that doesn't agree, worst first; nothing if all is well."""
    broken = connect.check(conn, path)
    if broken is not None:
        return list(broken.problems)
    problems: list[Problem] = []
    for found in (_journal(conn), _workloads(conn), _images(conn), _inbox(conn)):
        listed = list(found)
        problems += listed[:SHOWN]
        if len(listed) > SHOWN:
            problems.append(Problem("verify/more", f"and {len(listed) - SHOWN} more like these"))
    return problems


def _journal(conn: sa.Connection) -> Iterator[Problem]:
    columns = schema.journal.c
    query = sa.select(columns.seq, columns.at_ms, columns.epoch, columns.type, columns.data)
    seq, at_ms, epoch = 0, 0, 0
    for row in conn.execute(query.order_by(columns.seq)):
        if row.seq != seq + 1:
            yield Problem("verify/gap", f"record {row.seq} follows record {seq} in the journal")
        if row.at_ms < at_ms:
            yield Problem("verify/time", f"record {row.seq} is {at_ms - row.at_ms} ms too early")
        if row.epoch < epoch:
            yield Problem("verify/epoch", f"record {row.seq} has epoch {row.epoch} after {epoch}")
        seq, at_ms, epoch = row.seq, max(at_ms, row.at_ms), max(epoch, row.epoch)
        try:
            tag = journal.event_of(row.seq, row.data).__struct_config__.tag
        except StoreError as error:
            yield error.problems[0]
            continue
        if tag != row.type:
            yield Problem("verify/type", f"record {row.seq} is a {tag}, but filed as {row.type}")


def _workloads(conn: sa.Connection) -> Iterator[Problem]:
    columns = schema.workloads.c
    newest = journal.last(conn)[0]
    decode = msgspec.json.Decoder(Workload).decode
    query = sa.select(
        columns.id, columns.name, columns.phase, columns.live, columns.seq, columns.doc
    )
    for row in conn.execute(query):
        try:
            found = decode(row.doc)
        except msgspec.DecodeError as error:
            yield Problem("verify/workload", f"workload {row.id} can't be read ({error})")
            continue
        filed = (row.id, row.name, row.phase, bool(row.live))
        if filed != (found.id, found.name, found.phase, found.phase not in ENDED):
            yield Problem("verify/workload", f"workload {row.id} is filed as {filed[1:]}")
        if row.seq > newest:
            yield Problem("verify/workload", f"workload {row.id} is ahead of the journal")


def _images(conn: sa.Connection) -> Iterator[Problem]:
    columns = schema.images.c
    newest = journal.last(conn)[0]
    for row in conn.execute(sa.select(columns.seq, columns.data)):
        if images.unpack(row.data) is None:
            yield Problem("verify/image", f"the state image at {row.seq} is damaged; it isn't used")
        if row.seq > newest:
            yield Problem("verify/image", f"the state image at {row.seq} is ahead of the journal")


def _inbox(conn: sa.Connection) -> Iterator[Problem]:
    upto = facts.number(conn, facts.INBOX_UPTO)
    newest = conn.execute(sa.select(sa.func.max(schema.inbox.c.seq))).scalar() or 0
    if upto > newest:
        yield Problem("verify/inbox", f"the inbox is done up to {upto}, but ends at {newest}")
