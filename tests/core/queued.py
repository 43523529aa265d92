"""Objects of queueing for live work: CPUs, GPUs, and a LocalQueue of the name of each queue."""

from stellwerk.core.model.admission import AdmissionCheck
from stellwerk.core.model.queueing import (
    ClusterQueue,
    Cohort,
    FlavorQuotas,
    Fungibility,
    LocalQueue,
    Preemption,
    QueueObjects,
    QueueSettings,
    Quota,
    ResourceFlavor,
    ResourceGroup,
    StopPolicy,
    Strategy,
    Topology,
)
from stellwerk.core.model.selectors import Selector

ANY = Preemption(within="LowerPriority", reclaim="Any")
STD = ResourceFlavor("std")
GPU = "nvidia.com/gpu"


def amount(units: int | Quota) -> Quota:
    """Whole units of their own, or a quota as it is."""
    return units if isinstance(units, Quota) else Quota(units * 1000)


def limited(nominal: int, borrowing: int | None = None, lending: int | None = None) -> Quota:
    """Whole units; None = no limit."""
    borrows, lends = (None if one is None else one * 1000 for one in (borrowing, lending))
    return Quota(nominal * 1000, borrows, lends)


def a_queue(
    name: str,
    cpus: int | Quota = 0,
    *,
    cohort: str = "",
    gpus: int | Quota | None = None,
    flavors: dict[str, int | Quota] | None = None,
    preemption: Preemption | None = None,
    strategy: Strategy = "BestEffortFIFO",
    fungibility: Fungibility | None = None,
    stop: StopPolicy = "None",
    weight: float = 1.0,
) -> ClusterQueue:
    """A queue of the flavor `std`, or of several flavors of CPUs; open to all namespaces."""
    given = flavors or {"std": cpus}
    covered = ("cpu",) if gpus is None else ("cpu", GPU)
    more = {} if gpus is None else {GPU: amount(gpus)}
    quotas = tuple(FlavorQuotas(one, {"cpu": amount(n), **more}) for one, n in given.items())
    return ClusterQueue(
        name=name,
        groups=(ResourceGroup(covered, quotas),),
        cohort=cohort,
        strategy=strategy,
        namespaces=Selector(),
        fungibility=fungibility or Fungibility(),
        preemption=preemption or ANY,
        weight=weight,
        stop=stop,
    )


def queueing(
    *queues: ClusterQueue,
    flavors: tuple[ResourceFlavor, ...] = (STD,),
    cohorts: tuple[Cohort, ...] = (),
    topologies: tuple[Topology, ...] = (),
    checks: tuple[AdmissionCheck, ...] = (),
    settings: QueueSettings | None = None,
    fair: bool = False,
) -> QueueObjects:
    """These queues, each with a LocalQueue of its name in the namespace `p`."""
    return QueueObjects(
        flavors=flavors,
        queues=queues,
        cohorts=cohorts,
        topologies=topologies,
        checks=checks,
        local_queues=tuple(LocalQueue("p", one.name, one.name) for one in queues),
        settings=settings or QueueSettings(fair_sharing=fair),
    )
