"""What a cycle works on: queues with their groups, who waits in them, and who holds their quota."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from stellwerk.core.model.queueing import (
    ClusterQueue,
    Pair,
    PodSet,
    PodSetAssignment,
    QueuedWorkload,
    ResourceFlavor,
    ResourceGroup,
)
from stellwerk.core.queue.topology import Place, Room
from stellwerk.core.queue.tree import QuotaNode

PODS = "pods"
Tried = dict[tuple[int, int], int]
"""By pod set and resource group: the last flavor tried; absent = all of them."""


class Mode(IntEnum):
    """What a flavor would come to, worst first."""

    NO_FIT = 0
    NO_CANDIDATES = 1
    PREEMPT = 2
    RECLAIM = 3
    FIT = 4


class QueueState:
    """A cluster queue: its node in the tree and what follows from its spec."""

    def __init__(self, spec: ClusterQueue, node: QuotaNode, flavors: Mapping[str, ResourceFlavor]):
        self.spec = spec
        self.name = spec.name
        self.node = node
        self.group_of: dict[str, int] = {}
        self.keys: list[dict[str, None]] = []
        for index, group in enumerate(spec.groups):
            self.group_of.update(dict.fromkeys(group.covered, index))
            self.keys.append(_label_keys(group, flavors))
        self.holders: dict[str, Holder] = {}
        self.inactive: tuple[str, str] | None = None
        self.only_packs = all(
            flavors[one.flavor].topology for group in spec.groups for one in group.flavors
            if one.flavor in flavors
        )  # fmt: skip

    @property
    def may_preempt(self) -> bool:
        """Whether its workloads may evict anybody at all."""
        return self.spec.preemption.within != "Never" or self.spec.preemption.reclaim != "Never"

    def requests(self, pods: PodSet, count: int) -> dict[str, int]:
        """What a pod set asks for in all; the number of pods counts where a group covers it.

        Nothing of a resource that no group covers is no request.
        """
        covered = self.group_of
        found = {
            name: amount * count
            for name, amount in sorted(pods.requests.items())
            if name != PODS and (amount or name in covered)
        }
        if PODS in covered:
            found[PODS] = count * 1000
        return found


def _label_keys(group: ResourceGroup, flavors: Mapping[str, ResourceFlavor]) -> dict[str, None]:
    known = (flavors[one.flavor].labels for one in group.flavors if one.flavor in flavors)
    return {key: None for labels in known for key in labels}


class Holder:
    """A workload that holds quota, with what it uses and where its pods are.

    ``spared`` = it may not be evicted now, whatever the rules; ``lost`` is what evicting it would
    throw away, to choose by among equals. Both are for live work alone.
    """

    __slots__ = (
        "evicted", "key", "lost", "places", "priority", "queue", "queued_ms", "reserved_ms",
        "spared", "uid", "usage", "workload",
    )  # fmt: skip

    def __init__(
        self,
        workload: QueuedWorkload,
        queue: QueueState,
        usage: dict[Pair, int],
        places: tuple[Place, ...],
    ) -> None:
        self.key = workload.key
        self.workload = workload
        self.queue = queue
        self.usage = usage
        self.places = places
        self.priority = workload.priority
        self.queued_ms = workload.queued_ms or workload.created_ms
        self.uid = workload.uid or workload.key
        self.evicted = workload.evicted
        self.reserved_ms = workload.admission.reserved_ms if workload.admission else 0
        self.spared = False
        self.lost = 0

    def uses(self, pairs: Iterable[Pair]) -> bool:
        """Whether it uses any of the pairs."""
        usage = self.usage
        for pair in pairs:  # noqa: SIM110 - asked of every holder in a search
            if usage.get(pair):
                return True
        return False


class Waiter:
    """A workload that waits in a queue; ``order`` is its key in it, lowest first.

    For those that are ``alike`` the same is found in the same state.
    """

    __slots__ = (
        "alike", "key", "local_queue", "order", "parked", "queue", "sticky", "tried", "workload",
    )  # fmt: skip

    def __init__(self, workload: QueuedWorkload, queue: QueueState, shape: int = 0) -> None:
        by_age = queue.spec.preemption.within == "LowerOrNewerEqualPriority"
        age = (workload.queued_ms or workload.created_ms) if by_age else 0
        self.alike = queue.name, shape, workload.priority, age
        self.key = workload.key
        self.workload = workload
        self.queue = queue
        self.local_queue = f"{workload.namespace}/{workload.local_queue}"
        self.tried: Tried = {}
        self.sticky = False
        self.parked = False
        self.order = self._order()

    def _order(self) -> tuple[int, int, int, str]:
        one = self.workload
        queued_ms = one.queued_ms or one.created_ms
        return (0 if self.sticky else 1, -one.priority, queued_ms, one.uid or one.key)

    def stick(self, sticky: bool) -> None:
        """Puts it before all others of its queue, or back: it waits for its victims to go."""
        self.sticky = sticky
        self.order = self._order()


class Verdict(NamedTuple):
    """What came of one flavor for one pod set and resource, with the numbers behind it.

    ``code``: fits, borrows, short, exceeds, taint, selector, missing, topology, no_topology,
    only_topology, uncovered. For a topology ``available`` of ``most`` pods fit; else the numbers
    are amounts, with what pod sets before it in the workload take of the same.
    """

    pod_set: str
    flavor: str
    resource: str
    code: str
    wanted: int = 0
    available: int = 0
    most: int = 0
    note: str = ""
    mode: Mode = Mode.NO_FIT


class PodSetFit(NamedTuple):
    """Flavors for one pod set: by resource, with what each comes to."""

    pods: PodSet
    size: int
    requests: dict[str, int]
    flavors: dict[str, str]
    modes: dict[str, Mode]
    places: tuple[Place, ...] = ()

    def assignment(self, rooms: Mapping[str, Room]) -> PodSetAssignment:
        """As it is stored; a host is known by its name alone."""
        domains = {",".join(rooms[one.flavor].short(one.domain)): one.pods for one in self.places}
        return PodSetAssignment(self.pods.name, self.flavors, self.size, domains)


class Assigned:
    """Flavors for a whole workload: the worst of its parts, and how far it would borrow.

    ``said`` is what is told of it when it waits, made once.
    """

    def __init__(self, queue: QueueState) -> None:
        self.queue = queue
        self.pod_sets: list[PodSetFit] = []
        self.usage: dict[Pair, int] = {}
        self.mode = Mode.FIT
        self.level = 0
        self.tried: Tried = {}
        self.verdicts: list[Verdict] = []
        self.said: tuple[tuple[Verdict, ...], str] | None = None

    @property
    def places(self) -> tuple[Place, ...]:
        """All pods with their domains."""
        return tuple(place for one in self.pod_sets for place in one.places)

    @property
    def short(self) -> dict[Pair, None]:
        """The pairs that somebody would have to be evicted from."""
        return {
            Pair(flavor, resource): None
            for one in self.pod_sets
            for resource, flavor in one.flavors.items()
            if one.modes[resource] < Mode.FIT
        }


class World(NamedTuple):
    """What all parts of a cycle look things up in."""

    flavors: Mapping[str, ResourceFlavor]
    rooms: Mapping[str, Room]
    queues: Mapping[str, QueueState]
    past_use: Mapping[str, float]
    """Past use by local queue (namespace/name), decayed and weighed; empty where it isn't kept."""
    gone: dict[str, Holder] | None = None
    """The holders that a trial acts as if they were gone, where somebody wants to know."""
    lenders: dict[str, tuple[int, Pair, list[Holder], list[Holder]]] | None = None
    """By cohort: who holds a pair in a queue that borrows it, in order, those on their way out and
    the others, as of a version of its tree. None where who may be evicted changes by itself."""

    def drop(self, holder: Holder) -> None:
        """Acts as if a holder were gone."""
        if self.gone is not None:
            self.gone[holder.key] = holder
        holder.queue.node.remove(holder.usage)
        for place in holder.places:
            self.rooms[place.flavor].take(place, -1)

    def put(self, holder: Holder) -> None:
        """Puts back one that was dropped, or counts a new one."""
        if self.gone is not None:
            self.gone.pop(holder.key, None)
        holder.queue.node.add(holder.usage)
        for place in holder.places:
            self.rooms[place.flavor].take(place)
