"""Finds what each alternative of a task would get on each cluster, from when on, and why it can't.

What other tasks of the same plan hold until they are over is room again then: a job may wait for
it. A service runs for good, so it gets what is free now.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.data.costing import usd_per_hour
from stellwerk.core.data.estimates import estimate_all
from stellwerk.core.data.ranking import Order, order
from stellwerk.core.data.sources import Grounds
from stellwerk.core.model.catalogue import render
from stellwerk.core.model.cluster import Cluster
from stellwerk.core.model.estimates import ClusterEstimate, JobProfile
from stellwerk.core.model.placement import Limits, Objective
from stellwerk.core.model.placing import Change, FailedRule
from stellwerk.core.model.reasons import Reason
from stellwerk.core.model.resources import (
    Allocation,
    Alternative,
    DeviceShare,
    GpuRequest,
    NodeAllocation,
    Request,
)
from stellwerk.core.place.candidates import answers_to, cannot
from stellwerk.core.place.filters_demand import DEVICES, KINDS, lacking, more, told
from stellwerk.core.place.freeing import fewest_cards
from stellwerk.core.place.room import Room, fit, gpu_name

HOST = ("CPUs", "memory", "disk")
"""What is asked for beside accelerators."""

Parts = tuple[NodeAllocation, ...]


class Booking(Struct, frozen=True):
    """What a task of this plan holds, in seconds from now; ``until_s`` infinite = for good."""

    task: str
    allocation: Allocation
    from_s: float = 0.0
    until_s: float = inf


class Option(Struct, frozen=True):
    """One alternative on one cluster: what it would be given, what that takes, what forbids it.

    ``parts`` are nodes and devices (of a service those of one replica), free ``from_s`` seconds
    from now, when the task ``after`` is over; ``devices`` counts those on a node by kind.
    """

    alternative: int
    request: Request
    estimate: ClusterEstimate
    usd_per_hour: float | None
    parts: Parts = ()
    devices: dict[str, int] = {}
    from_s: float = 0.0
    after: str = ""
    failed: tuple[FailedRule, ...] = ()


class Hall:
    """The clusters of a fleet with what is in use of each, and what this plan has given away.

    Nothing begins before ``begins``: so many seconds from now, when that task is over.
    """

    def __init__(
        self,
        clusters: Sequence[Cluster],
        taken: Iterable[Allocation],
        bookings: Sequence[Booking],
        begins: tuple[float, str] = (0.0, ""),
    ) -> None:
        self.clusters, self.begins = clusters, begins
        self._taken: dict[str, list[Allocation]] = {}
        self._booked: dict[str, list[Booking]] = {}
        for one in taken:
            self._taken.setdefault(one.cluster, []).append(one)
        for booking in bookings:
            self._booked.setdefault(booking.allocation.cluster, []).append(booking)

    def taken(self, name: str, from_s: float = 0.0) -> tuple[Allocation, ...]:
        """What is in use of a cluster at that time or later."""
        booked = (one.allocation for one in self._booked.get(name, ()) if one.until_s > from_s)
        return (*self._taken.get(name, ()), *booked)

    def ends(self, name: str) -> list[tuple[float, str]]:
        """When something of this plan is over on a cluster, and what."""
        return sorted((b.until_s, b.task) for b in self._booked.get(name, ()) if b.until_s < inf)

    def find(
        self, cluster: Cluster, request: Request, nodes: int, *, waits: bool
    ) -> tuple[Parts, float, str]:
        """Where a request fits first: parts, from when on, after what; no parts = nowhere."""
        ends = self.ends(cluster.name) if waits else []
        times = [self.begins, *(one for one in ends if one[0] > self.begins[0])]
        for from_s, after in times:
            parts = parts_of(cluster, self.taken(cluster.name, from_s), request, nodes)
            if parts:
                return parts, from_s, after
        return (), 0.0, ""


def parts_of(
    cluster: Cluster, taken: tuple[Allocation, ...], request: Request, nodes: int
) -> Parts:
    """Where on a cluster a request fits beside what is taken; none = it doesn't.

    Of a cluster whose nodes aren't known, parts say only how much it is.
    """
    if cluster.nodes:
        return fit(Room(cluster, taken), request, nodes) or ()
    if lacking(cluster, taken, request, nodes):
        return ()
    count = request.gpu.count if request.gpu is not None else 0
    part = NodeAllocation(
        node="",
        cpus_milli=request.cpus_milli,
        memory_bytes=request.memory_bytes,
        disk_bytes=request.disk_bytes,
        devices=tuple(DeviceShare(index, 0) for index in range(count)),
    )
    return tuple(replace(part, ranks=(rank,)) for rank in range(nodes))


def options_of(
    alternatives: Sequence[Alternative],
    jobs: Sequence[JobProfile],
    hall: Hall,
    grounds: Grounds,
    now_ms: int,
    *,
    service: bool,
) -> dict[str, tuple[Option, ...]]:
    """All alternatives on all clusters; ``jobs`` has the profile of each alternative."""
    found: dict[str, tuple[Option, ...]] = {}
    for cluster in hall.clusters:
        found[cluster.name] = tuple(
            _option(index, alternative, job, cluster, hall, grounds, now_ms, service=service)
            for index, (alternative, job) in enumerate(zip(alternatives, jobs, strict=True))
        )
    return found


def _option(
    index: int,
    alternative: Alternative,
    job: JobProfile,
    cluster: Cluster,
    hall: Hall,
    grounds: Grounds,
    now_ms: int,
    *,
    service: bool,
) -> Option:
    request = alternative.request
    nodes = 1 if service else job.nodes
    parts, from_s, after = hall.find(cluster, request, nodes, waits=not service)
    job = replace(job, devices=_devices(cluster, request, parts) or job.devices)
    waits = {cluster.name: max(from_s, cluster.wait_s)} if from_s else None
    (estimate,) = estimate_all(job, grounds, (cluster,), now_ms, waits)
    failed = [*_unmeant(cluster, alternative), *(_of_reason(one) for one in estimate.rejections)]
    if not parts:
        taken = hall.taken(cluster.name)
        failed += _lacks(cluster, taken, request, nodes)
    return Option(
        alternative=index,
        request=request,
        estimate=estimate,
        usd_per_hour=usd_per_hour(cluster, job.devices, job.nodes),
        parts=parts,
        devices=job.devices if parts else {},
        from_s=from_s,
        after=after,
        failed=tuple(failed),
    )


def _devices(cluster: Cluster, request: Request, parts: Parts) -> dict[str, int]:
    """The kinds of devices that a request for any kind would get, on each node as on the first."""
    if request.gpu is None or request.gpu.kind or not parts:
        return {}
    node = next((one for one in cluster.nodes if one.name == parts[0].node), None)
    if node is None:
        return {}
    kinds = {device.index: device.kind for device in node.devices}
    found: dict[str, int] = {}
    for share in parts[0].devices:
        kind = kinds[share.index]
        found[kind] = found.get(kind, 0) + 1
    return found


def _unmeant(cluster: Cluster, alternative: Alternative) -> list[FailedRule]:
    """Why a cluster is out whatever is free: another is named, or it can't do what is needed."""
    failed = []
    if not answers_to(cluster, alternative.infra):
        rule = f"infra is {alternative.infra}"
        failed.append(FailedRule("Infra", rule, f"it is {cluster.driver}/{cluster.name}"))
    return failed + [_of_reason(one, "Needs") for one in cannot(cluster, alternative)]


