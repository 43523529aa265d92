"""Keeps the decisions of many placements over one fleet, and renews only those that must be.

Placements with equal specs (less the name) form a class that filters and scores once. When facts
change, each class is computed anew, and its members are asked all at once, by columns, whether
their clusters still pass, whether another cluster is clearly better now, and whether their order is
still the same. Only those for which it isn't so are decided again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
import numpy as np

from stellwerk.core.inventory.columns import Bits, FleetColumns, rows_after
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.placing import Choice
from stellwerk.core.model.resources import Allocation
from stellwerk.core.place.admitted import Admitted, Tools, admit, token_of
from stellwerk.core.place.filters import NEVER
from stellwerk.core.place.filters_limits import Estimates
from stellwerk.core.place.ledger import Ledger
from stellwerk.core.place.picking import needed_points
from stellwerk.core.place.placing import decide, held_rows
from stellwerk.core.place.scores import Values

MOST_ONE_BY_ONE = 256
"""Beyond so many clusters that rose, it isn't asked of each whether it beats what members have."""

MOST_CHOSEN = 128
"""Placements that want more clusters than this are decided again one by one."""

ASK_AGAIN_AFTER = 8
"""After so many changed choices it is asked anew who is left that a better cluster waits for."""


class _Class:
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
        width = max(1, placement.count or 1) if self.by_columns else 1
        self.chosen: Values = np.full((0, width), -1, np.int64)
        self.totals: Values = np.zeros((0, width), np.int64)
        self.due_ms: dict[str, int] = {}

    @property
    def by_columns(self) -> bool:
        """Whether its members can be asked all at once."""
        one = self.placement
        plain = not one.spread and one.objective == "score" and not one.standby
        return plain and one.compat == "" and 0 < (one.count or 0) <= MOST_CHOSEN

    def note(self, columns: FleetColumns, key: str, choice: Choice) -> None:
        """Writes down what a member was given."""
        self.due_ms[key] = choice.requeue_at_ms or NEVER
        if not self.by_columns:
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


