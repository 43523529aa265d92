"""Packs the pods of a set into few, near domains of a topology: blocks, racks, hosts.

First every domain is told how many pods (and slices) it could take. Then the lowest level is
looked for on which the request fits as it wants: in one domain (`required`), in one domain of that
level or one above (`preferred`), anywhere (`unconstrained`). From there the pods are handed down,
level by level, largest domain first, the last one as tight as can be; without a constraint the
fullest domains come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.queueing import (
    HOSTNAME,
    NodeTaint,
    PodSet,
    ResourceFlavor,
    Topology,
    TopologyNode,
)
from stellwerk.core.queue.tolerates import tolerates

Values = tuple[str, ...]
UNLIMITED = 1 << 40


class Place(NamedTuple):
    """Pods in one narrowest domain of a flavor's topology, and what each of them takes."""

    flavor: str
    domain: Values
    pods: int
    each: Mapping[str, int]


class NoPlace(NamedTuple):
    """Why a set of pods finds no place: how many of its pods would have one, at which level."""

    level: str
    fitting: int
    wanted: int
    excluded: int = 0


class _Domain:
    """One domain: what it could take in this question (``pods``, whole ``slices``)."""

    __slots__ = ("children", "pods", "slices", "taken", "values")

    def __init__(self, values: Values) -> None:
        self.values = values
        self.children: list[_Domain] = []
        self.pods = 0
        self.slices = 0
        self.taken = 0


class Domains:
    """A tree of domains, from the widest level to the narrowest, and how pods are put into it."""

    def __init__(self, levels: tuple[str, ...]) -> None:
        self.levels = levels
        self.by_level: list[dict[Values, _Domain]] = [{} for _ in levels]

    def add(self, values: Values) -> None:
        """Takes in a narrowest domain, with those around it."""
        child: _Domain | None = None
        for depth in range(len(values), 0, -1):
            part, level = values[:depth], self.by_level[depth - 1]
            known = part in level
            domain = level.setdefault(part, _Domain(part))
            if child is not None:
                domain.children.append(child)
            if known:
                return
            child = domain

    def chosen(
        self, asked: TopologyRequest, count: int, fitting: Mapping[Values, int]
    ) -> dict[Values, int] | NoPlace:
        """How many of so many pods go into each narrowest domain; ``fitting`` has room for each."""
        level = self._level(asked.level, asked.spot)
        inner = self._level(asked.slice_level, "required") if asked.slice_level else None
        if level is None or (asked.slice_level and (inner is None or inner < level)):
            return NoPlace(asked.level or asked.slice_level, 0, count)
        size = asked.slice_size if asked.slice_level else 1
        slice_level = len(self.levels) - 1 if inner is None else inner
        self._tell(fitting, size, slice_level)
        packs = _Packing(self, asked, count, size, slice_level)
        chosen = packs.chosen(level)
        if isinstance(chosen, NoPlace):
            return chosen
        domains = sorted(packs.handed_down(*chosen), key=lambda one: one.values)
        return {domain.values: domain.taken for domain in domains if domain.taken}

    def _level(self, label: str, spot: str) -> int | None:
        if spot == "unconstrained" and not label:
            return len(self.levels) - 1
        return self.levels.index(label) if label in self.levels else None

    def _tell(self, fitting: Mapping[Values, int], size: int, slice_level: int) -> None:
        """Tells every domain how many pods and slices it could take."""
        last = len(self.levels) - 1
        for depth in range(last, -1, -1):
            for values, domain in self.by_level[depth].items():
                domain.taken = 0
                if depth == last:
                    domain.pods = fitting.get(values, 0)
                else:
                    domain.pods = sum(child.pods for child in domain.children)
                if depth >= slice_level:
                    domain.slices = domain.pods // size
                else:
                    domain.slices = sum(child.slices for child in domain.children)


