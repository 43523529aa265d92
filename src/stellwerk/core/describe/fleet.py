"""Decides what a fleet file says: clusters with what is around them, and placements.

The way in is `read_fleet`. A file may hold objects of Open Cluster Management as they are and
documents of the short form beside each other, in any order. A document with a fault counts as not
there, except for what is only told; all others count.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec import Struct

from stellwerk.core.describe.bounds import Bounds
from stellwerk.core.describe.fields import did_you_mean
from stellwerk.core.describe.fleet_gather import Gathered, place_of
from stellwerk.core.describe.fleet_links import data, latencies, link, links
from stellwerk.core.describe.fleet_objects import (
    cluster_claim,
    cluster_profile,
    cluster_property,
    lease,
    managed_cluster,
    managed_cluster_set,
    score_object,
    set_binding,
)
from stellwerk.core.describe.fleet_short import API_VERSION, short_cluster
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.placements import API_VERSION as PLACEMENTS
from stellwerk.core.describe.placements import DEFAULT_NAMESPACE, read_placement
from stellwerk.core.describe.plain import node_of
from stellwerk.core.describe.reader import each_object
from stellwerk.core.describe.score_sources import score_source
from stellwerk.core.inventory.merge import Source, merge, with_global_set
from stellwerk.core.model.errors import Notice, Problem, SpecError
from stellwerk.core.model.fleet import Fleet
from stellwerk.core.model.placement import Placement
from stellwerk.core.model.quantity import MIB
from stellwerk.core.model.scoring import ScoreSource

FLEET_FILE = Bounds(
    text=256 * MIB,
    values=12_000_000,
    expanded=12_000_000,
    what="a fleet file",
    remedy="divide it into several files",
)
"""Room for 10,000 clusters with 200 labels each, three times over."""
_OCM = "cluster.open-cluster-management.io"
Handler = Callable[[Gathered, Report, Node], None]


class FleetRead(Struct, frozen=True):
    """What a file says: `fleet` is made of the `sources`, to be merged anew with others.

    `problems` are in the order of the file; what they are about isn't in the fleet. `notices` are
    about what was accepted and has no effect.
    """

    fleet: Fleet
    placements: tuple[Placement, ...] = ()
    problems: tuple[Problem, ...] = ()
    notices: tuple[Notice, ...] = ()
    sources: tuple[Source, ...] = ()
    score_sources: tuple[ScoreSource, ...] = ()

    def require(self) -> FleetRead:
        """Itself; raises SpecError if anything is wrong."""
        if self.problems:
            raise SpecError(self.problems)
        return self


def read_fleet(text: str, *, file: str = "", now_ms: int = 0) -> FleetRead:
    """The fleet and the placements of a file; `now_ms` is when its facts are told. Never raises."""
    reading = FleetReading(file)
    each_object(text, reading.report, FLEET_FILE, reading.take)
    return reading.finished(now_ms)


class FleetReading:
    """Reads the objects of a file one after the other."""

    def __init__(self, file: str) -> None:
        self.report = Report(file)
        self._gathered = Gathered(self.report)

    def take(self, node: Node) -> None:
        """One object, or a list of them."""
        _take(self._gathered, self.report, node)

    def finished(self, now_ms: int) -> FleetRead:
        """What all of it says."""
        return _finished(self._gathered, self.report, now_ms)


def fleet_of(objects: Iterable[Mapping[str, Any]], *, now_ms: int = 0) -> FleetRead:
    """The same of objects as an API server gives them; problems have no lines."""
    report = Report("")
    gathered = Gathered(report)
    for each in objects:
        _take(gathered, report, node_of(dict(each)))
    return _finished(gathered, report, now_ms)


def _finished(gathered: Gathered, report: Report, now_ms: int) -> FleetRead:
    sources = gathered.sources(now_ms)
    merged = merge(sources)
    _tell_contradictions(gathered, report, merged)
    placements = tuple(gathered.placements[key] for key in sorted(gathered.placements))
    namespaces = (DEFAULT_NAMESPACE, *(each.namespace for each in placements))
    problems = sorted(report.problems, key=lambda problem: (problem.line, problem.column))
    if report.uncounted:
        more = f"and {report.uncounted} more problems, which are not shown"
        problems.append(Problem("spec/more", more, file=report.file))
    return FleetRead(
        fleet=with_global_set(merged, namespaces),
        placements=placements,
        problems=tuple(problems),
        notices=(*report.notices, *report.ignored),
        sources=sources,
        score_sources=tuple(gathered.score_sources[key] for key in sorted(gathered.score_sources)),
    )


def _tell_contradictions(gathered: Gathered, report: Report, fleet: Fleet) -> None:
    """What documents say differently, with the place of one that isn't believed."""
    for each in fleet.contradictions:
        if report.told:
            return
        said = ", ".join(f"`{value[:60]}` by {speaker}" for speaker, value in each.said)
        overruled = next(speaker for speaker, _ in each.said if speaker != each.used)
        report.notice(
            "fleet/contradiction",
            gathered.speaks(overruled, each.cluster, each.fact),
            f"{each.cluster}.{each.fact}",
            f"`{each.fact}` of `{each.cluster}` is said differently: {said}",
            f"what {each.used} says is used; correct or remove the other",
        )


