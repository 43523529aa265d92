"""Placements with equal specs, and the columns of what they were given.

All of them can be asked at once by these columns; only the few that a change concerns are then
decided one by one.
"""

from __future__ import annotations

import numpy as np

from stellwerk.core.inventory.columns import FleetColumns, rows_after
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.placing import Choice
from stellwerk.core.place.admitted import Admitted
from stellwerk.core.place.filters import NEVER
from stellwerk.core.place.placing import held_rows
from stellwerk.core.place.scores import Values

MOST_CHOSEN = 128
"""Placements that want more clusters than this are decided again one by one."""


class Members:
    """Placements with one spec, and the columns of what they were given.

    ``chosen`` and ``totals`` have a line per member and are padded with -1 and 0; ``open`` members
    have fewer clusters than they want. ``line`` says which line is whose.
    """

    def __init__(self, placement: Placement, name: bytes) -> None:
        self.placement, self.name = placement, name
        self.members: dict[str, Placement] = {}
        self.admitted: Admitted | None = None
        self.lines: list[str] = []
        self.line: dict[str, int] = {}
        self.free: list[int] = []
        width = placement.count or 1 if self.by_columns or self.by_rank else 1
        self.chosen: Values = np.full((0, width), -1, np.int64)
        self.totals: Values = np.zeros((0, width), np.int64)
        self.due_ms: dict[str, int] = {}

    @property
    def by_columns(self) -> bool:
        """Whether its members can be asked all at once if what they have still serves."""
        return self._plain and self.placement.compat == "" and not self.placement.spread

    @property
    def by_rank(self) -> bool:
        """Whether its members can be asked all at once if they would be given the same again."""
        timed = any(one.seconds is not None for one in self.placement.tolerations)
        return self._plain and self.placement.compat == "ocm" and not timed

    @property
    def _plain(self) -> bool:
        one = self.placement
        plain = one.objective == "score" and not one.standby and not one.external
        return plain and 0 < (one.count or 0) <= MOST_CHOSEN

    def note(self, columns: FleetColumns, key: str, choice: Choice) -> None:
        """Writes down what a member was given."""
        self.due_ms[key] = choice.requeue_at_ms or NEVER
        if not (self.by_columns or self.by_rank):
            return
        line = self.line.get(key)
        if line is None:
            line = self.line[key] = self.free.pop() if self.free else len(self.lines)
            self.lines[line : line + 1] = [key]
            if line >= len(self.chosen):
                more = max(16, line)
                self.chosen = np.pad(self.chosen, ((0, more), (0, 0)), constant_values=-1)
                self.totals = np.pad(self.totals, ((0, more), (0, 0)))
        rows = held_rows(columns, choice.clusters)[: self.chosen.shape[1]]
        self.chosen[line] = -1
        self.chosen[line, : len(rows)] = rows
        self.totals[line, : len(rows)] = choice.totals[: len(rows)] or 0

    def lay_out(self, rows: Values) -> list[str]:
        """Takes rows over to where they are now; says which members had one that is gone."""
        now = rows_after(rows, int(self.chosen.max(initial=-1)))
        moved = now[self.chosen]
        lost = np.flatnonzero(((moved < 0) & (self.chosen >= 0)).any(axis=1))
        self.chosen = moved
        if self.admitted is not None:
            self.admitted.lay_out(rows)
        return [self.lines[line] for line in lost.tolist() if self.lines[line]]

    def begin_anew(self) -> None:
        """Forgets everything that was said by rows."""
        self.admitted = None
        self.chosen[:] = -1