class Placer:
    """Decides for many placements, one after the other, each seeing the decisions before it."""

    def __init__(self, columns: FleetColumns) -> None:
        self.columns = columns
        self.tools = Tools(columns)
        self.ledger = Ledger(columns)
        self.decided = 0
        self._class_of: dict[str, _Class] = {}
        self._classes: dict[bytes, _Class] = {}
        self._waiting: dict[str, bool] = {}
        self._layout = columns.layout
        self._last: dict[str, tuple[object, ...]] = {}
        self._known: dict[str, tuple[tuple[Allocation, ...], Estimates]] = {}

    def put(self, placement: Placement, existing: Iterable[str] = ()) -> None:
        """Adds a placement, or replaces its spec; ``existing`` is what it was given before.

        The next choice for it is told, even if it is the one that it had.
        """
        key = placement.key
        if key in self._class_of:
            self._leave(key)
            self._last.pop(key, None)
        spec = msgspec.structs.replace(placement, name="", labels={}, annotations={})
        name = msgspec.msgpack.encode(spec)
        group = self._classes.setdefault(name, _Class(spec, name))
        group.members[key] = placement
        self._class_of[key] = group
        self._waiting[key] = True
        names = list(existing)
        if names:
            self.ledger.set(key, names)

    def know(
        self,
        key: str,
        own: tuple[Allocation, ...] = (),
        estimates: Estimates | None = None,
    ) -> None:
        """Tells what a placement's own work holds, and what is estimated for it alone."""
        if own or estimates:
            self._known[key] = (own, estimates or {})
        else:
            self._known.pop(key, None)
        self._waiting[key] = True

    def resume(self, key: str, clusters: tuple[str, ...], totals: tuple[int, ...]) -> bool:
        """Goes on from a decision that was made before: it is looked at as if something had
        changed, and made anew only where that asks for it. Says if that can be done.
        """
        self._lay_out()
        group = self._class_of[key]
        timed = any(one.seconds is not None for one in group.placement.tolerations)
        known = all(name in self.columns.row for name in clusters)
        if not group.by_columns or timed or not known or group.admitted is not None:
            return False
        self._waiting.pop(key, None)
        self.ledger.set(key, clusters)
        group.note(self.columns, key, Choice(key, clusters, totals))
        return True

    def drop(self, key: str) -> None:
        """Forgets a placement and its decisions."""
        self._known.pop(key, None)
        self._leave(key)
        self._class_of.pop(key, None)
        self._waiting.pop(key, None)
        self._last.pop(key, None)
        self.ledger.set(key, ())

    def decide(self, key: str, now_ms: int) -> Choice:
        """Decides for one placement and writes it down."""
        self._lay_out()
        group = self._class_of[key]
        placement = group.members[key]
        self._renew(group, now_ms)
        found = group.admitted
        assert found is not None
        held = held_rows(self.columns, self.ledger.of(key))
        own, estimates = self._known.get(key, ((), {}))
        new, hinders = found.only_new, self._hinders(found, own)
        if hinders or estimates or (new is not None and any(new[row] for row in held)):
            found = admit(self.tools, placement, now_ms, estimates, own, held)
        choice = decide(self.tools, placement, found, self.ledger, estimates, now_ms)
        self.decided += 1
        self._waiting.pop(key, None)
        self.ledger.set(key, choice.clusters)
        group.note(self.columns, key, choice)
        return choice

    def _hinders(self, found: Admitted, own: tuple[Allocation, ...]) -> bool:
        """Whether own work is on a cluster that has no room for more."""
        rows = held_rows(self.columns, dict.fromkeys(one.cluster for one in own))
        demand = [one.failed for one in found.verdicts if one.name == "Demand"]
        return any(bool(failed[row]) for failed in demand for row in rows)

    def replan(self, now_ms: int) -> Iterator[Choice]:
        """Decides anew where something changed; gives the choices that are others than before."""
        self._lay_out()
        for group in list(self._classes.values()):
            due, asked = self._due(group, now_ms)
            for key in due:
                yield from self._again(key, now_ms)
            if asked is not None:
                yield from self._improve(group, asked, now_ms)

    def _lay_out(self) -> None:
        """Takes what is known along to where the rows are now; who lost a cluster is asked anew."""
        if self._layout == self.columns.layout:
            return
        rows = self.columns.rows_since(self._layout)
        self._layout = self.columns.layout
        if rows is None:
            for group in self._classes.values():
                group.begin_anew()
            self._waiting.update(dict.fromkeys(self._class_of, True))
            return
        for group in self._classes.values():
            self._waiting.update(dict.fromkeys(group.lay_out(rows), True))

    def _improve(self, group: _Class, asked: Asked, now_ms: int) -> Iterator[Choice]:
        """Decides for those that a better cluster waits for, until it is full of them."""
        lines = asked.lines(self.ledger)
        changes = 0
        while len(lines):
            key, lines = group.lines[int(lines[0])], lines[1:]
            for choice in self._again(key, now_ms) if key else ():
                changes += 1
                yield choice
            if changes == ASK_AGAIN_AFTER and len(lines):
                changes = 0
                lines = asked.lines(self.ledger, lines)

    def _again(self, key: str, now_ms: int) -> Iterator[Choice]:
        choice = self.decide(key, now_ms)
        head = (choice.clusters, choice.standby, choice.groups, choice.conditions)
        if self._last.get(key) != head:
            self._last[key] = head
            yield choice

    def requeue_at_ms(self) -> int:
        """When something changes by itself; 0 = never."""
        first = NEVER
        for group in self._classes.values():
            first = min([first, *group.due_ms.values()])
        return 0 if first == NEVER else first

    def _leave(self, key: str) -> None:
        group = self._class_of.get(key)
        if group is None:
            return
        group.members.pop(key, None)
        group.due_ms.pop(key, None)
        line = group.line.pop(key, None)
        if line is not None:
            group.lines[line] = ""
            group.chosen[line] = -1
            group.free.append(line)
        if not group.members:
            self._classes.pop(group.name, None)

    def _renew(self, group: _Class, now_ms: int) -> Admitted | None:
        """Filters and scores a class anew if it must be; gives what held before if so."""
        before = group.admitted
        if before is not None and now_ms < before.until_ms:
            if before.stamp == self.columns.stamp:
                return None
            if before.token == token_of(self.tools, group.placement):
                before.stamp = self.columns.stamp
                return None
        group.admitted = admit(self.tools, group.placement, now_ms, {})
        return before

    def _due(self, group: _Class, now_ms: int) -> tuple[list[str], Asked | None]:
        """Which members must be decided: new ones, those whose time has come, those affected."""
        is_first = group.admitted is None
        before = self._renew(group, now_ms)
        due = {key: True for key, at in group.due_ms.items() if at <= now_ms}
        if self._waiting:
            due.update({key: True for key in group.members if key in self._waiting})
        if is_first and group.line and group.admitted is not None:
            return self._resumed(group, group.admitted, due)
        if group.admitted is None or before is None:
            return list(due), None
        if not group.by_columns or group.admitted.broken or before.broken:
            return list(group.members), None
        due.update({key: True for key in self._known if key in group.members})
        affected, asked = self._affected(group, before, group.admitted)
        due.update(dict.fromkeys(affected, True))
        return [key for key in due if key in group.members], asked

    def _resumed(
        self, group: _Class, now: Admitted, due: dict[str, bool]
    ) -> tuple[list[str], Asked | None]:
        """Of members that were decided before anything was known here, all are asked."""
        if now.broken:
            return list(group.members), None
        group.due_ms.update(dict.fromkeys(group.line, now.until_ms))
        affected, asked = self._affected(group, now, now)
        asked.sunk = np.ones_like(asked.sunk)
        due.update(dict.fromkeys(affected, True))
        return [key for key in due if key in group.members], asked

    def _affected(self, group: _Class, before: Admitted, now: Admitted) -> tuple[list[str], Asked]:
        """Asks all members of a class at once whether what they have still passes, in order."""
        count, size = len(group.lines), self.columns.size
        chosen = group.chosen[:count]
        filled = chosen >= 0
        passes = np.append(now.passed, np.ones(1, np.bool_))
        affected: Bits = np.logical_not(passes[chosen].all(axis=1))
        wanted = min(group.placement.count or 0, len(now.rows))
        affected |= np.less(filled.sum(axis=1), wanted)
        rise = _spread(now.base, now.rows, size) - _spread(before.base, before.rows, size)
        group.totals[:count] += np.where(filled, rise[chosen], 0)
        totals = group.totals[:count]
        falls = (totals[:, :-1] > totals[:, 1:]) | ~filled[:, 1:]
        touched = rise[chosen] != 0
        affected |= touched.any(axis=1) & ~falls.all(axis=1)
        names = (group.lines[line] for line in np.flatnonzero(affected).tolist())
        return [name for name in names if name], Asked(group, before, now, rise)


