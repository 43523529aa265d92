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
from msgspec import Struct

from stellwerk.core.inventory.columns import Bits, FleetColumns
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.placing import Choice
from stellwerk.core.model.resources import Allocation
from stellwerk.core.place.admitted import Admitted, Tools, admit, token_of
from stellwerk.core.place.filters import NEVER
from stellwerk.core.place.filters_limits import Estimates
from stellwerk.core.place.improving import Asked, over_rows
from stellwerk.core.place.ledger import Ledger
from stellwerk.core.place.members import Members
from stellwerk.core.place.placing import decide, held_rows
from stellwerk.core.place.unmoved import unmoved

ASKED_AT_ONCE = 16
"""Of so many members it is asked anew, just before they are decided, whether they still must be."""

MOST_AT_ONCE = 4096


class Due(Struct, frozen=True):
    """Members of a class that must be decided, and how it is asked of the others: whether a better
    cluster is there, or in their turn whether they would be given the same again.
    """

    keys: dict[str, bool]
    asked: Asked | None = None
    in_turn: bool = False


class Placer:
    """Decides for many placements, one after the other, each seeing the decisions before it."""

    def __init__(self, columns: FleetColumns) -> None:
        self.columns = columns
        self.tools = Tools(columns)
        self.ledger = Ledger(columns)
        self.decided = 0
        self._class_of: dict[str, Members] = {}
        self._classes: dict[bytes, Members] = {}
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
        group = self._classes.setdefault(name, Members(spec, name))
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
        asked_at_once = group.by_columns or group.by_rank
        if not asked_at_once or timed or not known or group.admitted is not None:
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
            due = self._due(group, now_ms)
            if due.in_turn and group.admitted is not None:
                yield from self._renew_ranks(group, group.admitted, due.keys, now_ms)
                continue
            for key in due.keys:
                yield from self._again(key, now_ms)
            if due.asked is not None:
                yield from self._improve(group, due.asked, due.keys, now_ms)

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

    def _improve(
        self, group: Members, asked: Asked, done: dict[str, bool], now_ms: int
    ) -> Iterator[Choice]:
        """Decides for those that a better cluster waits for when it is about to be their turn.

        Only whom the change of facts may concern is asked. That others moved is no reason: by
        Balance alone nothing is left, and everybody would be asked after each change.
        """
        names = (group.lines[line] for line in asked.lines(self.ledger).tolist())
        keys = [key for key in names if key and key not in done]

        at, block = 0, ASKED_AT_ONCE
        while at < len(keys):
            part = keys[at : at + block]
            lines = np.array([group.line[key] for key in part], np.int64)
            better = np.flatnonzero(asked.better(self.ledger, lines)).tolist()
            for place in better:
                yield from self._again(part[place], now_ms)
            at += len(part)
            block = ASKED_AT_ONCE if better else min(4 * block, MOST_AT_ONCE)

    def _renew_ranks(
        self, group: Members, found: Admitted, must: dict[str, bool], now_ms: int
    ) -> Iterator[Choice]:
        """Decides one after the other for those who would be given something else than they have.

        How many are asked at once follows from how many of those before them were moved; where all
        are, some are decided unasked.
        """
        keys = list(group.members)
        at, block, unasked = 0, ASKED_AT_ONCE, 0
        while at < len(keys):
            part = keys[at : at + block]
            lines = np.array([group.line.get(key, -1) for key in part], np.int64)
            same = (lines >= 0) & unmoved(group, found, self.ledger, lines)
            same &= [key not in must for key in part]
            first = len(part) if same.all() else int(same.argmin())
            block = min(max(8, 2 * first), MOST_AT_ONCE)
            at += first
            if first == len(part):
                continue
            unasked = 2 * unasked + 1 if first == 0 else 0
            for key in keys[at : at + 1 + unasked]:
                at += 1
                changed = list(self._again(key, now_ms))
                yield from changed
                if not changed:
                    unasked = 0
                    break

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

    def _renew(self, group: Members, now_ms: int) -> Admitted | None:
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

    def _due(self, group: Members, now_ms: int) -> Due:
        """Which members must be decided: new ones, those whose time has come, those affected."""
        is_first = group.admitted is None
        before = self._renew(group, now_ms)
        due = {key: True for key, at in group.due_ms.items() if at <= now_ms}
        if self._waiting:
            due.update({key: True for key in group.members if key in self._waiting})
        if is_first and group.line and group.admitted is not None:
            return self._resumed(group, group.admitted, due)
        if group.admitted is None or before is None:
            return Due({key: True for key in due if key in group.members})
        stays = group.admitted.head == before.head
        if not stays or group.admitted.broken or before.broken:
            return Due(dict.fromkeys(group.members, True))
        due.update({key: True for key in self._known if key in group.members})
        return self._asked(group, before, group.admitted, due)

    def _asked(self, group: Members, before: Admitted, now: Admitted, due: dict[str, bool]) -> Due:
        """How members are asked whose class was filtered and scored anew."""
        if group.by_rank:
            return Due(due, in_turn=True)
        if not group.by_columns:
            return Due(dict.fromkeys(group.members, True))
        affected, asked = self._affected(group, before, now)
        due.update(dict.fromkeys(affected, True))
        return Due({key: True for key in due if key in group.members}, asked)

    def _resumed(self, group: Members, now: Admitted, due: dict[str, bool]) -> Due:
        """Of members that were decided before anything was known here, all are asked."""
        if now.broken:
            return Due(dict.fromkeys(group.members, True))
        if group.by_columns:
            group.due_ms.update(dict.fromkeys(group.line, now.until_ms))
        found = self._asked(group, now, now, due)
        if found.asked is not None:
            found.asked.ask_all()
        return found

    def _affected(self, group: Members, before: Admitted, now: Admitted) -> tuple[list[str], Asked]:
        """Asks all members of a class at once whether what they have still passes, in order."""
        count, size = len(group.lines), self.columns.size
        chosen = group.chosen[:count]
        filled = chosen >= 0
        passes = np.append(now.passed, np.ones(1, np.bool_))
        affected: Bits = np.logical_not(passes[chosen].all(axis=1))
        wanted = min(group.placement.count or 0, len(now.rows))
        affected |= np.less(filled.sum(axis=1), wanted)
        rise = over_rows(now.base, now.rows, size) - over_rows(before.base, before.rows, size)
        group.totals[:count] += np.where(filled, rise[chosen], 0)
        totals = group.totals[:count]
        falls = (totals[:, :-1] > totals[:, 1:]) | ~filled[:, 1:]
        touched = rise[chosen] != 0
        affected |= touched.any(axis=1) & ~falls.all(axis=1)
        names = (group.lines[line] for line in np.flatnonzero(affected).tolist())
        return [name for name in names if name], Asked(group, before, now, rise)
