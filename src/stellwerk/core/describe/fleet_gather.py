"""Collects what the documents of a fleet file say until all are read, whatever their order.

Each kind of document speaks as a source of its own, so that two kinds that disagree are a
contradiction with names. Within a kind a thing is said once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from stellwerk.core.describe.fields import did_you_mean
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.inventory.merge import Source, Trust
from stellwerk.core.model.cluster import Cluster, Held, ScoreObject
from stellwerk.core.model.fleet import (
    ClusterSet,
    Data,
    Fleet,
    Latency,
    Link,
    SetBinding,
    Told,
)
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.resources import Allocation
from stellwerk.core.model.scoring import ScoreSource
from stellwerk.core.model.selectors import Selector

BUILT_IN_SETS = ("default", "global")
MOST_NODES = 500_000


class Part(NamedTuple):
    """One kind of documents as a source; `whole` = its clusters are there by it alone."""

    kind: str
    trust: Trust
    whole: bool = True


SHORT = Part("", "declared")
OBJECT = Part("ManagedCluster", "declared")
PROPERTY = Part("ClusterProperty", "told", whole=False)
CLAIM = Part("ClusterClaim", "told", whole=False)
STATUS = Part("ManagedCluster status", "told")
PROFILE = Part("ClusterProfile", "told")
SCORES = Part("AddOnPlacementScore", "told", whole=False)
LEASE = Part("Lease", "told", whole=False)
PARTS = (SHORT, OBJECT, PROPERTY, CLAIM, STATUS, PROFILE, SCORES, LEASE)
"""In the order in which they are believed where their trust is the same."""


_MAPS = (
    "sets", "implied_sets", "bindings", "links", "latencies", "data", "placements",
    "score_sources",
)  # fmt: skip
_LISTS = ("taken", "holdings", "asked_sets")


class Holding(NamedTuple):
    """Data that a cluster holds, of which the size may be known only from another document."""

    cluster: str
    data: str
    revision: str
    bytes: int | None
    part: float | None
    pinned: bool
    node: Node


class Gathered:
    """Everything said so far; `told` times are by part and cluster."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.drafts: dict[Part, dict[str, dict[str, Any]]] = {part: {} for part in PARTS}
        self.times: dict[Part, dict[str, dict[str, Told]]] = {part: {} for part in PARTS}
        self.sets: dict[str, ClusterSet] = {}
        self.implied_sets: dict[str, ClusterSet] = {}
        self.bindings: dict[SetBinding, Node] = {}
        self.links: dict[tuple[str, str], Link] = {}
        self.latencies: dict[tuple[str, str], Latency] = {}
        self.data: dict[tuple[str, str], Data] = {}
        self.taken: list[Allocation] = []
        self.holdings: list[Holding] = []
        self.placements: dict[str, Placement] = {}
        self.score_sources: dict[str, ScoreSource] = {}
        self.asked_sets: list[tuple[str, Node]] = []
        self._seen: dict[tuple[str, ...], Node] = {}
        self._broken: dict[str, None] = {}
        self._overflowed = False
        self.nodes = 0

    def first(self, what: str, *key: str, node: Node) -> bool:
        """Claims a name for a document: it may not do so twice, nor another one (`absorb`)."""
        before = self._seen.get((what, *key))
        if before is not None:
            self._twice((what, *key), node, before.line)
            return False
        self._seen[(what, *key)] = place_of(node)
        return True

    def absorb(self, one: Gathered) -> None:
        """Takes in what one document says, unless another has said who it is about before."""
        for key, node in one._seen.items():
            before = self._seen.get(key)
            if before is not None:
                self._twice(key, node, before.line)
                return
        self._seen |= one._seen
        for part in PARTS:
            for name, draft in one.drafts[part].items():
                _join(self.draft(part, name), draft)
                self.nodes += len(draft.get("nodes", ()))
            for name, times in one.times[part].items():
                self.times[part].setdefault(name, {}).update(times)
        for field in _MAPS:
            getattr(self, field).update(getattr(one, field))
        for field in _LISTS:
            getattr(self, field).extend(getattr(one, field))

    def overflows(self, node: Node) -> bool:
        """Whether the file holds so many nodes that no more is read of it; told once."""
        if self.nodes <= MOST_NODES:
            return False
        message = f"the clusters before this have more than {MOST_NODES:,} nodes"
        if not self._overflowed:
            self.report.problem("spec/too-large", node, "", message, "divide the file into several")
        self._overflowed = True
        return True

    def pass_over(self, name: str) -> None:
        """A document is broken: nobody is to blame for speaking of what it would have been."""
        self._broken[name] = None

    def _twice(self, key: tuple[str, ...], node: Node, line: int) -> None:
        name = "/".join(part for part in key[1:] if part)
        first = f", first in line {line}" if line else ""
        self.report.problem(
            "fleet/duplicate",
            node,
            "metadata.name",
            f"the {key[0]} `{name[:60]}` is there twice{first}",
            "remove one of the two, or give it another name",
        )

    def draft(self, part: Part, cluster: str) -> dict[str, Any]:
        """The fields of a cluster as one part says them, to be filled."""
        return self.drafts[part].setdefault(cluster, {})

    def at(self, part: Part, cluster: str, fact: str, source: str, at_ms: int) -> None:
        """When a fact was said, where the object tells it."""
        self.times[part].setdefault(cluster, {})[fact] = Told(source, at_ms)

    def claim(self, part: Part, cluster: str, name: str, value: str) -> None:
        """One claim of a cluster."""
        self.draft(part, cluster).setdefault("claims", {})[name] = value

    def score(self, cluster: str, name: str, scores: ScoreObject) -> None:
        """One score object of a cluster."""
        self.draft(SCORES, cluster).setdefault("scores", {})[name] = scores

    def speaks(self, source: str, cluster: str, fact: str) -> Node | None:
        """Where the document stands in which a source says a fact of a cluster."""
        kind = source.removesuffix(f" in {self.report.file}").split(" ", 1)[0]
        key = fact.partition(".")[2]
        return self._seen.get((kind, cluster, key)) or self._seen.get((kind, cluster))

    def sources(self, now_ms: int) -> tuple[Source, ...]:
        """What each kind of document says, when all are read."""
        self._settle_holdings()
        self._check_sets()
        self._check_strays()
        found: list[Source] = []
        for part in PARTS:
            name = " in ".join(word for word in (part.kind, self.report.file) if word)
            fleet = Fleet(
                clusters=tuple(
                    _cluster(name, draft) for name, draft in sorted(self.drafts[part].items())
                ),
                told=self.times[part],
            )
            if part == SHORT:
                fleet = self._with_rest(fleet)
            if fleet != Fleet(()):
                found.append(Source(name or "fleet", part.trust, fleet, now_ms, part.whole))
        return tuple(found)

    def _with_rest(self, fleet: Fleet) -> Fleet:
        return Fleet(
            clusters=fleet.clusters,
            sets=_ordered(self.sets.values(), lambda each: each.name),
            bindings=_ordered(self.bindings, lambda each: (each.namespace, each.set)),
            links=_ordered(self.links.values(), lambda each: (each.source, each.target)),
            latencies=_ordered(
                self.latencies.values(), lambda each: (each.client_region, each.cluster)
            ),
            data=_ordered(self.data.values(), lambda each: (each.name, each.revision)),
            taken=_ordered(self.taken, lambda each: each.cluster),
            told=fleet.told,
        )

    def _settle_holdings(self) -> None:
        """A part of data becomes bytes by the size that another document gives."""
        held: dict[str, list[Held]] = {}
        revisions: dict[str, list[Data]] = {}
        for key in sorted(self.data):
            revisions.setdefault(key[0], []).append(self.data[key])
        for each in self.holdings:
            named = revisions.get(each.data, [])
            size, known = each.bytes, self._data_of(each, named)
            if known is not None:
                size = known.bytes if size is None else min(size, known.bytes)
                size = round(size * (1.0 if each.part is None else each.part))
            elif size is None:
                if each.data not in self._broken:
                    self._unknown_data(each, named)
                continue
            revision = known.revision if known is not None else each.revision
            one = Held(each.data, revision, size, pinned=each.pinned)
            held.setdefault(each.cluster, []).append(one)
        self.holdings = []
        for cluster, found in held.items():
            ordered = sorted(found, key=lambda each: (each.data, each.revision))
            self.draft(SHORT, cluster)["held"] = tuple(ordered)

    def _data_of(self, held: Holding, named: list[Data]) -> Data | None:
        if held.revision:
            return self.data.get((held.data, held.revision))
        return named[0] if len(named) == 1 else None

    def _unknown_data(self, held: Holding, named: list[Data]) -> None:
        name = f"{held.data}@{held.revision}" if held.revision else held.data
        message = f"nothing in the file says how large `{name[:80]}` is"
        listed = ", ".join(f"`{each.name}@{each.revision}`" for each in named[:10])
        remedy = f"name the revision: {listed}" if named else ""
        if not remedy and not self.report.full:
            remedy = did_you_mean(held.data, (name for name, _ in self.data))
        remedy = remedy or "say how much is held (`bytes: 40GB`), or add a document of `kind: Data`"
        self.report.problem("fleet/unknown-data", held.node, "holds", message, remedy)

    def _check_sets(self) -> None:
        """Whoever names a set means one that is there."""
        self.sets = self.implied_sets | self.sets
        whole = any(self.drafts[part] for part in PARTS) or self.sets
        asked = [(binding.set, node) for binding, node in self.bindings.items()]
        for name, node in [*asked, *self.asked_sets] if whole else ():
            if name in self.sets or name in self._broken:
                continue
            if name in BUILT_IN_SETS:
                self.sets[name] = _built_in(name)
                continue
            remedy = "" if self.report.full else did_you_mean(name, self.sets)
            self.report.problem(
                "fleet/unknown-set",
                node,
                "",
                f"there is no cluster set `{name[:60]}` in the file",
                remedy or "add a ManagedClusterSet of this name",
            )

    def _check_strays(self) -> None:
        there = {name: None for part in PARTS if part.whole for name in self.drafts[part]}
        for part in PARTS:
            for name in () if part.whole else self.drafts[part]:
                if name not in there and name not in self._broken:
                    message = f"{part.kind}: there is no cluster `{name[:60]}` in the file"
                    remedy = "" if self.report.told else did_you_mean(name, there)
                    self.report.notice("fleet/no-cluster", None, name, message, remedy)


def place_of(node: Node) -> Node:
    """Where a value stands, without all that is in it."""
    return Node("scalar", node.line, node.column)


def _ordered(values: Any, key: Callable[[Any], Any]) -> tuple[Any, ...]:
    return tuple(sorted(values, key=key))


def _cluster(name: str, draft: dict[str, Any]) -> Cluster:
    given = dict(draft)
    return Cluster(name, given.pop("driver", ""), given.pop("nodes", ()), **given)


def _join(draft: dict[str, Any], more: dict[str, Any]) -> None:
    for field, value in more.items():
        if isinstance(value, dict) and field in draft:
            draft[field].update(value)
        else:
            draft[field] = value


def _built_in(name: str) -> ClusterSet:
    return ClusterSet(name) if name == "default" else ClusterSet(name, False, Selector())
