"""Decides what is believed where several sources speak of the same fleet, and what is told of it.

An administrator's word holds before what a driver found, and that before what an engine says of
itself. Maps (labels, claims, nodes, taints, …) are joined key by key; of two values for one key the
more trusted is used, never a mean, and the other is kept as a contradiction. Between sources of
equal trust the earlier one holds. Of what is in use the larger amount counts (`merge_taken`).
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.inventory.merge_nodes import merge_node, node_conflicts, shown
from stellwerk.core.inventory.merge_taken import InUse, differing, larger
from stellwerk.core.model.cluster import Cluster, Node
from stellwerk.core.model.fleet import (
    ClusterSet,
    Contradiction,
    Data,
    Fleet,
    SetBinding,
    Told,
)
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.selectors import Selector

Trust = Literal["declared", "probed", "told"]
_TRUST: tuple[Trust, ...] = ("declared", "probed", "told")
GLOBAL_SET = "global"
_MAPS = ("labels", "claims", "annotations", "capacity", "allocatable", "scores")
_COMPARED_MAPS = ("labels", "claims", "capacity", "allocatable")
_LISTS: dict[str, Callable[[Any], str]] = {
    "taints": lambda taint: f"{taint.key}:{taint.effect}",
    "held": lambda held: f"{held.data}@{held.revision}",
}
_VALUES = (
    "driver", "kind", "available", "deleting", "owner", "costs", "room_bytes", "evictable_bytes",
    "windows", "speed", "wait_s", "reliability", "lease_s", "kubernetes",
)  # fmt: skip
_DEFAULTS = Cluster("", "", ())


class Source(Struct, frozen=True):
    """One speaker and all that it says.

    The times in its `fleet.told` hold before `at_ms`. A cluster is there when a `whole` source has
    it; the others only add to what is there.
    """

    name: str
    trust: Trust
    fleet: Fleet
    at_ms: int = 0
    whole: bool = True

    def told(self, cluster: str, fact: str, block: str) -> Told:
        """When it said a fact; `block` is the wider fact that has a time if this one has none."""
        times = self.fleet.told.get(cluster, {})
        return times.get(fact) or times.get(block) or Told(self.name, self.at_ms)


def merge(sources: Sequence[Source]) -> Fleet:
    """One fleet of everything that the sources say; the order of equals matters, nothing else."""
    ranked = sorted(sources, key=lambda source: _TRUST.index(source.trust))
    speakers: dict[str, list[tuple[Source, Cluster]]] = {}
    present: dict[str, None] = {}
    for source in ranked:
        for cluster in source.fleet.clusters:
            speakers.setdefault(cluster.name, []).append((source, cluster))
            if source.whole:
                present[cluster.name] = None
    merging = [_Merging(name, speakers[name]) for name in sorted(present)]
    clusters = tuple(each.cluster() for each in merging)
    fleets = [source.fleet for source in ranked]
    taken, differing_use = _taken(ranked)
    return Fleet(
        clusters=clusters,
        sets=_first(fleets, "sets", lambda each: each.name),
        bindings=_first(fleets, "bindings", lambda each: (each.namespace, each.set)),
        links=_first(fleets, "links", lambda each: (each.source, each.target)),
        latencies=_first(fleets, "latencies", lambda each: (each.client_region, each.cluster)),
        data=_first(fleets, "data", lambda each: (each.name, each.revision)),
        taken=taken,
        told={each.name: each.told for each in merging if each.told},
        contradictions=(
            *(found for each in merging for found in each.contradictions),
            *differing_use,
            *_data_conflicts(ranked),
        ),
    )


def with_everything(fleet: Fleet, namespace: str) -> Fleet:
    """A fleet in which a namespace may choose from every cluster, whoever else may from which."""
    binding = SetBinding(namespace, GLOBAL_SET)
    if binding in fleet.bindings:
        return fleet
    return replace(fleet, sets=_with_global(fleet.sets), bindings=(*fleet.bindings, binding))


def with_global_set(fleet: Fleet, namespaces: Iterable[str]) -> Fleet:
    """A fleet in which namespaces that nobody bound any set to may choose from all sets, and from
    one of everything. What is bound to others doesn't matter to them.
    """
    bound = {each.namespace: True for each in fleet.bindings}
    free = sorted(name for name in dict.fromkeys(namespaces) if name not in bound)
    if not free:
        return fleet
    sets = _with_global(fleet.sets)
    implied = (SetBinding(name, each.name, implied=True) for name in free for each in sets)
    return replace(fleet, sets=sets, bindings=(*fleet.bindings, *implied))


def _with_global(sets: tuple[ClusterSet, ...]) -> tuple[ClusterSet, ...]:
    if any(each.name == GLOBAL_SET for each in sets):
        return sets
    everything = ClusterSet(GLOBAL_SET, exclusive=False, selector=Selector())
    return tuple(sorted((*sets, everything), key=lambda each: each.name))


class _Merging:
    """One cluster, of which one or more sources speak, the most trusted first."""

    def __init__(self, name: str, speakers: Sequence[tuple[Source, Cluster]]) -> None:
        self.name = name
        self.speakers = speakers
        self.told: dict[str, Told] = {}
        self.contradictions: list[Contradiction] = []

    def cluster(self) -> Cluster:
        """The cluster as it is believed to be; fills what is told and what contradicts."""
        found: dict[str, Any] = {}
        for field in _VALUES:
            said = [each for each in self.said(field) if each[1] != getattr(_DEFAULTS, field)]
            if said:
                found[field] = said[0][1]
                self.told[field] = said[0][0].told(self.name, field, field)
                self.compare(field, said)
        for field in _MAPS:
            joined = self.joined(field, [(source, value) for source, value in self.said(field)])
            if joined:
                found[field] = joined
        for field, key in _LISTS.items():
            maps = [
                (source, {key(each): each for each in value}) for source, value in self.said(field)
            ]
            joined = self.joined(field, maps)
            if joined:
                found[field] = tuple(joined[each] for each in sorted(joined))
        nodes = self.nodes()
        self.told_beside()
        single = self.speakers[0][1] if len(self.speakers) == 1 else None
        if (
            single is not None
            and single.nodes == nodes
            and single.taints == found.get("taints", ())
        ):
            return single
        found.setdefault("driver", "")
        return Cluster(name=self.name, nodes=nodes, **found)

    def said(self, field: str) -> list[tuple[Source, Any]]:
        return [(source, getattr(cluster, field)) for source, cluster in self.speakers]

    def joined(self, field: str, said: Sequence[tuple[Source, dict[str, Any]]]) -> dict[str, Any]:
        """Several maps as one; keys that aren't from the first who has any are told apart."""
        filled = [(source, values) for source, values in said if values]
        if not filled:
            return {}
        first, values = filled[0]
        self.told[field] = first.told(self.name, field, field)
        self.told_apart(field, first, values)
        if len(filled) == 1:
            return values
        joined = dict(values)
        for source, more in filled[1:]:
            for key, value in more.items():
                if key not in joined:
                    joined[key] = value
                    fact = f"{field}.{key}"
                    self.told[fact] = source.told(self.name, fact, field)
        if field in _COMPARED_MAPS:
            self.compare_maps(field, filled)
        return joined

    def told_apart(self, field: str, source: Source, values: dict[str, Any]) -> None:
        """Keep the times of single facts of a block, where their source knows them."""
        for fact, told in source.fleet.told.get(self.name, {}).items():
            block, _, key = fact.partition(".")
            if block == field and key in values:
                self.told[fact] = told

    def compare_maps(self, field: str, said: Sequence[tuple[Source, dict[str, Any]]]) -> None:
        keys = dict.fromkeys(key for _, values in said for key in values)
        for key in sorted(keys):
            self.compare(
                f"{field}.{key}",
                [(source, values[key]) for source, values in said if key in values],
            )

    def compare(self, fact: str, said: Sequence[tuple[Source, Any]]) -> None:
        if any(value != said[0][1] for _, value in said[1:]):
            told = tuple((source.name, shown(value)) for source, value in said)
            self.contradictions.append(Contradiction(self.name, fact, told, said[0][0].name))

    def nodes(self) -> tuple[Node, ...]:
        by_name: dict[str, list[tuple[Source, Node]]] = {}
        for source, cluster in self.speakers:
            for node in cluster.nodes:
                by_name.setdefault(node.name, []).append((source, node))
            if cluster.nodes and "nodes" not in self.told:
                self.told["nodes"] = source.told(self.name, "nodes", "nodes")
        for name in sorted(by_name):
            said = by_name[name]
            for fact, values in node_conflicts([node for _, node in said]):
                told = tuple((said[at][0].name, value) for at, value in values)
                self.contradictions.append(
                    Contradiction(self.name, f"nodes.{name}.{fact}", told, told[0][0])
                )
        return tuple(merge_node([node for _, node in by_name[name]]) for name in sorted(by_name))

    def told_beside(self) -> None:
        """Times of what isn't part of a cluster, such as its lease: the latest counts."""
        for source, _ in self.speakers:
            for fact, told in source.fleet.told.get(self.name, {}).items():
                if "." in fact or fact in Cluster.__struct_fields__:
                    continue
                if fact not in self.told or self.told[fact].at_ms < told.at_ms:
                    self.told[fact] = told