def _of_reason(reason: Reason, name: str = "Estimates") -> FailedRule:
    """A reason as a failed rule: what was found is its sentence, the change its remedy."""
    told_of = render(reason)
    change = Change("remedy", told_of.remedy, key=reason.code) if told_of.remedy else None
    return FailedRule(name, reason.code, told_of.sentence, change)


def _lacks(
    cluster: Cluster, taken: tuple[Allocation, ...], request: Request, nodes: int
) -> list[FailedRule]:
    rule = f"room for {nodes} times what is asked" if nodes > 1 else "room for what is asked"
    failed = []
    gpus = fewest_cards(cluster, taken, request, nodes)
    enough = f"gpus={gpus}" if gpus else ""
    if not cluster.nodes and not cluster.allocatable:
        say = Change("add", "say which nodes it has, in a fleet file")
        return [FailedRule("Demand", rule, "nobody says what it has", say)]
    for short in lacking(cluster, taken, request, nodes):
        found, change = told(short), Change("free", more(short), short.resource, effect=enough)
        if request.gpu is not None and short.largest <= 0 and short.resource not in HOST:
            wanted = cards(request.gpu)
            found = f"has {devices_of(cluster)}, asked is {wanted}"
            change = _to_have(cluster, request.gpu, short.resource)
        elif short.wanted > short.largest:
            change = Change("add", more(short).removesuffix(" free"), short.resource)
        failed.append(FailedRule("Demand", rule, found, change))
    return failed


