"""Puts the nodes of a gang near to each other: in one rack, one host, one NVLink domain.

How is the rule of Kueue's topologies (`core.queue.topology`), on the room that is really free: each
narrowest domain is told how many replicas it could take now, and then they are handed out.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from typing import NamedTuple

from msgspec.structs import replace

from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.queueing import HOSTNAME
from stellwerk.core.model.resources import Allocation, NodeAllocation
from stellwerk.core.queue.topology import Domains, NoPlace, Values

CLUSTER, DRIVER = "stellwerk/cluster", "stellwerk/driver"

Labels = tuple[tuple[str, str], ...]


class Nearness(NamedTuple):
    """The levels of a topology, from the widest to the narrowest, and what is asked of them.

    With ``where_told`` it bounds no cluster of which a node doesn't say where it stands.
    """

    levels: tuple[str, ...]
    asked: TopologyRequest
    where_told: bool = False


def by_itself(asked: TopologyRequest) -> Nearness:
    """What is asked where no topology says of which levels: those that are named, and hosts."""
    named = (asked.level, asked.slice_level, HOSTNAME)
    return Nearness(tuple(dict.fromkeys(one for one in named if one)), asked)


SWITCH = "switch"
ON_ONE_SWITCH = Nearness((SWITCH, HOSTNAME), TopologyRequest("preferred", SWITCH), where_told=True)
"""What a gang gets that asks for nothing: the nodes of one switch if they do, else of few."""


class Where(NamedTuple):
    """Labels that nodes must carry, and how near they are to be to each other (None: anyhow)."""

    labels: Labels = ()
    near: Nearness | None = None


def own_labels(cluster: Cluster) -> dict[str, str]:
    """The labels of a cluster, with what it is."""
    return {**cluster.labels, CLUSTER: cluster.name, DRIVER: cluster.driver}


def value_of(node: Node, own: dict[str, str], key: str) -> str | None:
    """What a node, or else its cluster, has for a level."""
    if key == HOSTNAME:
        return node.name
    return node.domains.get(key, own.get(key))


def switches_told(cluster: Cluster, allocation: Allocation) -> str:
    """At which switches the nodes of a gang are; "" where that isn't known of all, or it is one."""
    stand = {node.name: node.domains.get(SWITCH, "") for node in cluster.nodes}
    counts: dict[str, int] = {}
    for part in allocation.nodes:
        switch = stand.get(part.node, "")
        counts[switch] = counts.get(switch, 0) + 1
    if "" in counts or len(allocation.nodes) < 2:
        return ""
    if len(counts) == 1:
        return f"on one switch, {next(iter(counts))}"
    each = ", ".join(f"{count} on {name}" for name, count in counts.items())
    return f"over {len(counts)} switches ({each}): none had room for all of it"


class Near:
    """The domains of one cluster's nodes; ``node_values`` leaves out those that lack a level."""

    def __init__(self, cluster: Cluster, wanted: Nearness) -> None:
        self.asked = wanted.asked
        self.domains = Domains(wanted.levels)
        self.node_values: dict[str, Values] = {}
        own = own_labels(cluster)
        for node in cluster.nodes:
            found = [value_of(node, own, level) for level in wanted.levels]
            values = tuple(one for one in found if one is not None)
            if len(values) == len(found):
                self.node_values[node.name] = values
                self.domains.add(values)

    def hand_out(self, fitting: dict[str, int], count: int) -> dict[Values, int] | NoPlace:
        """Replicas by narrowest domain; ``fitting`` is how many each node could take."""
        by_domain: dict[Values, int] = {}
        for name, pods in fitting.items():
            values = self.node_values.get(name)
            if values is not None:
                by_domain[values] = by_domain.get(values, 0) + pods
        return self.domains.chosen(self.asked, count, by_domain)

    def nodes_of(self, values: Values) -> dict[str, None]:
        """The nodes of a domain of any level."""
        depth = len(values)
        return {name: None for name, one in self.node_values.items() if one[:depth] == values}

    def required(self) -> list[dict[str, None]]:
        """The nodes of each domain of which one must hold all; none where that isn't asked."""
        asked = self.asked
        if asked.spot != "required" or asked.level not in self.domains.levels:
            return []
        level = self.domains.by_level[self.domains.levels.index(asked.level)]
        return [self.nodes_of(values) for values in sorted(level)]


Fill = Callable[[Container[str], int], tuple[NodeAllocation, ...]]
"""Puts at most so many replicas onto some nodes."""


def put_near(
    near: Near, fitting: dict[str, int], count: int, fill: Fill
) -> tuple[NodeAllocation, ...]:
    """Puts a gang onto nodes as near as is asked; where all of it doesn't fit, what would."""
    found = near.hand_out(fitting, count)
    if isinstance(found, NoPlace):
        if not 0 < found.fitting < count:
            return ()
        found = near.hand_out(fitting, found.fitting)
        if isinstance(found, NoPlace):
            return ()
    given: list[NodeAllocation] = []
    for values, pods in found.items():
        for part in fill(near.nodes_of(values), pods):
            first = len(given)
            ranks = tuple(range(first, first + len(part.ranks)))
            given.append(replace(part, ranks=ranks))
    return tuple(given)
