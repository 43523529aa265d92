"""Statements that are compiled once and then run as plain text with plain rows.

Building a statement anew costs more than running it, so what runs at every commit is prepared:
the text comes from SQLAlchemy, for the dialect at hand, and goes straight to the database's cursor.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import sqlalchemy as sa
from sqlalchemy.dialects.sqlite import insert

Row: TypeAlias = tuple[Any, ...]


class Prepared:
    """A statement with positional parameters, in the order of their appearance in the text."""

    def __init__(self, clause: sa.ClauseElement) -> None:
        self._clause = clause
        self._texts: dict[str, str] = {}
        self._fixed: dict[int, Any] = {}

    def text(self, dialect: sa.Dialect) -> str:
        """The statement in the words of ``dialect``."""
        text = self._texts.get(dialect.name)
        if text is None:
            text = self._compile(dialect)
        return text

    def _compile(self, dialect: sa.Dialect) -> str:
        """Makes the text, and notes which of its parameters have their value from the start."""
        compiled: Any = self._clause.compile(dialect=dialect)
        for index, name in enumerate(compiled.positiontup):
            if compiled.params[name] is not None:
                self._fixed[index] = compiled.params[name]
        text = self._texts[dialect.name] = str(compiled)
        return text

    def many(self, conn: sa.Connection, rows: Sequence[Row]) -> int:
        """Runs the statement once for each row; gives the number of rows touched."""
        cursor = conn.connection.cursor()
        cursor.executemany(self.text(conn.dialect), rows)
        return cursor.rowcount

    def run(self, conn: sa.Connection, *params: Any) -> int:
        """Runs the statement; gives the number of rows touched."""
        return int(self._cursor(conn, params).rowcount)

    def first(self, conn: sa.Connection, *params: Any) -> Row | None:
        """The first row of the answer, if there is one."""
        row: Row | None = self._cursor(conn, params).fetchone()
        return row

    def all(self, conn: sa.Connection, *params: Any) -> list[Row]:
        """The whole answer."""
        rows: list[Row] = self._cursor(conn, params).fetchall()
        return rows

    def _cursor(self, conn: sa.Connection, params: Row) -> Any:
        cursor = conn.connection.cursor()
        text = self.text(conn.dialect)
        if self._fixed:
            filled = list(params)
            for index, value in self._fixed.items():
                filled.insert(index, value)
            params = tuple(filled)
        cursor.execute(text, params)
        return cursor


def param(name: str) -> sa.BindParameter[Any]:
    """A place in a prepared statement to be filled at each run."""
    return sa.bindparam(name)


def upsert(table: sa.Table) -> Prepared:
    """Inserts a row of all columns in their order, or overwrites the one with the same key."""
    statement = insert(table)
    keys = [column.name for column in table.primary_key]
    changes = {
        column.name: statement.excluded[column.name]
        for column in table.columns
        if column.name not in keys
    }
    return Prepared(statement.on_conflict_do_update(index_elements=keys, set_=changes))


def insert_new(table: sa.Table) -> Prepared:
    """Inserts a row of all columns in their order, or leaves the one with the same key alone."""
    keys = [column.name for column in table.primary_key]
    return Prepared(insert(table).on_conflict_do_nothing(index_elements=keys))


def insert_row(table: sa.Table) -> Prepared:
    """Inserts a row of all columns in their order; one with the same key is an error."""
    return Prepared(insert(table))