def _to_have(cluster: Cluster, gpu: GpuRequest, resource: str) -> Change:
    """What a cluster without the right cards needs: some, or that somebody says which it has."""
    told_kinds = any(key in texts for texts in (cluster.claims, cluster.labels) for key in KINDS)
    if gpu.kind and not cluster.nodes and _total_devices(cluster) and not told_kinds:
        text = f"say which cards it has, if they are: claim {KINDS[0]}={gpu.kind}"
        return Change("claim", text, KINDS[0], gpu.kind)
    return Change("add", f"a node with {cards(gpu)}", resource)


def cards(gpu: GpuRequest) -> str:
    """So many of what is asked for: `4 A100-80GB`, `1 GPU of 24+ GiB`."""
    name = gpu_name(gpu)
    return f"1 {name.replace('GPUs', 'GPU', 1)}" if gpu.count == 1 else f"{gpu.count} {name}"


def devices_of(cluster: Cluster) -> str:
    """The accelerators of a cluster: `8 A100-80GB`, `18 nodes with 1 RTX3060`, `no accelerator`."""
    counts: dict[tuple[int, str], int] = {}
    for node in cluster.nodes:
        kinds: dict[str, int] = {}
        for device in node.devices:
            kinds[device.kind] = kinds.get(device.kind, 0) + 1
        for kind, count in kinds.items():
            counts[count, kind] = counts.get((count, kind), 0) + 1
    said = [
        f"{nodes} nodes with {count} {kind}" if nodes > 1 else f"{count} {kind}"
        for (count, kind), nodes in counts.items()
    ]
    said += [] if cluster.nodes else _total_devices(cluster)
    return " and ".join(said) or "no accelerator"


def _total_devices(cluster: Cluster) -> list[str]:
    """Of a cluster whose nodes aren't known: how many in all, and of which kind if that is said."""
    kinds = [
        texts[key] for texts in (cluster.claims, cluster.labels) for key in KINDS if key in texts
    ]
    kind = f" ({kinds[0]})" if kinds else ""
    amounts = {name: cluster.allocatable.get(name, 0) // 1000 for name in DEVICES}
    return [f"{count} {name}{kind}" for name, count in amounts.items() if count]


def best_option(
    options: Sequence[Option], objective: Objective, limits: Limits, now_ms: int, *, ordered: bool
) -> Option:
    """The alternative that counts for a cluster.

    Of those that may run there within the limits the best by the objective, or the first where the
    order matters; if none may, the one that lacks the least.
    """

    def key(one: Option) -> tuple[int, int, bool, Order, tuple[bool, float], int]:
        unturnable = sum(rule.change is None or rule.change.kind == "add" for rule in one.failed)
        wrong = len(one.failed) + beyond(one, limits, now_ms)
        fits = not wrong
        by: Order = order(_known(objective), one.estimate)
        price = (one.usd_per_hour is None, one.usd_per_hour or 0.0)
        if ordered and fits:
            by, price = (), (False, 0.0)
        return unturnable, wrong, not fits, by, price, one.alternative

    return min(options, key=key)


def _known(objective: Objective) -> Objective:
    """Scores compare clusters; between alternatives on one, what is cheaper is better."""
    return "cost" if objective == "score" else objective


def beyond(one: Option, limits: Limits, now_ms: int) -> int:
    """How many limits on money and time an option breaks; what isn't known breaks them."""
    cost, finish, price = one.estimate.cost.value, one.estimate.finish.value, one.usd_per_hour
    left_s = (limits.finish_by_ms - now_ms) / 1000
    return sum(
        (
            bool(limits.usd_max) and not _within(cost, limits.usd_max),
            bool(limits.finish_by_ms) and not _within(finish, left_s),
            bool(limits.usd_per_hour_max) and not _within(price, limits.usd_per_hour_max),
        )
    )


def _within(value: float | None, most: float) -> bool:
    return value is not None and value <= most
