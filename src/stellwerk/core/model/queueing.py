"""The objects of queueing, in the words of Kueue (kueue.x-k8s.io/v1beta2).

Amounts are thousandths of a resource's own unit (milli-CPU, milli-bytes), so that Kubernetes'
quantities are exact. Limits of None are absent: unlimited.
"""

from typing import Literal, NamedTuple

from msgspec import Struct

from stellwerk.core.model.admission import AdmissionCheck
from stellwerk.core.model.budgets import Budget
from stellwerk.core.model.limits import Aging
from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.placement import Toleration
from stellwerk.core.model.selectors import Requirement, Selector

Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
Strategy = Literal["BestEffortFIFO", "StrictFIFO"]
Search = Literal["MayStopSearch", "TryNextFlavor"]
Preference = Literal["", "BorrowingOverPreemption", "PreemptionOverBorrowing"]
Within = Literal["Never", "LowerPriority", "LowerOrNewerEqualPriority"]
Reclaim = Literal["Never", "LowerPriority", "Any"]
Borrow = Literal["Never", "LowerPriority"]
StopPolicy = Literal["None", "Hold", "HoldAndDrain"]
ShareStrategy = Literal["LessThanOrEqualToFinalShare", "LessThanInitialShare"]
HOSTNAME = "kubernetes.io/hostname"
QUEUE_LABEL = "kueue.x-k8s.io/queue-name"
MIN_NODES_LABEL = "kueue.x-k8s.io/job-min-parallelism"
MAX_EXEC_LABEL = "kueue.x-k8s.io/max-exec-time-seconds"
PRIORITY_LABEL = "kueue.x-k8s.io/priority-class"


class Pair(NamedTuple):
    """What quota is counted by: a flavor and a resource."""

    flavor: str
    resource: str


class NodeTaint(Struct, frozen=True, omit_defaults=True):
    """Keeps pods off nodes of a flavor that don't tolerate it."""

    key: str
    effect: Effect
    value: str = ""