class Asked:
    """What changed for a class, to ask its members whether a better cluster is there now."""

    def __init__(self, group: _Class, before: Admitted, now: Admitted, rise: Values) -> None:
        self.group, self.now = group, now
        chosen = group.chosen[: len(group.lines)]
        self.sunk: Bits = np.any(rise[chosen] < 0, axis=1, keepdims=False)
        risen = ((rise[:-1] > 0) | ~before.passed)[now.rows] & (now.unknown == 0)
        self.risen: list[int] = np.flatnonzero(risen).tolist()
        if len(self.risen) > MOST_ONE_BY_ONE:
            self.risen = []
            self.sunk = np.ones(len(chosen), np.bool_)

    def lines(self, ledger: Ledger, lines: Values | None = None) -> Values:
        """Which lines may have a better cluster, with the decisions as they are; some too many."""
        if lines is None:
            lines = np.arange(len(self.sunk))
        now, chosen = self.now, self.group.chosen[lines]
        standing = Standing(ledger, now)
        base, total = standing.worst(chosen)
        must = needed_points(self.group.placement, now) - standing.slack
        beaten: Bits = np.zeros(len(lines), np.bool_)
        for place in self.risen:
            better = (now.base[place] >= base + must) & (standing.total[place] >= total + must)
            if better.any():
                beaten |= better & ~(chosen == int(now.rows[place])).any(axis=1)
        sunk = self.sunk[lines]
        if sunk.any():
            sunk &= _beaten(now.base, now, chosen, base + must)
            beaten |= sunk & _beaten(standing.total, now, chosen, total + must)
        return lines[beaten]


class Standing:
    """How the clusters that passed stand now, with the decisions of all counted.

    ``slack`` is by how much a total may be off: what a placement has itself isn't taken off the
    count of the most-used cluster.
    """

    def __init__(self, ledger: Ledger, now: Admitted) -> None:
        counts, most = ledger.others("")
        size = len(counts)
        weights = dict(now.own_scores)
        weight, self.slack = weights.get("Balance", 0), 0
        self.total: Values = now.base
        self._base = _spread(now.base, now.rows, size)
        self._held = self._base + 100 * weights.get("Steady", 0)
        self._held += _spread(now.unknown, now.rows, size)
        if weight:
            steps = np.trunc(100.0 * (0.5 - np.arange(most + 1) / float(max(most, 1)))) * 2
            self.total = now.base + weight * steps[counts[now.rows]].astype(np.int64)
            fewer = steps[np.maximum(counts - 1, 0)].astype(np.int64)
            self._held[:-1] += weight * fewer
            self.slack = abs(weight) * (200 // max(most - 1, 1) + 4)
        self._base += _spread(now.unknown, now.rows, size)

    def worst(self, chosen: Values) -> tuple[Values, Values]:
        """The lowest sum of scores, and the lowest total, among what each member has."""
        filled = chosen >= 0
        base = np.where(filled, self._base[chosen], NEVER).min(axis=1, initial=NEVER)
        return base, np.where(filled, self._held[chosen], NEVER).min(axis=1, initial=NEVER)


def _beaten(worth: Values, now: Admitted, chosen: Values, least: Values) -> Bits:
    """Who hasn't got some cluster that is worth at least so much."""
    known = np.flatnonzero(now.unknown == 0)
    beaten: Bits = np.zeros(len(chosen), np.bool_)
    if not len(known):
        return beaten
    most = min(chosen.shape[1] + 1, len(known))
    best = known[np.argpartition(-worth[known], most - 1)[:most]]
    for place in best.tolist():
        better = worth[place] >= least
        if better.any():
            row = int(now.rows[place])
            beaten |= better & ~(chosen == row).any(axis=1)
    return beaten


def _spread(values: Values, rows: Values, size: int) -> Values:
    """Values of rows that passed, over all rows and one more, which -1 reads."""
    full = np.zeros(size + 1, np.int64)
    full[rows] = values
    return full