def _first(fleets: Sequence[Fleet], field: str, key: Callable[[Any], Any]) -> tuple[Any, ...]:
    found: dict[Any, Any] = {}
    for fleet in fleets:
        for each in getattr(fleet, field):
            found.setdefault(key(each), each)
    return tuple(found[each] for each in sorted(found))


def _taken(sources: Sequence[Source]) -> tuple[tuple[Allocation, ...], list[Contradiction]]:
    """What is in use, and where sources differ about it; of equal trust the first that speaks."""
    said: dict[str, dict[Trust, InUse]] = {}
    for source in sources:
        for name, taken in _by_cluster(source.fleet.taken).items():
            one = InUse(source.name, taken, source.trust == "probed")
            said.setdefault(name, {}).setdefault(source.trust, one)
    found: list[Allocation] = []
    contradictions: list[Contradiction] = []
    for name in sorted(said):
        speakers = list(said[name].values())
        found += larger(name, speakers)
        told = differing(speakers)
        if told:
            who = " and ".join(source for source, _ in told)
            used = f"the larger of {who}, of each resource"
            contradictions.append(Contradiction(name, "taken", told, used))
    return tuple(found), contradictions


def _by_cluster(taken: Iterable[Allocation]) -> dict[str, tuple[Allocation, ...]]:
    found: dict[str, list[Allocation]] = {}
    for one in taken:
        found.setdefault(one.cluster, []).append(one)
    return {name: tuple(held) for name, held in found.items()}


def _data_conflicts(sources: Sequence[Source]) -> list[Contradiction]:
    said: dict[tuple[str, str], list[tuple[Source, Data]]] = {}
    for source in sources:
        for each in source.fleet.data:
            said.setdefault((each.name, each.revision), []).append((source, each))
    found: list[Contradiction] = []
    for (name, revision), told in sorted(said.items(), key=lambda item: item[0]):
        sizes = tuple((source.name, shown(each.bytes)) for source, each in told)
        if any(size != sizes[0][1] for _, size in sizes):
            found.append(Contradiction("", f"data.{name}@{revision}.bytes", sizes, sizes[0][0]))
    return found
