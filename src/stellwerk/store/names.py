"""Hands out names that are unique in a project: ``digits``, ``digits-2``, ``digits-3``, …

A row holds a base and the last number given to it. A name is taken if it is a base itself, or if it
is ``base-n`` and that base's last number has reached n. So one row stands for any number of names,
and a base that ends in ``-n`` on its own account never meets a name that was numbered.
"""

import sqlalchemy as sa

from stellwerk.store import schema
from stellwerk.store.statements import Prepared, param, upsert

_columns = schema.names.c
_LAST = Prepared(
    sa.select(_columns.last).where(
        _columns.project == param("project"), _columns.base == param("base")
    )
)
_BETWEEN = Prepared(
    sa.select(_columns.base, _columns.last).where(
        _columns.project == param("project"),
        _columns.base > param("low"),
        _columns.base < param("high"),
    )
)
_SAVE = upsert(schema.names)


class NameBook:
    """The names of one transaction: what it reads it keeps, what it gives it writes by `save`."""

    def __init__(self, conn: sa.Connection) -> None:
        self._conn = conn
        self._last: dict[tuple[str, str], int] = {}
        self._given: dict[tuple[str, str], int] = {}
        self._numbered_known: dict[tuple[str, str], bool] = {}
        self._arrays: dict[str, str] = {}

    def give(self, project: str, base: str) -> str:
        """The base itself if it is free, else with the next free number."""
        last = self._last_of(project, base)
        if last == 0 and not self._was_numbered(project, base):
            self._set(project, base, 1)
            return base
        self._learn_numbered(project, base)
        number = max(last, 1) + 1
        while self._last.get((project, f"{base}-{number}"), 0):
            number += 1
        self._set(project, base, number)
        return f"{base}-{number}"

    def give_array(self, project: str, base: str, array: str, highest: int) -> str:
        """The name of an array, the same for all its elements; with it go ``name-0`` and so on."""
        known = self._arrays.get(array)
        if known is not None:
            return known
        name = self.give(project, base)
        while self._has_any_of(project, name, highest):
            name = self.give(project, base)
        self._set(project, name, max(highest, self._last_of(project, name), 1))
        for index in range(min(highest, 1) + 1):  # numbers begin with 2
            self._set(project, f"{name}-{index}", 1)
        self._arrays[array] = name
        return name

    def _has_any_of(self, project: str, name: str, highest: int) -> bool:
        """Whether somebody has a name that an element is to have."""
        self._learn_numbered(project, name)
        begins = f"{name}-"
        numbers = (
            key[len(begins) :]
            for (owner, key), last in self._last.items()
            if last and owner == project and key.startswith(begins)
        )
        return any(one.isascii() and one.isdecimal() and int(one) <= highest for one in numbers)

    def save(self) -> None:
        """Writes what was given."""
        _SAVE.many(
            self._conn,
            [(project, base, last) for (project, base), last in self._given.items()],
        )

    def _set(self, project: str, base: str, last: int) -> None:
        self._last[project, base] = self._given[project, base] = last

    def _last_of(self, project: str, base: str) -> int:
        """The last number given to a base; 0 if it isn't one."""
        last = self._last.get((project, base))
        if last is None:
            row = _LAST.first(self._conn, project, base)
            last = self._last[project, base] = int(row[0]) if row else 0
        return last

    def _was_numbered(self, project: str, name: str) -> bool:
        """Whether a name was given as the numbered form of another base."""
        parts = numbered(name)
        return parts is not None and self._last_of(project, parts[0]) >= parts[1]

    def _learn_numbered(self, project: str, base: str) -> None:
        """Reads, once, which names ``base-…`` are bases themselves."""
        if (project, base) in self._numbered_known:
            return
        self._numbered_known[project, base] = True
        # "." follows "-": between the two lies everything that begins with "base-".
        for name, last in _BETWEEN.all(self._conn, project, f"{base}-", f"{base}."):
            self._last.setdefault((project, name), int(last))


def numbered(name: str) -> tuple[str, int] | None:
    """Splits ``base-n`` (n from 2, written without leading zeros) into its parts."""
    base, dash, digits = name.rpartition("-")
    if not (dash and base and digits.isascii() and digits.isdecimal()):
        return None
    if digits.startswith("0") or len(digits) > 9 or digits == "1":
        return None
    return base, int(digits)
