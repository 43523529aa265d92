"""Every choice of flavors that a queue has for a request, in the order of its fungibility.

One flavor serves all resources of a group. A choice fits, with or without borrowing, or is short of
something that others could be stopped for, or of something that nothing could give.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice, product
from typing import NamedTuple

from stellwerk.core.model.holding import Holding
from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.queueing import FlavorQuotas, Pair, PodSet, ResourceFlavor
from stellwerk.core.queue.asked import COUNTED_WHERE_COVERED
from stellwerk.core.queue.entries import QueueState, Verdict
from stellwerk.core.queue.tolerates import misses, tolerates
from stellwerk.core.queue.tree import level_that_fits

MOST_CHOICES = 64
"""So many choices are looked at where several groups have several flavors each."""

ALL = "main"
Labels = tuple[tuple[str, str], ...]
Rank = tuple[int, ...]
Topologies = Mapping[str, tuple[str, ...]]


class Option(NamedTuple):
    """Flavors for a whole request. ``labels`` are those that its nodes must carry, ``levels`` the
    topology by which it is packed.

    ``short`` are the pairs of which too little is left, ``level`` how far it borrows, and
    ``stops`` whether others may be stopped for it. ``rank`` is its place if it fits, ``rank_stop``
    if others are stopped for it.
    """

    flavors: dict[str, str]
    usage: dict[Pair, int]
    short: dict[Pair, None]
    level: int
    stops: bool
    labels: Labels
    rank: Rank
    rank_stop: Rank
    levels: tuple[str, ...] = ()

    @property
    def fits(self) -> bool:
        """Whether quota allows it now."""
        return not self.short

    def holding(self, queue: str) -> Holding:
        """What a run would hold."""
        amounts = {pair.resource: amount for pair, amount in self.usage.items()}
        return Holding(queue, self.flavors, amounts)


class _Choice(NamedTuple):
    at: int
    flavor: ResourceFlavor
    usage: dict[Pair, int]
    short: dict[Pair, None]
    level: int
    stops: bool


def options_of(
    queue: QueueState,
    flavors: Mapping[str, ResourceFlavor],
    requests: Mapping[str, int],
    count: int,
    *,
    fair: bool,
    topologies: Topologies | None = None,
    near: TopologyRequest | None = None,
) -> tuple[list[Option], list[Verdict]]:
    """All choices for ``count`` replicas, and what each flavor said.

    ``topologies`` are the levels of each by name; ``near`` is what is asked of them.
    """
    topologies = topologies or {}
    pods = PodSet(ALL, count, dict(requests), topology=near)
    verdicts: list[Verdict] = []
    by_group: dict[int, dict[str, int]] = {}
    covered = True
    for resource, amount in queue.requests(pods, count).items():
        group = queue.group_of.get(resource)
        if group is not None:
            by_group.setdefault(group, {})[resource] = amount
        elif resource not in COUNTED_WHERE_COVERED:
            verdicts.append(Verdict(ALL, "", resource, "uncovered", amount))
            covered = False
    if not covered:
        return [], verdicts
    choices = [
        list(_choices(queue, flavors, topologies, group, asked, pods, verdicts, fair=fair))
        for group, asked in sorted(by_group.items())
    ]
    known = topologies if near is not None else {}
    combined = (_combined(queue, one, known) for one in islice(product(*choices), MOST_CHOICES))
    return sorted((one for one in combined if one is not None), key=lambda one: one.rank), verdicts


def _choices(
    queue: QueueState,
    flavors: Mapping[str, ResourceFlavor],
    topologies: Topologies,
    group: int,
    asked: Mapping[str, int],
    pods: PodSet,
    verdicts: list[Verdict],
    *,
    fair: bool,
) -> list[_Choice]:
    """The flavors of one group that aren't out of the question."""
    found = []
    for at, one in enumerate(queue.spec.groups[group].flavors):
        flavor = flavors.get(one.flavor)
        unfit = _unfit(queue, group, one, flavor, pods, topologies)
        if flavor is None or unfit is not None:
            verdicts.append(unfit or Verdict(ALL, one.flavor, "", "missing"))
            continue
        choice = _choice(queue, at, flavor, asked, verdicts, fair=fair)
        if choice is not None:
            found.append(choice)
    return found


