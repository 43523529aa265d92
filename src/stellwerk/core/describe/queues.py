"""Decides what files of Kueue's objects say: everything that queueing works with.

The way in is `read_queues`. Objects may come in any order and over several files; one with a fault
counts as not there, and all others count. What one object says of another is looked at when all
are read (`queues_checks`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.describe.aging import read_aging
from stellwerk.core.describe.bounds import Bounds
from stellwerk.core.describe.budgets import read_budgets
from stellwerk.core.describe.derived_quota import read_derived
from stellwerk.core.describe.fields import Found, Reader, did_you_mean, read_map
from stellwerk.core.describe.fleet_amounts import moment
from stellwerk.core.describe.fleet_objects import Meta, meta
from stellwerk.core.describe.nodes import Node, Report
from stellwerk.core.describe.queues_checks import MOST_NOTICES, Gathered, cross_check
from stellwerk.core.describe.queues_objects import (
    CHECK,
    COHORT,
    FLAVOR,
    LOCAL_QUEUE,
    QUEUE,
    TOPOLOGY,
    admission_check,
    cluster_queue,
    cohort,
    flavor,
    local_queue,
    priority_class,
    topology,
)
from stellwerk.core.describe.queues_workloads import (
    SPEC,
    configuration,
    topology_node,
    workload,
)
from stellwerk.core.describe.reader import each_object
from stellwerk.core.model.errors import Notice, Problem, SpecError
from stellwerk.core.model.quantity import MIB, BadQuantity, parse_duration
from stellwerk.core.model.queueing import PastUse, QueueObjects, QueueSettings, Requeuing

QUEUE_FILE = Bounds(
    text=512 * MIB,
    values=24_000_000,
    expanded=24_000_000,
    what="a file of queues",
    remedy="divide it into several files",
)
KUEUE = "kueue.x-k8s.io/v1beta2"
KINDS = {
    "ResourceFlavor": KUEUE,
    "ClusterQueue": KUEUE,
    "Cohort": KUEUE,
    "LocalQueue": KUEUE,
    "WorkloadPriorityClass": KUEUE,
    "Topology": KUEUE,
    "AdmissionCheck": KUEUE,
    "Workload": KUEUE,
    "Configuration": "config.kueue.x-k8s.io/v1beta2",
    "PriorityClass": "scheduling.k8s.io/v1",
    "Node": "v1",
    "Namespace": "v1",
}
"""What may be in a file, with the version in which it is written best."""
PASSED_OVER = (
    "ProvisioningRequestConfig",
    "MultiKueueConfig",
    "MultiKueueCluster",
)


class QueuesRead(Struct, frozen=True):
    """What files say. `problems` stand in their order; what they are about isn't in `objects`.

    `notices` are about what was accepted, and has no effect or not the one that was meant.
    """

    objects: QueueObjects
    problems: tuple[Problem, ...] = ()
    notices: tuple[Notice, ...] = ()

    def require(self) -> QueuesRead:
        """Itself; raises SpecError if anything is wrong."""
        if self.problems:
            raise SpecError(self.problems)
        return self


def read_queues(files: Iterable[tuple[str, str]]) -> QueuesRead:
    """What files (name, text) say together. Never raises."""
    gathered = Gathered()
    problems: list[Problem] = []
    notices: list[Notice] = []
    for name, text in files:
        report = Report(name)
        taker = Taker(gathered, report)
        each_object(text, report, QUEUE_FILE, taker.take)
        problems += taker.problems()
        notices += [*report.notices, *report.ignored]
    cross_check(gathered)
    problems += gathered.problems
    notices += gathered.notices
    return QueuesRead(gathered.objects(), tuple(problems), tuple(notices[:MOST_NOTICES]))


def _uncounted(report: Report) -> list[Problem]:
    if not report.uncounted:
        return []
    more = f"and {report.uncounted} more problems, which are not shown"
    return [Problem("spec/more", more, file=report.file)]


def no_note(_kind: str, _about: Meta, _node: Node) -> None:
    """What is done with an object that counts, where nothing more is."""


class Taker:
    """Takes the objects of one file. ``note`` is told of each that counts."""

    def __init__(
        self,
        gathered: Gathered,
        report: Report,
        note: Callable[[str, Meta, Node], None] = no_note,
    ) -> None:
        self.gathered = gathered
        self.report = report
        self.note = note

    def problems(self) -> list[Problem]:
        """What is wrong in the file, in its order."""
        found = sorted(self.report.problems, key=lambda one: (one.line, one.column))
        return [*found, *_uncounted(self.report)]

    def take(self, node: Node) -> None:
        """One object counts whole or not at all; a list stands for its entries."""
        if node.is_null:
            return
        kind = node.get("kind")
        if kind is not None and (kind.text or "").endswith("List"):
            items = node.get("items")
            for each in items.items if items is not None else ():
                self.take(each)
            return
        name = self._kind(node)
        if not name:
            return
        aside = Report(self.report.file, self.report.most - len(self.report.problems))
        about = meta(aside, node) if name != "Configuration" else Meta("", "", {}, {}, False)
        keep = self._read(aside, name, node, about)
        for problem in aside.problems:
            self.report.add(problem)
        self.report.uncounted += aside.uncounted
        if aside.problems or aside.uncounted or keep is None:
            if about.name:
                self.gathered.failed(name, about.namespace, about.name)
            return
        if name == "Configuration" or self.gathered.first(self.report, name, about, node):
            keep()
            if not self.report.told:
                self.report.notices += aside.notices
            self.note(name, about, node)

    def _kind(self, node: Node) -> str:
        report = self.report
        if node.kind != "map":
            message = f"this is {node.what()}, the file holds objects"
            report.problem("spec/type", node, "", message, "begin with `apiVersion:` and `kind:`")
            return ""
        kind, version = node.get("kind"), node.get("apiVersion")
        if kind is None or kind.text is None or version is None or version.text is None:
            missing = "kind" if kind is None or kind.text is None else "apiVersion"
            known = KINDS.get(kind.text or "") if kind is not None else None
            remedy = f"add `apiVersion: {known or KUEUE}`" if missing == "apiVersion" else ""
            message = f"the object has no `{missing}`"
            report.problem("spec/missing", node, missing, message, remedy)
            return ""
        wanted = KINDS.get(kind.text)
        if wanted is not None and _group(wanted) == _group(version.text):
            return kind.text
        if wanted is not None:
            message = f"a {kind.text} of {version.short()} is unknown"
            report.problem("queue/kind", version, "apiVersion", message, f"write `{wanted}`")
        elif kind.text in PASSED_OVER or _group(version.text) != _group(KUEUE):
            report.ignore(kind, "kind", f"a {kind.text} says nothing about who is next")
        else:
            remedy = did_you_mean(kind.text, KINDS) or f"kinds are {', '.join(KINDS)}"
            message = f"there is no kind {kind.short()} in queueing"
            report.problem("queue/kind", kind, "kind", message, remedy)
        return ""

    def _read(
        self, report: Report, kind: str, node: Node, about: Meta
    ) -> Callable[[], None] | None:
        """What an object says, as what is to be done with it if it counts."""
        gathered, name = self.gathered, about.name or ""
        if kind in _SPECS:
            return self._with_spec(report, kind, node, about)
        if kind in {"WorkloadPriorityClass", "PriorityClass"}:
            found = priority_class(report, node, name)
            return None if found is None else lambda: gathered.priorities.append(found)
        if kind == "Node":
            host = topology_node(report, about, node.get("spec"), node.get("status"))
            return lambda: gathered.nodes.append(host)
        if kind == "Namespace":
            labels = {"kubernetes.io/metadata.name": name, **about.labels}
            return lambda: gathered.namespaces.update({name: labels})
        settings = _settings(report, configuration(report, node))
        return lambda: setattr(gathered, "settings", settings)

    def _with_spec(
        self, report: Report, kind: str, node: Node, about: Meta
    ) -> Callable[[], None] | None:
        gathered, name = self.gathered, about.name or ""
        spec = _spec(report, node, _SPECS[kind], needed=kind in _NEED_SPEC)
        namespace, status = about.namespace or "default", node.get("status")
        match kind:
            case "ResourceFlavor":
                kept = flavor(report, name, spec)
                return None if kept is None else lambda: gathered.flavors.append(kept)
            case "ClusterQueue":
                budgets = read_budgets(report, node, about.annotations)
                aging = read_aging(report, node, about.annotations)
                queue = replace(cluster_queue(report, name, spec, budgets), aging=aging)
                own = read_derived(report, node, about.annotations, queue)
                return lambda: gathered.queues.append(own)
            case "Cohort":
                group = cohort(report, name, spec)
                return lambda: gathered.cohorts.append(group)
            case "LocalQueue":
                local = local_queue(report, namespace, name, spec, status)
                return None if local is None else lambda: gathered.local_queues.append(local)
            case "AdmissionCheck":
                check = admission_check(report, node, name, spec, about.annotations)
                return None if check is None else lambda: gathered.checks.append(check)
            case "Topology":
                levels = topology(report, name, spec)
                return lambda: gathered.topologies.append(levels)
            case _:
                created_ms, uid = _created(report, node)
                found = workload(report, about, created_ms, uid, spec, status)
                return None if found is None else lambda: gathered.workloads.append(found)


_SPECS: dict[str, dict[str, Reader]] = {
    "ResourceFlavor": FLAVOR,
    "ClusterQueue": QUEUE,
    "Cohort": COHORT,
    "LocalQueue": LOCAL_QUEUE,
    "Topology": TOPOLOGY,
    "AdmissionCheck": CHECK,
    "Workload": SPEC,
}
_NEED_SPEC = {"ClusterQueue": (), "LocalQueue": ("clusterQueue",), "Topology": ("levels",),
              "AdmissionCheck": ("controllerName",),
              "Workload": ("podSets",)}  # fmt: skip


def _group(version: str) -> str:
    return version.rpartition("/")[0]


def _spec(report: Report, node: Node, fields: dict[str, Reader], *, needed: bool) -> Found:
    spec = node.get("spec")
    if spec is None:
        if needed:
            report.problem("spec/missing", node, "spec", "the object has no `spec`")
        return Found(node)
    kind = node.get("kind")
    required = _NEED_SPEC.get((kind.text or "") if kind is not None else "", ())
    return read_map(report, spec, "spec", fields, required=required)


def _created(report: Report, node: Node) -> tuple[int, str]:
    metadata = node.get("metadata")
    if metadata is None:
        return 0, ""
    created, uid = metadata.get("creationTimestamp"), metadata.get("uid")
    at = moment(report, created, "metadata.creationTimestamp") if created is not None else 0
    return at or 0, (uid.text or "") if uid is not None else ""


NO_EFFECT = ("blockAdmission", "recoveryTimeout")
"""What of `waitForPodsReady` changes nothing here."""


def _settings(report: Report, found: Found) -> QueueSettings:
    settings = QueueSettings()
    fair, past = found.get("fairSharing"), found.get("admissionFairSharing")
    if fair is not None and fair.get("enable", True):
        given = fair.get("preemptionStrategies")
        settings = msgspec.structs.replace(
            settings,
            fair_sharing=True,
            strategies=tuple(given) if given else settings.strategies,
        )
    ready = found.get("waitForPodsReady")
    for name in NO_EFFECT if ready is not None else ():
        if ready.get(name, False) and ready.get(name) != "false":
            path = f"waitForPodsReady.{name}"
            message = "this has no effect here: work starts as soon as it has quota and room"
            report.notice("spec/ignored", ready.place(name), path, message)
    if ready is not None and ready.get("timeout") is not None:
        within_ms = _span(report, ready, "waitForPodsReady", "timeout", "0s")
        settings = msgspec.structs.replace(settings, ready_within_ms=within_ms)
    strategy = ready.get("requeuingStrategy") if ready is not None else None
    if strategy is not None:
        rules = Requeuing(
            base_ms=strategy.get("backoffBaseSeconds", 60) * 1000,
            most_ms=strategy.get("backoffMaxSeconds", 3600) * 1000,
            limit=strategy.get("backoffLimitCount"),
            to_the_back=strategy.get("timestamp", "Eviction") == "Eviction",
        )
        settings = msgspec.structs.replace(settings, requeuing=rules)
    if past is None:
        return settings
    times = {
        name: _span(report, past, "admissionFairSharing", name, otherwise)
        for name, otherwise in (("usageHalfLifeTime", "0s"), ("usageSamplingInterval", "5m"))
    }
    weights = {name: value / 1000 for name, value in (past.get("resourceWeights") or {}).items()}
    use = PastUse(times["usageHalfLifeTime"], times["usageSamplingInterval"], weights)
    return msgspec.structs.replace(settings, past_use=use)


def _span(report: Report, found: Found, where: str, name: str, otherwise: str) -> int:
    span = parse_duration(found.get(name) or otherwise)
    if isinstance(span, BadQuantity):
        path = f"{where}.{name}"
        report.problem("spec/value", found.place(name), path, span.message, span.help)
        return 0
    return span
