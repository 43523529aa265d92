"""Short ways to write queues and workloads for tests; amounts are whole units of one flavor."""

from stellwerk.core.model.queueing import (
    Admission,
    ClusterQueue,
    FlavorQuotas,
    PodSet,
    PodSetAssignment,
    Preemption,
    QueuedWorkload,
    QueueObjects,
    Quota,
    ResourceFlavor,
    ResourceGroup,
)
from stellwerk.core.model.selectors import Selector

NOW_MS = 1_800_000_000_000


def quota(nominal: int, borrowing: int | None = None, lending: int | None = None) -> Quota:
    """Whole units; None = no limit."""
    borrows, lends = (None if one is None else one * 1000 for one in (borrowing, lending))
    return Quota(nominal * 1000, borrows, lends)


def group(*flavors: tuple[str, Quota], resource: str = "cpu") -> tuple[ResourceGroup, ...]:
    """One group with one resource."""
    quotas = tuple(FlavorQuotas(name, {resource: one}) for name, one in flavors)
    return (ResourceGroup((resource,), quotas),)


def queue(
    name: str, cpus: int | Quota, cohort: str = "", preemption: Preemption | None = None
) -> ClusterQueue:
    """A queue with so many CPUs of the flavor `std`, open to all namespaces."""
    given = quota(cpus) if isinstance(cpus, int) else cpus
    return ClusterQueue(
        name=name,
        groups=group(("std", given)),
        cohort=cohort,
        namespaces=Selector(),
        preemption=preemption or Preemption(),
    )


def objects(*queues: ClusterQueue) -> QueueObjects:
    """These queues and the flavor `std`."""
    return QueueObjects(flavors=(ResourceFlavor("std"),), queues=queues)


def waits(name: str, queue: str, cpus: int, priority: int = 0, age_s: int = 60) -> QueuedWorkload:
    """A workload of one pod that waits."""
    return QueuedWorkload(
        namespace="team",
        name=name,
        pod_sets=(PodSet("main", 1, {"cpu": cpus * 1000}),),
        cluster_queue=queue,
        priority=priority,
        created_ms=NOW_MS - age_s * 1000,
        uid=name,
    )


def holds(name: str, queue: str, cpus: int, priority: int = 0, age_s: int = 3600) -> QueuedWorkload:
    """A workload of one pod that holds quota of `std`."""
    one = PodSetAssignment("main", {"cpu": "std"}, 1)
    return QueuedWorkload(
        namespace="team",
        name=name,
        pod_sets=(PodSet("main", 1, {"cpu": cpus * 1000}),),
        cluster_queue=queue,
        priority=priority,
        created_ms=NOW_MS - age_s * 1000,
        uid=name,
        admission=Admission(queue, (one,), NOW_MS - age_s * 1000),
    )
