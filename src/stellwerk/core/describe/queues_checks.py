"""Decides what objects of queueing say of one another: cycles, names that nobody has, twins.

A cycle of cohorts stops admission in all of it, so it is a problem. A name that isn't there is told
as a notice: objects may come in any order, and the queue just takes nothing in until it is.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from stellwerk.core.describe.fields import did_you_mean
from stellwerk.core.describe.fleet_objects import Meta
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.model.admission import AdmissionCheck
from stellwerk.core.model.errors import Notice, Problem
from stellwerk.core.model.queueing import (
    ClusterQueue,
    Cohort,
    LocalQueue,
    PriorityClass,
    QueuedWorkload,
    QueueObjects,
    QueueSettings,
    ResourceFlavor,
    Topology,
    TopologyNode,
)
from stellwerk.core.model.selectors import selects

DEEPEST = 32
MOST_NOTICES = 100
"""More than this nobody reads."""
Place = tuple[str, int, int]
"""File, line and column of an object."""


class Gathered:
    """What was read so far, with the places of all objects."""

    def __init__(self) -> None:
        self.flavors: list[ResourceFlavor] = []
        self.queues: list[ClusterQueue] = []
        self.cohorts: list[Cohort] = []
        self.local_queues: list[LocalQueue] = []
        self.priorities: list[PriorityClass] = []
        self.topologies: list[Topology] = []
        self.checks: list[AdmissionCheck] = []
        self.nodes: list[TopologyNode] = []
        self.namespaces: dict[str, dict[str, str]] = {}
        self.workloads: list[tuple[QueuedWorkload, str]] = []
        self.settings = QueueSettings()
        self.places: dict[tuple[str, str, str], Place] = {}
        self.known: dict[tuple[str, str, str], None] = {}
        self.problems: list[Problem] = []
        self.notices: list[Notice] = []

    def know(self, objects: QueueObjects) -> None:
        """Takes in what is there beside what was read; what was read of the same name holds."""
        kinds: tuple[tuple[str, Iterable[Any], list[Any]], ...] = (
            ("ResourceFlavor", objects.flavors, self.flavors),
            ("ClusterQueue", objects.queues, self.queues),
            ("Cohort", objects.cohorts, self.cohorts),
            ("LocalQueue", objects.local_queues, self.local_queues),
            ("WorkloadPriorityClass", objects.priority_classes, self.priorities),
            ("Topology", objects.topologies, self.topologies),
            ("AdmissionCheck", objects.checks, self.checks),
        )
        for kind, found, mine in kinds:
            for one in found:
                key = _key(kind, getattr(one, "namespace", ""), one.name)
                if key not in self.places:
                    self.places[key] = "", 0, 0
                    self.known[key] = None
                    mine.append(one)
        self.namespaces = {**objects.namespaces, **self.namespaces}

    def first(self, report: Report, kind: str, about: Meta, node: Node) -> bool:
        """Whether an object is the first of its name; else it is told where the first one is."""
        key = _key(kind, about.namespace, about.name or "")
        known = self.places.get(key)
        if known is None or known[1] < 0:
            self.places[key] = report.file, node.line, node.column
            return True
        file = f"{known[0]}:" if known[0] and known[0] != report.file else "line "
        message = f"there is a {kind} `{about.name}` already, in {file}{known[1]}"
        report.problem("queue/duplicate", node, "metadata.name", message, "remove one of the two")
        return False

    def failed(self, kind: str, namespace: str, name: str) -> None:
        """An object with a fault: what names it isn't told that it is missing."""
        self.places.setdefault(_key(kind, namespace, name), ("", -1, -1))

    def has(self, kind: str, name: str, namespace: str = "") -> bool:
        """Whether there is such an object, readable or not."""
        return _key(kind, namespace, name) in self.places

    def names(self, kind: str, namespace: str = "") -> list[str]:
        """The names of all objects of a kind."""
        return [key[2] for key in self.places if key[0] == kind and key[1] in {"", namespace}]

    def problem(
        self, key: tuple[str, str, str], code: str, path: str, message: str, help: str
    ) -> None:
        """Something is wrong with an object that was read."""
        file, line, column = self.places.get(key, ("", 0, 0))
        self.problems.append(Problem(code, message, help, file, max(0, line), max(0, column), path))

    def notice(
        self, key: tuple[str, str, str], code: str, path: str, message: str, help: str
    ) -> None:
        """Something that a person should know of an object that was read."""
        if key in self.known or len(self.notices) >= MOST_NOTICES:
            return
        _, line, column = self.places.get(key, ("", 0, 0))
        self.notices.append(Notice(code, message, help, path, max(0, line), max(0, column)))

    def objects(self) -> QueueObjects:
        """All of it, workloads with the priority of their class."""
        values = {one.name: one.value for one in self.priorities}
        workloads = [
            msgspec.structs.replace(one, priority=values[name])
            if name in values and not one.priority
            else one
            for one, name in self.workloads
        ]
        return QueueObjects(
            flavors=tuple(self.flavors),
            queues=tuple(self.queues),
            cohorts=tuple(self.cohorts),
            local_queues=tuple(self.local_queues),
            priority_classes=tuple(self.priorities),
            checks=tuple(self.checks),
            topologies=tuple(self.topologies),
            nodes=tuple(self.nodes),
            namespaces=self.namespaces,
            workloads=tuple(workloads),
            settings=self.settings,
        )


