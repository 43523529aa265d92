"""Compiles CEL expressions about clusters, and keeps their verdicts until what they read changes.

The variable is `managedCluster`, an object as Kubernetes has it; `managedCluster.scores("name")`
gives the items of a score object. Kubernetes' own functions are in `expression_functions`. An
expression is bounded: 4,096 characters, 32 levels deep, 10,000 steps of its loops per cluster, and
regular expressions take linear time. What throws or goes beyond for a cluster doesn't match it, and
the error is kept with the cluster.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from stellwerk.core.inventory.columns import Bits, FleetColumns, Rows, laid_out
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.place.written import object_of

LONGEST = 4096
MOST = 4096
"""Expressions that are kept compiled."""
NO, YES, FAILED = 1, 2, 3
_POSITION = re.compile(r"ERROR: <input>:(-?\d+):(-?\d+): (.*)")
_ENDING = re.compile(r" \[[A-Z_]+\]$")
_ABSENT = {
    "undeclared reference to 'format'": (
        "Kubernetes' library `format` isn't there: write the pattern with `matches`"
    )
}
_BUDGET = "Iteration budget exceeded"
TOO_LONG = "it takes more than 10,000 steps"


class BadExpression(Exception):
    """An expression that can't be compiled; the position counts from 1, 0 = not known."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message, self.line, self.column = message, line, column

    def __str__(self) -> str:
        place = f"{self.line}:{self.column}: " if self.line > 0 else ""
        return f"compilation failed: {place}{self.message}"


class Verdicts:
    """What an expression says of each row, and of which state of the cluster it says so."""

    __slots__ = ("at", "errors", "layout", "program", "read", "said")

    def __init__(self, program: Any) -> None:
        self.program, self.layout = program, 0
        self.said = np.zeros(0, np.int8)
        self.at: Rows = np.zeros(0, np.int64)
        self.errors: dict[int, str] = {}
        self.read: dict[str, bool] = {}


class Expressions:
    """Compiled expressions and their verdicts over one fleet; it changes no result."""

    def __init__(self) -> None:
        self._env: Any = None
        self._known: dict[str, Verdicts | BadExpression] = {}
        self._cluster: Cluster | None = None
        self._reads: dict[str, bool] = {}
        self.evaluated = 0

    def check(self, expression: str) -> BadExpression | None:
        """Says why an expression can't be compiled, if it can't."""
        known = self._compiled(expression)
        return known if isinstance(known, BadExpression) else None

    def verdicts(self, expression: str, columns: FleetColumns, wanted: Bits) -> Verdicts:
        """Gives the verdicts of an expression that compiles, those of wanted rows up to date."""
        known = self._compiled(expression)
        if isinstance(known, BadExpression):
            raise known
        self._lay_out(known, columns)
        newest = columns.facts_at
        for name in known.read:
            newest = np.maximum(newest, columns.scores_of(name))
        for row in np.flatnonzero(wanted & (known.at < newest)).tolist():
            self._evaluate(known, columns, row)
        return known

    def matches(self, expression: str, cluster: Cluster) -> bool | str:
        """Evaluates an expression on one cluster; a text says what went wrong."""
        known = self._compiled(expression)
        if isinstance(known, BadExpression):
            return str(known)
        return self._ask(known, cluster)

    def _compiled(self, expression: str) -> Verdicts | BadExpression:
        known = self._known.get(expression)
        if known is None:
            known = self._compile(expression)
            if len(self._known) >= MOST:
                self._known.pop(next(iter(self._known)))
            self._known[expression] = known
        return known

    def _compile(self, expression: str) -> Verdicts | BadExpression:
        if len(expression) > LONGEST:
            return BadExpression(f"it has {len(expression)} characters, at most {LONGEST} may be")
        if self._env is None:
            self._env = self._environment()
        try:
            return Verdicts(self._env.compile(expression))
        except (RuntimeError, ValueError) as error:
            return _refusal(str(error))

    def _environment(self) -> Any:
        from stellwerk.core.place.expression_functions import environment

        return environment(self._scores)

    def _scores(self, _: Any, name: str) -> list[dict[str, Any]]:
        self._reads[name] = True
        cluster = self._cluster
        if cluster is None or name not in cluster.scores:
            raise ValueError(f'there is no score object "{name}"')
        values = cluster.scores[name].values
        return [{"name": key, "value": value} for key, value in values.items()]

    def _evaluate(self, known: Verdicts, columns: FleetColumns, row: int) -> None:
        known.errors.pop(row, None)
        before = len(known.read)
        self._reads = known.read
        said = self._ask(known, columns.clusters[row])
        if len(known.read) > before:
            for name in known.read:
                columns.scores_of(name)
        if isinstance(said, str):
            known.errors[row] = said
            known.said[row] = FAILED
        else:
            known.said[row] = YES if said else NO
        known.at[row] = columns.stamp

    def _ask(self, known: Verdicts, cluster: Cluster) -> bool | str:
        self._cluster = cluster
        self.evaluated += 1
        try:
            result = known.program.eval(data={"managedCluster": object_of(cluster)})
        except (RuntimeError, ValueError, TypeError, OverflowError) as error:
            text = _ENDING.sub("", str(error)).partition(": ")[2] or str(error)
            return f"{TOO_LONG} ({text})" if _BUDGET in text else text
        kind = result.type().name()
        if kind == "ERROR":
            return str(result.value()).partition(": ")[2] or str(result.value())
        if kind != "BOOL":
            return f"it gives {kind.lower()}, not true or false"
        return bool(result.value())

    @staticmethod
    def _lay_out(known: Verdicts, columns: FleetColumns) -> None:
        """Takes verdicts along to where the rows of their clusters are now."""
        if known.layout == columns.layout and len(known.said) == columns.size:
            return
        rows = columns.rows_since(known.layout) if len(known.said) else None
        known.layout = columns.layout
        if rows is None:
            known.said, known.errors = np.zeros(columns.size, np.int8), {}
            known.at = np.zeros(columns.size, np.int64)
            return
        known.said, known.at = laid_out(known.said, rows), laid_out(known.at, rows)
        now = {old: row for row, old in enumerate(rows.tolist())}
        known.errors = {now[row]: text for row, text in known.errors.items() if row in now}


def _refusal(text: str) -> BadExpression:
    found = _POSITION.search(text)
    if found is None:
        return BadExpression(_ENDING.sub("", text).partition(": ")[2] or text)
    text = _ENDING.sub("", found[3])
    return BadExpression(_ABSENT.get(text.partition(" (")[0], text), int(found[1]), int(found[2]))
