"""What a workload asks of a node, and what it was given: integer milli-CPUs and bytes.

A request for accelerators is a number of devices and, for each, all of its memory or a part of it:
sharing a card is a matter of memory, so a fraction is a fraction of the card's memory.
"""

from msgspec import Struct
from msgspec.structs import replace

from stellwerk.core.model.ids import WorkloadId
from stellwerk.core.model.nearness import TopologyRequest
from stellwerk.core.model.wishes import Wishes

DEFAULT_QUEUE = "default"
"""The queue, and the namespace, of work that names none."""

NAMESPACES = "namespaces"
"""A need: a cluster on which a run can have a view of the files of its own."""
IMAGES = "images"
"""A need: a cluster that can get the files of a container image."""


class GpuRequest(Struct, frozen=True, omit_defaults=True):
    """``count`` devices of one kind, each with its whole memory, a fraction or a number of bytes.

    ``kind`` is a canonical accelerator name ("" = any). ``memory_min_bytes`` and
    ``memory_exact_bytes`` select cards by their total memory (``24GB+``, ``24GB``).
    """

    count: int
    kind: str = ""
    vendor: str = ""
    fraction_milli: int = 1000
    share_bytes: int = 0
    memory_min_bytes: int = 0
    memory_exact_bytes: int = 0

    @property
    def shares(self) -> bool:
        """Whether this request leaves room for others on the same card."""
        return self.share_bytes > 0 or self.fraction_milli < 1000


class Request(Struct, frozen=True, omit_defaults=True):
    """What one node must give to one replica."""

    cpus_milli: int = 1000
    memory_bytes: int = 0
    disk_bytes: int = 0
    gpu: GpuRequest | None = None


class Alternative(Struct, frozen=True, omit_defaults=True):
    """One acceptable set of resources; ``infra`` ("" = anywhere) names where it may be.

    ``needs`` names what the cluster must be able to do, beside having room.
    """

    request: Request
    infra: str = ""
    needs: tuple[str, ...] = ()


class Shape(Struct, frozen=True, omit_defaults=True):
    """All that placement looks at in a workload: equal shapes get equal verdicts.

    ``ordered`` says whether the alternatives are a preference order or a plain set. ``avoid`` names
    nodes (``cluster/node``) that are used only where no other could do. ``placement``
    (``namespace/name``) bounds and ranks the clusters; "" = none does. ``person`` is the user as
    whom it runs, and ``project`` the one that it counts for, where several people use one server
    ("" = the server's own user). ``wishes`` have a placement of their own: what they bound and rank
    is decided for all work of one shape. ``queue`` (``namespace/name``) is the LocalQueue that it
    waits in ("" = `default/default`). ``topology`` says how near its nodes are to be to each other.
    ``min_nodes`` = it may run on as few of ``num_nodes`` (0: on all or none).
    """

    alternatives: tuple[Alternative, ...]
    ordered: bool = False
    num_nodes: int = 1
    avoid: tuple[str, ...] = ()
    placement: str = ""
    person: str = ""
    project: str = ""
    wishes: Wishes | None = None
    queue: str = ""
    topology: TopologyRequest | None = None
    min_nodes: int = 0


def in_queue(shape: Shape, project: str, queue: str) -> Shape:
    """The shape as it waits in a queue of a project; what names neither is as it always was."""
    if queue == DEFAULT_QUEUE and project in {"", DEFAULT_QUEUE}:
        return shape
    return replace(shape, queue=queue if "/" in queue else f"{project or DEFAULT_QUEUE}/{queue}")


def named(queue: str) -> tuple[str, str]:
    """Namespace and name of the LocalQueue that a shape waits in."""
    namespace, _, name = (queue or f"{DEFAULT_QUEUE}/{DEFAULT_QUEUE}").partition("/")
    return namespace, name


class DeviceShare(Struct, frozen=True):
    """Memory of one device that a run holds."""

    index: int
    memory_bytes: int


class NodeAllocation(Struct, frozen=True, omit_defaults=True):
    """What ``ranks`` replicas of a run hold on one node."""

    node: str
    cpus_milli: int
    memory_bytes: int = 0
    disk_bytes: int = 0
    devices: tuple[DeviceShare, ...] = ()
    ranks: tuple[int, ...] = (0,)


class Allocation(Struct, frozen=True, omit_defaults=True):
    """What a run holds on its cluster: given with the run, taken back when it is over.

    ``person`` and ``project`` are those of its shape. ``passed`` are the workloads for which some
    of it is kept, and before whose turn it is predicted to be over. ``reserved`` names the
    reservation in whose room it started. ``closes_ms`` is when the window closes in which it did
    (0: no end of it was known).
    """

    cluster: str
    nodes: tuple[NodeAllocation, ...]
    alternative: int = 0
    person: str = ""
    project: str = ""
    passed: tuple[WorkloadId, ...] = ()
    reserved: str = ""
    closes_ms: int = 0
