"""Decides what a file says that is applied: fleets, placements and objects of queueing, mixed.

Each kind is read by who knows it. What nobody knows is told, with what there is.
"""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Struct

from stellwerk.core.describe.fields import did_you_mean
from stellwerk.core.describe.fleet import FLEET_FILE, FleetRead, FleetReading
from stellwerk.core.describe.fleet import KINDS as FLEET_KINDS
from stellwerk.core.describe.fleet import PASSED_OVER as FLEET_PASSED_OVER
from stellwerk.core.describe.fleet_objects import Meta
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.queues import KINDS as QUEUE_KINDS
from stellwerk.core.describe.queues import Taker
from stellwerk.core.describe.queues_checks import Gathered, Place, cross_check
from stellwerk.core.describe.reader import each_object
from stellwerk.core.model.errors import Notice, Problem
from stellwerk.core.model.queue_object import (
    SETTINGS,
    SETTINGS_NAME,
    SPACED,
    ObjectKey,
    QueueObject,
)
from stellwerk.core.model.queueing import QueueObjects

LIVE_KINDS = {
    "Workload": "work is submitted by `stw run`, not applied",
    "Node": "nodes are what the clusters are seen to have",
}
OBJECT_KINDS = tuple(kind for kind in QUEUE_KINDS if kind not in LIVE_KINDS)
"""Kinds of queueing that can be applied."""
KINDS = (*OBJECT_KINDS, *FLEET_KINDS)
_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_OURS = tuple(
    dict.fromkeys(
        version.rpartition("/")[0]
        for version in (*QUEUE_KINDS.values(), *(one for one, _ in FLEET_KINDS.values()))
        if "/" in version
    )
)


class AppliedRead(Struct, frozen=True):
    """What a file says. ``passed_over`` counts the objects that say nothing here.

    With one problem nothing of it counts. Problems are in the order of the file.
    """

    fleet: FleetRead
    objects: tuple[QueueObject, ...]
    places: dict[ObjectKey, Place]
    problems: tuple[Problem, ...]
    notices: tuple[Notice, ...]
    passed_over: int = 0


def read_applied(
    text: str, *, file: str = "", now_ms: int = 0, known: QueueObjects | None = None
) -> AppliedRead:
    """What a file says beside the objects of queueing that are ``known``. Never raises."""
    reading = _Reading(file)
    each_object(text, reading.fleet.report, FLEET_FILE, reading.take)
    return reading.finished(now_ms, known or QueueObjects())


class _Reading:
    def __init__(self, file: str) -> None:
        self.fleet = FleetReading(file)
        self.gathered = Gathered()
        self.queues = Taker(self.gathered, Report(file), self._keep)
        self.others = Report(file)
        self.objects: list[QueueObject] = []
        self.passed_over = 0

    def take(self, node: Node) -> None:
        """One object, to who knows its kind; a list stands for its entries."""
        kind, version = _text(node, "kind"), _text(node, "apiVersion")
        group = version.rpartition("/")[0]
        if kind.endswith("List"):
            items = node.get("items")
            for each in items.items if items is not None else ():
                self.take(each)
        elif kind in LIVE_KINDS:
            self._pass_over(node, f"a {kind} isn't taken over: {LIVE_KINDS[kind]}")
        elif kind in QUEUE_KINDS or "kueue" in group:
            self.queues.take(node)
        elif not kind or kind in FLEET_KINDS or kind in FLEET_PASSED_OVER or group in _OURS:
            self.fleet.take(node)
        else:
            close = did_you_mean(kind, KINDS, 0.8)
            what = f"a {kind} of {version or 'no version'} isn't known and is passed over"
            self._pass_over(node, f"{what}; {close}" if close else what)

    def _pass_over(self, node: Node, message: str) -> None:
        self.passed_over += 1
        self.others.ignore(node.get("kind") or node, "kind", message)

    def _keep(self, kind: str, about: Meta, node: Node) -> None:
        self.objects.append(_object_of(self.gathered, kind, about, node))

    def finished(self, now_ms: int, known: QueueObjects) -> AppliedRead:
        """What all of it says."""
        gathered, queues = self.gathered, self.queues
        gathered.know(known)
        cross_check(gathered)
        fleet = self.fleet.finished(now_ms)
        problems = [*fleet.problems, *queues.problems(), *gathered.problems]
        notices = [*fleet.notices, *queues.report.notices, *queues.report.ignored]
        return AppliedRead(
            fleet=fleet,
            objects=tuple(self.objects),
            places=places_of(gathered, self.objects),
            problems=tuple(sorted(problems, key=lambda one: (one.line, one.column))),
            notices=(*notices, *gathered.notices, *self.others.ignored),
            passed_over=self.passed_over,
        )


def places_of(gathered: Gathered, objects: list[QueueObject]) -> dict[ObjectKey, Place]:
    """Where objects stand in the file."""
    found = {}
    for one in objects:
        place = gathered.places.get((one.kind, one.namespace, one.name))
        if place is not None:
            found[one.key] = place
    return found


def _text(node: Node, key: str) -> str:
    found = node.get(key)
    return (found.text or "") if found is not None else ""


_FIELDS = {
    "ResourceFlavor": ("flavor", "flavors"),
    "ClusterQueue": ("queue", "queues"),
    "Cohort": ("cohort", "cohorts"),
    "LocalQueue": ("local_queue", "local_queues"),
    "WorkloadPriorityClass": ("priority_class", "priorities"),
    "PriorityClass": ("priority_class", "priorities"),
    "Topology": ("topology", "topologies"),
    "AdmissionCheck": ("check", "checks"),
}
"""Where what was read of an object is, and where it goes."""


def _object_of(gathered: Gathered, kind: str, about: Meta, node: Node) -> QueueObject:
    """The object that was read last."""
    name = about.name or SETTINGS_NAME
    namespace = (about.namespace or "default") if kind in SPACED else ""
    said: dict[str, Any] = {}
    if kind in _FIELDS:
        field, where = _FIELDS[kind]
        found = getattr(gathered, where)[-1]
        if kind == "LocalQueue":
            found = msgspec.structs.replace(found, consumed={})
        said[field] = found
    elif kind == SETTINGS:
        said["settings"] = gathered.settings
    else:
        said["labels"] = gathered.namespaces[name]
    written = _manifest(node.plain(), name, namespace, kind)
    manifest = msgspec.json.encode(written, order="sorted").decode()
    return QueueObject(kind=kind, name=name, namespace=namespace, manifest=manifest, **said)


def _manifest(plain: dict[str, Any], name: str, namespace: str, kind: str) -> dict[str, Any]:
    """What a person wrote of an object, without what an API server adds."""
    written = plain.pop("metadata", None) or {}
    plain.pop("status", None)
    head = {key: plain.pop(key) for key in ("apiVersion", "kind")}
    about: dict[str, Any] = {"name": name, **({"namespace": namespace} if namespace else {})}
    for key in ("labels", "annotations"):
        kept = {k: v for k, v in (written.get(key) or {}).items() if k != _LAST_APPLIED}
        if kept:
            about[key] = kept
    return {**head, **({} if kind == SETTINGS else {"metadata": about}), **plain}