def _unfit(
    queue: QueueState,
    group: int,
    one: FlavorQuotas,
    flavor: ResourceFlavor | None,
    pods: PodSet,
    topologies: Topologies,
) -> Verdict | None:
    """Why nothing of this kind may have a flavor at all."""
    if flavor is None:
        return Verdict(ALL, one.flavor, "", "missing")
    taint = tolerates(flavor.taints, (*pods.tolerations, *flavor.tolerations))
    if taint is not None:
        note = f"{taint.key}={taint.value}:{taint.effect}"
        return Verdict(ALL, one.flavor, "", "taint", note=note)
    key = misses(pods, flavor, queue.keys[group])
    if key:
        return Verdict(ALL, one.flavor, "", "selector", note=key)
    return None if pods.topology is None else _too_plain(flavor, pods.topology, topologies)


def _too_plain(
    flavor: ResourceFlavor, asked: TopologyRequest, topologies: Topologies
) -> Verdict | None:
    """Why nothing is near to anything in a flavor, as it is asked."""
    levels = topologies.get(flavor.topology)
    if not levels:
        return Verdict(ALL, flavor.name, "", "no_topology")
    level = next((one for one in (asked.level, asked.slice_level) if one not in {"", *levels}), "")
    return Verdict(ALL, flavor.name, "", "no_level", note=level) if level else None


def _choice(
    queue: QueueState,
    at: int,
    flavor: ResourceFlavor,
    asked: Mapping[str, int],
    verdicts: list[Verdict],
    *,
    fair: bool,
) -> _Choice | None:
    """What a flavor comes to for all resources of its group; None if it never could."""
    node, rules = queue.node, queue.spec.preemption
    borrows_and_stops = rules.borrow != "Never" or (fair and rules.reclaim != "Never")
    usage: dict[Pair, int] = {}
    short: dict[Pair, None] = {}
    widest, stops, possible = 0, queue.may_preempt, True
    for resource, wanted in asked.items():
        pair = Pair(flavor.name, resource)
        usage[pair] = wanted
        free, most = max(0, node.available(pair)), node.potential(pair)
        level, is_part = level_that_fits(node, pair, wanted)
        widest = max(widest, level)
        code = "borrows" if level else "fits"
        if wanted > most:
            code, possible = "exceeds", False
        elif wanted > free:
            code = "short"
            short[pair] = None
            stops = stops and (wanted <= node.nominal.get(pair, 0) or is_part or borrows_and_stops)
        verdicts.append(Verdict(ALL, flavor.name, resource, code, wanted, free, most))
    return _Choice(at, flavor, usage, short, widest, stops) if possible else None


def _combined(
    queue: QueueState, choices: tuple[_Choice, ...], topologies: Topologies
) -> Option | None:
    """One flavor of each group; None where no node could carry the labels of all of them."""
    labels: dict[str, str] = {}
    flavors: dict[str, str] = {}
    usage: dict[Pair, int] = {}
    short: dict[Pair, None] = {}
    for one in choices:
        for key, value in one.flavor.labels.items():
            if labels.setdefault(key, value) != value:
                return None
        flavors.update({pair.resource: pair.flavor for pair in one.usage})
        usage.update(one.usage)
        short.update(one.short)
    level = max((one.level for one in choices), default=0)
    at = tuple(one.at for one in choices)
    stops = all(one.stops for one in choices)
    fit, stop = _ranks(queue, level, at)
    levels = next((topologies[one.flavor.topology] for one in choices if topologies), ())
    own = tuple(sorted(labels.items()))
    return Option(flavors, usage, short, level, stops, own, fit, stop, levels)


def _ranks(queue: QueueState, level: int, at: tuple[int, ...]) -> tuple[Rank, Rank]:
    """The place of a choice if it fits, and if others must be stopped: lowest first.

    By default all that fit come first, in the order of flavors, and then those that stop others.
    """
    rules = queue.spec.fungibility
    later = level if level and rules.borrow == "TryNextFlavor" else 0
    if rules.preference == "PreemptionOverBorrowing":
        return (2 * bool(level), level, *at, 0), (1 if not level else 3, level, *at, 1)
    if rules.preempt == "MayStopSearch" and not (level and rules.borrow == "TryNextFlavor"):
        return (later, 0, *at, 0), (later, 0, *at, 1)
    return (later, 0, *at, 0), (1 << 16, level, *at, 1)