class Room(Domains):
    """The domains of one flavor, and what is used in each narrowest one."""

    def __init__(
        self, flavor: ResourceFlavor, topology: Topology, nodes: Iterable[TopologyNode]
    ) -> None:
        super().__init__(topology.levels)
        self.flavor = flavor.name
        self.tolerations = flavor.tolerations
        self.by_host = bool(self.levels) and self.levels[-1] == HOSTNAME
        self.capacity: dict[Values, dict[str, int]] = {}
        self.taints: dict[Values, tuple[NodeTaint, ...]] = {}
        self.labels: dict[Values, dict[str, str]] = {}
        self.used: dict[Values, dict[str, int]] = {}
        self.by_name: dict[str, Values] = {}
        for node in sorted(nodes, key=lambda one: one.name):
            self._take_in(flavor, node)

    def _take_in(self, flavor: ResourceFlavor, node: TopologyNode) -> None:
        labels = node.labels
        belongs = all(labels.get(key) == value for key, value in flavor.labels.items())
        if not node.ready or not belongs or any(key not in labels for key in self.levels):
            return
        values = tuple(labels[key] for key in self.levels)
        self.by_name[values[-1]] = values
        capacity = self.capacity.setdefault(values, {})
        for resource, amount in node.allocatable.items():
            free = max(0, amount - node.used.get(resource, 0))
            capacity[resource] = capacity.get(resource, 0) + free
        if self.by_host:
            self.taints[values], self.labels[values] = node.taints, labels
        self.add(values)

    def whole(self, values: Values) -> Values:
        """All values of a narrowest domain; where that is a host, its name may stand alone."""
        if self.by_host and len(values) == 1 < len(self.levels):
            return self.by_name.get(values[0], values)
        return values

    def short(self, values: Values) -> Values:
        """What is told of a narrowest domain: all of its values, of a host its name."""
        return values[-1:] if self.by_host else values

    def take(self, place: Place, times: int = 1) -> None:
        """Counts pods in their domain; ``times`` -1 takes them away again."""
        used = self.used.setdefault(place.domain, {})
        for resource, amount in place.each.items():
            used[resource] = used.get(resource, 0) + amount * place.pods * times

    def has_room(self, place: Place) -> bool:
        """Whether a domain still has room for so many pods."""
        capacity, used = self.capacity.get(place.domain), self.used.get(place.domain, {})
        if capacity is None:
            return False
        return all(
            amount * place.pods <= _free(capacity, used, resource)
            for resource, amount in place.each.items()
            if amount
        )

    def find(
        self, pods: PodSet, count: int, each: Mapping[str, int], *, empty: bool = False
    ) -> tuple[Place, ...] | NoPlace:
        """Where the pods of a set go; ``empty`` asks as if nothing were in use."""
        asked = pods.topology or TopologyRequest("unconstrained")
        fitting, excluded = self._fitting(pods, each, empty=empty)
        chosen = self.chosen(asked, count, fitting)
        if isinstance(chosen, NoPlace):
            return chosen._replace(excluded=excluded if chosen.level in self.levels else 0)
        return tuple(Place(self.flavor, values, taken, each) for values, taken in chosen.items())

    def _fitting(
        self, pods: PodSet, each: Mapping[str, int], *, empty: bool
    ) -> tuple[dict[Values, int], int]:
        """How many pods each narrowest domain could take, and how many domains are excluded."""
        found: dict[Values, int] = {}
        excluded = 0
        for values in self.by_level[-1]:
            if self.by_host and not self._may_use(values, pods):
                excluded += 1
                continue
            capacity, used = self.capacity[values], {} if empty else self.used.get(values, {})
            asked = [(resource, amount) for resource, amount in each.items() if amount]
            counts = (_free(capacity, used, name) // amount for name, amount in asked)
            found[values] = max(0, min(counts, default=UNLIMITED))
        return found, excluded

    def _may_use(self, values: Values, pods: PodSet) -> bool:
        labels = self.labels[values]
        if any(labels.get(key, value) != value for key, value in pods.node_selector.items()):
            return False
        return tolerates(self.taints[values], (*pods.tolerations, *self.tolerations)) is None


def _free(capacity: Mapping[str, int], used: Mapping[str, int], resource: str) -> int:
    """What is free; nodes that say nothing of a number of pods take any."""
    unsaid = UNLIMITED * 1000 if resource == "pods" else 0
    return capacity.get(resource, unsaid) - used.get(resource, 0)


class _Packing:
    """One question: ``count`` pods in slices of ``size``, each slice inside one ``inner`` level."""

    def __init__(
        self, room: Domains, asked: TopologyRequest, count: int, size: int, inner: int
    ) -> None:
        self.room = room
        self.count, self.size, self.inner = count, size, inner
        self.spreads = asked.spot == "unconstrained"
        self.required = asked.spot == "required"

    def ordered(self, domains: Iterable[_Domain]) -> list[_Domain]:
        """Most room first; where nothing is asked, the fullest that has any first."""
        sign = 1 if self.spreads else -1
        return sorted(domains, key=lambda one: (sign * one.slices, one.pods, one.values))

    @staticmethod
    def tightest(domains: list[_Domain], slices: int) -> _Domain:
        """Of domains, most room first, the one with the least that is enough."""
        best = domains[0]
        for domain in domains[1:]:
            if domain.slices < slices:
                break
            if domain.slices < best.slices:
                best = domain
        return best

    def chosen(self, level: int) -> tuple[int, list[_Domain]] | NoPlace:
        """The level and the domains that take all of it."""
        slices = self.count // self.size
        while True:
            domains = self.ordered(self.room.by_level[level].values())
            fitting = [one for one in domains if one.slices >= slices]
            if fitting:
                if self.spreads:
                    return level, [fitting[0]]
                return level, [self.tightest(domains, slices)]
            if self.required:
                most = max((one.slices for one in domains), default=0)
                return NoPlace(self.room.levels[level], most * self.size, self.count)
            if level == 0 or self.spreads:
                break
            level -= 1
        found, left = [], slices
        domains = [one for one in domains if one.slices > 0]
        while left > 0 and domains:
            take = domains[0]
            if not self.spreads and take.slices >= left:
                take = self.tightest(domains, left)
            domains.remove(take)
            found.append(take)
            left -= take.slices
        if left > 0:
            return NoPlace(self.room.levels[level], (slices - left) * self.size, self.count)
        return level, found

    def handed_down(self, level: int, domains: list[_Domain]) -> list[_Domain]:
        """The narrowest domains, each with the pods that it takes."""
        domains = self.filled(self.ordered(domains), self.count // self.size, self.size)
        last = len(self.room.levels) - 1
        while level < min(last, self.inner):
            below = [child for one in domains for child in one.children]
            domains = self.filled(self.ordered(below), self.count // self.size, self.size)
            level += 1
        while level < last:
            domains = [
                below
                for one in domains
                for below in self.filled(self.by_pods(one.children), one.taken, 1)
            ]
            level += 1
        return domains

    def by_pods(self, domains: Iterable[_Domain]) -> list[_Domain]:
        """Below a slice's level single pods count."""
        found = list(domains)
        for one in found:
            one.slices = one.pods
        return self.ordered(found)

    def filled(self, domains: list[_Domain], slices: int, size: int) -> list[_Domain]:
        """Fills domains in their order; the last one is the tightest that takes what is left."""
        found: list[_Domain] = []
        left = slices
        for i, domain in enumerate(domains):
            take = domain
            if not self.spreads and domain.slices >= left:
                take = self.tightest(domains[i:], left)
            if take.slices <= 0:
                continue
            taken = min(left, take.slices)
            take.taken = taken * size
            found.append(take)
            left -= taken
            if left <= 0:
                break
        return found