_SPACED = ("LocalQueue", "Workload")


def _key(kind: str, namespace: str, name: str) -> tuple[str, str, str]:
    return kind, (namespace or "default") if kind in _SPACED else "", name


def cross_check(gathered: Gathered) -> None:
    """Everything that objects say of others."""
    _cycles(gathered)
    for one in gathered.flavors:
        if one.topology:
            _asks(
                gathered, ("ResourceFlavor", "", one.name), "topologyName", "Topology", one.topology
            )
    for queue in gathered.queues:
        key = ("ClusterQueue", "", queue.name)
        for index, group in enumerate(queue.groups):
            for at, each in enumerate(group.flavors):
                path = f"resourceGroups[{index}].flavors[{at}].name"
                _asks(gathered, key, path, "ResourceFlavor", each.flavor)
        _namespaces(gathered, key, queue)
    for local in gathered.local_queues:
        key = ("LocalQueue", local.namespace, local.name)
        _asks(gathered, key, "clusterQueue", "ClusterQueue", local.queue)
    for workload, priority in gathered.workloads:
        key = ("Workload", workload.namespace, workload.name)
        if not workload.local_queue:
            message = f"the workload `{workload.key}` names no queue, so it never starts"
            gathered.notice(key, "queue/nowhere", "spec.queueName", message, "add `queueName`")
        else:
            _asks(
                gathered, key, "queueName", "LocalQueue", workload.local_queue, workload.namespace
            )
        if priority and not workload.priority and not _has_class(gathered, priority):
            _asks(gathered, key, "priorityClassRef", "WorkloadPriorityClass", priority)


def problems_together(objects: QueueObjects) -> list[Problem]:
    """What is wrong between objects that are each right by themselves."""
    gathered = Gathered()
    gathered.know(objects)
    cross_check(gathered)
    return gathered.problems


def _has_class(gathered: Gathered, name: str) -> bool:
    return gathered.has("WorkloadPriorityClass", name) or gathered.has("PriorityClass", name)


def _asks(
    gathered: Gathered,
    key: tuple[str, str, str],
    field: str,
    kind: str,
    name: str,
    namespace: str = "",
) -> None:
    if gathered.has(kind, name, namespace) or len(gathered.notices) >= MOST_NOTICES:
        return
    if key in gathered.known:
        return
    inside = f" in the namespace `{namespace}`" if namespace else ""
    message = f"{key[0]} `{key[2]}` names the {kind} `{name}`, which isn't there{inside}"
    remedy = did_you_mean(name, gathered.names(kind, namespace)) or f"add the {kind}"
    gathered.notice(key, "queue/points-nowhere", f"spec.{field}", message, remedy)


def _namespaces(gathered: Gathered, key: tuple[str, str, str], queue: ClusterQueue) -> None:
    path = "spec.namespaceSelector"
    if queue.namespaces is None:
        message = f"ClusterQueue `{queue.name}` has no namespace selector, so it takes nothing in"
        remedy = "write `namespaceSelector: {}` for all namespaces"
        gathered.notice(key, "queue/no-namespace", path, message, remedy)
    elif gathered.namespaces and not any(
        selects(queue.namespaces, labels) for labels in gathered.namespaces.values()
    ):
        message = f"ClusterQueue `{queue.name}` selects none of the namespaces that are there"
        remedy = "compare it with the labels of the namespaces"
        gathered.notice(key, "queue/no-namespace", path, message, remedy)


def _cycles(gathered: Gathered) -> None:
    """Cohorts that are above themselves, each cycle told once; and trees that are too deep."""
    parents = {one.name: one.parent for one in gathered.cohorts}
    done: dict[str, None] = {}
    for start in parents:
        trail: dict[str, None] = {}
        name = start
        while name in parents and name not in done and name not in trail:
            trail[name] = None
            name = parents[name]
        if name in trail:
            way = list(trail)[list(trail).index(name) :]
            shown = [*way, name] if len(way) < 8 else [*way[:4], "…", way[-1], name]
            message = f"cohorts are each other's parent: {' -> '.join(shown)}"
            remedy = "remove one `parentName`; until then nothing below them is admitted"
            read = (one for one in way if ("Cohort", "", one) not in gathered.known)
            key = ("Cohort", "", next(read, name))
            gathered.problem(key, "queue/cohort-cycle", "spec.parentName", message, remedy)
        done.update(trail)
    _depths(gathered, parents)


def _depths(gathered: Gathered, parents: dict[str, str]) -> None:
    for name in _too_deep(parents):
        message = f"the cohort `{name}` has more than {DEEPEST} cohorts above it"
        key = ("Cohort", "", name)
        gathered.problem(key, "queue/too-deep", "spec.parentName", message, "flatten the tree")
        return


def _too_deep(parents: dict[str, str]) -> Iterable[str]:
    for start in parents:
        name, depth = start, 0
        while name in parents and parents[name] and depth <= DEEPEST:
            name, depth = parents[name], depth + 1
        if depth > DEEPEST and not _loops(start, parents):
            yield start


def _loops(start: str, parents: dict[str, str]) -> bool:
    seen: dict[str, None] = {}
    name = start
    while name in parents and name not in seen:
        seen[name] = None
        name = parents[name]
    return name in seen