def _take(gathered: Gathered, report: Report, node: Node) -> None:
    """One object: it counts whole or not at all. A list of objects stands for its entries."""
    kind = node.get("kind")
    if node.is_null:
        return
    if kind is not None and (kind.text or "").endswith("List"):
        items = node.get("items")
        for each in items.items if items is not None else ():
            _take(gathered, report, each)
        return
    if gathered.overflows(node):
        return
    aside = Report(report.file, report.most - len(report.problems))
    one = Gathered(aside)
    handler = _handler(aside, node)
    if handler is not None:
        handler(one, aside, node)
    for problem in aside.problems:
        report.add(problem)
    report.uncounted += aside.uncounted
    report.notices += aside.notices[: _MOST_NOTICES - len(report.notices)]
    report.ignored += aside.ignored[: _MOST_NOTICES - len(report.ignored)]
    if handler is None:
        return
    if aside.uncounted or aside.problems:
        gathered.pass_over(_name_of(node))
    else:
        gathered.absorb(one)


_MOST_NOTICES = 100


def _name_of(node: Node) -> str:
    metadata = node.get("metadata")
    name = metadata.get("name") if metadata is not None else node.get("name")
    return name.text or "" if name is not None else ""


def _placement(gathered: Gathered, report: Report, node: Node) -> None:
    found = read_placement(report, node)
    if found is not None:
        gathered.first("Placement", found.namespace, found.name, node=node)
        gathered.placements[found.key] = found
        gathered.asked_sets += [(name, place_of(node)) for name in found.sets]


KINDS: dict[str, tuple[str, Handler]] = {
    "Cluster": (API_VERSION, short_cluster),
    "Link": (API_VERSION, link),
    "Links": (API_VERSION, links),
    "Latency": (API_VERSION, latencies),
    "Data": (API_VERSION, data),
    "Dataset": (API_VERSION, data),
    "Model": (API_VERSION, data),
    "ManagedCluster": (f"{_OCM}/v1", managed_cluster),
    "ManagedClusterSet": (f"{_OCM}/v1beta2", managed_cluster_set),
    "ManagedClusterSetBinding": (f"{_OCM}/v1beta2", set_binding),
    "ClusterClaim": (f"{_OCM}/v1alpha1", cluster_claim),
    "ClusterProperty": ("about.k8s.io/v1alpha1", cluster_property),
    "ClusterProfile": ("multicluster.x-k8s.io/v1alpha1", cluster_profile),
    "AddOnPlacementScore": (f"{_OCM}/v1alpha1", score_object),
    "Placement": (PLACEMENTS, _placement),
    "ScoreSource": (API_VERSION, score_source),
    "Lease": ("coordination.k8s.io/v1", lease),
}
"""What a fleet file may hold; of a group, later versions of a kind are read the same way."""
PASSED_OVER = ("PlacementDecision", "Namespace", "ManagedClusterAddOn", "ManifestWork")


def _handler(report: Report, node: Node) -> Handler | None:
    if node.kind != "map":
        message = f"this is {node.what()}, a fleet file holds objects"
        report.problem("spec/type", node, "", message, "begin with `apiVersion:` and `kind:`")
        return None
    kind, version = node.get("kind"), node.get("apiVersion")
    if kind is None or kind.text is None or version is None or version.text is None:
        missing = "kind" if kind is None or kind.text is None else "apiVersion"
        known = KINDS.get(kind.text or "") if kind is not None else None
        if missing == "kind":
            remedy = f"begin with `apiVersion: {API_VERSION}` and `kind: Cluster`, or another kind"
        else:
            remedy = f"add `apiVersion: {known[0] if known else API_VERSION}`"
        message = f"the object has no `{missing}`"
        report.problem("spec/missing", node, missing, message, remedy)
        return None
    entry = KINDS.get(kind.text)
    if entry is not None and _group(entry[0]) == _group(version.text):
        return entry[1]
    _report_kind(report, kind, version, entry)
    return None


def _group(version: str) -> str:
    return version.rpartition("/")[0]


def _report_kind(
    report: Report, kind: Node, version: Node, entry: tuple[str, Handler] | None
) -> None:
    known_groups = {_group(each): None for each, _ in KINDS.values()}
    if entry is not None:
        message = f"a {kind.text} of {version.short()} is unknown"
        report.problem("fleet/kind", version, "apiVersion", message, f"write `{entry[0]}`")
    elif kind.text in PASSED_OVER or _group(version.text or "") not in known_groups:
        report.ignore(kind, "kind", f"a {kind.text} says nothing about a fleet")
    else:
        message = f"there is no kind {kind.short()} in a fleet"
        remedy = did_you_mean(kind.text or "", KINDS) or f"kinds are {', '.join(KINDS)}"
        report.problem("fleet/kind", kind, "kind", message, remedy)
