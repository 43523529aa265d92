"""Finds every rule that a cluster fails, with the numbers compared and the change that turns it.

Changes are the smallest: a value that meets all conditions on a key, a toleration for one taint, a
limit as high as the cluster needs. Of several predicates only the nearest needs to be met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from stellwerk.core.inventory.columns import FleetColumns
from stellwerk.core.model.cluster import Cluster, Taint
from stellwerk.core.model.fleet import SET_LABEL
from stellwerk.core.model.placement import Placement, Predicate
from stellwerk.core.model.placing import Change, FailedRule, PlacingContext
from stellwerk.core.model.quantity import show_duration
from stellwerk.core.model.selectors import Requirement, Selector
from stellwerk.core.place import filters
from stellwerk.core.place.amounts import digits, limit_that_admits
from stellwerk.core.place.expressions import TOO_LONG, Expressions
from stellwerk.core.place.filters_demand import more, shortfalls, told
from stellwerk.core.place.filters_limits import PRICE, price_of
from stellwerk.core.place.matching import matches, meets

_NO_KEY = re.compile(r'Key not found in map : "(.*)"')
_SHOWN = 100
"""Of a longer expression so much is told again; all of it is in the rule."""
_LABEL = re.compile(r"""\blabels(?:\.(\w+)|\[\s*["']([^"']+)["']\s*\])""")


class Facts:
    """What a cluster is judged by."""

    def __init__(
        self, placement: Placement, columns: FleetColumns, context: PlacingContext
    ) -> None:
        self.placement, self.columns, self.context = placement, columns, context
        self.expressions = Expressions()
        self.held = {
            name: True
            for one in context.existing
            if f"{one.namespace}/{one.placement}" == placement.key
            for name in one.clusters
        }

    def membership(self, row: int) -> Iterator[FailedRule]:
        """Why a cluster is in none of the sets that may be chosen from."""
        placement, cluster = self.placement, self.columns.clusters[row]
        bound, names = filters.eligible_sets(self.columns, placement)
        if cluster.deleting:
            yield FailedRule("ClusterSets", "isn't being removed", "it is being removed")
        if not names:
            asked = ", ".join(placement.sets) or "any set"
            name = placement.sets[0] if placement.sets else next(iter(self.columns.sets), "a set")
            text = f"bind set {name} to namespace {placement.namespace}"
            found = f"{bound} sets are bound to namespace {placement.namespace}"
            yield FailedRule("ClusterSets", f"in {asked}", found, Change("bind", text, value=name))
            return
        sets = [self.columns.sets[name] for name in names]
        if any(one.exclusive and cluster.labels.get(SET_LABEL) == one.name for one in sets):
            return
        rule = f"in set {' or '.join(names)}"
        own = next((one.name for one in sets if one.exclusive), "")
        if own:
            found = cluster.labels.get(SET_LABEL, "")
            change = Change("label", f"label {SET_LABEL}={own}", SET_LABEL, own)
            yield FailedRule("ClusterSets", rule, f"it is in {found or 'no set'}", change)
            return
        selectors = [one.selector for one in sets if one.selector is not None]
        if any(matches(cluster, one) for one in selectors):
            return
        for selector in selectors[:1]:
            yield from _selector(cluster, selector, (), "ClusterSets")


def failures(facts: Facts, row: int, name: str, details: tuple[str, ...]) -> list[FailedRule]:
    """The rules of one filter that a cluster fails."""
    if name == "Predicate":
        return _predicates(facts, row, details)
    if name == "Estimates":
        return [FailedRule(name, "estimates allow it", why) for why in details]
    found = {
        "TaintToleration": _taints,
        "Limits": _limits,
        "Window": _windows,
        "Demand": _demand,
    }.get(name, _nothing)
    return list(found(facts, row))


def _nothing(_: Facts, __: int) -> Iterator[FailedRule]:
    return iter(())


def _predicates(facts: Facts, row: int, details: tuple[str, ...]) -> list[FailedRule]:
    cluster = facts.columns.clusters[row]
    rules = facts.placement.predicates
    each = [_predicate(facts, cluster, one, details) for one in rules]
    if not each or not all(each):
        return []
    nearest = min(range(len(each)), key=lambda index: (_unturnable(each[index]), len(each[index])))
    result = list(each[nearest])
    for index, failed in enumerate(each):
        if index != nearest:
            result += [
                FailedRule(one.filter, one.rule, one.found, one.change, needed=False)
                for one in failed
            ]
    return result


def _unturnable(failed: list[FailedRule]) -> int:
    return sum(one.change is None or one.change.kind == "expression" for one in failed)


def _predicate(
    facts: Facts, cluster: Cluster, rule: Predicate, details: tuple[str, ...]
) -> list[FailedRule]:
    limits = facts.placement.limits.claims
    failed = list(_selector(cluster, rule.labels, rule.claims, "Predicate", limits))
    for expression in rule.cel:
        said = facts.expressions.matches(expression, cluster)
        if said is True:
            continue
        kept = [one.partition(": ")[2] for one in details if one.startswith(f"`{expression}`: ")]
        found = kept[0] if kept else said if isinstance(said, str) else "it is false"
        change = Change("expression", _what_makes_true(expression, found), value=expression)
        failed.append(FailedRule("Predicate", expression, found, change))
    return failed


def _what_makes_true(expression: str, found: str) -> str:
    """The change of the cluster that is needed; if a key isn't there, it is named. What looks at
    too much is too long for any cluster.
    """
    if found.startswith(TOO_LONG):
        return "an expression that takes fewer steps"
    shown = expression if len(expression) <= _SHOWN else f"{expression[:_SHOWN]}…"
    missing = _NO_KEY.search(found)
    if missing is None:
        return f"what makes `{shown}` true"
    of_labels = [dotted or quoted for dotted, quoted in _LABEL.findall(expression)]
    if missing[1] == "labels" and of_labels:
        return f"a label `{of_labels[0]}`, such that `{shown}` is true"
    what = "a label" if missing[1] in of_labels else "a value for"
    return f"{what} `{missing[1]}`, such that `{shown}` is true"


def _selector(
    cluster: Cluster,
    labels: Selector,
    claims: tuple[Requirement, ...],
    name: str,
    beside: tuple[Requirement, ...] = (),
) -> Iterator[FailedRule]:
    """The conditions on labels and claims that a cluster fails; ``beside`` must hold too."""
    equal = tuple(Requirement(key, "In", (value,)) for key, value in labels.equal.items())
    for part, conditions, values in (
        ("label", (*equal, *labels.requirements), cluster.labels),
        ("claim", claims, cluster.claims),
    ):
        others = (*conditions, *beside) if part == "claim" else conditions
        for one in conditions:
            if not meets(values, one):
                has = f"{one.key}={values[one.key]}" if one.key in values else f"no {one.key}"
                change = _mend(part, one.key, [two for two in others if two.key == one.key])
                yield FailedRule(name, f"{part} {_text(one)}", has, change)


def _text(one: Requirement) -> str:
    match one.operator:
        case "In" | "NotIn" if len(one.values) == 1:
            return f"{one.key}{'=' if one.operator == 'In' else '!='}{one.values[0]}"
        case "In" | "NotIn":
            word = "in" if one.operator == "In" else "not in"
            return f"{one.key} {word} ({', '.join(one.values)})"
        case "Exists":
            return one.key
        case _:
            return f"no {one.key}"


def _mend(part: str, key: str, conditions: list[Requirement]) -> Change | None:
    """A value of a label or claim that meets all conditions on it, or that there is none."""
    if all(meets({}, one) for one in conditions):
        return Change(f"un{part}", f"no {part} {key}", key)
    offered = [value for one in conditions if one.operator == "In" for value in one.values]
    for value in [*offered, "true", *(f"other-{n}" for n in range(len(conditions) + 1))]:
        if all(meets({key: value}, one) for one in conditions):
            text = f"{part} {key}={value}"
            if part == "claim" and offered:
                text = f"needs claim {key} in ({', '.join(dict.fromkeys(offered))})"
            return Change(part, text, key, value)
    return None


def _taints(facts: Facts, row: int) -> Iterator[FailedRule]:
    cluster, tolerations = facts.columns.clusters[row], facts.placement.tolerations
    now_ms = facts.context.now_ms
    held = cluster.name in facts.held
    for taint in cluster.taints:
        if taint.effect == "PreferNoSelect" or (taint.effect == "NoSelectIfNew" and held):
            continue
        if filters.tolerated_until(taint, tolerations, now_ms) == 0:
            name = f"{taint.key}={taint.value}" if taint.value else taint.key
            text = f"tolerate {name}:{taint.effect}"
            change = Change("tolerate", text, taint.key, taint.value, taint.effect)
            found = _since(facts, taint)
            yield FailedRule("TaintToleration", f"tolerates {name}:{taint.effect}", found, change)


def _since(facts: Facts, taint: Taint) -> str:
    ended = [one for one in facts.placement.tolerations if filters.tolerates(one, taint)]
    if not ended:
        age = facts.context.now_ms - taint.added_ms
        return f"tainted for {show_duration(age)}" if taint.added_ms else "tainted"
    seconds = max(one.seconds or 0 for one in ended)
    if not taint.added_ms:
        return f"tolerated for {seconds} s from a time that nobody told"
    over = facts.context.now_ms - taint.added_ms - seconds * 1000
    return f"tolerated for {seconds} s, which ended {show_duration(max(over, 0))} ago"


def _limits(facts: Facts, row: int) -> Iterator[FailedRule]:
    cluster, asked = facts.columns.clusters[row], facts.placement.limits
    yield from (
        FailedRule("Limits", one.rule, one.found, one.change)
        for one in _selector(cluster, Selector(), asked.claims, "Limits", _nearest_claims(facts))
    )
    estimates = facts.context.estimates
    price = price_of(cluster, facts.placement.demand, facts.placement.num_nodes)
    if PRICE in estimates:
        price = estimates[PRICE].get(cluster.name, float("nan"))
    if asked.usd_per_hour_max and not price <= asked.usd_per_hour_max:
        yield _limit("usd_per_hour_max", price, "usd/h", asked.usd_per_hour_max)
    checks: list[tuple[str, float, str, str]] = []
    if asked.usd_max:
        checks.append(("Cost", asked.usd_max, "usd", "usd_max"))
    if asked.finish_by_ms:
        left_s = (asked.finish_by_ms - facts.context.now_ms) / 1000
        checks.append(("Finish", left_s, "s from now", "finish_by_ms"))
    for title, most, unit, field in checks:
        value = estimates.get(title, {}).get(cluster.name, float("nan"))
        if not value <= most:
            yield _limit(field, value, unit, most)
    for region in asked.client_regions if asked.latency_ms else ():
        ms = facts.columns.latency.get(region, {}).get(cluster.name, float("nan"))
        if not ms <= asked.latency_ms:
            yield _limit("latency_ms", ms, f"ms from {region}", asked.latency_ms)


def _nearest_claims(facts: Facts) -> tuple[Requirement, ...]:
    """Where there is one predicate, what it asks of claims goes with what the limits ask."""
    rules = facts.placement.predicates
    return rules[0].claims if len(rules) == 1 else ()


TOLD_AS = {
    "usd_max": "what it costs",
    "usd_per_hour_max": "what an hour costs",
    "finish_by_ms": "how long it runs",
    "latency_ms": "its latency",
}
TOLD_UNITS = {
    "usd_max": "usd",
    "usd_per_hour_max": "usd/h",
    "finish_by_ms": "s from now",
    "latency_ms": "ms",
}


def _limit(field: str, value: float, unit: str, most: float) -> FailedRule:
    rule = f"at most {digits(most)} {unit}"
    if not np.isfinite(value):
        change = Change(
            "tell", f"tell {TOLD_AS[field]}{unit.removeprefix(TOLD_UNITS[field])}", field
        )
        return FailedRule("Limits", rule, "nobody knows", change)
    enough = digits(limit_that_admits(value))
    change = Change("limit", f"allow {enough} {unit}", field, repr(value))
    return FailedRule("Limits", rule, f"{enough} {unit}", change)


def _windows(facts: Facts, row: int) -> Iterator[FailedRule]:
    spans, now_ms = facts.columns.clusters[row].windows, facts.context.now_ms
    if not spans or any(start <= now_ms < end for start, end in spans):
        return
    later = [start for start, _ in spans if start > now_ms]
    if later:
        found = f"it opens in {show_duration(min(later) - now_ms)}"
        yield FailedRule("Window", "open now", found, Change("open", "a window that is open now"))
    else:
        change = Change("open", "a window that is open now")
        yield FailedRule("Window", "open now", "its last window is over", change)


def _demand(facts: Facts, row: int) -> Iterator[FailedRule]:
    placement = facts.placement
    if placement.demand is None:
        return
    own = facts.context.own
    for short in shortfalls(facts.columns, row, placement.demand, placement.num_nodes, own):
        text = more(short)
        rule = f"room for {placement.num_nodes} times what is asked"
        if placement.num_nodes == 1:
            rule = "room for what is asked"
        lacking = str(short.wanted - max(short.free, 0))
        change = Change("free", text, short.resource, lacking)
        yield FailedRule("Demand", rule, told(short), change)