class ResourceFlavor(Struct, frozen=True, omit_defaults=True):
    """A kind of nodes; ``topology`` names the Topology by which pods are packed, "" = none."""

    name: str
    labels: dict[str, str] = {}
    taints: tuple[NodeTaint, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: str = ""


class Quota(Struct, frozen=True, omit_defaults=True):
    """How much of a flavor's resource: its own, how much may be borrowed, how much is lent.

    ``derived`` = its own follows from what the clusters have, whatever ``nominal`` was written.
    """

    nominal: int
    borrowing: int | None = None
    lending: int | None = None
    derived: bool = False


class FlavorQuotas(Struct, frozen=True):
    """A flavor with the quotas of the resources that its group covers."""

    flavor: str
    quotas: dict[str, Quota]


class ResourceGroup(Struct, frozen=True):
    """Resources that always come from one flavor; flavors in the order of preference."""

    covered: tuple[str, ...]
    flavors: tuple[FlavorQuotas, ...]


class Fungibility(Struct, frozen=True, omit_defaults=True):
    """When the search for a flavor may stop before the last one."""

    borrow: Search = "MayStopSearch"
    preempt: Search = "TryNextFlavor"
    preference: Preference = ""


class Preemption(Struct, frozen=True, omit_defaults=True):
    """Whom workloads of a queue may evict; ``max_priority`` bounds victims while borrowing."""

    within: Within = "Never"
    reclaim: Reclaim = "Never"
    borrow: Borrow = "Never"
    max_priority: int | None = None


class CheckRule(Struct, frozen=True, omit_defaults=True):
    """An admission check; ``flavors`` () = for all of them."""

    name: str
    flavors: tuple[str, ...] = ()


class ClusterQueue(Struct, frozen=True, omit_defaults=True):
    """A pool of quota. ``namespaces`` None matches no namespace, an empty selector all."""

    name: str
    groups: tuple[ResourceGroup, ...] = ()
    cohort: str = ""
    strategy: Strategy = "BestEffortFIFO"
    namespaces: Selector | None = None
    fungibility: Fungibility = Fungibility()
    preemption: Preemption = Preemption()
    weight: float = 1.0
    usage_based: bool = False
    checks: tuple[CheckRule, ...] = ()
    stop: StopPolicy = "None"
    budgets: tuple[Budget, ...] = ()
    aging: Aging | None = None


class Cohort(Struct, frozen=True, omit_defaults=True):
    """A pool that its queues and cohorts share; ``parent`` "" = a root."""

    name: str
    parent: str = ""
    groups: tuple[ResourceGroup, ...] = ()
    weight: float = 1.0


class LocalQueue(Struct, frozen=True, omit_defaults=True):
    """A namespace's door to a cluster queue. ``consumed`` is past use, by resource, decayed."""

    namespace: str
    name: str
    queue: str
    stop: StopPolicy = "None"
    weight: float = 1.0
    consumed: dict[str, int] = {}

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class PriorityClass(Struct, frozen=True, omit_defaults=True):
    """A named priority."""

    name: str
    value: int
    description: str = ""


class Topology(Struct, frozen=True):
    """Labels of nodes from the widest domain to the narrowest."""

    name: str
    levels: tuple[str, ...]


class TopologyNode(Struct, frozen=True, omit_defaults=True):
    """A node as packing by topology sees it; ``used`` is what pods outside of the queues hold."""

    name: str
    labels: dict[str, str]
    allocatable: dict[str, int]
    used: dict[str, int] = {}
    taints: tuple[NodeTaint, ...] = ()
    ready: bool = True


class PodSet(Struct, frozen=True, omit_defaults=True):
    """Equal pods. ``requests`` are per pod; ``affinity`` terms are ORed, conditions in one ANDed.

    ``min_count`` None = all or nothing.
    """

    name: str
    count: int
    requests: dict[str, int]
    min_count: int | None = None
    node_selector: dict[str, str] = {}
    affinity: tuple[tuple[Requirement, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    topology: TopologyRequest | None = None


class PodSetAssignment(Struct, frozen=True, omit_defaults=True):
    """What a pod set was given: a flavor per resource, pods, and pods by domain.

    A key of ``domains`` is the values of the topology's levels, with commas between.
    """

    name: str
    flavors: dict[str, str]
    count: int
    domains: dict[str, int] = {}


class Admission(Struct, frozen=True, omit_defaults=True):
    """That a workload holds quota in a queue, since when; ``admitted`` = its checks are done."""

    queue: str
    pod_sets: tuple[PodSetAssignment, ...]
    reserved_ms: int = 0
    admitted: bool = True


class QueuedWorkload(Struct, frozen=True, omit_defaults=True):
    """A workload as queueing sees it.

    ``queued_ms`` is what age counts from (creation, or a requeue that loses the place), and
    ``requeues`` how often its pods didn't get ready. ``cluster_queue`` names the queue of one that
    came through no local queue.
    """

    namespace: str
    name: str
    pod_sets: tuple[PodSet, ...]
    local_queue: str = ""
    cluster_queue: str = ""
    priority: int = 0
    created_ms: int = 0
    queued_ms: int = 0
    uid: str = ""
    active: bool = True
    requeue_at_ms: int = 0
    requeues: int = 0
    evicted: bool = False
    gated: bool = False
    admission: Admission | None = None

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"


class PastUse(Struct, frozen=True, omit_defaults=True):
    """Admission fair sharing: how past use of local queues decays and is sampled."""

    half_life_ms: int
    sampling_ms: int = 300_000
    weights: dict[str, float] = {}


class Requeuing(Struct, frozen=True, omit_defaults=True):
    """How workloads come back whose pods didn't get ready in time.

    The n-th wait is base * 2^(n-1), at most ``most_ms``; beyond ``limit`` times (None = any) they
    are kept out. ``to_the_back`` = they lose their place in the queue.
    """

    base_ms: int = 60_000
    most_ms: int = 3_600_000
    limit: int | None = None
    to_the_back: bool = True


class QueueSettings(Struct, frozen=True, omit_defaults=True):
    """What the configuration of the queueing says for all queues.

    A run that a queue admitted is to run its script ``ready_within_ms`` (0: whenever it does).
    """

    fair_sharing: bool = False
    strategies: tuple[ShareStrategy, ...] = ("LessThanOrEqualToFinalShare", "LessThanInitialShare")
    past_use: PastUse | None = None
    requeuing: Requeuing = Requeuing()
    ready_within_ms: int = 0


class QueueObjects(Struct, frozen=True, omit_defaults=True):
    """Everything that queueing knows. ``namespaces`` are the labels of the known namespaces."""

    flavors: tuple[ResourceFlavor, ...] = ()
    queues: tuple[ClusterQueue, ...] = ()
    cohorts: tuple[Cohort, ...] = ()
    local_queues: tuple[LocalQueue, ...] = ()
    priority_classes: tuple[PriorityClass, ...] = ()
    topologies: tuple[Topology, ...] = ()
    checks: tuple[AdmissionCheck, ...] = ()
    nodes: tuple[TopologyNode, ...] = ()
    namespaces: dict[str, dict[str, str]] = {}
    workloads: tuple[QueuedWorkload, ...] = ()
    settings: QueueSettings = QueueSettings()
