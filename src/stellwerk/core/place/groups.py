"""Divides chosen clusters into decision groups, and names the objects that carry them."""

from collections.abc import Iterable
from math import ceil, isfinite

from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.placement import DecisionGroup, Placement
from stellwerk.core.place.matching import matches

MOST_IN_AN_OBJECT = 100
ALL = "100%"


def per_group(written: str, total: int) -> int | None:
    """How many clusters a group may have at most; None = that is neither a number nor a share."""
    text = written or ALL
    try:
        if text.endswith("%"):
            share = float(text[:-1])
            most = ceil(share / 100 * total) if isfinite(share) else total
        else:
            most = int(text)
    except ValueError:
        return None
    return total if most <= 0 or most > total else most


def divide(
    placement: Placement, chosen: Iterable[Cluster], *, keeps_rank: bool
) -> tuple[DecisionGroup, ...] | None:
    """Gives the groups of clusters that come best first; None if their size makes no sense.

    The first rule that matches a cluster takes it; those that nothing takes form a group without a
    name. There is always at least one group, so that an empty choice has an object too.
    """
    left = list(chosen)
    most = per_group(placement.clusters_per_group, len(left))
    if most is None:
        return None
    parts: list[tuple[str, list[str]]] = []
    for rule in placement.groups:
        matched = [one for one in left if matches(one, rule.labels, rule.claims)]
        taken = {one.name: True for one in matched}
        left = [one for one in left if one.name not in taken]
        parts += _cut(rule.name, matched, most, keeps_rank=keeps_rank)
    parts += _cut("", left, most, keeps_rank=keeps_rank)
    groups: list[DecisionGroup] = []
    number = 1
    for index, (name, clusters) in enumerate(parts or [("", [])]):
        objects = max(1, ceil(len(clusters) / MOST_IN_AN_OBJECT))
        names = (f"{placement.name}-decision-{number + place}" for place in range(objects))
        groups.append(DecisionGroup(index, name, tuple(clusters), tuple(names)))
        number += objects
    return tuple(groups)


def _cut(
    name: str, clusters: list[Cluster], most: int, *, keeps_rank: bool
) -> list[tuple[str, list[str]]]:
    names = [one.name for one in clusters]
    if not keeps_rank:
        names.sort()
    return [(name, names[first : first + most]) for first in range(0, len(names), most or 1)]
