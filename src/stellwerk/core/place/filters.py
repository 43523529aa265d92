"""The filters of a placement over columns: sets, predicates, taints, limits, windows.

Each gives one bit per cluster (True = it fails), whatever the others say, and until when that
holds. A result is kept with the versions of the columns that it was made of.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from functools import partial
from typing import Any

import numpy as np

from stellwerk.core.inventory.columns import Bits, FleetColumns
from stellwerk.core.model.cluster import Taint
from stellwerk.core.model.fleet import SET_LABEL, ClusterSet
from stellwerk.core.model.placement import Placement, Predicate, Toleration
from stellwerk.core.model.selectors import Requirement, Selector
from stellwerk.core.place.expressions import FAILED, YES, Expressions

NEVER = 1 << 62
"""A time that doesn't come."""


class Verdict:
    """What a filter says: who fails, and until when it says so (`NEVER` = until facts change).

    ``only_new`` fails those that the placement hasn't got yet. ``details`` are what the facts alone
    don't tell.
    """

    __slots__ = ("details", "failed", "name", "only_new", "until_ms")

    def __init__(self, name: str, failed: Bits) -> None:
        self.name, self.failed = name, failed
        self.only_new: Bits | None = None
        self.details: dict[int, tuple[str, ...]] = {}
        self.until_ms = NEVER


class Memo:
    """Results by key, each with the token of what it was made of; at most ``most`` of a kind."""

    def __init__(self, most: int = 4096) -> None:
        self._known: dict[Hashable, tuple[Hashable, Any]] = {}
        self._most = most

    def get(self, key: Hashable, token: Hashable, make: Callable[[], Any]) -> Any:
        """Gives what is known for the key, or makes it anew if the token is another one."""
        known = self._known.get(key)
        if known is not None and known[0] == token:
            return known[1]
        made = make()
        self._known[key] = (token, made)
        if len(self._known) > self._most:
            self._known.pop(next(iter(self._known)))
        return made


def requirement_bits(columns: FleetColumns, part: str, one: Requirement) -> Bits:
    """Who meets a condition on a label or claim."""
    column = columns.words(part, one.key)
    codes = column.codes
    if one.operator == "Exists":
        return np.not_equal(codes, 0)
    if one.operator == "DoesNotExist":
        return np.equal(codes, 0)
    wanted = [code for code in map(column.code, one.values) if code > 0]
    inside: Bits = codes == wanted[0] if len(wanted) == 1 else np.isin(codes, wanted)
    return inside if one.operator == "In" else ~inside


def selector_bits(
    columns: FleetColumns, labels: Selector, claims: tuple[Requirement, ...] = ()
) -> Bits:
    """Who meets a selector of labels, and conditions on claims."""
    met: Bits = np.ones(columns.size, np.bool_)
    for key, value in labels.equal.items():
        column = columns.words("labels", key)
        met &= column.codes == column.code(value)
    for part, requirements in (("labels", labels.requirements), ("claims", claims)):
        for one in requirements:
            met &= requirement_bits(columns, part, one)
    return met


def selector_token(
    columns: FleetColumns, labels: Selector, claims: tuple[Requirement, ...] = ()
) -> tuple[int, ...]:
    """The versions of the columns that a selector reads."""
    keys = [("labels", key) for key in labels.equal]
    keys += [("labels", one.key) for one in labels.requirements]
    keys += [("claims", one.key) for one in claims]
    return (columns.shape_version, *(columns.words(*key).version for key in keys))


def eligible_sets(columns: FleetColumns, placement: Placement) -> tuple[int, list[str]]:
    """How many sets are bound to the placement's namespace, and those that it may choose from.

    Where somebody bound a set, the reference knows bindings that are written down and no others.
    """
    strict = placement.compat == "ocm" and columns.somebody_bound
    bound = {
        one.set: True
        for one in columns.bound.get(placement.namespace, ())
        if one.set in columns.sets and not (strict and one.implied)
    }
    asked = dict.fromkeys(placement.sets, True) if placement.sets else bound
    return len(bound), sorted(name for name in bound if name in asked)


def set_bits(columns: FleetColumns, one: ClusterSet) -> Bits:
    """The members of a set."""
    if one.exclusive:
        return selector_bits(columns, Selector(equal={SET_LABEL: one.name}))
    if one.selector is None:
        return np.zeros(columns.size, np.bool_)
    return selector_bits(columns, one.selector)


def member_bits(columns: FleetColumns, memo: Memo, names: Iterable[str]) -> Bits:
    """The clusters in any of the sets that aren't being removed: the candidates."""
    members: Bits = np.zeros(columns.size, np.bool_)
    for name in names:
        one = columns.sets[name]
        selector = Selector(equal={SET_LABEL: name}) if one.exclusive else one.selector
        token = selector_token(columns, selector or Selector())
        members |= memo.get(("set", name), token, partial(set_bits, columns, one))
    for row in columns.deleting:
        members[row] = False
    return members


