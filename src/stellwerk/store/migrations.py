"""Brings a database to the schema this code knows, step by numbered step, in one transaction.

An empty database gets the tables of `schema` and the newest number at once; an older one walks
through the steps it lacks. A newer one is refused: this code can't know what its tables mean.
"""

from collections.abc import Callable, Sequence

import sqlalchemy as sa
from msgspec import Struct

from stellwerk.store import facts, schema
from stellwerk.store.errors import refusal


class Step(Struct, frozen=True):
    """What turns a database of schema ``number - 1`` into one of schema ``number``."""

    number: int
    what: str
    run: Callable[[sa.Connection], None]


def _index_projects(conn: sa.Connection) -> None:
    """Lists of one project no longer sort the whole table."""
    conn.exec_driver_sql('CREATE INDEX workloads_project ON workloads (project, "order")')
    conn.exec_driver_sql(
        'CREATE INDEX workloads_project_live ON workloads (project, live, "order")'
    )


def _add_placements(conn: sa.Connection) -> None:
    """Room for declared fleets, placements, and the decisions about them."""
    tables = (schema.declared, schema.placements, schema.placed, schema.parts)
    schema.metadata.create_all(conn, tables=list(tables))


FIRST = 1
STEPS: tuple[Step, ...] = (
    Step(2, "indexes for the lists of a project", _index_projects),
    Step(3, "placements and what was decided for them", _add_placements),
)
"""Steps from `FIRST` on, in order and without gaps."""


def newest(steps: Sequence[Step] = STEPS) -> int:
    """The schema that this code reads and writes."""
    return steps[-1].number if steps else FIRST


def migrate(conn: sa.Connection, place: str, steps: Sequence[Step] = STEPS) -> int:
    """Brings the database to the newest schema in the caller's transaction; gives its number."""
    target = newest(steps)
    present = _present(conn)
    if present > target:
        raise refusal(
            "store/newer",
            f"{place} was written by a newer Stellwerk (schema {present}; this one knows {target})",
            "use the newer version, or another place (STELLWERK_HOME) for this one",
        )
    if present == 0:
        schema.metadata.create_all(conn)
    for step in steps:
        if 0 < present < step.number:
            step.run(conn)
    if present != target:
        facts.write(conn, facts.SCHEMA, target)
    return target


def is_empty(conn: sa.Connection) -> bool:
    """Whether nothing was ever committed to this database."""
    return _present(conn) == 0


def _present(conn: sa.Connection) -> int:
    """The schema number of the database; 0 if it is empty."""
    if not sa.inspect(conn).has_table(schema.meta.name):
        return 0
    return facts.number(conn, facts.SCHEMA)
