"""Carries out changes of clusters for "if …", on a copy of a fleet: lost, drained, freed, tainted.

What a cluster is lost with goes too: its links, what is in use of it, the ways to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from typing import get_args

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.cluster import (
    Cluster,
    Device,
    Held,
    Node,
    ScoreObject,
    Taint,
    TaintEffect,
)
from stellwerk.core.model.devices import canonical_name, find_device
from stellwerk.core.model.domains import domain_keys
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.quantity import GIB, SECOND_MS, BadQuantity, parse_duration
from stellwerk.core.model.task import Task
from stellwerk.core.place.freeing import cards_freed
from stellwerk.core.place.node import unheld

EFFECTS = get_args(TaintEffect)
SCORE_MAX = 100
DRAINED = "stellwerk/drained"
CPUS_OF_A_CARD = 16
GIB_OF_A_CARD = 128


class World(Struct, frozen=True):
    """What a change applies to."""

    fleet: Fleet
    placements: tuple[Placement, ...]
    now_ms: int
    tasks: tuple[Task, ...] = ()


class BadChange(Exception):
    """A phrase that means nothing; says why."""


def clusters_changed(world: World, name: str, change: Callable[[Cluster], Cluster]) -> World:
    """A world in which one cluster is another."""
    found = [one.name for one in world.fleet.clusters]
    if name not in found:
        raise BadChange(f"there is no cluster `{name}`{meant(name, found)}")
    clusters = (change(one) if one.name == name else one for one in world.fleet.clusters)
    return replace(world, fleet=replace(world.fleet, clusters=tuple(clusters)))


def meant(written: str, known: Iterable[str]) -> str:
    """`; did you mean …?`, or what there is."""
    names = list(dict.fromkeys(known))
    near = get_close_matches(written, names, 1)
    if near:
        return f"; did you mean `{near[0]}`?"
    more = f" and {len(names) - 8} more" if len(names) > 8 else ""
    return f"; there are {', '.join(names[:8])}{more}" if names else "; there are none"


def number(written: str, least: float, most: float) -> float:
    """A number within bounds."""
    try:
        value = float(written)
    except ValueError:
        value = float("nan")
    if not least <= value <= most:
        raise BadChange(f"`{written}` is no number from {least:g} to {most:g}")
    return value


def span_ms(written: str) -> int:
    """A span of time."""
    span = parse_duration(written, bare=SECOND_MS)
    if isinstance(span, BadQuantity):
        raise BadChange(span.message)
    return span


def lose(world: World, which: str) -> World:
    """Clusters that are gone: one by its name, or all of a failure domain."""
    key, is_domain, value = which.partition("=")
    if is_domain:
        lost = [one.name for one in world.fleet.clusters if value in _domains(one, key)]
        known = [v for one in world.fleet.clusters for v in _domains(one, key) if v]
        if not lost:
            raise BadChange(f"no cluster has {key} `{value}`{meant(value, known)}")
    else:
        lost = [which]
        clusters_changed(world, which, lambda one: one)
    return replace(world, fleet=_without(world.fleet, dict.fromkeys(lost, True)))


def _domains(cluster: Cluster, key: str) -> tuple[str, ...]:
    """What a cluster says of a failure domain: by label or claim, short names included."""
    keys = domain_keys(key)
    return tuple(
        texts[one] for texts in (cluster.labels, cluster.claims) for one in keys if one in texts
    )


def _without(fleet: Fleet, lost: dict[str, bool]) -> Fleet:
    # A link that starts from no cluster starts from a store: links must not outlive their ends.
    return replace(
        fleet,
        clusters=tuple(one for one in fleet.clusters if one.name not in lost),
        links=tuple(
            one for one in fleet.links if one.source not in lost and one.target not in lost
        ),
        latencies=tuple(one for one in fleet.latencies if one.cluster not in lost),
        taken=tuple(one for one in fleet.taken if one.cluster not in lost),
        told={name: each for name, each in fleet.told.items() if name not in lost},
        contradictions=tuple(one for one in fleet.contradictions if one.cluster not in lost),
    )


def drain(world: World, which: str) -> World:
    """Nothing new comes onto a cluster, or a node of it."""

    def drained(one: Cluster, node: str) -> Cluster:
        if not one.nodes:
            taint = Taint(DRAINED, "NoSelect", added_ms=world.now_ms)
            return replace(one, taints=(*one.taints, taint))
        return _in_state(one, node, ready=False)

    return _nodes_changed(world, which, drained)


def resume(world: World, which: str) -> World:
    """A cluster, or a node of it, that can be used again."""

    def ready(one: Cluster, node: str) -> Cluster:
        taints = tuple(taint for taint in one.taints if taint.key != DRAINED)
        return _in_state(replace(one, taints=taints), node, ready=True)

    return _nodes_changed(world, which, ready)


def _nodes_changed(world: World, which: str, change: Callable[[Cluster, str], Cluster]) -> World:
    name, _, node = which.partition("/")

    def changed(one: Cluster) -> Cluster:
        known = [each.name for each in one.nodes]
        if node and node not in known:
            raise BadChange(f"`{name}` has no node `{node}`{meant(node, known)}")
        return change(one, node)

    return clusters_changed(world, name, changed)


def _in_state(cluster: Cluster, node: str, *, ready: bool) -> Cluster:
    nodes = (
        replace(one, state="ready" if ready else "drained") if node in {"", one.name} else one
        for one in cluster.nodes
    )
    return replace(cluster, nodes=tuple(nodes))


def free(world: World, name: str, written: str = "") -> World:
    """A cluster on which nobody has anything, or at least so many whole accelerators are free:
    together on one node, if one has as many.
    """
    if not written:
        changed = clusters_changed(world, name, _without_others)
        taken = tuple(one for one in world.fleet.taken if one.cluster != name)
        return replace(changed, fleet=replace(changed.fleet, taken=taken))
    key, _, count = written.partition("=")
    if key != "gpus":
        raise BadChange("write `gpus=N` to have N accelerators free, or nothing for all of it")
    most = [0]

    def counted(one: Cluster) -> Cluster:
        most[0] = sum(len(node.devices) for node in one.nodes)
        return one

    clusters_changed(world, name, counted)
    if not most[0]:
        raise BadChange(f"`{name}` has no accelerators")
    return _freed(world, name, round(number(count, 1, most[0])))


def _freed(world: World, name: str, wanted: int) -> World:
    """Takes others off devices, on one node if it has as many."""
    cluster = next(one for one in world.fleet.clusters if one.name == name)
    freed, taken = cards_freed(cluster, world.fleet.taken, wanted)
    changed = clusters_changed(world, name, lambda _: freed)
    return replace(changed, fleet=replace(changed.fleet, taken=taken))


def _without_others(cluster: Cluster) -> Cluster:
    """A cluster of which nobody outside holds anything."""
    return replace(cluster, nodes=tuple(map(unheld, cluster.nodes)))


def add(world: World, name: str, written: str) -> World:
    """A cluster with one node more, which has so many accelerators of a kind."""
    kind, _, count = written.partition(":")
    known = find_device(kind)
    if known is None or not known.memory_gib:
        raise BadChange(f"`{kind}` isn't in the table of devices")
    cards = round(number(count or "1", 1, 64))
    vendor = known.vendor

    def grown(one: Cluster) -> Cluster:
        taken = {node.name: True for node in one.nodes}
        new = next(f"new-{n}" for n in range(1, len(taken) + 2) if f"new-{n}" not in taken)
        node = Node(
            name=new,
            cpus_milli=1000 * CPUS_OF_A_CARD * cards,
            memory_bytes=GIB * GIB_OF_A_CARD * cards,
            devices=tuple(
                Device(index, canonical_name(kind), known.memory_gib * GIB, vendor=vendor)
                for index in range(cards)
            ),
        )
        return replace(one, nodes=(*one.nodes, node))

    return clusters_changed(world, name, grown)


def taint(world: World, name: str, written: str) -> World:
    """A cluster with one taint more."""
    key, value, effect = tainted(written)
    new = Taint(key, effect, value, world.now_ms)  # type: ignore[arg-type]
    return clusters_changed(world, name, lambda one: replace(one, taints=(*one.taints, new)))


def tainted(written: str) -> tuple[str, str, str]:
    """`KEY=VALUE:EFFECT`, taken apart."""
    pair, _, effect = written.partition(":")
    key, _, value = pair.partition("=")
    if not key or effect not in EFFECTS:
        raise BadChange(f"the effect is one of {', '.join(EFFECTS)}")
    return key, value, effect


def untaint(world: World, name: str, key: str) -> World:
    """A cluster without the taints of a key."""

    def without(one: Cluster) -> Cluster:
        left = tuple(each for each in one.taints if each.key != key)
        if len(left) == len(one.taints):
            known = meant(key, [each.key for each in one.taints])
            raise BadChange(f"`{name}` has no taint `{key}`{known}")
        return replace(one, taints=left)

    return clusters_changed(world, name, without)


def _pairs(before: dict[str, str], written: str) -> dict[str, str]:
    """A map with one pair set (`key=value`) or taken out (`key-`)."""
    key, sets, value = written.partition("=")
    if sets and key:
        return {**before, key: value}
    if key.endswith("-") and key[:-1] in before:
        return {name: value for name, value in before.items() if name != key[:-1]}
    if key.endswith("-"):
        raise BadChange(f"there is no `{key[:-1]}` to take away{meant(key[:-1], before)}")
    raise BadChange("write KEY=VALUE, or KEY- to take it away")


def label(world: World, name: str, written: str) -> World:
    """A cluster with another label."""
    return clusters_changed(
        world, name, lambda one: replace(one, labels=_pairs(one.labels, written))
    )


def claim(world: World, name: str, written: str) -> World:
    """A cluster with another claim."""
    return clusters_changed(
        world, name, lambda one: replace(one, claims=_pairs(one.claims, written))
    )


def price(world: World, name: str, written: str) -> World:
    """A cluster whose nodes cost so much an hour, their cards nothing beside."""
    usd = number(written, 0, 1e6)
    costs = {"usd_per_hour": usd, "usd_per_device_hour": {}}
    return clusters_changed(
        world, name, lambda one: replace(one, costs=replace(one.costs, **costs))
    )


def wait(world: World, name: str, written: str) -> World:
    """A cluster that keeps work waiting so long."""
    span = span_ms(written)
    return clusters_changed(world, name, lambda one: replace(one, wait_s=span / SECOND_MS))


def score(world: World, name: str, written: str) -> World:
    """A cluster with another score, told now."""
    path, _, value = written.partition("=")
    resource, _, item = path.partition("/")
    if not resource or not item:
        raise BadChange("a score is written RESOURCE/NAME=VALUE")
    points = round(number(value, -SCORE_MAX, SCORE_MAX))

    def scored(one: Cluster) -> Cluster:
        before = one.scores.get(resource, ScoreObject({}))
        after = ScoreObject({**before.values, item: points}, 0, world.now_ms, "what if")
        return replace(one, scores={**one.scores, resource: after})

    return clusters_changed(world, name, scored)


def window(world: World, name: str, written: str) -> World:
    """A cluster that is always open, or not at all."""
    if written not in {"open", "closed"}:
        raise BadChange("a window is `open` or `closed`")
    windows = () if written == "open" else ((0, 0),)

    def changed(one: Cluster) -> Cluster:
        nodes = tuple(replace(node, windows=()) if node.windows else node for node in one.nodes)
        return replace(one, windows=windows, nodes=nodes)

    return clusters_changed(world, name, changed)


def hold(world: World, name: str, written: str) -> World:
    """A cluster that has all of a data set."""
    data, _, revision = written.partition("@")
    known = [one for one in world.fleet.data if one.name == data and revision in {"", one.revision}]
    if not known:
        names = [f"{one.name}@{one.revision}" for one in world.fleet.data]
        raise BadChange(f"the fleet has no data `{written}`{meant(written, names)}")
    one = known[-1]
    held = Held(one.name, one.revision, one.bytes, observed_ms=world.now_ms, source="what if")

    def holding(cluster: Cluster) -> Cluster:
        others = (h for h in cluster.held if (h.data, h.revision) != (one.name, one.revision))
        return replace(cluster, held=(*others, held))

    return clusters_changed(world, name, holding)