def predicates(
    columns: FleetColumns,
    memo: Memo,
    rules: tuple[Predicate, ...],
    asking: Expressions,
    among: Bits,
) -> Verdict:
    """Who meets none of the predicates; runtime errors of expressions are told by cluster."""
    verdict = Verdict("Predicate", np.zeros(columns.size, np.bool_))
    if not rules or not among.any():
        return verdict
    met: Bits = np.zeros(columns.size, np.bool_)
    for rule in rules:
        token = selector_token(columns, rule.labels, rule.claims)
        bits = memo.get(
            ("rule", key_of(rule.labels), rule.claims),
            token,
            partial(selector_bits, columns, rule.labels, rule.claims),
        )
        for expression in rule.cel:
            said = asking.verdicts(expression, columns, bits & among)
            for row in np.flatnonzero((said.said == FAILED) & bits & among).tolist():
                told = f"`{expression}`: {said.errors[row]}"
                verdict.details[row] = (*verdict.details.get(row, ()), told)
            bits = bits & (said.said == YES)
        met |= bits
    verdict.failed = ~met
    return verdict


def predicates_token(columns: FleetColumns, rules: tuple[Predicate, ...]) -> tuple[Hashable, ...]:
    """What the verdict about predicates depends on."""
    parts: list[Hashable] = [selector_token(columns, one.labels, one.claims) for one in rules]
    if any(one.cel for one in rules):
        parts.append(columns.stamp)
    return tuple(parts)


def key_of(selector: Selector) -> Hashable:
    """A selector as a key: its map has no hash."""
    return tuple(sorted(selector.equal.items())), selector.requirements


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration is for a taint, were there no limit of time."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in {"", "Equal"}:
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerated_until(taint: Taint, tolerations: tuple[Toleration, ...], now_ms: int) -> int:
    """Until when a taint is tolerated: by the first that holds; 0 = it isn't."""
    for one in tolerations:
        if not tolerates(one, taint):
            continue
        if one.seconds is None:
            return NEVER
        until = taint.added_ms + one.seconds * 1000 if taint.added_ms else 0
        if now_ms < until:
            return until
    return 0


def taints(columns: FleetColumns, tolerations: tuple[Toleration, ...], now_ms: int) -> Verdict:
    """Who has a taint that isn't tolerated; PreferNoSelect excludes nobody."""
    verdict = Verdict("TaintToleration", np.zeros(columns.size, np.bool_))
    only_new: Bits = np.zeros(columns.size, np.bool_)
    timed = any(one.seconds is not None for one in tolerations)
    known: dict[tuple[str, str, str], int] = {}
    for row in columns.tainted:
        for taint in columns.clusters[row].taints:
            if taint.effect == "PreferNoSelect":
                continue
            key = (taint.key, taint.value, taint.effect)
            until = -1 if timed else known.get(key, -1)
            if until < 0:
                until = known[key] = tolerated_until(taint, tolerations, now_ms)
            if until == 0:
                (only_new if taint.effect == "NoSelectIfNew" else verdict.failed)[row] = True
            else:
                verdict.until_ms = min(verdict.until_ms, until)
    if only_new.any():
        verdict.only_new = only_new & ~verdict.failed
    return verdict


def tolerations_end(
    columns: FleetColumns, rows: Iterable[int], tolerations: tuple[Toleration, ...], now_ms: int
) -> int:
    """When the first toleration ends among clusters that the placement has; 0 = never."""
    if all(one.seconds is None for one in tolerations):
        return 0
    first = NEVER
    for row in rows:
        ends = [
            tolerated_until(taint, tolerations, now_ms)
            for taint in columns.clusters[row].taints
            if taint.effect not in {"PreferNoSelect", "NoSelectIfNew"}
        ]
        if 0 not in ends:
            first = min([first, *ends])
    return 0 if first == NEVER else first


def windows(columns: FleetColumns, now_ms: int) -> Verdict:
    """Who may not be used now; it holds until the next window opens or closes."""
    verdict = Verdict("Window", np.zeros(columns.size, np.bool_))
    for row in columns.windowed:
        spans = columns.clusters[row].windows
        verdict.failed[row] = not any(start <= now_ms < end for start, end in spans)
        edges = [edge for span in spans for edge in span if edge > now_ms]
        verdict.until_ms = min([verdict.until_ms, *edges])
    return verdict


def estimated_out(columns: FleetColumns, refused: Mapping[str, tuple[str, ...]]) -> Verdict:
    """Fails those that estimates rule out: for their data, a window, a deadline."""
    verdict = Verdict("Estimates", np.zeros(columns.size, np.bool_))
    for name, why in refused.items():
        row = columns.row.get(name)
        if row is not None:
            verdict.failed[row] = True
            verdict.details[row] = why
    return verdict
